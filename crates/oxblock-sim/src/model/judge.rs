//! Judging what was read.
//!
//! It is cut into regions at the ends of the writes to its block, and each region is attributed to the writes, or the
//! base, whose content it has. A region is legal unless some write that *must* be in the prefix lies over everything that
//! matches.

use std::collections::HashSet;

use super::{Model, Seen, Violation};
use crate::content::{BLOCK, is_zero, small};
use crate::history::{Block, Moment, Region, Write};

impl Model {
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
        if !block.stray.is_empty() {
            return self.check_stray(at, block, from, bytes);
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

    /// Checks a part of a block that could not be read once: it may be old, but never anything that was not written there.
    fn check_stray(
        &self,
        at: u64,
        block: &Block,
        start: u64,
        bytes: &[u8],
    ) -> Result<(), Violation> {
        let end = start + bytes.len() as u64;
        let all = || block.stray.iter().chain(self.writes_of(block).map(|(_, write)| write));
        let mut cuts = vec![start, end];
        cuts.extend(
            all().flat_map(|write| [write.from, write.to]).filter(|at| *at > start && *at < end),
        );
        cuts.sort_unstable();
        for (from, to) in cuts.iter().zip(cuts.iter().skip(1)) {
            let part = bytes.get(small(from - start)..small(to - start)).unwrap_or(&[]);
            let written =
                || all().any(|write| write.covers(*from, *to) && write.matches(*from, part));
            if !block.base_has(small(from - at * BLOCK), part) && !written() {
                return Err(format!("block {at}: bytes {from}..{to}: content that nobody wrote"));
            }
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
                if self.lenient {
                    continue;
                }
                return Err(format!("block {at} cannot be read"));
            };
            match block {
                Some(block) if !block.stray.is_empty() => {
                    self.check_stray(*at, block, *at * BLOCK, bytes)?;
                }
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
}
