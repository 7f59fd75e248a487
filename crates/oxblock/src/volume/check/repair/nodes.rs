//! Lost nodes of the map, made anew from what records prove.
//!
//! Nodes below a lost one come first: where it is proved which of them were live, they and all below them are as they
//! were. For what is not found that way the data records of each block are looked at. A block of which it is not known
//! where it was becomes a lost block, which fails until it is written or trimmed.
//!
//! A lost node is as old as the record that wrote it: changes that came later were refused, since it was lost already, or
//! are in the tail that is replayed after this. So nothing newer than that record counts. Where a recovery has passed over
//! some (the superblock says so), users have been promised what the node never held: nothing is proved then.

use std::ops::Range;

use hashbrown::{HashMap, HashSet};

use super::super::Check;
use super::Stop;
use super::evidence::{Evidence, PLACE_BYTES, Wanted, in_order};
use super::prove::{Account, Bounded, Verdict, prove, thin_blocks, thin_nodes};
use crate::error::{Error, ErrorKind};
use crate::format::layout::BLOCK_BYTES;
use crate::format::pointer::Pointer;
use crate::map::{Key, Miss};

/// What became of lost nodes.
#[derive(Debug, Default)]
pub(super) struct Rebuilt {
    /// Nodes that were lost.
    pub lost: u64,
    /// Nodes below them that were found.
    pub adopted: u64,
    /// Blocks below them whose place was proved by their records.
    pub found: u64,
    /// Blocks of which nobody knows what they held.
    pub given_up: u64,
    /// The account contradicts the records, so that nothing was proved.
    pub contradiction: bool,
    /// Recovery has passed over changes, so that nothing was proved.
    pub passed_over: bool,
}

/// How far a range is resolved.
struct Work {
    ends: Vec<u32>,
    /// The account of live blocks is known, and so is that lost nodes held what was live.
    proof: bool,
    owed: Vec<i64>,
    /// What is looked for block by block.
    open: Vec<Bounded>,
    /// Leaves that their parents point to and that are lost, each with a record that came after it.
    leaves: Vec<(Miss, u64)>,
    done: Rebuilt,
}

impl Check<'_, '_> {
    /// Makes the nodes anew that the walk has met as lost. `ends` says how far each segment is written; with `proof` the
    /// segments' counts are those of the checkpoint, and nothing was passed over.
    pub(super) fn rebuild_nodes(&mut self, ends: Vec<u32>, proof: bool) -> Result<Rebuilt, Stop> {
        let lost = std::mem::take(&mut self.lost);
        let mut work = Work {
            ends,
            proof,
            owed: self.owed(),
            open: Vec::new(),
            leaves: lost
                .iter()
                .filter(|miss| miss.key.level == 0)
                .map(|miss| (*miss, u64::MAX))
                .collect(),
            done: Rebuilt { lost: lost.len() as u64, ..Rebuilt::default() },
        };
        let inner: Vec<Miss> = lost.iter().copied().filter(|miss| miss.key.level > 0).collect();
        if !inner.is_empty() {
            self.rebuild_inner(&inner, &mut work)?;
        }
        // What the nodes that were found reach is not owed any more.
        work.owed = self.owed();
        self.rebuild_leaves(&mut work)?;
        self.lane.fetches.forget_lost();
        Ok(work.done)
    }

    /// Live blocks of each segment that the walk did not come to.
    fn owed(&self) -> Vec<i64> {
        let segments = self.lane.segments.iter().zip(&self.live);
        segments.map(|((_, segment), live)| i64::from(segment.live) - i64::from(*live)).collect()
    }

    /// How many places may be kept in memory.
    fn most_places(&self) -> u64 {
        self.lane.map.limit() as u64 * BLOCK_BYTES / PLACE_BYTES
    }

