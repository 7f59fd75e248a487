//! A log-linear histogram of nanoseconds: 64 buckets per power of two, so a value is known to
//! within 0.8 %. Recording is two shifts and an increment.

/// Values from 2^(GROUPS + 6) ns (18 minutes) on share the last bucket.
const GROUPS: u32 = 34;
const BUCKETS: usize = (GROUPS as usize + 1) * 64;

/// Counts by value.
#[derive(Debug, Clone)]
pub struct Histogram {
    counts: Box<[u64]>,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: vec![0; BUCKETS].into_boxed_slice() }
    }
}

/// The bucket of a value.
fn bucket(value: u64) -> usize {
    let shift = (57 - (value | 127).leading_zeros()).min(GROUPS - 1);
    // Below 128 the shift is 0 and the value is its own bucket; from there on, every power of two
    // has 64 buckets, found by its 7 leading bits.
    let bits = crate::num::index((value >> shift).min(127));
    shift as usize * 64 + bits
}

/// The middle of a bucket.
fn middle(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < 128 {
        return bucket;
    }
    let shift = bucket / 64 - 1;
    ((bucket - shift * 64) << shift) + (1 << shift) / 2
}

impl Histogram {
    /// Counts one value.
    pub fn record(&mut self, value: u64) {
        if let Some(count) = self.counts.get_mut(bucket(value)) {
            *count += 1;
        }
    }

    /// Adds the counts of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
    }

    /// How many values were counted.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The value (ns) below or at which `percent` of all values lie; 0 when there are none.
    pub fn percentile(&self, percent: f64) -> u64 {
        let total = self.total();
        let target = crate::num::float(total) * percent / 100.0;
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            seen += count;
            if crate::num::float(seen) >= target {
                return middle(bucket);
            }
        }
        0
    }

    /// Non-empty buckets as (middle value in ns, count), ascending.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        let filled = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        filled.map(|(bucket, count)| (middle(bucket), *count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_monotonic_and_close() {
        let mut last = 0;
        for exponent in 0..40 {
            for step in 0..64 {
                let value = (1u64 << exponent) + step * (1u64 << exponent) / 64;
                let at = bucket(value);
                assert!(at >= last && at < BUCKETS, "{value}");
                last = at;
                let error = middle(at).abs_diff(value) as f64 / value as f64;
                assert!(error <= 0.0079, "{value} -> {}", middle(at));
            }
        }
        assert!(bucket(u64::MAX) < BUCKETS);
    }

    #[test]
    fn percentiles() {
        let mut histogram = Histogram::default();
        for value in 1..=100 {
            histogram.record(value);
        }
        assert_eq!(histogram.percentile(50.0), 50);
        assert_eq!(histogram.percentile(99.0), 99);
        assert_eq!(histogram.percentile(100.0), 100);
        assert_eq!(histogram.total(), 100);
    }
}
