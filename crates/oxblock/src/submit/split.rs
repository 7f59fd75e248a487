//! How large one device I/O may grow.
//!
//! A bio that is put together as a whole before it is sent leaves its device idle meanwhile. So there is a limit, and a
//! bio leaves as soon as it is full, while the rest of its request is still being prepared.

use crate::device::QueueLimits;
use crate::format::layout::BLOCK_BYTES;

/// The least limit: 256 pages, 1 MiB.
pub const BIO_FLOOR: u64 = 256 * BLOCK_BYTES;

/// What one bio may carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BioLimit {
    /// The most blocks.
    pub blocks: u64,
    /// Bios leave as soon as they are full. Without a limit there is nothing that could be full, and a request leaves as
    /// a whole.
    pub early: bool,
}

/// The limit in force on `device`.
pub fn bio_limit(wanted: Option<u64>, device: &QueueLimits) -> BioLimit {
    match limit_bytes(wanted, device.io_opt, device.bio_max_bytes) {
        None => BioLimit { blocks: u64::MAX / BLOCK_BYTES, early: false },
        Some(bytes) => BioLimit { blocks: bytes / BLOCK_BYTES, early: true },
    }
}

/// The limit in bytes; `None` for no limit. It is `wanted` (0: none), or else what the device prefers: its `io_opt` if that
/// is more than the floor but not more than it takes at once, otherwise the floor. Rounded up to a page, and at least
/// [`BIO_FLOOR`].
pub fn limit_bytes(wanted: Option<u64>, io_opt: u32, bio_max_bytes: u32) -> Option<u64> {
    let bytes = match wanted {
        Some(0) => return None,
        Some(bytes) => bytes,
        None => u64::from(io_opt).min(u64::from(bio_max_bytes)),
    };
    Some(bytes.min(u64::MAX - BLOCK_BYTES).next_multiple_of(BLOCK_BYTES).max(BIO_FLOOR))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::sim::SimConfig;

    fn device(io_opt: u32, bio_max_bytes: u32) -> QueueLimits {
        QueueLimits { io_opt, bio_max_bytes, ..SimConfig::default().limits() }
    }

    #[test]
    fn a_limit_is_rounded_up_to_a_page_and_never_below_the_floor() {
        let device = device(0, 1 << 20);
        for (wanted, pages) in [
            (1, 256),
            (4096, 256),
            (1 << 20, 256),
            ((1 << 20) + 1, 257),
            (3 << 20, 768),
            (u64::MAX, (u64::MAX - 4096).div_ceil(4096)),
        ] {
            let limit = bio_limit(Some(wanted), &device);
            assert_eq!(limit, BioLimit { blocks: pages, early: true }, "{wanted}");
        }
    }

    #[test]
    fn zero_is_no_limit_and_nothing_leaves_early() {
        let limit = bio_limit(Some(0), &device(1 << 20, 1 << 20));
        assert!(!limit.early && limit.blocks > 1 << 40);
    }

    #[test]
    fn by_itself_it_follows_the_device() {
        for (io_opt, most, pages) in [
            (0, 1 << 20, 256),
            (64 << 10, 1 << 20, 256),
            (4 << 20, 16 << 20, 1024),
            (16 << 20, 4 << 20, 1024),
            (0, 128 << 10, 256),
        ] {
            let limit = bio_limit(None, &device(io_opt, most));
            assert_eq!(limit, BioLimit { blocks: pages, early: true }, "{io_opt} {most}");
        }
    }
}
