//! From requests to device operations: gathering writes into records, reads into bios.

pub(crate) mod gather;
pub(crate) mod queue;
pub(crate) mod read;
pub mod request;
pub(crate) mod rmw;
pub(crate) mod write;
