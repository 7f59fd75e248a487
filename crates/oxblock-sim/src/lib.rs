//! The soak: random work on a volume in the simulator, power cuts and device faults, and a model that knows nothing of
//! the engine.
//!
//! One seed is one run is one digest. A run ([`run::run`]) draws a geometry and a kind of trouble from its seed
//! ([`plan::Plan`]), then lives several lives: open, verify everything, work ([`work`]), lose the power somewhere
//! ([`life`]). The model ([`model::Model`]) holds what the volume may contain; it attributes every byte that is read to
//! the write that it came from, and refuses what no order of the acknowledged history explains.
//!
//! # The promise that is checked
//!
//! After a power cut the volume is exactly the state after some prefix of the writes, in the order in which they entered
//! the log, and that prefix contains everything that a flush or a FUA write acknowledged. The model does not know the
//! order of writes that were under way together, so it checks what holds in every order:
//!
//! - A flush that was acknowledged covers every write that was acknowledged before the flush was submitted.
//! - A FUA write that was acknowledged covers itself and, as records are one sequence, every write that was acknowledged
//!   before it was submitted.
//! - A write that is seen covers, for the same reason, every write that was acknowledged before it was submitted.
//! - A write of up to 1 MiB of which anything is seen is there whole, except where a later write lies over it; and two
//!   such writes lie over each other in one order, not in both.
//!
//! With one request at a time this is the prefix, exactly.
#![forbid(unsafe_code)]

pub mod content;
pub mod coverage;
pub mod history;
pub mod life;
pub mod mask;
pub mod model;
pub mod plan;
pub mod points;
pub mod probe;
pub mod replay;
pub mod run;
pub mod sabotage;
pub mod shrink;
pub mod soak;
pub mod trouble;
pub mod verify;
pub mod work;
pub mod world;

pub use coverage::Coverage;
pub use mask::Mask;
pub use plan::Plan;
pub use run::{Failure, Outcome, run, run_masked};
pub use sabotage::Sabotage;
pub use trouble::Trouble;
