//! A segment's entry in the segment table.

use zerocopy::byteorder::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::layout::SEGMENT_ENTRY_SIZE;

/// One segment, as the segment table holds it (32 bytes).
///
/// A segment's state is not stored: with live blocks it is sealed, as a head of the checkpoint it is open, on the
/// reserve list it is reserved, otherwise it is free.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Default,
    FromBytes,
    IntoBytes,
    Immutable,
    KnownLayout,
    Unaligned,
)]
#[repr(C)]
pub struct SegmentEntry {
    /// How often the segment has been opened for writing; the records in it carry the same number.
    pub generation: U64,
    /// Sequence number of the last record in it, for age and for eligibility.
    pub sealed: U64,
    /// Live data blocks and map nodes. Blocks of the segment table itself are not counted: they follow from its own
    /// pointers, so that writing the table does not change it.
    pub live: U32,
    /// Blocks written, headers included.
    pub written: U32,
    /// [`FLAG_DAMAGED`].
    pub flags: U16,
    /// The device that the segment's first slot is on.
    pub device: U16,
    /// The segment's first slot, in units of the segment size from the start of the device's data.
    pub slot: U32,
}

const _: () = assert!(size_of::<SegmentEntry>() == SEGMENT_ENTRY_SIZE);

/// The segment holds a live block that cannot be read or moved; it is not cleaned again.
pub const FLAG_DAMAGED: u16 = 1;
