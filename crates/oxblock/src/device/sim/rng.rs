//! A small seeded generator: the only source of chance in the simulator.
//!
//! SplitMix64 (Steele, Lea, Flood: *Fast Splittable Pseudorandom Number Generators*, OOPSLA 2014).
//! It is statistically good enough to spread faults and is the same on every machine. It is no
//! source of secrets.

use std::ops::Range;

/// Parts per million: the unit of every probability in the simulator.
pub const MILLION: u32 = 1_000_000;

/// Mixes the bits of `n` so that neighbouring inputs give unrelated outputs (a bijection).
pub(super) fn mix(n: u64) -> u64 {
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}

/// A seeded generator: same seed, same sequence, on every machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rng(u64);

impl Rng {
    /// A generator that is a pure function of `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// An independent generator, so that draws on one purpose do not shift those on another.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        Self(mix(self.next_u64() ^ 0x5851_f42d_4c95_7f2d))
    }

    /// Any 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number in `0..n`; 0 when `n` is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        // The high half of a 64x64 product: unbiased to one part in 2^64/n, and no division.
        let product = u128::from(self.next_u64()) * u128::from(n);
        u64::try_from(product >> 64).unwrap_or(0)
    }

    /// A number in `range`; its start when it is empty.
    pub fn range(&mut self, range: Range<u64>) -> u64 {
        range.start + self.below(range.end.saturating_sub(range.start))
    }

    /// True in `ppm` of a million cases. Zero never draws, so a fault that is off costs nothing.
    pub fn chance(&mut self, ppm: u32) -> bool {
        ppm > 0 && self.below(u64::from(MILLION)) < u64::from(ppm)
    }

    /// Fills `bytes` with noise.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let noise = self.next_u64().to_le_bytes();
            for (byte, noise) in chunk.iter_mut().zip(noise) {
                *byte = noise;
            }
        }
    }

    /// Puts `items` in random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.below(last as u64 + 1);
            items.swap(last, usize::try_from(other).unwrap_or(last));
        }
    }
}
