//! Taking over what a repair has counted.

use super::{Segments, State};
use crate::format::layout::SEGMENTS_PER_BLOCK;
use crate::format::segment::{FLAG_DAMAGED, SegmentEntry};

impl Segments {
    /// The same segments with other counts of live blocks, none of them open or reserved. No record after `sequence` counts.
    pub fn recounted(&self, live: &[u32], sequence: u64) -> Self {
        let entries = self.list.iter().zip(live).map(|(segment, live)| SegmentEntry {
            generation: segment.generation.into(),
            sealed: segment.sealed.min(sequence).into(),
            live: (*live).into(),
            written: segment.written.into(),
            flags: if segment.damaged { FLAG_DAMAGED } else { 0 }.into(),
            device: 0.into(),
            slot: 0.into(),
        });
        Self::new(entries.collect(), self.shift)
    }

    /// Ends the set-up: what is neither open nor reserved and holds nothing is free, or becomes free with the next
    /// checkpoint if an older state may need it. All of the table is to be written.
    pub fn settle_anew(&mut self, needed: &dyn Fn(u32) -> bool) {
        for id in 0..self.count() {
            let segment = self.at_mut(id);
            if segment.state == State::Sealed && !segment.holds_any() && needed(id) {
                segment.state = State::Pending;
                self.pending.push(id);
            }
        }
        self.settle();
        for id in (0..self.count()).step_by(SEGMENTS_PER_BLOCK) {
            self.soil(id);
        }
    }

    /// Puts free segments on the reserve list until it names `count`. Only before a checkpoint whose records no older
    /// state replays.
    pub fn fill_reserve(&mut self, count: usize) {
        while self.reserve.len() < count
            && let Some(id) = self.warm.pop().or_else(|| self.cold.pop())
        {
            self.at_mut(id).state = State::Reserved;
            self.reserve.push_back(id);
        }
    }
}
