//! The superblock: a volume's identity and geometry, its devices, and one lane's checkpoint.
//!
//! 16 KiB. Every device keeps an area of 1 MiB at its start and one at its end; in each, every lane has two slots that
//! take turns. A checkpoint writes slot `generation % 2` of both areas of every device, so that a torn write costs the
//! new copy and never the old one. The checksum is BLAKE3 (128 bits kept) whatever the volume uses for its blocks: it
//! must be known before the volume is.

mod decode;
mod encode;
mod raw;

use super::features::Features;
use super::layout::{AREA_BYTES, BLOCK_BYTES, SUPERBLOCK_SIZE, SUPERBLOCK_SLOTS};
use super::pointer::Pointer;
use super::policy::StoredPolicy;
use crate::csum::CsumKind;

/// How a segment uses its slots. Zero is never valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Profile {
    /// One copy on one device.
    Single = 1,
}

impl Profile {
    /// The profile of a stored byte, if this version can open it.
    pub fn from_byte(byte: u8) -> Option<Self> {
        (byte == 1).then_some(Self::Single)
    }

    /// The name in output and on the command line.
    pub fn name(self) -> &'static str {
        "single"
    }
}

/// Where an append stream goes on: a segment and the next free block in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// The open segment.
    pub segment: u32,
    /// Blocks used in it.
    pub offset: u32,
}

/// One device of the volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceEntry {
    /// Identity of the device.
    pub uuid: [u8; 16],
    /// Its size in bytes when it joined.
    pub size: u64,
    /// Where it was last seen; a hint for finding the others.
    pub path: String,
}

/// The state that recovery starts from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// Counts checkpoints of this lane; picks the slot.
    pub generation: u64,
    /// Records of this epoch, and only of this one, are replayed.
    pub epoch: u64,
    /// All records up to this sequence number are in the trees.
    pub sequence: u64,
    /// All records up to this one, those of the checkpoint itself among them, were durable before the superblock was
    /// written: recovery that does not find them all has met damage, not a power cut.
    pub durable: u64,
    /// Levels of the map (1 = the root is a leaf); follows from the size, kept for checking.
    pub map_height: u8,
    /// Root of the map.
    pub map_root: Pointer,
    /// Levels of the segment table.
    pub table_height: u8,
    /// Root of the segment table.
    pub table_root: Pointer,
    /// Where each stream goes on after `sequence`.
    pub heads: Vec<Option<Head>>,
    /// Segments that may be written before the next checkpoint, in order.
    pub reserve: Vec<u32>,
    /// Logical blocks in use.
    pub used_blocks: u64,
    /// The volume was closed: there is nothing after `sequence`.
    pub clean: bool,
    /// Blocks that failed verification, in the volume's life.
    pub checksum_errors: u64,
}

/// A decoded superblock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Superblock {
    /// Feature flags.
    pub features: Features,
    /// Identity of the volume.
    pub volume: [u8; 16],
    /// Identity of the device that this copy is on.
    pub device: [u8; 16],
    /// Creation time, seconds since 1970.
    pub created: u64,
    /// The lane whose checkpoint this is.
    pub lane: u16,
    /// Lanes of the volume.
    pub lanes: u16,
    /// Index of this copy's device.
    pub device_index: u16,
    /// Checksum type of the volume's blocks.
    pub csum: CsumKind,
    /// Profile of new segments.
    pub profile: Profile,
    /// Append streams in use.
    pub streams: u8,
    /// Logical blocks of the volume.
    pub volume_blocks: u64,
    /// Blocks of a segment.
    pub segment_blocks: u32,
    /// Segments of this lane.
    pub segments: u32,
    /// Where slots begin on each device, in bytes.
    pub data_start: u64,
    /// Label.
    pub label: String,
    /// The devices, by index.
    pub devices: Vec<DeviceEntry>,
    /// The policy that the volume keeps; on the media only with its feature flag.
    pub policy: StoredPolicy,
    /// The lane's checkpoint.
    pub checkpoint: Checkpoint,
}

/// Where the two copies of a lane's superblock of `generation` are on a device of `device_size` bytes.
pub fn offsets(lane: u16, generation: u64, device_size: u64) -> [u64; 2] {
    let slot = u64::from(lane) * SUPERBLOCK_SLOTS + generation % SUPERBLOCK_SLOTS;
    let within = slot * SUPERBLOCK_SIZE as u64;
    let end = device_size / BLOCK_BYTES * BLOCK_BYTES;
    [within, end.saturating_sub(AREA_BYTES) + within]
}

impl Superblock {
    /// Blocks of the lane's log space: every physical address is below.
    pub fn log_blocks(&self) -> u64 {
        u64::from(self.segments) * u64::from(self.segment_blocks)
    }
}

#[cfg(test)]
mod tests;
