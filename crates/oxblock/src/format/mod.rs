//! The on-media format: constants, structures, encoding and decoding, and nothing that does I/O.
//!
//! `docs/format.md` is the specification. All integers are little-endian. Unused bytes are zero when written and
//! checked to be zero when read.

pub mod features;
pub mod foreign;
pub mod layout;
pub mod pointer;
pub mod policy;
pub mod record;
pub mod segment;
pub mod superblock;

/// True when every byte is zero, as padding must be.
pub(crate) fn is_zero(bytes: &[u8]) -> bool {
    const ZEROES: [u8; layout::BLOCK_SIZE] = [0; layout::BLOCK_SIZE];
    // Comparing with zeroes is far faster than asking byte by byte.
    bytes.chunks(ZEROES.len()).all(|chunk| ZEROES.starts_with(chunk))
}
