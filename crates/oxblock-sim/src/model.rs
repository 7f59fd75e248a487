//! The independent model: what a volume may hold, from the acknowledged history alone.
//!
//! A block is a base, the content that it had when nothing was open, and the writes since. `judge.rs` says what of that
//! may be read.

mod judge;

use std::collections::{BTreeMap, BTreeSet};

use crate::content::{BLOCK, BLOCK_LEN, is_zero};
use crate::history::{Block, Moment, What, Write};

/// What the volume did and must not.
pub type Violation = String;

/// See the module.
#[derive(Debug, Clone, Default)]
pub struct Model {
    now: Moment,
    ids: u64,
    writes: Vec<Write>,
    blocks: BTreeMap<u64, Block>,
    /// Blocks that were written to since their base.
    open_blocks: BTreeSet<u64>,
    /// Zeroings that are not acknowledged: they matter for blocks that begin to exist meanwhile.
    open_zeroes: Vec<usize>,
    /// Everything acknowledged before this moment is durable.
    durable: Moment,
    /// Durability cannot be demanded: the device lies.
    pub lenient: bool,
    /// Blocks compared.
    pub checked: u64,
    /// Acknowledged writes that a cut has lost.
    pub lost: u64,
}

/// One block as it was read.
#[derive(Debug)]
pub enum Seen<'a> {
    /// Its bytes.
    Bytes(&'a [u8]),
    /// The read failed for it.
    Failed,
}

impl Model {
    /// A model of a new volume; `lenient` when its device lies, so that durability cannot be demanded.
    pub fn new(lenient: bool) -> Self {
        Self { lenient, ..Self::default() }
    }

    /// The device was set back to when `past` was true; what is written from here on is something new all the same.
    pub fn set_back(&mut self, past: Self) {
        let Self { ids, checked, lost, .. } = *self;
        *self = Self { ids, checked, lost, ..past };
    }

    /// The next moment.
    pub fn tick(&mut self) -> Moment {
        self.now += 1;
        self.now
    }

    /// A write is handed over; returns its place and its id. `from..to` is what it changes.
    pub fn begin(
        &mut self,
        what: What,
        from: u64,
        to: u64,
        atomic: bool,
        fua: bool,
    ) -> (usize, u64) {
        self.ids += 1;
        let (id, submitted) = (self.ids, self.tick());
        let place = self.writes.len();
        let write =
            Write { id, what, from, to, submitted, acked: None, failed: false, atomic, fua };
        self.writes.push(write);
        let range = from / BLOCK..to.div_ceil(BLOCK);
        match what {
            What::Data => {
                for at in range {
                    let open: Vec<usize> = match self.blocks.contains_key(&at) {
                        true => Vec::new(),
                        false => self.zeroes_over(at),
                    };
                    let block = self.blocks.entry(at).or_default();
                    block.writes.extend(open);
                    block.writes.push(place);
                    self.open_blocks.insert(at);
                }
            }
            What::Zeroes => {
                // What does not exist is zero already.
                for (at, block) in self.blocks.range_mut(range) {
                    block.writes.push(place);
                    self.open_blocks.insert(*at);
                }
                self.open_zeroes.push(place);
            }
        }
        (place, id)
    }

