//! The policy that a volume keeps, as it is on the media: numbers, and nothing is said about what they mean.
//!
//! Zero is "nothing kept" in every field, since a version that does not know the feature writes zeroes here. A number that
//! is not known is no damage: the policy decides who does the work, never what comes of it.

use zerocopy::byteorder::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::layout::STORED_POLICY_SIZE;

/// The kept policy. `volume/policy/stored.rs` gives the numbers their meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StoredPolicy {
    /// Where checksums are computed.
    pub submit: u8,
    /// Where finished operations are dealt with.
    pub complete: u8,
    /// Which code computes CRC-32C.
    pub crc: u8,
    /// The most bytes of one device I/O; all ones for no limit.
    pub bio_max_bytes: u64,
}

/// The same on the media.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct RawPolicy {
    submit: u8,
    complete: u8,
    crc: u8,
    zero: [u8; 5],
    bio_max_bytes: U64,
}

const _: () = assert!(size_of::<RawPolicy>() == STORED_POLICY_SIZE);

impl From<StoredPolicy> for RawPolicy {
    fn from(policy: StoredPolicy) -> Self {
        let StoredPolicy { submit, complete, crc, bio_max_bytes } = policy;
        Self { submit, complete, crc, zero: [0; 5], bio_max_bytes: bio_max_bytes.into() }
    }
}

impl From<RawPolicy> for StoredPolicy {
    fn from(raw: RawPolicy) -> Self {
        let RawPolicy { submit, complete, crc, bio_max_bytes, .. } = raw;
        Self { submit, complete, crc, bio_max_bytes: bio_max_bytes.get() }
    }
}
