//! A running hash over everything that happened: same seed, same digest.

use super::rng::mix;
use super::store::SECTOR;

/// A 64-bit hash that words are fed into. Not cryptographic; the same on every machine.
#[derive(Debug, Clone, Default)]
pub(super) struct Digest(u64);

impl Digest {
    /// Takes in one word.
    pub(super) fn word(&mut self, word: u64) {
        self.0 = mix(self.0.rotate_left(23) ^ word.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    }

    /// Takes in bytes. Four independent accumulators keep it near the speed of memory.
    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        let mut lanes = [1_u64, 2, 3, 4];
        let mut chunks = bytes.chunks_exact(32);
        for chunk in &mut chunks {
            let (words, _) = chunk.as_chunks::<8>();
            for (lane, word) in lanes.iter_mut().zip(words) {
                *lane = (lane.rotate_left(29) ^ u64::from_le_bytes(*word))
                    .wrapping_mul(0x9e37_79b9_7f4a_7c15);
            }
        }
        for lane in lanes {
            self.word(lane);
        }
        for byte in chunks.remainder() {
            self.word(u64::from(*byte));
        }
        self.word(bytes.len() as u64);
    }

    /// Takes in the first word of each sector.
    pub(super) fn sectors(&mut self, bytes: &[u8]) {
        for sector in bytes.chunks(SECTOR) {
            if let Some(word) = sector.first_chunk::<8>() {
                self.word(u64::from_le_bytes(*word));
            }
        }
        self.word(bytes.len() as u64);
    }

    /// The hash so far.
    pub(super) fn value(&self) -> u64 {
        mix(self.0)
    }
}
