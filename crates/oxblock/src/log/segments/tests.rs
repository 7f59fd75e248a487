//! The state machine against a model that knows every block by its address.

use std::collections::{BTreeSet, VecDeque};

use proptest::prelude::*;

use super::{Segments, State};
use crate::format::segment::SegmentEntry;
use crate::map::Space;

const SEGMENTS: u32 = 10;
const SHIFT: u32 = 4;
const BLOCKS: u32 = 1 << SHIFT;

/// A record whose blocks are written, and come to life when it is retired.
struct Record {
    sequence: u64,
    blocks: Vec<u64>,
}

/// A checkpoint as it froze.
struct Point {
    sequence: u64,
    blocks: BTreeSet<u64>,
}

/// What must be so, held beside what is.
struct Model {
    segments: Segments,
    open: Vec<u32>,
    reserve: VecDeque<u32>,
    discarding: Vec<u32>,
    pins: Vec<u32>,
    /// Addresses that the live map points to, and those of blocks of the segment table.
    live: BTreeSet<u64>,
    table: BTreeSet<u64>,
    /// What the running checkpoint, or else the last, points to.
    point: Point,
    running: bool,
    records: VecDeque<Record>,
    sequence: u64,
    retired: u64,
}

/// One of `set`, chosen by `arg`.
fn pick(set: &BTreeSet<u64>, arg: usize) -> Option<u64> {
    set.iter().nth(arg % set.len().max(1)).copied()
}

impl Model {
    fn new() -> Self {
        let entries = vec![SegmentEntry::default(); SEGMENTS as usize];
        let mut segments = Segments::new(entries, SHIFT);
        segments.set_reserve(&[0, 1, 2]);
        segments.settle();
        Self {
            segments,
            open: Vec::new(),
            reserve: VecDeque::from([0, 1, 2]),
            discarding: Vec::new(),
            pins: Vec::new(),
            live: BTreeSet::new(),
            table: BTreeSet::new(),
            point: Point { sequence: 0, blocks: BTreeSet::new() },
            running: false,
            records: VecDeque::new(),
            sequence: 0,
            retired: 0,
        }
    }

    fn of(addr: u64) -> u32 {
        u32::try_from(addr >> SHIFT).unwrap()
    }

    /// Appends a record of `count` blocks and returns their addresses.
    fn append(&mut self, arg: usize, count: u32) -> Option<(u64, Vec<u64>)> {
        let id = *self.open.get(arg % self.open.len().max(1))?;
        let at = self.segments.at(id).written;
        if at + count > BLOCKS {
            return None;
        }
        self.sequence += 1;
        self.segments.append(id, count, self.sequence);
        let addr = self.segments.addr(id, at);
        Some((self.sequence, (addr..addr + u64::from(count)).collect()))
    }

    /// Nothing that is durable, alive, under way or being read may need a segment that is to be used again.
    fn assert_unused(&self, id: u32) {
        let within = |addr: &&u64| Self::of(**addr) == id;
        assert_eq!(self.live.iter().find(within), None, "live in {id}");
        assert_eq!(self.table.iter().find(within), None, "table in {id}");
        assert_eq!(self.point.blocks.iter().find(within), None, "durable in {id}");
        assert!(!self.pins.contains(&id), "{id} is pinned");
        assert!(self.segments.at(id).sealed <= self.point.sequence, "{id} is part of the tail");
        let flying = self.records.iter().flat_map(|record| &record.blocks);
        assert_eq!(flying.into_iter().find(within), None, "under way in {id}");
    }

    fn step(&mut self, what: u8, arg: usize) {
        match what {
            0 => {
                let id = self.segments.open();
                assert_eq!(id, self.reserve.pop_front(), "the reserve list is opened in order");
                if let Some(id) = id {
                    self.assert_unused(id);
                    self.open.push(id);
                }
            }
            // Appends come to life later, as records do.
            1..=4 => {
                if let Some((sequence, mut blocks)) = self.append(arg, 1 + u32::from(what)) {
                    // A header, to which nothing points.
                    blocks.remove(0);
                    self.records.push_back(Record { sequence, blocks });
                }
            }
            5..=7 => {
                let Some(record) = self.records.pop_front() else { return };
                self.retired = record.sequence;
                for addr in record.blocks {
                    // Mostly it takes the place of an older block.
                    if let Some(old) = pick(&self.live, arg).filter(|_| what != 5) {
                        self.live.remove(&old);
                        self.segments.died(old);
                    }
                    self.live.insert(addr);
                    self.segments.born(addr);
                }
            }
            8 => {
                if let Some(old) = pick(&self.live, arg) {
                    self.live.remove(&old);
                    self.segments.died(old);
                }
            }
            9 if !self.open.is_empty() => {
                let id = self.open.remove(arg % self.open.len());
                self.segments.seal(id);
            }
            10 => {
                if let Some(addr) = pick(&self.live, arg) {
                    self.segments.pin(Self::of(addr));
                    self.pins.push(Self::of(addr));
                }
            }
            11 if !self.pins.is_empty() => {
                let id = self.pins.remove(arg % self.pins.len());
                self.segments.unpin(id);
            }
            12 if !self.running => {
                self.segments.freeze();
                self.running = true;
                self.point = Point { sequence: self.retired, blocks: self.live.clone() };
            }
            // A node of the checkpoint gets its new place, and one of the table.
            13 if self.running => self.place(arg),
            14 if self.running => self.commit(1 + arg % 3),
            15 if !self.discarding.is_empty() => {
                let id = self.discarding.remove(arg % self.discarding.len());
                self.segments.release(id, arg.is_multiple_of(2));
            }
            _ => {}
        }
    }

