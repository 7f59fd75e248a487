//! Histograms of times.

use std::fmt;

use hdrhistogram::Histogram;

/// What takes longer counts as this for percentiles: an hour, in nanoseconds.
const LONGEST: u64 = 3_600_000_000_000;

/// What some of the same kind took, over all that ended; nanoseconds. Percentiles are as exact as the histogram that they come
/// from, the rest is exact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// How many ended.
    pub count: u64,
    /// The shortest.
    pub min: u64,
    /// The mean, rounded down.
    pub mean: u64,
    /// Half of them took at most this.
    pub p50: u64,
    /// Nine of ten.
    pub p90: u64,
    /// 99 of 100.
    pub p99: u64,
    /// 999 of 1000.
    pub p999: u64,
    /// The longest.
    pub max: u64,
}

impl Times {
    /// Names and values, in order, for output.
    pub fn named(&self) -> [(&'static str, u64); 8] {
        [
            ("count", self.count),
            ("min", self.min),
            ("mean", self.mean),
            ("p50", self.p50),
            ("p90", self.p90),
            ("p99", self.p99),
            ("p99.9", self.p999),
            ("max", self.max),
        ]
    }
}

/// A histogram of times, in nanoseconds, up to an hour.
#[derive(Clone)]
pub struct Latency {
    histogram: Histogram<u64>,
    sum: u128,
    min: u64,
    max: u64,
}

impl Latency {
    /// An empty one that tells times apart by so many significant digits, 1 to 5.
    pub(crate) fn new(digits: u8) -> Self {
        let Ok(histogram) = Histogram::new_with_max(LONGEST, digits) else {
            unreachable!("{digits} digits are within what a histogram takes")
        };
        Self { histogram, sum: 0, min: u64::MAX, max: 0 }
    }

    /// One more took so long.
    pub(crate) fn record(&mut self, time: u64) {
        self.histogram.saturating_record(time);
        self.sum += u128::from(time);
        self.min = self.min.min(time);
        self.max = self.max.max(time);
    }

    /// How many ended.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// What all of them took together.
    pub fn sum(&self) -> u64 {
        u64::try_from(self.sum).unwrap_or(u64::MAX)
    }

    /// Buckets in which there are any, shortest first: the longest time that falls into the bucket, and how many do.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> {
        let used = self.histogram.iter_recorded();
        used.map(|bucket| (bucket.value_iterated_to(), bucket.count_at_value()))
    }

    /// The summary; zeroes when none has ended.
    pub fn times(&self) -> Times {
        let count = self.count();
        let min = if count == 0 { 0 } else { self.min };
        let mean = self.sum / u128::from(count.max(1));
        // A bucket is named by its upper end, which may be above everything in it.
        let at = |quantile| self.histogram.value_at_quantile(quantile).clamp(min, self.max);
        Times {
            count,
            min,
            mean: u64::try_from(mean).unwrap_or(u64::MAX),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: self.max,
        }
    }
}

impl fmt::Debug for Latency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.times().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_times_are_told_from_short_ones() {
        let mut latency = Latency::new(3);
        for time in [1_000, 5_000_000, 60_000_000_000] {
            latency.record(time);
        }
        let times = latency.times();
        assert!(times.p50.abs_diff(5_000_000) <= 5_000, "{times:?}");
        assert_eq!((times.p999, times.max), (60_000_000_000, 60_000_000_000));
    }

    #[test]
    fn buckets_hold_all_that_was_recorded() {
        let mut latency = Latency::new(2);
        assert_eq!(latency.times().max, 0);
        assert_eq!(latency.buckets().count(), 0);
        let times = [0, 1, 99, 12_345, 12_346, 1_000_000, u64::MAX];
        times.iter().for_each(|time| latency.record(*time));
        let buckets: Vec<(u64, u64)> = latency.buckets().collect();
        assert!(buckets.is_sorted_by(|(one, _), (other, _)| one < other));
        assert_eq!(buckets.iter().map(|(_, count)| count).sum::<u64>(), 7);
        for time in &times[..6] {
            let (end, _) = buckets.iter().find(|(end, _)| end >= time).unwrap();
            assert!(end - time <= time / 100, "{time} falls into {end}");
        }
    }
}
