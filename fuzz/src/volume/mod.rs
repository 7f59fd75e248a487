//! Whole volumes in memory: really written ones, where everything in them is, changes to them, and what is done with a
//! changed one.

mod base;
mod content;
mod exercise;
mod places;
mod repaired;
mod script;

pub use base::{Base, State};
pub use exercise::{Trust, exercise, read_back};
pub use places::{Place, PlaceKind};
pub use script::{Edit, Script, Seal, Where};
