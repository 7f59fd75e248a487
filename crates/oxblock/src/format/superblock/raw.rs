//! A superblock as it is on the media, byte for byte. `docs/format.md` has the tables.

use zerocopy::byteorder::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::super::layout::{
    BLOCK_SIZE, DEVICE_ENTRY_SIZE, DEVICE_PATH_SIZE, LABEL_SIZE, MAX_DEVICES, MAX_RESERVE,
    MAX_STREAMS, SUPERBLOCK_SIZE,
};
use super::super::policy::RawPolicy;
use crate::csum::strong;

/// A head that is not there.
pub(super) const NO_HEAD: u32 = u32::MAX;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone, Copy)]
#[repr(C)]
pub(super) struct RawHead {
    pub segment: U32,
    pub offset: U32,
}

/// Block 0 of a superblock.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Raw {
    pub magic: [u8; 8],
    pub version: U32,
    pub size: U32,
    pub checksum: [u8; 16],
    pub compat: U64,
    pub ro_compat: U64,
    pub incompat: U64,
    pub volume: [u8; 16],
    pub device: [u8; 16],
    pub created: U64,
    pub lane: U16,
    pub lanes: U16,
    pub device_index: U16,
    pub devices: U16,
    pub csum: u8,
    pub profile: u8,
    pub block_shift: u8,
    pub pointer_size: u8,
    pub segment_entry_size: U16,
    pub streams: u8,
    pub clean: u8,
    pub volume_blocks: U64,
    pub segment_blocks: U32,
    pub segments: U32,
    pub data_start: U64,
    pub label: [u8; LABEL_SIZE],
    pub generation: U64,
    pub epoch: U64,
    pub sequence: U64,
    pub used_blocks: U64,
    pub checksum_errors: U64,
    pub map_height: u8,
    pub table_height: u8,
    pub zero0: [u8; 2],
    pub reserve_count: U32,
    pub map_root: [u8; 32],
    pub table_root: [u8; 32],
    pub heads: [RawHead; MAX_STREAMS],
    pub durable: U64,
    pub policy: RawPolicy,
    pub zero1: [u8; BLOCK_SIZE - 400],
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct RawDevice {
    pub uuid: [u8; 16],
    pub size: U64,
    pub path_len: U16,
    pub zero: [u8; 22],
    pub path: [u8; DEVICE_PATH_SIZE],
}

/// A whole superblock as it is on the media.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct RawSuperblock {
    pub main: Raw,
    pub reserve: [U32; MAX_RESERVE],
    pub devices: [RawDevice; MAX_DEVICES],
}

const _: () = assert!(size_of::<Raw>() == BLOCK_SIZE);
const _: () = assert!(size_of::<RawDevice>() == DEVICE_ENTRY_SIZE);
const _: () = assert!(size_of::<RawSuperblock>() == SUPERBLOCK_SIZE);
pub(super) const CHECKSUM: std::ops::Range<usize> = 16..32;

/// A superblock's bytes with the checksum field empty, hashed.
pub(super) fn seal(bytes: &[u8]) -> [u8; 16] {
    let mut unsealed = bytes.to_vec();
    if let Some(slot) = unsealed.get_mut(CHECKSUM) {
        slot.fill(0);
    }
    strong(&unsealed)
}