    fn place(&mut self, arg: usize) {
        let Some(old) = pick(&self.point.blocks, arg) else { return };
        // Its records retire with the others; what they hold counts from here on.
        let Some((sequence, blocks)) = self.append(arg, 3) else { return };
        self.records.push_back(Record { sequence, blocks: Vec::new() });
        let alive = self.live.remove(&old);
        self.segments.placed(old, blocks[1], alive);
        self.point.blocks.remove(&old);
        self.point.blocks.insert(blocks[1]);
        if alive {
            self.live.insert(blocks[1]);
        }
        let gone = pick(&self.table, arg);
        self.segments.table_moved(gone.unwrap_or(0), blocks[2]);
        gone.map(|gone| self.table.remove(&gone));
        self.table.insert(blocks[2]);
    }

    fn commit(&mut self, count: usize) {
        self.running = false;
        let chosen = self.segments.choose_reserve(count, self.point.sequence);
        assert!(chosen.len() <= count);
        for id in &chosen {
            self.assert_unused(*id);
        }
        self.reserve.extend(&chosen);
        self.segments.extend_reserve(chosen);
        for id in self.segments.reap_pending(self.point.sequence) {
            self.assert_unused(id);
            self.discarding.push(id);
        }
    }

    fn check(&self) {
        assert_eq!(self.segments.contradicted(), None);
        assert_eq!(self.segments.reserve().collect::<VecDeque<_>>(), self.reserve);
        let count = |set: &BTreeSet<u64>, id| set.iter().filter(|a| Self::of(**a) == id).count();
        let (mut free, mut pending) = (0, 0);
        for (id, segment) in self.segments.iter() {
            assert_eq!(segment.live as usize, count(&self.live, id), "live of {id}");
            assert_eq!(segment.table as usize, count(&self.table, id), "table of {id}");
            assert_eq!(segment.frozen_live as usize, count(&self.point.blocks, id), "of {id}");
            assert_eq!(self.open.contains(&id), segment.state == State::Open);
            assert_eq!(self.reserve.contains(&id), segment.state == State::Reserved);
            assert_eq!(self.discarding.contains(&id), segment.state == State::Discarding);
            match segment.state {
                State::Sealed => assert!(segment.holds_any(), "{id} is not on the pending list"),
                State::Free => free += 1,
                State::Pending => pending += 1,
                State::Reserved | State::Open | State::Discarding => {}
            }
        }
        assert_eq!((self.segments.free(), self.segments.pending()), (free, pending));
        let entries = self.segments.table_entries(0);
        let stored: Vec<usize> = entries.iter().map(|entry| entry.live.get() as usize).collect();
        let frozen: Vec<usize> = (0..SEGMENTS).map(|id| count(&self.point.blocks, id)).collect();
        assert_eq!(stored, frozen, "the table holds what the checkpoint points to");
    }
}

proptest! {
    #[test]
    fn no_segment_is_used_again_while_anything_needs_it(
        steps in prop::collection::vec((0u8..16, 0usize..1000), 1..600)
    ) {
        let mut model = Model::new();
        for (what, arg) in steps {
            model.step(what, arg);
            model.check();
        }
    }
}

#[test]
fn a_segment_goes_round() {
    let mut model = Model::new();
    // Open, fill, seal; all of it dies; the checkpoint that says so frees it, and may name it at once.
    for (what, arg) in [(0, 0), (4, 0), (5, 0), (9, 0)] {
        model.step(what, arg);
    }
    assert_eq!(model.segments.at(0).state, State::Sealed);
    for _ in 0..4 {
        model.step(8, 0);
    }
    assert_eq!(model.segments.at(0).state, State::Pending);
    model.step(12, 0);
    model.step(14, 0);
    model.check();
    assert_eq!(model.segments.reserve().collect::<Vec<_>>(), [1, 2, 0]);
    assert_eq!(model.segments.at(0).generation, 1);
}

#[test]
fn what_was_kept_from_a_rollback_is_not_opened() {
    let mut entries = vec![SegmentEntry::default(); 4];
    entries[2].live = 3.into();
    let mut segments = Segments::new(entries, SHIFT);
    segments.set_reserve(&[2, 1]);
    segments.settle();
    assert_eq!(segments.open(), None, "never over live blocks");
    assert_eq!(segments.contradicted(), Some(2));
    segments.withdraw_used();
    assert_eq!(segments.at(2).state, State::Sealed);
    assert_eq!(segments.open(), Some(1));
}

#[test]
fn a_segment_in_which_a_write_failed_is_chosen_when_nothing_else_is_left() {
    let mut segments = Segments::new(vec![SegmentEntry::default(); 4], SHIFT);
    segments.set_reserve(&[0, 1]);
    segments.settle();
    for (id, sequence) in [(0, 1), (1, 2)] {
        assert_eq!(segments.open(), Some(id));
        segments.append(id, 1, sequence);
    }
    segments.set_failed(0);
    segments.seal(0);
    segments.seal(1);
    // Not by the checkpoint that frees it; the other one is.
    assert_eq!(segments.choose_reserve(4, 2), [1, 2, 3]);
    assert_eq!(segments.reap_pending(2), [0]);
    segments.release(0, false);
    assert_eq!(segments.choose_reserve(4, 2), [0]);
    segments.extend_reserve(vec![1, 2, 0]);
    segments.put_off(&[1]);
    assert_eq!(segments.reserve().collect::<Vec<_>>(), [2, 0, 1]);
}
