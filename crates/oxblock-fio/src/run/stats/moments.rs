//! Moments and latencies: one quantity over many I/Os.

use crate::num;
use crate::run::histogram::Histogram;

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
    pub(super) fn new(percentiles: bool) -> Self {
        Self { moments: Moments::default(), histogram: percentiles.then(Histogram::default) }
    }

    pub(super) fn add(&mut self, nanos: u64) {
        self.moments.add(nanos);
        if let Some(histogram) = &mut self.histogram {
            histogram.record(nanos);
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
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
}
