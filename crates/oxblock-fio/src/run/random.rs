//! Random numbers, permutations and skewed distributions: small, fast, seeded, ours.
//!
//! Everything here is a pure function of its seed, so that a run can be replayed.

use crate::num;

/// SplitMix64 (Steele, Lea, Flood 2014): one addition and a mix per number.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

/// The output function of SplitMix64: a bijection on 64 bits.
pub(crate) fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(mix(seed))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// Evenly from `0..bound`; 0 for a bound of 0. The bias is below `bound / 2^64`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        // The high half of a 128-bit product is below `bound`, so it fits.
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// Evenly from `[0, 1)`.
    pub(crate) fn unit(&mut self) -> f64 {
        num::float(self.next() >> 11) / num::float(1 << 53)
    }

    /// Fills `bytes`.
    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        let mut words = bytes.chunks_exact_mut(8);
        for word in &mut words {
            word.copy_from_slice(&self.next().to_le_bytes());
        }
        let last = self.next().to_le_bytes();
        for (byte, random) in words.into_remainder().iter_mut().zip(last) {
            *byte = random;
        }
    }
}

/// A keyed permutation of `0..n`, without memory: a bijective mix of the next power of two, walked
/// until it lands inside, which takes two steps at most on average.
#[derive(Debug, Clone)]
pub(crate) struct Permutation {
    n: u64,
    mask: u64,
    shift: u32,
    keys: [u64; 2],
}

impl Permutation {
    pub(crate) fn new(n: u64, key: u64) -> Self {
        let bits = 64 - n.saturating_sub(1).leading_zeros();
        let mask = if bits >= 64 { u64::MAX } else { (1 << bits) - 1 };
        Self { n, mask, shift: bits.div_ceil(2).max(1), keys: [mix(key), mix(!key)] }
    }

    /// Where `index` (below `n`) is mapped to.
    pub(crate) fn at(&self, index: u64) -> u64 {
        let [first, second] = self.keys;
        let mut x = index & self.mask;
        // Each line is a bijection on `mask`'s bits: addition, odd multiplication, xor-shift.
        loop {
            x = x.wrapping_add(first) & self.mask;
            x ^= x >> self.shift;
            x = x.wrapping_mul(0xbf58_476d_1ce4_e5b9) & self.mask;
            x ^= x >> self.shift;
            x = x.wrapping_add(second).wrapping_mul(0x94d0_49bb_1331_11eb) & self.mask;
            x ^= x >> self.shift;
            x = x.wrapping_mul(0x9e37_79b9_7f4a_7c15) & self.mask;
            x ^= x >> self.shift;
            if x < self.n || self.n == 0 {
                return x;
            }
        }
    }
}

/// Ranks that are not equally likely, scattered over the range.
#[derive(Debug, Clone)]
pub(crate) enum Skew {
    Zipf { theta: f64, first: f64, last: f64, s: f64, scatter: Permutation },
    Pareto { power: f64, scatter: Permutation },
}

impl Skew {
    /// Zipf's law over `n` ranks by rejection-inversion (Hörmann and Derflinger 1996).
    pub(crate) fn zipf(n: u64, theta: f64, key: u64) -> Self {
        let first = integral(1.5, theta) - 1.0;
        let last = integral(num::float(n) + 0.5, theta);
        let s = 2.0 - inverse(integral(2.5, theta) - density(2.0, theta), theta);
        Self::Zipf { theta, first, last, s, scatter: Permutation::new(n, key) }
    }

    /// Pareto's law over `n` ranks with fio's meaning of `h`.
    pub(crate) fn pareto(n: u64, h: f64, key: u64) -> Self {
        Self::Pareto { power: h.ln() / (1.0 - h).ln(), scatter: Permutation::new(n, key) }
    }

    /// One of `0..n`.
    pub(crate) fn draw(&self, random: &mut Random) -> u64 {
        match self {
            Self::Zipf { theta, first, last, s, scatter } => loop {
                let u = last + random.unit() * (first - last);
                let x = inverse(u, *theta);
                let k = num::floor(x + 0.5).clamp(1, scatter.n.max(1));
                let rank = num::float(k);
                if rank - x <= *s || u >= integral(rank + 0.5, *theta) - density(rank, *theta) {
                    return scatter.at(k - 1);
                }
            },
            Self::Pareto { power, scatter } => {
                let last = scatter.n.saturating_sub(1);
                let rank = num::floor(num::float(last) * random.unit().powf(*power));
                scatter.at(rank.min(last))
            }
        }
    }
}

/// `x^-theta`.
fn density(x: f64, theta: f64) -> f64 {
    (-theta * x.ln()).exp()
}

/// The integral of the density, continuous in theta at 1.
fn integral(x: f64, theta: f64) -> f64 {
    let log = x.ln();
    let t = (1.0 - theta) * log;
    if t.abs() > 1e-8 { t.exp_m1() / t * log } else { (1.0 + t / 2.0) * log }
}

/// The inverse of [`integral`].
fn inverse(y: f64, theta: f64) -> f64 {
    let t = (y * (1.0 - theta)).max(-1.0);
    if t.abs() > 1e-8 { (t.ln_1p() / t * y).exp() } else { ((1.0 - t / 2.0) * y).exp() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permutations_hit_everything_once() {
        for n in [1, 2, 3, 5, 64, 100, 1000, 4097] {
            for key in 0..3 {
                let permutation = Permutation::new(n, key);
                let mut hit = vec![false; num::index(n)];
                for i in 0..n {
                    let at = num::index(permutation.at(i));
                    assert!(!hit[at], "n {n} key {key}: {at} twice");
                    hit[at] = true;
                }
            }
        }
    }

    #[test]
    fn permutations_look_random() {
        // Steps between neighbours should rarely repeat, and halves should mix.
        let permutation = Permutation::new(1 << 16, 7);
        let mut steps: Vec<u64> = (1..1000)
            .map(|i| permutation.at(i).wrapping_sub(permutation.at(i - 1)) & 0xffff)
            .collect();
        steps.sort_unstable();
        steps.dedup();
        assert!(steps.len() > 900, "{} different steps", steps.len());
        let low = (0..1000).filter(|i| permutation.at(*i) < 1 << 15).count();
        assert!((400..600).contains(&low), "{low}");
    }

    #[test]
    fn skews_are_skewed_and_in_range() {
        let n = 10_000;
        let mut random = Random::new(1);
        for (skew, share) in [
            (Skew::zipf(n, 1.2, 3), 0.5),
            (Skew::zipf(n, 1.0, 3), 0.3),
            (Skew::pareto(n, 0.2, 3), 0.4),
        ] {
            let mut counts = vec![0u32; num::index(n)];
            for _ in 0..100_000 {
                counts[num::index(skew.draw(&mut random))] += 1;
            }
            counts.sort_unstable_by(|a, b| b.cmp(a));
            let top: u32 = counts.iter().take(100).sum();
            assert!(f64::from(top) > share * 100_000.0, "{skew:?}: top 1 % has {top}");
        }
    }

    #[test]
    fn zipf_follows_its_law() {
        let skew = Skew::zipf(1000, 1.0, 0);
        let Skew::Zipf { scatter, .. } = &skew else { panic!() };
        let (mut random, mut first, mut second) = (Random::new(2), 0, 0);
        for _ in 0..200_000 {
            let at = skew.draw(&mut random);
            first += u32::from(at == scatter.at(0));
            second += u32::from(at == scatter.at(1));
        }
        let ratio = f64::from(first) / f64::from(second);
        assert!((1.9..2.1).contains(&ratio), "{ratio}");
    }
}
