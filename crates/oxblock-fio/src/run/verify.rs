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

use std::collections::VecDeque;
use std::fmt;

use md5::{Digest, Md5};
use sha2::Sha256;

use super::random::{Random, mix};
use crate::jobfile::{Pattern, VerifyKind};
use crate::num;

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

/// How units of one job look.
#[derive(Debug, Clone)]
pub(crate) struct Stamp {
    pub(crate) kind: VerifyKind,
    pub(crate) pattern: Option<Pattern>,
    /// Bytes.
    pub(crate) unit: u32,
    pub(crate) seed: u64,
}

/// What a header says, once it is known to be whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) seed: u64,
    pub(crate) number: u64,
}

fn number_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
}

fn crc(bytes: &[u8]) -> u32 {
    num::narrow(crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes))
}

impl Stamp {
    fn code(&self) -> u32 {
        match self.kind {
            VerifyKind::Pattern => 0,
            VerifyKind::Crc32c => 1,
            VerifyKind::Md5 => 2,
            VerifyKind::Sha256 => 3,
            VerifyKind::Xxhash => 4,
        }
    }

    fn checksum(&self, payload: &[u8]) -> [u8; 32] {
        let mut out = [0; 32];
        let mut put = |bytes: &[u8]| {
            for (to, from) in out.iter_mut().zip(bytes) {
                *to = *from;
            }
        };
        match self.kind {
            VerifyKind::Pattern => {}
            VerifyKind::Crc32c => put(&crc(payload).to_le_bytes()),
            VerifyKind::Md5 => put(&Md5::digest(payload)),
            VerifyKind::Sha256 => put(&Sha256::digest(payload)),
            VerifyKind::Xxhash => {
                put(&twox_hash::XxHash64::oneshot(0, payload).to_le_bytes());
            }
        }
        out
    }

    /// Fills `block`, to be written at `offset` as write `number`.
    pub(crate) fn stamp(&self, block: &mut [u8], offset: u64, number: u64) {
        let step = self.unit as usize;
        for (unit, at) in block.chunks_mut(step).zip((offset..).step_by(step)) {
            if let Some(pattern) = &self.pattern {
                pattern.fill(unit, at);
                continue;
            }
            let len = num::narrow(unit.len() as u64);
            let Some((header, payload)) = unit.split_at_mut_checked(HEADER) else { continue };
            Random::new(mix(self.seed ^ mix(number)) ^ at).fill(payload);
            let mut fields = [0u8; HEADER];
            let mut cursor = fields.iter_mut();
            let mut put = |bytes: &[u8]| {
                // The cursor comes second, or the end of `bytes` would cost it a byte.
                for (from, to) in bytes.iter().zip(cursor.by_ref()) {
                    *to = *from;
                }
            };
            put(&MAGIC.to_le_bytes());
            put(&at.to_le_bytes());
            put(&self.seed.to_le_bytes());
            put(&number.to_le_bytes());
            put(&len.to_le_bytes());
            put(&self.code().to_le_bytes());
            put(&self.checksum(payload));
            let check = crc(fields.get(..72).unwrap_or_default());
            header.copy_from_slice(&fields);
            if let Some(to) = header.get_mut(72..76) {
                to.copy_from_slice(&check.to_le_bytes());
            }
        }
    }

