//! The look of a verified unit: stamping it, and judging it on its own or against a number.

use md5::{Digest, Md5};
use sha2::Sha256;

use super::{HEADER, MAGIC, Reason};
use crate::jobfile::{Pattern, VerifyKind};
use crate::num;
use crate::run::random::{Random, mix};

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

#[cfg(test)]
mod tests {
    use super::*;

    fn stamps() -> Vec<Stamp> {
        use VerifyKind::{Crc32c, Md5, Pattern as P, Sha256, Xxhash};
        let stamp = |kind| Stamp { kind, pattern: (kind == P).then(pattern), unit: 4096, seed: 7 };
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
}
