//! Segments: one explicit state machine, and an exact account of what is live in each.
//!
//! ```text
//! Free ──────► Reserved ──────► Open ──────► Sealed ──────► Pending ──────► Free
//!  named by a durable    a stream     full or     nothing live    a later checkpoint is durable,
//!  checkpoint's reserve  takes it     replaced    any more        no reader is left, discard done
//! ```
//!
//! The checkpoint that frees a pending segment may name it on its own reserve list: Pending ──► Reserved.
//!
//! A segment is reused only when no durable state can need it: the checkpoint that is durable does not point into it
//! (`frozen_live == 0`), neither does the live map (`live == 0`), the segment table is elsewhere (`table == 0`), no
//! record in it is part of the tail that recovery replays (`sealed <= sequence of the checkpoint`), and no read is in
//! flight (`pins == 0`).

mod account;
mod repair;

use std::collections::VecDeque;

#[cfg(feature = "canary")]
use crate::canary::{self, Canary};
use crate::format::layout::SEGMENTS_PER_BLOCK;
use crate::format::segment::{FLAG_DAMAGED, SegmentEntry};

/// Where a segment is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// Holds nothing; no durable state can need it.
    Free,
    /// Named by the durable checkpoint as one to be written next.
    Reserved,
    /// A stream appends to it.
    Open,
    /// Full; holds live blocks.
    Sealed,
    /// Nothing in it is live, except what records that are not retired may yet bring; waits for a checkpoint to say so
    /// durably.
    Pending,
    /// Its device discard is in flight.
    Discarding,
}

/// One segment in memory.
#[derive(Debug, Clone, Copy)]
pub struct Segment {
    /// How often it has been opened.
    pub generation: u64,
    /// Sequence number of its last record.
    pub sealed: u64,
    /// Live data blocks and map nodes.
    pub live: u32,
    /// Live blocks of the segment table.
    pub table: u32,
    /// Live blocks as the running, or else the last, checkpoint knows them.
    pub frozen_live: u32,
    /// Blocks written.
    pub written: u32,
    /// Reads in flight.
    pub pins: u32,
    /// Life.
    pub state: State,
    /// Holds a live block that cannot be moved.
    pub damaged: bool,
    /// A write to it has failed since it was opened.
    pub failed: bool,
}

impl Segment {
    /// Something lives in it: blocks of the volume, nodes of the map or blocks of the segment table.
    pub fn holds_any(&self) -> bool {
        self.live > 0 || self.table > 0
    }
}

/// All segments of a lane.
#[derive(Debug)]
pub struct Segments {
    list: Vec<Segment>,
    shift: u32,
    /// Free, and the backing store may never have been written there, or was given back.
    cold: Vec<u32>,
    /// Free, and the backing store still has what was there. Used first, so that it stays small and writes overwrite.
    warm: Vec<u32>,
    /// Named by the durable checkpoint, in the order of use.
    reserve: VecDeque<u32>,
    pending: Vec<u32>,
    /// A segment whose account contradicts the map.
    contradicted: Option<u32>,
    /// Table blocks that the next checkpoint must write, and those of the running one.
    dirty: Vec<bool>,
    frozen_dirty: Vec<bool>,
}

impl Segments {
    /// The segments that `entries` describe, each of `1 << shift` blocks. All are sealed or free until
    /// [`set_open`](Self::set_open) and [`set_reserve`](Self::set_reserve) say otherwise.
    pub fn new(entries: Vec<SegmentEntry>, shift: u32) -> Self {
        let blocks = entries.len().div_ceil(SEGMENTS_PER_BLOCK);
        let list = entries
            .into_iter()
            .map(|entry| Segment {
                generation: entry.generation.get(),
                sealed: entry.sealed.get(),
                live: entry.live.get(),
                table: 0,
                frozen_live: entry.live.get(),
                written: entry.written.get(),
                pins: 0,
                state: State::Sealed,
                damaged: entry.flags.get() & FLAG_DAMAGED != 0,
                failed: false,
            })
            .collect();
        Self {
            list,
            shift,
            cold: Vec::new(),
            warm: Vec::new(),
            reserve: VecDeque::new(),
            pending: Vec::new(),
            contradicted: None,
            dirty: vec![false; blocks],
            frozen_dirty: vec![false; blocks],
        }
    }

    /// Ends the set-up: what is neither open nor reserved and holds nothing is free.
    pub fn settle(&mut self) {
        for id in (0..self.count()).rev() {
            let segment = self.at_mut(id);
            if segment.state == State::Sealed && !segment.holds_any() {
                segment.state = State::Free;
                self.cold.push(id);
            }
        }
    }

    /// Marks a head of the checkpoint as open.
    pub fn set_open(&mut self, id: u32, written: u32) {
        let segment = self.at_mut(id);
        segment.state = State::Open;
        segment.written = written;
    }