    /// Judges one unit read from `offset` on its own.
    pub(crate) fn judge(&self, unit: &[u8], offset: u64) -> Result<Option<Header>, Reason> {
        if let Some(pattern) = &self.pattern {
            let mut expected = vec![0; unit.len()];
            pattern.fill(&mut expected, offset);
            return match unit.iter().zip(&expected).position(|(got, want)| got != want) {
                Some(at) => Err(Reason::Pattern(num::narrow(at as u64))),
                None => Ok(None),
            };
        }
        let Some((header, payload)) = unit.split_at_checked(HEADER) else {
            return Err(Reason::NoHeader);
        };
        if u64::from_le_bytes(number_at(header, 0)) != MAGIC {
            let blank = unit.iter().all(|byte| *byte == 0);
            return Err(if blank { Reason::Blank } else { Reason::NoHeader });
        }
        let check = crc(header.get(..72).unwrap_or_default());
        if u32::from_le_bytes(number_at(header, 72)) != check
            || u32::from_le_bytes(number_at(header, 76)) != 0
            || u32::from_le_bytes(number_at(header, 32)) as usize != unit.len()
            || u32::from_le_bytes(number_at(header, 36)) != self.code()
        {
            return Err(Reason::Header);
        }
        let at = u64::from_le_bytes(number_at(header, 8));
        if at != offset {
            return Err(Reason::Misplaced(at));
        }
        if number_at::<32>(header, 40) != self.checksum(payload) {
            return Err(Reason::Payload);
        }
        let seed = u64::from_le_bytes(number_at(header, 16));
        Ok(Some(Header { seed, number: u64::from_le_bytes(number_at(header, 24)) }))
    }

    /// Judges one unit against the write that should be there; 0 accepts any job's any write.
    pub(crate) fn expect(&self, unit: &[u8], offset: u64, number: u64) -> Result<(), Reason> {
        match self.judge(unit, offset)? {
            Some(header) if number > 0 && header.seed != self.seed => {
                Err(Reason::Foreign(header.seed))
            }
            Some(header) if number > 0 && header.number != number => {
                Err(Reason::WrongWrite(header.number))
            }
            _ => Ok(()),
        }
    }
}

/// A unit's last write is verified already.
const VERIFIED: u64 = 1 << 63;

/// Which write each unit of a job's range holds, and what is still to be read back.
#[derive(Debug)]
pub(crate) struct Ledger {
    start: u64,
    unit: u64,
    /// Per unit: the number of its last acknowledged write, 0 for none; 8 bytes a unit.
    numbers: Vec<u64>,
    /// Writes to be read back one by one (`verify_backlog`).
    backlog: Option<VecDeque<(u64, u32)>>,
    /// The next unit of the final read-back.
    cursor: u64,
}

impl Ledger {
    pub(crate) fn new(start: u64, len: u64, unit: u32, backlog: bool) -> Self {
        let unit = u64::from(unit.max(1));
        Self {
            start,
            unit,
            numbers: vec![0; num::index(len / unit)],
            backlog: backlog.then(VecDeque::new),
            cursor: 0,
        }
    }

    fn slots(&mut self, offset: u64, len: u32) -> impl Iterator<Item = &mut u64> {
        let first = num::index((offset - self.start) / self.unit);
        let count = num::index(u64::from(len).div_ceil(self.unit));
        self.numbers.iter_mut().skip(first).take(count)
    }

    /// Notes that write `number` (0: a trim) of the range is acknowledged.
    pub(crate) fn wrote(&mut self, offset: u64, len: u32, number: u64) {
        self.slots(offset, len).for_each(|slot| *slot = number);
        if let (Some(backlog), true) = (&mut self.backlog, number > 0) {
            backlog.push_back((offset, len));
        }
    }

    /// The number that the unit at `offset` should hold; 0 for none.
    pub(crate) fn number(&self, offset: u64) -> u64 {
        let slot = offset.checked_sub(self.start).map(|distance| num::index(distance / self.unit));
        slot.and_then(|slot| self.numbers.get(slot)).map_or(0, |number| number & !VERIFIED)
    }

    /// Notes that the range was read back.
    pub(crate) fn verified(&mut self, offset: u64, len: u32) {
        self.slots(offset, len).filter(|slot| **slot > 0).for_each(|slot| *slot |= VERIFIED);
    }

    /// Writes waiting in the backlog.
    pub(crate) fn waiting(&self) -> u64 {
        self.backlog.as_ref().map_or(0, |backlog| backlog.len() as u64)
    }

    /// The oldest write of the backlog.
    pub(crate) fn next_of_backlog(&mut self) -> Option<(u64, u32)> {
        self.backlog.as_mut()?.pop_front()
    }

