//! The independent model: what a volume may hold, from the acknowledged history alone.
//!
//! A block is a base, the content that it had when nothing was open, and the writes since. What is read is cut into
//! regions at the ends of those writes, and each region is attributed to the writes, or the base, whose content it has.
//! A region is legal unless some write that *must* be in the prefix lies over everything that matches.

use std::collections::{BTreeMap, HashSet};

use crate::content::{BLOCK, BLOCK_LEN, is_zero, small};
use crate::history::{Block, Moment, Region, What, Write};

/// What the volume did and must not.
pub type Violation = String;

/// See the module.
#[derive(Debug, Default)]
pub struct Model {
    now: Moment,
    ids: u64,
    writes: Vec<Write>,
    blocks: BTreeMap<u64, Block>,
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
        let write = Write { id, what, from, to, submitted, acked: None, atomic, fua };
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
                }
            }
            What::Zeroes => {
                // What does not exist is zero already.
                for (_, block) in self.blocks.range_mut(range) {
                    block.writes.push(place);
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
            if all && self.write(place).acked.is_none() {
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
        for (at, block) in &mut blocks {
            let mut last: Moment = 0;
            let settled = self.writes_of(block).all(|(_, write)| {
                let ordered = write.submitted > last;
                let Some(acked) = write.acked else { return false };
                last = acked;
                ordered && acked < limit
            });
            if settled && !block.writes.is_empty() {
                let mut bytes =
                    block.base.take().unwrap_or_else(|| vec![0; BLOCK_LEN].into_boxed_slice());
                self.writes_of(block).for_each(|(_, write)| write.apply(*at, &mut bytes));
                block.writes.clear();
                block.base = Some(bytes);
            }
        }
        self.blocks = blocks;
    }

    /// Blocks that are, or may be, anything but zero, as ranges.
    pub fn touched(&self) -> Vec<(u64, u64)> {
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for at in self.blocks.keys() {
            match ranges.last_mut() {
                Some((_, end)) if *end == *at => *end += 1,
                _ => ranges.push((*at, *at + 1)),
            }
        }
        ranges
    }

    /// Cuts `bytes`, which are at byte `start` within block `at`, into regions and attributes each.
    fn regions(&self, at: u64, block: &Block, start: u64, bytes: &[u8]) -> Vec<Region> {
        let end = start + bytes.len() as u64;
        let skip = small(start - at * BLOCK);
        let mut cuts = vec![start, end];
        let over: Vec<(usize, &Write)> = self.writes_of(block).collect();
        for (_, write) in &over {
            cuts.push(write.from.clamp(start, end));
            cuts.push(write.to.clamp(start, end));
        }
        cuts.sort_unstable();
        cuts.dedup();
        let pairs = cuts.iter().zip(cuts.iter().skip(1));
        pairs
            .map(|(from, to)| {
                let within = small(from - start)..small(to - start);
                let part = bytes.get(within.clone()).unwrap_or(&[]);
                let base = block.base_has(skip + within.start, part);
                let writers = over
                    .iter()
                    .filter(|(_, write)| write.covers(*from, *to) && write.matches(*from, part))
                    .map(|(place, _)| *place)
                    .collect();
                Region { from: *from, to: *to, base, writers }
            })
            .collect()
    }

    /// Judges a region: something that matches must not lie under a write that `must` be there.
    fn judge(
        &self,
        block: &Block,
        region: &Region,
        must: &dyn Fn(usize, &Write) -> bool,
    ) -> Result<(), Violation> {
        let place = format!("bytes {}..{}", region.from, region.to);
        if !region.base && region.writers.is_empty() {
            return Err(format!("{place}: content that nobody wrote; {}", self.explain(block)));
        }
        let musts: Vec<(usize, &Write)> = self
            .writes_of(block)
            .filter(|(at, write)| write.covers(region.from, region.to) && must(*at, write))
            .collect();
        let legal_writer = |at: &usize| {
            let seen = self.write(*at);
            !musts.iter().any(|(other, write)| other != at && seen.before(write))
        };
        if region.writers.iter().any(legal_writer) || (region.base && musts.is_empty()) {
            return Ok(());
        }
        let seen: Vec<u64> = region.writers.iter().map(|at| self.write(*at).id).collect();
        let over: Vec<u64> = musts.iter().map(|(_, write)| write.id).collect();
        Err(format!(
            "{place}: old content (of writes {seen:?}{}), though writes {over:?} must be there; {}",
            if region.base { " or from before" } else { "" },
            self.explain(block)
        ))
    }

    fn explain(&self, block: &Block) -> String {
        let list: Vec<String> = self
            .writes_of(block)
            .map(|(_, write)| {
                format!(
                    "{}{:?} {}..{} at {}..{:?}{}",
                    write.id,
                    write.what,
                    write.from,
                    write.to,
                    write.submitted,
                    write.acked,
                    if write.fua { " FUA" } else { "" }
                )
            })
            .collect();
        format!("durable before {}; history: {}", self.durable, list.join(", "))
    }

    /// Checks the part of block `at` that a read which was handed over at `submitted` has found at byte `from`.
    ///
    /// # Errors
    /// Old or foreign content.
    pub fn check_read(
        &mut self,
        at: u64,
        from: u64,
        bytes: &[u8],
        submitted: Moment,
    ) -> Result<(), Violation> {
        self.checked += 1;
        let Some(block) = self.blocks.get(&at) else {
            return match is_zero(bytes) {
                true => Ok(()),
                false => Err(format!("block {at}: never written, not zero")),
            };
        };
        if block.poisoned {
            return Ok(());
        }
        let start = at * BLOCK;
        let skip = small(from - start);
        if block.writes.is_empty() {
            return match block.base_has(skip, bytes) {
                true => Ok(()),
                false => Err(format!("block {at}: not what was settled there")),
            };
        }
        let must = |_: usize, write: &Write| write.acked.is_some_and(|acked| acked < submitted);
        for region in self.regions(at, block, from, bytes) {
            self.judge(block, &region, &must).map_err(|why| format!("block {at}: {why}"))?;
        }
        Ok(())
    }

    /// Checks the whole volume after an opening, given every block that was read, and makes it the new base if the
    /// opening made it durable.
    ///
    /// # Errors
    /// Anything that is not the state after a prefix.
    pub fn check_opening(
        &mut self,
        seen: &[(u64, Seen<'_>)],
        durable: bool,
    ) -> Result<(), Violation> {
        let mut attributed: Vec<(u64, Vec<Region>)> = Vec::new();
        for (at, seen) in seen {
            self.checked += 1;
            let block = self.blocks.get(at);
            let Seen::Bytes(bytes) = seen else {
                if self.lenient || block.is_some_and(|block| block.poisoned) {
                    continue;
                }
                return Err(format!("block {at} cannot be read"));
            };
            match block {
                Some(block) if block.poisoned => {}
                Some(block) if !block.writes.is_empty() => {
                    attributed.push((*at, self.regions(*at, block, *at * BLOCK, bytes)));
                }
                Some(block) if block.base_has(0, bytes) => {}
                None if is_zero(bytes) => {}
                _ => return Err(format!("block {at}: not what was settled there")),
            }
        }
        self.check_prefix(&attributed)?;
        if durable {
            self.collapse(seen);
        }
        Ok(())
    }

    fn check_prefix(&mut self, attributed: &[(u64, Vec<Region>)]) -> Result<(), Violation> {
        let mut present: HashSet<usize> = HashSet::new();
        // A device that lies keeps no FUA write, so none can be demanded.
        let kept = |write: &Write| write.fua && write.acked.is_some() && !self.lenient;
        present.extend((0..).zip(&self.writes).filter(|(_, write)| kept(write)).map(|(at, _)| at));
        for region in attributed.iter().flat_map(|(_, regions)| regions) {
            present.extend(region.certain());
        }
        let demanded = if self.lenient { 0 } else { self.durable };
        let reach =
            present.iter().map(|place| self.write(*place).submitted).fold(demanded, Moment::max);
        let must = |place: usize, write: &Write| {
            write.acked.is_some_and(|acked| acked < reach)
                || (present.contains(&place) && (write.atomic || kept(write)))
        };
        for (at, regions) in attributed {
            let Some(block) = self.blocks.get(at) else { continue };
            for region in regions {
                self.judge(block, region, &must).map_err(|why| {
                    format!("block {at}: {why}; the prefix reaches to moment {reach}")
                })?;
            }
        }
        self.check_layers(attributed, &present)?;
        let lost = self.writes.iter().enumerate().filter(|(place, write)| {
            write.acked.is_some_and(|acked| acked >= reach) && !present.contains(place)
        });
        self.lost += lost.count() as u64;
        Ok(())
    }

    /// Two atomic writes that are both there lie over each other in one order.
    fn check_layers(
        &self,
        attributed: &[(u64, Vec<Region>)],
        present: &HashSet<usize>,
    ) -> Result<(), Violation> {
        let mut over: HashSet<(usize, usize)> = HashSet::new();
        for (at, regions) in attributed {
            let Some(block) = self.blocks.get(at) else { continue };
            for region in regions {
                let certain = region.certain().filter(|top| self.write(*top).atomic);
                let Some(top) = certain else { continue };
                for (below, write) in self.writes_of(block) {
                    let covers = write.atomic && write.covers(region.from, region.to);
                    if below == top || !covers || !present.contains(&below) {
                        continue;
                    }
                    over.insert((top, below));
                    if over.contains(&(below, top)) {
                        return Err(format!(
                            "block {at}: writes {} and {} lie over each other both ways",
                            self.write(top).id,
                            write.id
                        ));
                    }
                }
            }
        }
        Ok(())
    }

    /// What was seen is what there is: histories end, blocks that were not seen keep what they had.
    fn collapse(&mut self, seen: &[(u64, Seen<'_>)]) {
        for (at, seen) in seen {
            match seen {
                Seen::Bytes(bytes) if is_zero(bytes) => {
                    if self.blocks.get(at).is_some_and(|block| !block.poisoned) {
                        self.blocks.remove(at);
                    }
                }
                Seen::Bytes(bytes) => {
                    let block = self.blocks.entry(*at).or_default();
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
                    let block = self.blocks.entry(*at).or_default();
                    block.poisoned = true;
                    block.writes.clear();
                }
            }
        }
        for block in self.blocks.values_mut() {
            block.writes.clear();
        }
        self.writes.clear();
        self.open_zeroes.clear();
        self.durable = 0;
    }
}
