//! What is counted while a job runs. Recording is integer arithmetic only; means, deviations,
//! percentiles and distributions are worked out when a report is made.

mod moments;
mod sizes;
mod windows;

pub use moments::{Latency, Moments};
pub use sizes::{BATCHES, DEPTHS, Sizes};
pub use windows::Windows;

use super::stream::Direction;
use crate::num;

/// Which latencies get percentiles.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    pub(crate) slat: bool,
    pub(crate) lat: bool,
}

/// One direction of a job.
#[derive(Debug, Clone, Default)]
pub struct DirectionStats {
    /// Completed I/Os.
    pub ios: u64,
    /// Completed bytes.
    pub bytes: u64,
    /// From queueing to `submit`, ns. The clock is read once per submitted batch, so this is 0 where
    /// requests leave one by one (`iodepth_batch=1`): what the target does in `submit` is in `clat`.
    pub slat: Latency,
    /// From `submit` to reaping, ns.
    pub clat: Latency,
    /// Both together, ns.
    pub lat: Latency,
    /// Samples of KiB/s.
    pub bandwidth: Moments,
    /// Samples of I/Os a second.
    pub rate: Moments,
    /// Time in which these I/Os were done, ns.
    pub runtime: u64,
    sampled: (u64, u64),
}

impl DirectionStats {
    fn new(wanted: Wanted) -> Self {
        Self {
            slat: Latency::new(wanted.slat),
            // Always kept: the latency distribution is made of it.
            clat: Latency::new(true),
            lat: Latency::new(wanted.lat),
            ..Self::default()
        }
    }

    /// Takes a bandwidth sample over `nanos`.
    fn sample(&mut self, nanos: u64) {
        let (ios, bytes) = (self.ios - self.sampled.0, self.bytes - self.sampled.1);
        self.sampled = (self.ios, self.bytes);
        if self.ios > 0 {
            self.bandwidth.add(num::scale(bytes, 1_000_000_000 / 1024, nanos));
            self.rate.add(num::scale(ios, 1_000_000_000, nanos));
        }
    }

    fn merge(&mut self, other: &Self) {
        self.ios += other.ios;
        self.bytes += other.bytes;
        self.slat.merge(&other.slat);
        self.clat.merge(&other.clat);
        self.lat.merge(&other.lat);
        self.bandwidth.merge(&other.bandwidth);
        self.rate.merge(&other.rate);
        self.runtime = self.runtime.max(other.runtime);
    }

    /// I/Os a second.
    pub fn iops(&self) -> f64 {
        per_second(self.ios, self.runtime)
    }

    /// Bytes a second.
    pub fn bandwidth_bytes(&self) -> f64 {
        per_second(self.bytes, self.runtime)
    }

    /// Milliseconds, at least 1 when anything was done, as fio reports it.
    pub fn runtime_ms(&self) -> u64 {
        let ms = self.runtime / 1_000_000;
        if self.ios > 0 { ms.max(1) } else { ms }
    }
}

fn per_second(count: u64, nanos: u64) -> f64 {
    if nanos == 0 { 0.0 } else { num::float(count) * 1e9 / num::float(nanos) }
}

/// Everything that is counted about one job, or about a group of them.
#[derive(Debug, Clone, Default)]
pub struct JobStats {
    /// Reads, writes, trims.
    pub directions: [DirectionStats; 3],
    /// Flushes.
    pub sync: Latency,
    /// In-flight I/Os when something was submitted.
    pub depth: Sizes,
    /// Sizes of submitted batches.
    pub submit: Sizes,
    /// Sizes of reaped batches.
    pub complete: Sizes,
    /// Wall time of the job, ns; of a group: the sum.
    pub runtime: u64,
    /// Completed bytes over time, where `RunOptions::window` asks for them.
    pub windows: Windows,
}

impl JobStats {
    pub(crate) fn new(wanted: Wanted) -> Self {
        Self {
            directions: std::array::from_fn(|_| DirectionStats::new(wanted)),
            sync: Latency::new(true),
            ..Self::default()
        }
    }

    pub(crate) fn io(&mut self, direction: Direction, bytes: u32, slat: u64, clat: u64) {
        if let Some(stats) = self.directions.get_mut(direction as usize) {
            stats.ios += 1;
            stats.bytes += u64::from(bytes);
            stats.slat.add(slat);
            stats.clat.add(clat);
            stats.lat.add(slat + clat);
        }
    }

    pub(crate) fn flush(&mut self, nanos: u64) {
        self.sync.add(nanos);
    }

    pub(crate) fn submitted(&mut self, batch: u32, depth: u32) {
        self.submit.batch(batch);
        self.depth.depth(depth, u64::from(batch));
    }

    pub(crate) fn reaped(&mut self, batch: u32) {
        self.complete.batch(batch);
    }

    pub(crate) fn sample(&mut self, nanos: u64) {
        for direction in &mut self.directions {
            direction.sample(nanos);
        }
    }

    /// Adds another job's figures. Run times are those of the longest.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.directions.iter_mut().zip(&other.directions) {
            mine.merge(theirs);
        }
        self.sync.merge(&other.sync);
        self.depth.merge(&other.depth);
        self.submit.merge(&other.submit);
        self.complete.merge(&other.complete);
        self.runtime += other.runtime;
        self.windows.merge(&other.windows);
    }

    /// One direction.
    pub fn direction(&self, direction: Direction) -> &DirectionStats {
        let [read, write, trim] = &self.directions;
        match direction {
            Direction::Read => read,
            Direction::Write => write,
            Direction::Trim => trim,
        }
    }

    /// I/Os of all directions, flushes not counted.
    pub fn ios(&self) -> u64 {
        self.directions.iter().map(|direction| direction.ios).sum()
    }

    /// Bytes of all directions.
    pub fn bytes(&self) -> u64 {
        self.directions.iter().map(|direction| direction.bytes).sum()
    }
}
