//! Bytes completed in each of equal stretches of a job's time: what a mean hides, a dip shows.

/// The stretches that are complete. What is left over at the job's end is not counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Windows {
    /// Nanoseconds of one; 0 while nothing is counted.
    length: u64,
    /// When the one under way ends.
    end: u64,
    /// Bytes completed before it began.
    before: u64,
    bytes: Vec<u64>,
}

impl Windows {
    /// Begins to count, unless it has begun or nothing is wanted.
    pub(crate) fn begin(&mut self, length: u64, now: u64) {
        if self.length == 0 && length > 0 {
            (self.length, self.end) = (length, now.saturating_add(length));
        }
    }

    /// True when the one under way has ended.
    pub(crate) fn due(&self, now: u64) -> bool {
        self.length > 0 && now >= self.end
    }

    /// Ends all that lie before `now`, when `total` bytes have been completed.
    pub(crate) fn roll(&mut self, now: u64, total: u64) {
        while self.due(now) {
            self.bytes.push(total.saturating_sub(self.before));
            (self.before, self.end) = (total, self.end.saturating_add(self.length));
        }
    }

    /// No more are counted.
    pub(crate) fn stop(&mut self) {
        self.end = u64::MAX;
    }

    /// Adds those of a job that ran beside.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.length = self.length.max(other.length);
        self.bytes.resize(self.bytes.len().max(other.bytes.len()), 0);
        for (mine, theirs) in self.bytes.iter_mut().zip(&other.bytes) {
            *mine += theirs;
        }
    }

    /// Nanoseconds of each; 0 when they were not asked for.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Bytes of each, in order.
    pub fn bytes(&self) -> &[u64] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stretch_without_completions_counts_nothing() {
        let mut windows = Windows::default();
        windows.begin(100, 1000);
        windows.begin(7, 2000);
        assert!(!windows.due(1099) && windows.due(1100));
        windows.roll(1150, 40);
        windows.roll(1350, 40);
        windows.roll(1400, 90);
        windows.roll(1450, 500);
        assert_eq!((windows.length(), windows.bytes()), (100, &[40, 0, 0, 50][..]));
        windows.stop();
        windows.roll(9000, 600);
        assert_eq!(windows.bytes().len(), 4);
    }

    #[test]
    fn jobs_side_by_side_add_up() {
        let windows =
            |bytes: &[u64]| Windows { length: 5, bytes: bytes.to_vec(), ..Windows::default() };
        let mut sum = windows(&[1, 2]);
        sum.merge(&windows(&[10, 20, 30]));
        assert_eq!(sum.bytes(), [11, 22, 30]);
    }

    #[test]
    fn nothing_is_counted_unless_asked_for() {
        let mut windows = Windows::default();
        windows.begin(0, 10);
        windows.roll(u64::MAX, 10);
        assert!(windows.bytes().is_empty());
    }
}
