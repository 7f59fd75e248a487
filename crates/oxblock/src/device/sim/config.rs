//! What a simulated device is like.

use std::ops::Range;

use super::store::PAGE_BYTES;
use crate::device::{Fua, QueueLimits};

/// What a completed discard does to whole 4096-byte pages in its range. All are within the
/// contract of the seam: after a discard the range reads as anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiscardMode {
    /// Not supported: counts as done, changes nothing.
    Ignored,
    /// Reads as zeros and gives the space back.
    Zeroes,
    /// Each page keeps its content, reads as zeros or reads as noise, by the seed.
    Arbitrary,
}

/// One simulated device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimConfig {
    /// Size in bytes, rounded down to a multiple of 4096. Storage is sparse: size costs nothing.
    pub size: u64,
    /// Smallest unit that can be written, in bytes: a power of two from 512 to 4096. Power cuts
    /// tear at 512 bytes whatever this says.
    pub block_size: u32,
    /// Completed writes are volatile until a flush.
    pub write_cache: bool,
    /// How a durable write is made. `NotNeeded` implies no volatile cache, and the other way
    /// round.
    pub fua: Fua,
    /// What discards do.
    pub discard: DiscardMode,
    /// Simulated nanoseconds that a read, write or discard takes.
    pub latency: Range<u64>,
    /// Simulated nanoseconds that a flush takes; an emulated durable write takes both.
    pub flush_latency: Range<u64>,
    /// Operations of one device may overtake each other; otherwise they end in the order in which
    /// they were pushed.
    pub reorder: bool,
    /// Where all chance comes from. The seeds of all devices of a disk are mixed into one.
    pub seed: u64,
}

impl Default for SimConfig {
    /// 1 GiB, volatile cache, native FUA, arbitrary discards, reordering, 10-100 us latency.
    fn default() -> Self {
        Self {
            size: 1 << 30,
            block_size: 4096,
            write_cache: true,
            fua: Fua::Native,
            discard: DiscardMode::Arbitrary,
            latency: 10_000..100_000,
            flush_latency: 50_000..500_000,
            reorder: true,
            seed: 0,
        }
    }
}

impl SimConfig {
    /// The default device with this size in bytes and this seed.
    pub fn new(size: u64, seed: u64) -> Self {
        Self { size, seed, ..Self::default() }
    }

    /// True when completed writes are volatile.
    pub(super) fn is_volatile(&self) -> bool {
        self.write_cache && self.fua != Fua::NotNeeded
    }

    /// What the engine is told.
    pub(crate) fn limits(&self) -> QueueLimits {
        QueueLimits {
            size: self.size - self.size % PAGE_BYTES,
            block_size: self.block_size,
            dma_alignment: self.block_size,
            io_opt: 0,
            bio_max_bytes: 1 << 20,
            write_cache: self.is_volatile(),
            fua: if self.is_volatile() { self.fua } else { Fua::NotNeeded },
            discard: self.discard != DiscardMode::Ignored,
            zoned: false,
            rotational: false,
            direct: true,
        }
    }
}