    /// Sets the reserve list of the checkpoint.
    pub fn set_reserve(&mut self, reserve: &[u32]) {
        for id in reserve {
            self.at_mut(*id).state = State::Reserved;
        }
        self.reserve = reserve.iter().copied().collect();
    }

    /// Number of segments.
    pub fn count(&self) -> u32 {
        u32::try_from(self.list.len()).unwrap_or(u32::MAX)
    }

    /// A segment of which the table says something else than the map. The table is wrong, or was made to be, and what it
    /// calls free may not be: nothing may be written any more.
    pub fn contradicted(&self) -> Option<u32> {
        self.contradicted
    }

    /// Blocks of a segment.
    pub fn blocks(&self) -> u32 {
        1 << self.shift
    }

    /// One segment.
    pub fn at(&self, id: u32) -> &Segment {
        match self.list.get(id as usize) {
            Some(segment) => segment,
            None => unreachable!("segment {id} out of range"),
        }
    }

    fn at_mut(&mut self, id: u32) -> &mut Segment {
        match self.list.get_mut(id as usize) {
            Some(segment) => segment,
            None => unreachable!("segment {id} out of range"),
        }
    }

    /// All segments with their ids.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Segment)> {
        (0u32..).zip(self.list.iter())
    }

    /// The segment of an address.
    pub fn of(&self, addr: u64) -> u32 {
        u32::try_from(addr >> self.shift).unwrap_or(u32::MAX)
    }

    /// The block within its segment.
    pub fn offset(&self, addr: u64) -> u32 {
        u32::try_from(addr & ((1 << self.shift) - 1)).unwrap_or(u32::MAX)
    }

    /// The address of a block of a segment.
    pub fn addr(&self, id: u32, offset: u32) -> u64 {
        u64::from(id) << self.shift | u64::from(offset)
    }

    fn soil(&mut self, id: u32) {
        if let Some(dirty) = self.dirty.get_mut(id as usize / SEGMENTS_PER_BLOCK) {
            *dirty = true;
        }
    }

    /// Segments that a stream may open now.
    pub fn reserved(&self) -> usize {
        self.reserve.len()
    }

    /// Segments that the next checkpoint can put on its reserve list.
    pub fn free(&self) -> usize {
        self.cold.len() + self.warm.len()
    }

    /// Of these, segments whose space has not been given back.
    pub fn warm(&self) -> usize {
        self.warm.len()
    }

    /// Segments that become free with a checkpoint that is yet to come.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// The reserve list as it stands.
    pub fn reserve(&self) -> impl Iterator<Item = u32> {
        self.reserve.iter().copied()
    }

    /// Looks at the segment that will be opened next, `ahead` places on.
    pub fn peek_reserve(&self, ahead: usize) -> Option<u32> {
        self.reserve.get(ahead).copied()
    }

    /// Opens the next reserved segment.
    pub fn open(&mut self) -> Option<u32> {
        #[cfg(feature = "canary")]
        if canary::is(Canary::ReuseEarly)
            && let Some(id) = self.pending.pop()
        {
            self.at_mut(id).state = State::Reserved;
            self.reserve.push_front(id);
        }
        let id = self.peek_reserve(0)?;
        let segment = self.at(id);
        if segment.holds_any() {
            // Never over live blocks, whatever the reserve list says.
            self.contradicted.get_or_insert(id);
            return None;
        }
        self.replay_open(id);
        Some(id)
    }

    /// Opens a reserved segment as it was opened before the crash. What the checkpoint itself wrote, after the sequence
    /// number that it covers, may be live in it already.
    pub fn replay_open(&mut self, id: u32) {
        let place = self.reserve.iter().position(|reserved| *reserved == id);
        assert!(
            place.is_some_and(|place| self.reserve.remove(place).is_some()),
            "segment {id} is not on the reserve list"
        );
        let segment = self.at_mut(id);
        assert_eq!(segment.state, State::Reserved, "segment {id} opened out of turn");
        segment.state = State::Open;
        segment.generation += 1;
        segment.written = 0;
        segment.damaged = false;
        segment.failed = false;
        self.soil(id);
    }

    /// Puts segments that replay passed over behind all others: a write to them has failed.
    pub fn put_off(&mut self, passed: &[u32]) {
        let (last, mut first): (Vec<u32>, Vec<u32>) =
            self.reserve.iter().partition(|id| passed.contains(id));
        first.extend(last);
        self.reserve = first.into();
    }

    /// Takes off the reserve list what the checkpoint wrote into and replay did not come to.
    pub fn withdraw_used(&mut self) {
        let reserve = std::mem::take(&mut self.reserve);
        let (used, unused): (Vec<u32>, Vec<u32>) =
            reserve.into_iter().partition(|id| self.at(*id).holds_any());
        self.reserve = unused.into();
        for id in &used {
            self.at_mut(*id).state = State::Sealed;
            self.soil(*id);
        }
    }

    /// Recovery found the generation that the segment was really opened with.
    pub fn adopt_generation(&mut self, id: u32, generation: u64) {
        self.at_mut(id).generation = generation;
    }

    /// Counts `blocks` appended to an open segment by record `sequence`.
    pub fn append(&mut self, id: u32, blocks: u32, sequence: u64) {
        let limit = self.blocks();
        let segment = self.at_mut(id);
        assert_eq!(segment.state, State::Open, "append to segment {id}");
        segment.written += blocks;
        segment.sealed = sequence;
        assert!(segment.written <= limit, "segment {id} overflows");
    }

    /// Closes an open segment to appends.
    pub fn seal(&mut self, id: u32) {
        let segment = self.at_mut(id);
        assert_eq!(segment.state, State::Open, "seal of segment {id}");
        segment.state = State::Sealed;
        self.soil(id);
        self.check_pending(id);
    }

    fn check_pending(&mut self, id: u32) {
        let segment = self.at_mut(id);
        if segment.state == State::Sealed && !segment.holds_any() {
            segment.state = State::Pending;
            self.pending.push(id);
        }
    }

    /// A read of the segment begins.
    pub fn pin(&mut self, id: u32) {
        self.at_mut(id).pins += 1;
    }

    /// A read of the segment has ended.
    pub fn unpin(&mut self, id: u32) {
        self.at_mut(id).pins -= 1;
    }

    /// Marks a segment that cleaning must leave alone.
    pub fn set_damaged(&mut self, id: u32) {
        self.at_mut(id).damaged = true;
        self.soil(id);
    }

    /// A write to the segment has failed. It goes on to be read and cleaned; when it is free it is the last to be chosen.
    /// It does not stay out for good: a fault that has passed would take space from the volume.
    pub fn set_failed(&mut self, id: u32) {
        self.at_mut(id).failed = true;
    }

    /// Segments for the reserve list of the running checkpoint, which covers all records up to `sequence`: up to `count`.
    /// They count as reserved, but may be opened only after [`extend_reserve`](Self::extend_reserve). Those that this
    /// very checkpoint frees are as good as free ones, since none is opened before it is durable; they come first, for
    /// the backing store has their space.
    pub fn choose_reserve(&mut self, count: usize, sequence: u64) -> Vec<u32> {
        let mut chosen = self.take_pending(count, State::Reserved, sequence);
        for id in &chosen {
            self.soil(*id);
        }
        while chosen.len() < count
            && let Some(id) = self.warm.pop().or_else(|| self.cold.pop())
        {
            self.at_mut(id).state = State::Reserved;
            chosen.push(id);
        }
        chosen
    }

    /// The checkpoint that names `chosen` is durable.
    pub fn extend_reserve(&mut self, chosen: Vec<u32>) {
        self.reserve.extend(chosen);
    }

    /// The checkpoint that covers all records up to `sequence` is durable: returns the segments that nothing can need
    /// any more. They are being discarded until [`release`](Self::release).
    pub fn reap_pending(&mut self, sequence: u64) -> Vec<u32> {
        self.take_pending(usize::MAX, State::Discarding, sequence)
    }

    /// Up to `count` of the pending segments that nothing can need once a checkpoint up to `sequence` is durable; they go
    /// over to `next`.
    fn take_pending(&mut self, count: usize, next: State, sequence: u64) -> Vec<u32> {
        let mut taken = Vec::new();
        let mut pending = std::mem::take(&mut self.pending);
        pending.retain(|id| {
            let segment = self.at_mut(*id);
            assert_eq!(segment.state, State::Pending, "segment {id} on the pending list");
            if segment.holds_any() {
                // It was sealed before its last records were retired, and they have come since.
                segment.state = State::Sealed;
                return false;
            }
            let free = segment.frozen_live == 0 && segment.sealed <= sequence && segment.pins == 0;
            let last = segment.failed && next == State::Reserved;
            let take = free && !last && taken.len() < count;
            if take {
                segment.state = next;
                taken.push(*id);
            }
            !take
        });
        self.pending = pending;
        taken
    }

    /// The segment's discard is done, or was not wanted.
    pub fn release(&mut self, id: u32, discarded: bool) {
        let segment = self.at_mut(id);
        assert_eq!(segment.state, State::Discarding, "release of segment {id}");
        segment.state = State::Free;
        segment.written = 0;
        segment.damaged = false;
        let failed = segment.failed;
        self.soil(id);
        match discarded {
            _ if failed => self.cold.insert(0, id),
            true => self.cold.push(id),
            false => self.warm.push(id),
        }
    }
}

#[cfg(test)]
mod tests;
