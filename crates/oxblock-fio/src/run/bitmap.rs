//! Bits over the units of a job's range: which were visited in this pass, or which are in flight.

use crate::num;

/// A fixed number of bits.
#[derive(Debug, Clone)]
pub(crate) struct Bitmap {
    words: Vec<u64>,
    len: u64,
}

impl Bitmap {
    /// `len` clear bits; 1 bit per unit, so a 16 TiB range in 4 KiB units takes 512 MiB.
    pub(crate) fn new(len: u64) -> Self {
        Self { words: vec![0; num::index(len.div_ceil(64))], len }
    }

    pub(crate) fn clear_all(&mut self) {
        self.words.fill(0);
    }

    fn get(&self, bit: u64) -> bool {
        self.words.get(num::index(bit / 64)).is_some_and(|word| word >> (bit % 64) & 1 == 1)
    }

    /// Sets or clears `count` bits from `first`.
    pub(crate) fn set(&mut self, first: u64, count: u64, value: bool) {
        for bit in first..first + count {
            if let Some(word) = self.words.get_mut(num::index(bit / 64)) {
                let mask = 1 << (bit % 64);
                *word = if value { *word | mask } else { *word & !mask };
            }
        }
    }

    /// Is one of `count` bits from `first` set?
    pub(crate) fn any(&self, first: u64, count: u64) -> bool {
        (first..first + count).any(|bit| self.get(bit))
    }

    /// The first clear bit at or after `from`, wrapping around; `None` when all are set.
    pub(crate) fn next_clear(&self, from: u64) -> Option<u64> {
        self.clear_in(from, self.len).or_else(|| self.clear_in(0, from))
    }

    fn clear_in(&self, from: u64, to: u64) -> Option<u64> {
        let mut bit = from;
        while bit < to {
            let word = self.words.get(num::index(bit / 64)).copied()?;
            let free = !word >> (bit % 64);
            if free != 0 {
                let found = bit + u64::from(free.trailing_zeros());
                return (found < to).then_some(found);
            }
            bit = (bit / 64 + 1) * 64;
        }
        None
    }

    /// How many of at most `limit` bits from `first` are clear before the first set one or the end.
    pub(crate) fn clear_run(&self, first: u64, limit: u64) -> u64 {
        let end = (first + limit).min(self.len);
        (first..end).take_while(|bit| !self.get(*bit)).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finding_clear_bits() {
        let mut map = Bitmap::new(130);
        assert_eq!(map.next_clear(5), Some(5));
        map.set(5, 120, true);
        assert_eq!(map.next_clear(5), Some(125));
        assert_eq!(map.clear_run(125, 10), 5);
        map.set(125, 5, true);
        assert_eq!(map.next_clear(100), Some(0));
        assert!(map.any(0, 6) && !map.any(0, 5));
        map.set(0, 5, true);
        assert_eq!(map.next_clear(100), None);
        map.clear_all();
        assert_eq!(map.next_clear(129), Some(129));
    }
}
