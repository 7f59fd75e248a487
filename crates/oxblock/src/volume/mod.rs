//! Volumes: making them, opening them, and the three ways to use one.
//!
//! - [`Volume`] is the poll interface: queue requests, submit, poll for completions, all in one thread and without a
//!   lock. It is what servers are built on.

mod create;
mod open;
mod poll;

pub use create::{CreateOptions, Created, create, create_on, required_size};
pub use open::OpenOptions;
pub use poll::Volume;
