//! The cache against an oracle that keeps, sector by sector, every version that may survive.

use super::*;

const SECTORS: u64 = 64;

/// Of one sector: `(number of the write, byte)`, the durable version first.
type Versions = Vec<(u64, u8)>;

/// Keeps what may survive once every write up to `upto` is durable.
fn settle(versions: &mut Versions, upto: u64) {
    let durable = versions.iter().rposition(|(write, _)| *write <= upto).unwrap();
    versions.drain(..durable);
}

/// Random writes, durable writes, flushes that writes overtake, raw writes and
/// cuts on a few pages, each outcome held to the oracle.
fn check(seed: u64) {
    let config = SimConfig { block_size: 512, ..SimConfig::new(1 << 20, seed) };
    let disk = SimDisk::single(config);
    let mut rng = Rng::new(seed);
    let mut oracle: Vec<Versions> = vec![vec![(0, 0)]; usize::try_from(SECTORS).unwrap()];
    let mut queue = disk.queue();
    for n in 1..400_u64 {
        let byte = u8::try_from(n % 251).unwrap();
        let start = rng.below(SECTORS);
        let count = 1 + rng.below((SECTORS - start).min(20));
        let touched = usize::try_from(start).unwrap()..usize::try_from(start + count).unwrap();
        let len = touched.len() * 512;
        match rng.below(12) {
            0 => {
                let (low, high) = (n, n + 1000);
                queue.push(flush(high));
                queue.push(write(low, start * 512, byte, len));
                drain(&mut queue);
                for versions in &mut oracle {
                    settle(versions, n - 1);
                }
                oracle[touched].iter_mut().for_each(|versions| versions.push((n, byte)));
            }
            1 => {
                ok(&mut queue, flush(n));
                oracle.iter_mut().for_each(|versions| settle(versions, n));
            }
            2 => {
                ok(&mut queue, durable(n, start * 512, byte, len));
                oracle[touched].iter_mut().for_each(|versions| *versions = vec![(n, byte)]);
            }
            3 => {
                disk.write_raw(0, start * 512, &vec![byte; len]);
                oracle[touched].iter_mut().for_each(|versions| *versions = vec![(n, byte)]);
            }
            4 if n % 3 == 0 => {
                queue.push(write(n, start * 512, byte, len));
                oracle[touched].iter_mut().for_each(|versions| versions.push((n, byte)));
                disk.power_cut();
                queue = disk.queue();
                let left = disk.read_raw(0, 0, 512 * oracle.len());
                for (versions, left) in oracle.iter_mut().zip(left.chunks(512)) {
                    assert!(left.iter().all(|byte| *byte == left[0]), "torn inside a sector");
                    let legal = versions.iter().any(|(_, byte)| *byte == left[0]);
                    assert!(legal, "seed {seed}: {} is none of {versions:?}", left[0]);
                    *versions = vec![(n, left[0])];
                }
            }
            _ => {
                ok(&mut queue, write(n, start * 512, byte, len));
                oracle[touched].iter_mut().for_each(|versions| versions.push((n, byte)));
            }
        }
        let seen = disk.read_raw(0, 0, 512 * oracle.len());
        for (versions, seen) in oracle.iter().zip(seen.chunks(512)) {
            assert_eq!(versions.last().unwrap().1, seen[0], "seed {seed}: a read sees the newest");
        }
    }
    disk.power_cut_keep_none();
    let left = disk.read_raw(0, 0, 512 * oracle.len());
    for (versions, left) in oracle.iter().zip(left.chunks(512)) {
        assert!(versions.iter().any(|(_, byte)| *byte == left[0]), "seed {seed}: below durable");
    }
}

#[test]
fn what_survives_is_always_legal() {
    (0..60).for_each(check);
}
