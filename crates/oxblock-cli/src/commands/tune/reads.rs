//! Reads of what a volume holds, timed. Nothing else is ever sent to it.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Result;
use oxblock::submit::split::limit_bytes;
use oxblock::volume::{BioRead, ExtentKind, Facts, OpenOptions, Volume};
use oxblock::{Buf, Policy, Request, RequestKind};

/// Block sizes that are measured.
const SIZES: [usize; 2] = [4096, 1 << 20];

/// Reads in flight.
const DEPTHS: [usize; 3] = [1, 4, 16];

/// How long each of them goes on.
const BUDGET: Duration = Duration::from_millis(150);

/// Data that is looked for: enough to read each block once or a few times.
const ENOUGH: u64 = 256 << 20;

/// Stretches that are looked at for it.
const STRETCHES: usize = 4096;

/// A read that shows what limits on bios do, as far as the data goes.
const LARGE: u64 = 64 << 20;

/// Below this it shows nothing.
const LARGE_MIN: u64 = 8 << 20;

/// Limits to read with; the first is what the others are compared with.
const LIMITS: [Option<u64>; 4] = [None, Some(4 << 20), Some(16 << 20), Some(0)];

/// Rounds over all limits, and when to stop before that.
const ROUNDS: usize = 5;
const LARGE_BUDGET: Duration = Duration::from_secs(4);

/// Reads of one size at one depth.
#[derive(Debug, Clone, PartialEq)]
pub struct Reads {
    pub block_size: usize,
    pub depth: usize,
    /// How many.
    pub count: u64,
    /// Of them, those that failed.
    pub failed: u64,
    pub elapsed: Duration,
    /// What one takes: the middle one, and the one that only a hundredth are slower than.
    pub median: Duration,
    pub p99: Duration,
}

impl Reads {
    /// Reads a second.
    pub fn iops(&self) -> u64 {
        per_second(self.count, self.elapsed)
    }

    /// Bytes a second.
    pub fn rate(&self) -> u64 {
        per_second(self.count * self.block_size as u64, self.elapsed)
    }
}

/// Large reads with several limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BioReads {
    /// Bytes of one.
    pub len: u64,
    /// Of them, those that failed.
    pub failed: u64,
    pub reads: Vec<BioRead>,
}

fn per_second(count: u64, elapsed: Duration) -> u64 {
    let per_second = u128::from(count) * 1_000_000_000 / elapsed.as_nanos().max(1);
    u64::try_from(per_second).unwrap_or(u64::MAX)
}

/// Where the volume holds data: some of it, as (offset, length) in bytes.
pub fn stretches(volume: &mut Volume) -> Vec<(u64, u64)> {
    let mut found: Vec<(u64, u64)> = Vec::new();
    let (mut from, mut total) = (0, 0);
    while total < ENOUGH && found.len() < STRETCHES {
        let Some(extent) = volume.next_data(from) else { break };
        from = extent.end;
        if extent.kind != ExtentKind::Data {
            continue;
        }
        total += extent.end - extent.start;
        match found.last_mut().filter(|(start, len)| start + len == extent.start) {
            Some((_, len)) => *len += extent.end - extent.start,
            None => found.push((extent.start, extent.end - extent.start)),
        }
    }
    found
}

/// Reads of every size at every depth, as far as there is data for them.
pub fn reads(volume: &mut Volume, stretches: &[(u64, u64)]) -> Vec<Reads> {
    let mut all = Vec::new();
    for block_size in SIZES {
        let places = places(stretches, block_size as u64);
        if places.is_empty() {
            continue;
        }
        for depth in DEPTHS {
            all.push(timed(volume, &places, block_size, depth));
        }
    }
    all
}

