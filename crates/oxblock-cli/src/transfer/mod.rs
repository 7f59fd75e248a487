//! Moving data between a volume and files: what `import` and `export` do.
//!
//! - `source`: what is imported, as a run of data and holes.
//! - `dest`: what is exported to.
//! - `zero`: which blocks of a buffer are zero, and so take no room.
//! - `pipeline`: requests in flight on the volume.
//! - `import`, `export`: the loops.

pub mod dest;
pub mod export;
pub mod import;
#[cfg(test)]
pub mod memory;
pub mod pipeline;
pub mod source;
pub mod zero;

/// Bytes of one request: what a volume writes atomically, and enough for any device.
pub const CHUNK: usize = 1 << 20;
/// Requests of [`CHUNK`] bytes in flight.
pub const DEPTH: usize = 8;
/// The unit in which zeroes are recognised.
pub const BLOCK: usize = 4096;

/// A length in memory as a length on media.
pub fn bytes(len: usize) -> u64 {
    len as u64
}
