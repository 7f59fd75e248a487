//! Which write each unit should hold, and what is still to be read back.

use std::collections::VecDeque;

use crate::num;

/// A unit's last write is verified already.
const VERIFIED: u64 = 1 << 63;

/// Which write each unit of a job's range holds, and what is still to be read back.
#[derive(Debug)]
pub(crate) struct Ledger {
    start: u64,
    unit: u64,
    /// Per unit: the number of its last acknowledged write, 0 for none; 8 bytes a unit.
    numbers: Vec<u64>,
    /// Writes to be read back one by one (`verify_backlog`).
    backlog: Option<VecDeque<(u64, u32)>>,
    /// The next unit of the final read-back.
    cursor: u64,
}

impl Ledger {
    pub(crate) fn new(start: u64, len: u64, unit: u32, backlog: bool) -> Self {
        let unit = u64::from(unit.max(1));
        Self {
            start,
            unit,
            numbers: vec![0; num::index(len / unit)],
            backlog: backlog.then(VecDeque::new),
            cursor: 0,
        }
    }

    fn slots(&mut self, offset: u64, len: u32) -> impl Iterator<Item = &mut u64> {
        let first = num::index((offset - self.start) / self.unit);
        let count = num::index(u64::from(len).div_ceil(self.unit));
        self.numbers.iter_mut().skip(first).take(count)
    }

    /// Notes that write `number` (0: a trim) of the range is acknowledged.
    pub(crate) fn wrote(&mut self, offset: u64, len: u32, number: u64) {
        self.slots(offset, len).for_each(|slot| *slot = number);
        if let (Some(backlog), true) = (&mut self.backlog, number > 0) {
            backlog.push_back((offset, len));
        }
    }

    /// The number that the unit at `offset` should hold; 0 for none.
    pub(crate) fn number(&self, offset: u64) -> u64 {
        let slot = offset.checked_sub(self.start).map(|distance| num::index(distance / self.unit));
        slot.and_then(|slot| self.numbers.get(slot)).map_or(0, |number| number & !VERIFIED)
    }

    /// Notes that the range was read back.
    pub(crate) fn verified(&mut self, offset: u64, len: u32) {
        self.slots(offset, len).filter(|slot| **slot > 0).for_each(|slot| *slot |= VERIFIED);
    }

    /// Writes waiting in the backlog.
    pub(crate) fn waiting(&self) -> u64 {
        self.backlog.as_ref().map_or(0, |backlog| backlog.len() as u64)
    }

    /// The oldest write of the backlog.
    pub(crate) fn next_of_backlog(&mut self) -> Option<(u64, u32)> {
        self.backlog.as_mut()?.pop_front()
    }

    /// Starts the final read-back.
    pub(crate) fn rewind(&mut self) {
        self.cursor = 0;
        if let Some(backlog) = &mut self.backlog {
            backlog.clear();
        }
    }

    /// The next range of at most `max` bytes, written in one go or not, that is to be read back.
    pub(crate) fn next_range(&mut self, max: u32) -> Option<(u64, u32)> {
        let due = |number: &u64| *number > 0 && number & VERIFIED == 0;
        let rest = self.numbers.get(num::index(self.cursor)..)?;
        let skip = rest.iter().position(due)?;
        let limit = num::index((u64::from(max) / self.unit).max(1));
        let count = rest.iter().skip(skip).take(limit).take_while(|number| due(number)).count();
        let first = self.cursor + skip as u64;
        self.cursor = first + count as u64;
        let len = num::narrow(count as u64 * self.unit);
        Some((self.start + first * self.unit, len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ledger_hands_out_each_written_unit_once() {
        let mut ledger = Ledger::new(4096, 40960, 4096, false);
        ledger.wrote(4096, 4096, 1);
        ledger.wrote(8192, 12288, 2);
        ledger.wrote(32768, 4096, 3);
        ledger.verified(8192, 4096);
        ledger.rewind();
        let mut all = Vec::new();
        while let Some(range) = ledger.next_range(8192) {
            all.push(range);
        }
        assert_eq!(all, [(4096, 4096), (12288, 8192), (32768, 4096)]);
        assert_eq!((ledger.number(8192), ledger.number(28672)), (2, 0));
    }
}