/// Every place for a block of `size` bytes, in an order that no read-ahead follows.
fn places(stretches: &[(u64, u64)], size: u64) -> Vec<u64> {
    let mut places: Vec<u64> = stretches
        .iter()
        .flat_map(|(start, len)| (0..len / size).map(move |index| start + index * size))
        .collect();
    places.sort_unstable_by_key(|place| place.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    places
}

/// Keeps `depth` reads in flight for a while.
fn timed(volume: &mut Volume, places: &[u64], block_size: usize, depth: usize) -> Reads {
    let mut bufs: Vec<Buf> = (0..depth).map(|_| Buf::new(block_size)).collect();
    let mut places = places.iter().copied().cycle();
    let mut started: Vec<Instant> = vec![Instant::now(); depth];
    let mut idle: Vec<usize> = (0..depth).collect();
    let (mut times, mut failed) = (Vec::new(), 0);
    let mut done = Vec::new();
    let begin = Instant::now();
    loop {
        let running = begin.elapsed() < BUDGET;
        while running && let (Some(buf), Some(offset)) = (bufs.pop(), places.next()) {
            let Some(index) = idle.pop() else { break };
            if let Some(started) = started.get_mut(index) {
                *started = Instant::now();
            }
            let kind = RequestKind::Read { offset, buf };
            volume.queue(Request { tag: index as u64, kind });
        }
        if idle.len() == depth {
            break;
        }
        volume.submit();
        if volume.poll(&mut done) == 0 {
            volume.wait(None);
        }
        for completion in done.drain(..) {
            let index = usize::try_from(completion.tag).unwrap_or(usize::MAX);
            times.extend(started.get(index).map(Instant::elapsed));
            failed += u64::from(completion.result.is_err());
            idle.push(index);
            bufs.push(completion.buf.unwrap_or_else(|| Buf::new(block_size)));
        }
    }
    let elapsed = begin.elapsed();
    times.sort_unstable();
    let at = |share: usize| times.get(times.len() * share / 100).copied().unwrap_or_default();
    Reads {
        block_size,
        depth,
        count: times.len() as u64,
        failed,
        elapsed,
        median: at(50),
        p99: at(99),
    }
}

/// The longest stretch is read with every limit in turn, so that all of them meet the same moods of the machine. `None`
/// when there is too little data in one piece.
pub fn bio_reads(
    devices: &[PathBuf],
    options: &OpenOptions,
    facts: &Facts,
    stretches: &[(u64, u64)],
) -> Result<Option<BioReads>> {
    let longest = stretches.iter().max_by_key(|(_, len)| *len);
    let Some((offset, len)) = longest.filter(|(_, len)| *len >= LARGE_MIN) else { return Ok(None) };
    let len = LARGE.min(*len);
    let mut volumes = Vec::with_capacity(LIMITS.len());
    for limit in LIMITS {
        // What suits the device is written out, since the volume may keep another limit.
        let wanted = limit.or_else(|| limit_bytes(None, facts.io_opt, facts.bio_max_bytes));
        let policy = Policy { bio_max_bytes: wanted, ..options.policy };
        let volume = Volume::open(devices, &OpenOptions { policy, ..options.clone() })?;
        volumes.push((limit, volume, Vec::new()));
    }
    let mut failed = 0;
    let mut buf = Buf::new(usize::try_from(len)?);
    let begin = Instant::now();
    for round in 0..=ROUNDS {
        for (_, volume, times) in &mut volumes {
            let start = Instant::now();
            let (back, ok) = read(volume, *offset, buf);
            let taken = start.elapsed();
            failed += u64::from(!ok);
            // The first round brings map nodes in, and memory.
            if round > 0 {
                times.push(taken);
            }
            buf = back;
        }
        if round > 0 && begin.elapsed() > LARGE_BUDGET {
            break;
        }
    }
    let mut reads = Vec::with_capacity(LIMITS.len());
    for (limit, volume, mut times) in volumes {
        volume.close()?;
        times.sort_unstable();
        let median = times.get(times.len() / 2).copied().unwrap_or_default();
        reads.push(BioRead { limit, rate: per_second(len, median) });
    }
    Ok(Some(BioReads { len, failed, reads }))
}

/// One read to its end; whether all of it came.
fn read(volume: &mut Volume, offset: u64, buf: Buf) -> (Buf, bool) {
    let len = buf.len();
    volume.queue(Request { tag: 0, kind: RequestKind::Read { offset, buf } });
    let mut done = Vec::new();
    loop {
        volume.submit();
        volume.poll(&mut done);
        if let Some(completion) = done.pop() {
            let buf = completion.buf.unwrap_or_else(|| Buf::new(len));
            return (buf, completion.result.is_ok());
        }
        volume.wait(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_holds_a_whole_block_of_data() {
        let stretches = [(4096, 8192), (1 << 20, (2 << 20) + 4096)];
        let mut small = places(&stretches, 4096);
        assert_eq!(small.len(), 2 + 513);
        small.sort_unstable();
        assert_eq!(small[..3], [4096, 8192, 1 << 20]);
        let mut large = places(&stretches, 1 << 20);
        large.sort_unstable();
        assert_eq!(large, [1 << 20, 2 << 20]);
        assert_eq!(places(&[], 4096), [0; 0]);
    }

    #[test]
    fn rates_are_of_a_second() {
        assert_eq!(per_second(500, Duration::from_millis(250)), 2000);
        assert_eq!(per_second(1, Duration::ZERO), 1_000_000_000);
    }
}
