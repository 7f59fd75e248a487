//! From requests to device operations: gathering writes into records, reads into bios.

pub(crate) mod bio;
pub(crate) mod gather;
pub mod policy;
pub(crate) mod queue;
pub(crate) mod read;
pub mod request;
pub(crate) mod rmw;
pub mod split;
pub(crate) mod sums;
pub(crate) mod write;