    fn gather<'m>(
        &mut self,
        wanted: Wanted,
        nodes: impl Iterator<Item = &'m Miss>,
        work: &Work,
    ) -> Result<Evidence, Stop> {
        let most = self.most_places();
        let addrs = nodes.map(|miss| miss.pointer.addr);
        let evidence = self.evidence(wanted, addrs, &work.ends, most);
        if evidence.is_cut() {
            return Err(self.too_small(evidence.seen * PLACE_BYTES / BLOCK_BYTES + 1));
        }
        self.failed |= evidence.failed;
        Ok(evidence)
    }

    /// The cache has no room for what must be held in it: `nodes` in all.
    fn too_small(&self, nodes: u64) -> Stop {
        let bytes = nodes.saturating_mul(BLOCK_BYTES).next_multiple_of(1 << 20);
        Stop::Refused(format!(
            "the lost part of the map does not fit into the map cache: repair again with --map-cache {}M",
            bytes >> 20
        ))
    }

    /// Finds out which nodes below lost ones were live, and has the lost ones point to them.
    fn rebuild_inner(&mut self, inner: &[Miss], work: &mut Work) -> Result<(), Stop> {
        let tops: HashSet<Key> = inner.iter().map(|miss| miss.key).collect();
        let mut evidence = self.gather(Wanted::Nodes(tops), inner.iter(), work)?;
        let bounds: HashMap<Key, u64> = inner
            .iter()
            .map(|miss| (miss.key, evidence.record_of(miss.pointer.addr).unwrap_or(u64::MAX)))
            .collect();
        let mut verdicts: HashMap<u64, Verdict> = HashMap::new();
        let mut hidden = true;
        if work.proof {
            let mut places = std::mem::take(&mut evidence.places);
            let ranges =
                bounds.iter().map(|(key, bound)| (self.lane.map.range_of(*key), *bound)).collect();
            thin_nodes(&mut places, &in_order(ranges));
            let mut account = self.account(&evidence, &work.owed);
            match prove(&places, &mut account) {
                Ok(found) => {
                    verdicts.extend(found);
                    hidden = evidence.hides_any(&account.owed);
                }
                Err(_) => work.done.contradiction = true,
            }
        }
        let mut left: Vec<(Key, u64)> = bounds.into_iter().collect();
        left.sort_unstable();
        while let Some((key, bound)) = left.pop() {
            self.resolve(key, bound, &verdicts, hidden, work, &mut left)?;
            for miss in std::mem::take(&mut self.lost) {
                // Found where it must be, and damaged: another lost node.
                work.done.lost += 1;
                if miss.key.level > 0 {
                    left.push((miss.key, bound));
                } else {
                    work.leaves.push((miss, bound));
                }
            }
        }
        Ok(())
    }

    fn account(&self, evidence: &Evidence, owed: &[i64]) -> Account {
        let shift = self.lane.segments.blocks().trailing_zeros();
        Account { shift, owed: owed.to_vec(), firm: evidence.firm() }
    }

    /// Points a lost inner node to the children that are known; what is not known is looked for block by block.
    fn resolve(
        &mut self,
        key: Key,
        bound: u64,
        verdicts: &HashMap<u64, Verdict>,
        hidden: bool,
        work: &mut Work,
        left: &mut Vec<(Key, u64)>,
    ) -> Result<(), Stop> {
        let width = self.lane.geometry.width;
        let mut pointers = vec![Pointer::NULL; width.fanout()];
        let mut adopted = Vec::new();
        for (slot, pointer) in (0u64..).zip(&mut pointers) {
            let index = key.index << width.fanout_shift() | slot;
            let child = Key { level: key.level - 1, index };
            let range = self.lane.map.range_of(child);
            if range.is_empty() {
                break;
            }
            match verdicts.get(&child.identity()) {
                Some(Verdict::Here(to)) => {
                    *pointer = *to;
                    adopted.push(child);
                }
                // Its own children may be known.
                Some(Verdict::Unknown) if child.level > 0 => left.push((child, bound)),
                Some(Verdict::Unknown) => work.open.push((range, bound)),
                Some(Verdict::Nowhere) | None if hidden => work.open.push((range, bound)),
                Some(Verdict::Nowhere) | None => {}
            }
        }
        self.put(key, &pointers)?;
        for child in adopted {
            work.done.adopted += 1;
            self.walk_nodes(child, true, &mut |check, key, media, pointers| {
                check.take_in(key, media, pointers);
            });
        }
        Ok(())
    }

    /// Puts a node in place of what is lost, or takes it away if it holds nothing.
    fn put(&mut self, key: Key, pointers: &[Pointer]) -> Result<(), Stop> {
        let empty = pointers.iter().all(Pointer::is_null);
        loop {
            let map = &mut self.lane.map;
            let done = if empty { map.remove_lost(key) } else { map.rebuild(key, pointers) };
            let Err(miss) = done else { return Ok(()) };
            if self.lane.fetches.is_lost(miss.key) {
                let what = "a map node that was read before cannot be had any more";
                return Err(Error::new(ErrorKind::Corrupt, what).into());
            }
            self.fetch(miss);
        }
    }

    /// Makes lost leaves anew from the records of their blocks. One whose own record is found is bounded by that.
    fn rebuild_leaves(&mut self, work: &mut Work) -> Result<(), Stop> {
        let mut open = std::mem::take(&mut work.open);
        let all =
            work.leaves.iter().map(|(miss, bound)| (self.lane.map.range_of(miss.key), *bound));
        let ranges = in_order(open.iter().cloned().chain(all).collect());
        if ranges.is_empty() {
            return Ok(());
        }
        let ranges: Vec<Range<u64>> = ranges.into_iter().map(|(range, _)| range).collect();
        let nodes = work.leaves.iter().map(|(miss, _)| miss);
        let mut evidence = self.gather(Wanted::Blocks(ranges), nodes, work)?;
        for (miss, bound) in &work.leaves {
            let record = evidence.record_of(miss.pointer.addr).unwrap_or(u64::MAX);
            open.push((self.lane.map.range_of(miss.key), record.min(*bound)));
        }
        let open = in_order(open);
        // Where blocks were lost before, a block without a place may be one of them.
        let mut unsure = !work.proof || self.lane.geometry.superblock.features.has_lost();
        let mut verdicts = Vec::new();
        if work.proof {
            let mut places = std::mem::take(&mut evidence.places);
            let ordered = !self.lane.geometry.superblock.features.has_refused();
            thin_blocks(&mut places, &evidence.kills, &open, ordered);
            let mut account = self.account(&evidence, &work.owed);
            match prove(&places, &mut account) {
                Ok(found) => {
                    verdicts = found;
                    unsure |= evidence.hides_any(&account.owed);
                }
                Err(_) => {
                    work.done.contradiction = true;
                    unsure = true;
                }
            }
        }
        self.place_blocks(&open, verdicts, unsure, work)
    }

    /// Writes the leaves of the ranges into the map. A block without a verdict is lost where that is `unsure`, and else
    /// was never written.
    fn place_blocks(
        &mut self,
        open: &[Bounded],
        verdicts: Vec<(u64, Verdict)>,
        unsure: bool,
        work: &mut Work,
    ) -> Result<(), Stop> {
        let shift = self.lane.geometry.width.fanout_shift();
        let mut known: HashMap<u64, Vec<(u64, Pointer)>> = HashMap::new();
        for (block, verdict) in verdicts {
            let pointer = match verdict {
                Verdict::Here(pointer) => pointer,
                Verdict::Unknown => Pointer::LOST,
                Verdict::Nowhere => continue,
            };
            known.entry(block >> shift).or_default().push((block, pointer));
        }
        let leaves = |range: &Range<u64>| range.start >> shift..((range.end - 1) >> shift) + 1;
        let count = if unsure {
            open.iter()
                .map(|(range, _)| leaves(range))
                .map(|leaves| leaves.end - leaves.start)
                .sum()
        } else {
            known.len() as u64
        };
        let room = self.lane.map.dirty_limit() as u64;
        let dirty = self.lane.map.stats().dirty as u64;
        // Nodes above them are dirty too, and some room is for the tail.
        let nodes = count + count / 64 + u64::from(self.lane.map.height()) + dirty;
        if nodes > room && self.lane.map.most_nodes() as u64 > room {
            return Err(self.too_small(nodes * 8 / 3 + 64));
        }
        let mut left: HashSet<Key> = work.leaves.iter().map(|(miss, _)| miss.key).collect();
        for (range, _) in open {
            for index in leaves(range) {
                let blocks = known.remove(&index).unwrap_or_default();
                if blocks.is_empty() && !unsure {
                    continue;
                }
                let key = Key { level: 0, index };
                left.remove(&key);
                let within = self.lane.map.range_of(key);
                let first = within.start;
                let mut pointers = vec![Pointer::NULL; 1 << shift];
                if unsure {
                    let count = usize::try_from(within.end - first).unwrap_or(0);
                    pointers.iter_mut().take(count).for_each(|pointer| *pointer = Pointer::LOST);
                }
                for (block, pointer) in blocks {
                    let slot = usize::try_from(block - first).unwrap_or(usize::MAX);
                    if let Some(slot) = pointers.get_mut(slot) {
                        *slot = pointer;
                    }
                }
                let given_up = pointers.iter().filter(|pointer| pointer.is_lost()).count() as u64;
                let all = pointers.iter().filter(|pointer| !pointer.is_null()).count() as u64;
                work.done.given_up += given_up;
                work.done.found += all - given_up;
                if given_up > 0 && self.failed {
                    return Err(Stop::Refused(
                        "the device fails reads, and blocks would be given up that it may yet have: copy it to a sound \
                         one first"
                            .into(),
                    ));
                }
                self.put(key, &pointers)?;
            }
        }
        for key in left {
            self.put(key, &[])?;
        }
        Ok(())
    }
}

impl Rebuilt {
    /// What became of them, in a sentence.
    pub(super) fn sentence(&self, table_is_lost: bool) -> String {
        let Self { lost, adopted, found, given_up, contradiction, passed_over } = self;
        let mut text = format!("{lost} map nodes were made anew");
        if *adopted > 0 {
            text += &format!(", {adopted} nodes below them were found as they were");
        }
        text += &format!(", {found} blocks were found by their records");
        if *given_up == 0 {
            return text;
        }
        let why = match (table_is_lost, passed_over, contradiction) {
            (true, ..) => "without the segment table nothing proves where they were",
            (_, true, _) => {
                "the volume was used with this damage, and writes may be newer than what can be found"
            }
            (.., true) => "the segment table contradicts the records",
            _ => "no record proves where they were",
        };
        format!(
            "{text}; {given_up} blocks are lost, since {why}: they fail until they are written or trimmed"
        )
    }
}
