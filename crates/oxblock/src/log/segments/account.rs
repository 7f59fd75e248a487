//! The account: how many live blocks each segment has, for the live map and for the checkpoint, and which blocks of the
//! segment table must be written because of that.

use super::{Segments, State};
use crate::format::layout::SEGMENTS_PER_BLOCK;
use crate::format::segment::{FLAG_DAMAGED, SegmentEntry};
use crate::map::Space;

impl Segments {
    /// A checkpoint begins: its account is the live one of this moment.
    pub fn freeze(&mut self) {
        for id in 0..self.count() {
            let segment = self.at_mut(id);
            segment.frozen_live = segment.live;
            if segment.state == State::Open {
                // What an open segment's entry says of its length is as old as its last change of state.
                self.soil(id);
            }
        }
        for (frozen, dirty) in self.frozen_dirty.iter_mut().zip(&mut self.dirty) {
            *frozen |= std::mem::take(dirty);
        }
    }

    /// A node of the running checkpoint moved from `old` (0: from nowhere) to `new`.
    pub fn placed(&mut self, old: u64, new: u64, alive: bool) {
        for (addr, change) in [(old, -1), (new, 1)] {
            if addr == 0 {
                continue;
            }
            let id = self.of(addr);
            let segment = self.at_mut(id);
            let count = segment.frozen_live.checked_add_signed(change);
            segment.frozen_live = count.unwrap_or(0);
            if count.is_none() {
                self.contradicted.get_or_insert(id);
            }
            if let Some(dirty) = self.frozen_dirty.get_mut(id as usize / SEGMENTS_PER_BLOCK) {
                *dirty = true;
            }
            match (alive, change) {
                (true, 1) => self.at_mut(id).live += 1,
                (true, _) => self.lose(id),
                // The checkpoint's account now differs from the live one.
                (false, _) => self.soil(id),
            }
        }
    }

    fn lose(&mut self, id: u32) {
        let segment = self.at_mut(id);
        match segment.live.checked_sub(1) {
            Some(live) => segment.live = live,
            None => {
                self.contradicted.get_or_insert(id);
            }
        }
        if self.at(id).live == 0 {
            self.check_pending(id);
        }
    }

    /// A block of the segment table moved.
    pub fn table_moved(&mut self, old: u64, new: u64) {
        if new != 0 {
            let id = self.of(new);
            self.at_mut(id).table += 1;
        }
        if old != 0 {
            let id = self.of(old);
            let segment = self.at_mut(id);
            segment.table -= 1;
            self.check_pending(id);
        }
    }

    /// The running checkpoint writes the entries of these segments too.
    pub fn soil_frozen(&mut self, segments: &[u32]) {
        for id in segments {
            if let Some(dirty) = self.frozen_dirty.get_mut(*id as usize / SEGMENTS_PER_BLOCK) {
                *dirty = true;
            }
        }
    }

    /// Table blocks that the running checkpoint must write; taken, so that a second call finds none.
    pub fn take_frozen_dirty(&mut self) -> Vec<u32> {
        let mut blocks = Vec::new();
        for (index, dirty) in (0u32..).zip(self.frozen_dirty.iter_mut()) {
            if std::mem::take(dirty) {
                blocks.push(index);
            }
        }
        blocks
    }

    /// Makes the next checkpoint write a table block again, wherever it is.
    pub fn rewrite_table(&mut self, block: usize) {
        if let Some(dirty) = self.dirty.get_mut(block) {
            *dirty = true;
        }
    }

    /// The entries of table block `block` for the running checkpoint.
    pub fn table_entries(&self, block: u32) -> Vec<SegmentEntry> {
        let first = block as usize * SEGMENTS_PER_BLOCK;
        (first..self.list.len().min(first + SEGMENTS_PER_BLOCK))
            .filter_map(|id| Some((u32::try_from(id).ok()?, self.list.get(id)?)))
            .map(|(id, segment)| SegmentEntry {
                generation: segment.generation.into(),
                sealed: segment.sealed.into(),
                live: segment.frozen_live.into(),
                written: segment.written.into(),
                flags: if segment.damaged { FLAG_DAMAGED } else { 0 }.into(),
                device: 0.into(),
                slot: id.into(),
            })
            .collect()
    }
}

impl Space for Segments {
    fn born(&mut self, addr: u64) {
        let id = self.of(addr);
        self.at_mut(id).live += 1;
        self.soil(id);
    }

    fn died(&mut self, addr: u64) {
        let id = self.of(addr);
        self.soil(id);
        self.lose(id);
    }
}
