//! The log: segments, appending, checkpoints, cleaning, recovery.

pub(crate) mod append;
pub(crate) mod checkpoint;
pub(crate) mod clean;
pub(crate) mod elsewhere;
pub(crate) mod load;
pub(crate) mod recovery;
pub mod segments;
pub(crate) mod starts;
pub mod table;
