//! How fast a checksum runs on this machine, measured in a moment.
//!
//! The figure feeds the submit policy (inline or workers) and `info`. It is the best of several short rounds, since a
//! round can only be slowed down by what else the machine does.

use std::hint::black_box;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use super::{Csum, CsumKind};
use crate::format::layout::BLOCK_SIZE;

/// Time that [`speed`] takes.
const BUDGET: Duration = Duration::from_millis(3);
/// Blocks of a round: 64 KiB, which stays in the first-level caches or near them, as a fresh write does.
const ROUND: usize = 16;

/// GB/s (10^9 bytes a second) of one thread that checksums 4096-byte blocks with `kind`. Takes about 3 ms when it is asked for
/// the first time; later it is known.
pub fn speed(kind: CsumKind) -> f64 {
    static KNOWN: [OnceLock<f64>; CsumKind::ALL.len()] =
        [const { OnceLock::new() }; CsumKind::ALL.len()];
    let measure = || speed_of(&Csum::new(kind, *b"speed probe only"), BUDGET);
    let place = CsumKind::ALL.iter().position(|one| *one == kind);
    place
        .and_then(|place| KNOWN.get(place))
        .map_or_else(measure, |known| *known.get_or_init(measure))
}

/// GB/s of one thread that checksums 4096-byte blocks with `csum`, measured for `budget` (at least two rounds of 16
/// blocks, so a slow type takes longer than a tiny budget).
pub fn speed_of(csum: &Csum, budget: Duration) -> f64 {
    let data = vec![0x5A_u8; ROUND * BLOCK_SIZE];
    best(budget, data.len(), || {
        for (identity, block) in (0_u64..).zip(data.chunks_exact(BLOCK_SIZE)) {
            black_box(csum.of(black_box(identity), black_box(block)));
        }
    })
}

/// GB/s of one thread that computes one checksum over `bytes` bytes at a time, measured for `budget` (at least two
/// checksums). What a call costs by itself shows at small sizes, what the caches cost at large ones.
pub fn speed_at(csum: &Csum, bytes: usize, budget: Duration) -> f64 {
    let data = vec![0x5A_u8; bytes.max(1)];
    // The clock is read once for about as many bytes as `speed_of` does, or it would be measured with small ones.
    let calls = (ROUND * BLOCK_SIZE / data.len()).max(1);
    best(budget, data.len() * calls, || {
        for identity in 0..calls as u64 {
            black_box(csum.of(black_box(identity), black_box(&data)));
        }
    })
}

/// GB/s of the best of the rounds that fit into `budget`, of `bytes` bytes each.
fn best(budget: Duration, bytes: usize, round: impl Fn()) -> f64 {
    let timed = || {
        let start = Instant::now();
        round();
        start.elapsed()
    };
    let begin = Instant::now();
    // The first round warms caches and the library's feature detection, and does not count.
    timed();
    let mut best = timed();
    while begin.elapsed() < budget {
        best = best.min(timed());
    }
    let bytes = u32::try_from(bytes).map_or(f64::MAX, f64::from);
    bytes / best.as_secs_f64().max(1e-9) / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_speed() {
        for kind in CsumKind::ALL {
            let measured = speed(kind);
            assert!(measured.is_finite() && measured > 0.0, "{kind}: {measured} GB/s");
        }
    }

    #[test]
    fn every_size_has_a_speed() {
        let csum = Csum::new(CsumKind::Crc32c, [0; 16]).with_table_crc();
        for bytes in [0, 1, 4096, 1 << 20] {
            let measured = speed_at(&csum, bytes, Duration::from_millis(1));
            assert!(measured.is_finite() && measured > 0.0, "{bytes}: {measured} GB/s");
        }
    }

    #[test]
    fn the_probe_keeps_to_its_budget() {
        let csum = Csum::new(CsumKind::Crc32c, [0; 16]);
        let start = Instant::now();
        speed_of(&csum, Duration::from_millis(1));
        assert!(start.elapsed() < Duration::from_secs(1));
    }
}
