//! Depths and batch sizes by powers of two, in fio's classes.

use crate::num;

/// fio's names of the classes of depths.
pub const DEPTHS: [&str; 7] = ["1", "2", "4", "8", "16", "32", ">=64"];
/// fio's names of the classes of batches.
pub const BATCHES: [&str; 7] = ["0", "4", "8", "16", "32", "64", ">=64"];

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
    pub(super) fn depth(&mut self, depth: u32, times: u64) {
        self.count((depth | 1).ilog2(), times);
    }

    /// Classes of batches: 0, 1-4, 5-8, 9-16, 17-32, 33-64, more.
    pub(super) fn batch(&mut self, size: u32) {
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

    pub(super) fn merge(&mut self, other: &Self) {
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

#[cfg(test)]
mod tests {
    use super::*;

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