    /// Starts the final read-back.
    pub(crate) fn rewind(&mut self) {
        self.cursor = 0;
        if let Some(backlog) = &mut self.backlog {
            backlog.clear();
        }
    }

    /// The next range of at most `max` bytes, written in one go or not, that is to be read back.
    pub(crate) fn next_range(&mut self, max: u32) -> Option<(u64, u32)> {
        let due = |number: &u64| *number > 0 && number & VERIFIED == 0;
        let rest = self.numbers.get(num::index(self.cursor)..)?;
        let skip = rest.iter().position(due)?;
        let limit = num::index((u64::from(max) / self.unit).max(1));
        let count = rest.iter().skip(skip).take(limit).take_while(|number| due(number)).count();
        let first = self.cursor + skip as u64;
        self.cursor = first + count as u64;
        let len = num::narrow(count as u64 * self.unit);
        Some((self.start + first * self.unit, len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamps() -> Vec<Stamp> {
        use VerifyKind::{Crc32c, Md5, Pattern as P, Sha256, Xxhash};
        let stamp =
            |kind| Stamp { kind, pattern: (kind == P).then(|| pattern()), unit: 4096, seed: 7 };
        [Crc32c, Md5, Sha256, Xxhash, P].map(stamp).to_vec()
    }

    fn pattern() -> Pattern {
        let text = "[j]\nverify=pattern\nverify_pattern=0xabcd%o";
        crate::parse(text, "t").unwrap().jobs[0].verify_pattern.clone().unwrap()
    }

    #[test]
    fn what_was_stamped_passes_and_any_flipped_byte_does_not() {
        for stamp in stamps() {
            let mut block = vec![0; 8192];
            stamp.stamp(&mut block, 12288, 3);
            for (unit, at) in block.chunks(4096).zip([12288, 16384]) {
                assert_eq!(stamp.expect(unit, at, 3), Ok(()), "{:?}", stamp.kind);
            }
            for at in (0..4096).step_by(7).chain(0..HEADER) {
                block[at] ^= 0x10;
                assert!(stamp.judge(&block[..4096], 12288).is_err(), "{:?} {at}", stamp.kind);
                block[at] ^= 0x10;
            }
        }
    }

    #[test]
    fn each_kind_of_damage_has_its_name() {
        let stamp = &stamps()[0];
        let mut block = vec![0; 4096];
        assert_eq!(stamp.expect(&block, 0, 1), Err(Reason::Blank));
        stamp.stamp(&mut block, 4096, 5);
        assert_eq!(stamp.expect(&block, 8192, 5), Err(Reason::Misplaced(4096)));
        assert_eq!(stamp.expect(&block, 4096, 6), Err(Reason::WrongWrite(5)));
        let other = Stamp { seed: 8, ..stamp.clone() };
        assert_eq!(other.expect(&block, 4096, 5), Err(Reason::Foreign(7)));
        block[4000] ^= 1;
        assert_eq!(stamp.expect(&block, 4096, 5), Err(Reason::Payload));
        block[8] ^= 1;
        assert_eq!(stamp.expect(&block, 4096, 5), Err(Reason::Header));
        block[0] ^= 1;
        assert_eq!(stamp.expect(&block, 4096, 5), Err(Reason::NoHeader));
    }

    #[test]
    fn the_ledger_hands_out_each_written_unit_once() {
        let mut ledger = Ledger::new(4096, 40960, 4096, false);
        ledger.wrote(4096, 4096, 1);
        ledger.wrote(8192, 12288, 2);
        ledger.wrote(32768, 4096, 3);
        ledger.verified(8192, 4096);
        ledger.rewind();
        let mut all = Vec::new();
        while let Some(range) = ledger.next_range(8192) {
            all.push(range);
        }
        assert_eq!(all, [(4096, 4096), (12288, 8192), (32768, 4096)]);
        assert_eq!((ledger.number(8192), ledger.number(28672)), (2, 0));
    }
}
