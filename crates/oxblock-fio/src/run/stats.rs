//! What is counted while a job runs. Recording is integer arithmetic only; means, deviations,
//! percentiles and distributions are worked out when a report is made.

use super::histogram::Histogram;
use super::stream::Direction;
use crate::num;

/// Count, extremes, sum and sum of squares of a quantity.
#[derive(Debug, Clone, Copy, Default)]
pub struct Moments {
    /// How many values.
    pub count: u64,
    min: u64,
    /// The largest value; 0 when there is none.
    pub max: u64,
    sum: u64,
    squares: u128,
}

impl Moments {
    /// Counts one value.
    pub fn add(&mut self, value: u64) {
        self.min = if self.count == 0 { value } else { self.min.min(value) };
        self.max = self.max.max(value);
        self.count += 1;
        self.sum = self.sum.wrapping_add(value);
        self.squares = self.squares.wrapping_add(u128::from(value) * u128::from(value));
    }

    /// Adds another set of values.
    pub fn merge(&mut self, other: &Self) {
        if other.count > 0 {
            self.min = if self.count == 0 { other.min } else { self.min.min(other.min) };
        }
        self.max = self.max.max(other.max);
        self.count += other.count;
        self.sum = self.sum.wrapping_add(other.sum);
        self.squares = self.squares.wrapping_add(other.squares);
    }

    /// The smallest value; 0 when there is none.
    pub fn min(&self) -> u64 {
        self.min
    }

    /// The mean; 0 when there is none.
    pub fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { num::float(self.sum) / num::float(self.count) }
    }

    /// The sample standard deviation; 0 for fewer than two values.
    #[expect(clippy::cast_precision_loss, reason = "a deviation needs no more than 53 bits")]
    pub fn deviation(&self) -> f64 {
        if self.count < 2 {
            return 0.0;
        }
        let n = num::float(self.count);
        let spread = self.squares as f64 - num::float(self.sum) * self.mean();
        (spread.max(0.0) / (n - 1.0)).sqrt()
    }
}

/// A latency: its moments, and its histogram where percentiles are wanted.
#[derive(Debug, Clone, Default)]
pub struct Latency {
    /// Nanoseconds.
    pub moments: Moments,
    /// Nanoseconds.
    pub histogram: Option<Histogram>,
}

impl Latency {
    fn new(percentiles: bool) -> Self {
        Self { moments: Moments::default(), histogram: percentiles.then(Histogram::default) }
    }

    fn add(&mut self, nanos: u64) {
        self.moments.add(nanos);
        if let Some(histogram) = &mut self.histogram {
            histogram.record(nanos);
        }
    }

    fn merge(&mut self, other: &Self) {
        self.moments.merge(&other.moments);
        match (&mut self.histogram, &other.histogram) {
            (Some(mine), Some(theirs)) => mine.merge(theirs),
            (None, Some(theirs)) => self.histogram = Some(theirs.clone()),
            (_, None) => {}
        }
    }

    /// The value (ns) that `percent` of all do not exceed; `None` where no histogram was kept.
    pub fn percentile(&self, percent: f64) -> Option<u64> {
        let value = self.histogram.as_ref()?.percentile(percent);
        Some(value.clamp(self.moments.min, self.moments.max.max(self.moments.min)))
    }
}

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
    /// From queueing to `submit`, ns.
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

/// How often a depth or a batch size occurred, by powers of two.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sizes {
    /// Counts by class.
    pub classes: [u64; 7],
    /// Sum of the classes.
    pub total: u64,
}

impl Sizes {
    /// Classes of depths: 1, 2-3, 4-7, 8-15, 16-31, 32-63, 64 and more.
    fn depth(&mut self, depth: u32, times: u64) {
        self.count((depth | 1).ilog2(), times);
    }

    /// Classes of batches: 0, 1-4, 5-8, 9-16, 17-32, 33-64, more.
    fn batch(&mut self, size: u32) {
        let class = match size {
            0 => 0,
            1..=4 => 1,
            // The next power of two of 5 is 8, whose class is 2.
            _ => (size - 1).ilog2(),
        };
        self.count(class, 1);
    }

    fn count(&mut self, class: u32, times: u64) {
        if let Some(count) = self.classes.get_mut(class.min(6) as usize) {
            *count += times;
        }
        self.total += times;
    }

    fn merge(&mut self, other: &Self) {
        for (count, more) in self.classes.iter_mut().zip(other.classes) {
            *count += more;
        }
        self.total += other.total;
    }

    /// The classes in percent of `whole`.
    pub fn percent_of(&self, whole: u64) -> [f64; 7] {
        self.classes.map(|count| num::percent(count, whole))
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_match_the_textbook() {
        let mut all = Moments::default();
        for value in [2, 4, 4, 4, 5, 5, 7, 9] {
            all.add(value);
        }
        assert_eq!((all.count, all.min(), all.max), (8, 2, 9));
        assert!((all.mean() - 5.0).abs() < 1e-9);
        assert!((all.deviation() - (32.0f64 / 7.0).sqrt()).abs() < 1e-9);
        let mut merged = Moments::default();
        merged.merge(&Moments::default());
        merged.merge(&all);
        assert_eq!(merged.min(), 2);
    }

    #[test]
    fn classes_of_depths_and_batches() {
        let mut sizes = Sizes::default();
        for depth in [1, 2, 3, 4, 7, 8, 16, 32, 63, 64, 500] {
            sizes.depth(depth, 1);
        }
        assert_eq!(sizes.classes, [1, 2, 2, 1, 1, 2, 2]);
        let mut sizes = Sizes::default();
        for batch in [0, 1, 4, 5, 8, 9, 16, 17, 32, 33, 64, 65] {
            sizes.batch(batch);
        }
        assert_eq!(sizes.classes, [1, 2, 2, 2, 2, 2, 1]);
    }
}
