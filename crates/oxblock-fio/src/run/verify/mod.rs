//! Stamping blocks as they are written, and judging them when they are read back.
//!
//! With every `verify=` but `pattern`, each unit of a written block (`verify_interval`, or the
//! block size) starts with this header, little-endian:
//!
//! | bytes | field | |
//! | --- | --- | --- |
//! | 0..8 | magic | `oxfioVER` |
//! | 8..16 | offset | where the unit belongs on the target, bytes |
//! | 16..24 | seed | of the job's clone: the same for the same job in every run with `randrepeat` |
//! | 24..32 | number | of the write among the job's writes, from 1, in order of issue |
//! | 32..36 | length | of the unit, bytes |
//! | 36..40 | kind | of the checksum: 1 crc32c, 2 md5, 3 sha256, 4 xxhash |
//! | 40..72 | checksum | over the payload, left-aligned, zero-filled |
//! | 72..76 | crc32c | over bytes 0..72 |
//! | 76..80 | zero | |
//!
//! The payload is a function of seed, number and offset. So a unit can be judged on its own (torn,
//! misplaced, rotten), and against a number (lost or resurrected), without any state file.

mod ledger;
mod stamp;

use std::fmt;

pub(crate) use ledger::Ledger;
pub(crate) use stamp::Stamp;

/// Bytes of the header.
pub(crate) const HEADER: usize = 80;
/// The smallest unit that can be verified, bytes.
pub(crate) const MIN_UNIT: u32 = 512;
const MAGIC: u64 = u64::from_le_bytes(*b"oxfioVER");

/// Why a unit is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// It does not start with a header.
    NoHeader,
    /// It is all zeroes.
    Blank,
    /// The header's own checksum does not fit.
    Header,
    /// The header is for another offset (bytes).
    Misplaced(u64),
    /// Another job wrote it, by its seed.
    Foreign(u64),
    /// It is the result of this write, not of the one expected.
    WrongWrite(u64),
    /// The payload does not match the checksum.
    Payload,
    /// It is not the pattern; this many bytes into the unit is the first difference.
    Pattern(u32),
    /// The target failed the read with this errno.
    Unreadable(i32),
}

/// A unit that is not what was written there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// The job that wrote it.
    pub job: String,
    /// On the target, bytes.
    pub offset: u64,
    /// Bytes.
    pub len: u32,
    /// The number of the write that should be there; 0 when any will do.
    pub expected: u64,
    /// What is wrong.
    pub reason: Reason,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: offset {} length {}: ", self.job, self.offset, self.len)?;
        match self.reason {
            Reason::NoHeader => write!(f, "no verify header")?,
            Reason::Blank => write!(f, "all zeroes")?,
            Reason::Header => write!(f, "damaged verify header")?,
            Reason::Misplaced(offset) => write!(f, "belongs to offset {offset}")?,
            Reason::Foreign(seed) => write!(f, "written by another job (seed {seed:#x})")?,
            Reason::WrongWrite(number) => write!(f, "holds write number {number}")?,
            Reason::Payload => write!(f, "payload does not match its checksum")?,
            Reason::Pattern(at) => write!(f, "differs from the pattern at byte {at}")?,
            Reason::Unreadable(errno) => write!(f, "read failed with errno {errno}")?,
        }
        if self.expected > 0 {
            write!(f, ", expected write number {}", self.expected)
        } else {
            Ok(())
        }
    }
}
