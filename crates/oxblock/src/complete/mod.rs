//! From finished device operations to finished requests: retirement in order, flushes.

pub(crate) mod apply;
pub(crate) mod flush;
pub mod policy;
pub(crate) mod retire;
pub(crate) mod verify;
