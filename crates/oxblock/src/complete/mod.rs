//! From finished device operations to finished requests: retirement in order, flushes.

pub(crate) mod apply;
pub(crate) mod flush;
pub(crate) mod retire;