    /// The write at `place`.
    #[expect(
        clippy::indexing_slicing,
        reason = "a place that is not there is a fault of the model, and must show"
    )]
    fn write(&self, place: usize) -> &Write {
        &self.writes[place]
    }

    /// As [`write`](Self::write).
    #[expect(clippy::indexing_slicing, reason = "as above")]
    fn write_mut(&mut self, place: usize) -> &mut Write {
        &mut self.writes[place]
    }

    /// The writes since the base of `block`, with their places, in the order in which they were handed over.
    fn writes_of(&self, block: &Block) -> impl Iterator<Item = (usize, &Write)> {
        block.writes.iter().map(|place| (*place, self.write(*place)))
    }

    fn zeroes_over(&self, block: u64) -> Vec<usize> {
        let (from, to) = (block * BLOCK, (block + 1) * BLOCK);
        let over = |place: &&usize| {
            let write = self.write(**place);
            write.from < to && from < write.to
        };
        self.open_zeroes.iter().filter(over).copied().collect()
    }

    /// A write is acknowledged.
    pub fn acked(&mut self, place: usize) {
        let now = self.tick();
        self.open_zeroes.retain(|open| *open != place);
        self.write_mut(place).acked = Some(now);
    }

    /// A write ended with an error.
    pub fn failed(&mut self, place: usize) {
        self.write_mut(place).failed = true;
    }

    /// A flush that was handed over at `submitted` is acknowledged. `oldest` is when the oldest read under way began.
    pub fn flushed(&mut self, submitted: Moment, oldest: Moment) {
        self.tick();
        self.durable = self.durable.max(submitted);
        self.settle(self.durable.min(oldest));
    }

    /// Everything acknowledged so far is durable: the volume was closed. With `all`, so is what was under way; when the
    /// power failed meanwhile, that may have failed for itself.
    pub fn closed(&mut self, all: bool) {
        for place in 0..self.writes.len() {
            let write = self.write(place);
            if all && write.acked.is_none() && !write.failed {
                self.acked(place);
            }
        }
        // Behind everything that was acknowledged.
        self.durable = self.tick();
    }

    /// Folds histories into bases where all writes are durable, in a certain order, and older than `limit`.
    fn settle(&mut self, limit: Moment) {
        if self.lenient {
            return;
        }
        let mut blocks = std::mem::take(&mut self.blocks);
        let mut open = std::mem::take(&mut self.open_blocks);
        open.retain(|at| {
            let Some(block) = blocks.get_mut(at) else { return false };
            let mut last: Moment = 0;
            let settled = self.writes_of(block).all(|(_, write)| {
                let ordered = write.submitted > last;
                let Some(acked) = write.acked else { return false };
                last = acked;
                ordered && acked < limit
            });
            if !settled {
                return true;
            }
            let mut bytes =
                block.base.take().unwrap_or_else(|| vec![0; BLOCK_LEN].into_boxed_slice());
            let (from, to) = (at * BLOCK, (at + 1) * BLOCK);
            // What comes before a write of all of it is not seen any more.
            let hidden = self.writes_of(block).filter(|(_, write)| write.covers(from, to)).last();
            let first = hidden.map_or(0, |(place, _)| place);
            self.writes_of(block)
                .skip_while(|(place, _)| *place < first)
                .for_each(|(_, write)| write.apply(*at, &mut bytes));
            block.writes.clear();
            block.base = Some(bytes);
            false
        });
        self.blocks = blocks;
        self.open_blocks = open;
    }

    /// Blocks that are, or may be, anything but zero, in order.
    pub fn touched(&self) -> impl Iterator<Item = u64> {
        self.blocks.keys().copied()
    }

    /// Of these, those that a write may have changed since they were last seen, in order.
    pub fn recent(&self) -> impl Iterator<Item = u64> {
        self.open_blocks.iter().copied()
    }

    /// The first touched block from `at` on.
    pub fn touched_from(&self, at: u64) -> Option<u64> {
        self.blocks.range(at..).next().map(|(at, _)| *at)
    }

    /// What was seen is what there is: histories end, blocks that were not seen keep what they had.
    fn collapse(&mut self, seen: &[(u64, Seen<'_>)]) {
        for (at, seen) in seen {
            match seen {
                Seen::Bytes(bytes) if is_zero(bytes) => {
                    self.blocks.remove(at);
                }
                Seen::Bytes(bytes) => {
                    let block = self.blocks.entry(*at).or_default();
                    block.stray.clear();
                    if std::mem::take(&mut block.writes).is_empty() && block.base.is_some() {
                        // Compared with it already.
                        continue;
                    }
                    match &mut block.base {
                        Some(base) => base.copy_from_slice(bytes),
                        None => block.base = Some((*bytes).into()),
                    }
                }
                Seen::Failed => {
                    let Some(block) = self.blocks.get_mut(at) else { continue };
                    let writes = std::mem::take(&mut block.writes);
                    block
                        .stray
                        .extend(writes.iter().filter_map(|at| self.writes.get(*at)).cloned());
                }
            }
        }
        for at in std::mem::take(&mut self.open_blocks) {
            if let Some(block) = self.blocks.get_mut(&at) {
                block.writes.clear();
            }
        }
        self.writes.clear();
        self.open_zeroes.clear();
        self.durable = 0;
    }
}
