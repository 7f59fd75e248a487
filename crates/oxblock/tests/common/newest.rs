//! Superblocks, straight from the media.

use oxblock::device::sim::SimDisk;
use oxblock::format::layout::SUPERBLOCK_SIZE;
use oxblock::format::superblock::{Superblock, offsets};

/// The newest one in the first area.
pub fn newest(disk: &SimDisk) -> Superblock {
    let size = disk.limits(0).unwrap().size;
    let slots = (0..2).filter_map(|slot| {
        Superblock::decode(&disk.read_raw(0, offsets(0, slot, size)[0], SUPERBLOCK_SIZE)).unwrap()
    });
    slots.max_by_key(|found| found.checkpoint.generation).unwrap()
}
