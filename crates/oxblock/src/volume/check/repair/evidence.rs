//! What the record headers of the log say of lost nodes.

use std::ops::Range;

use hashbrown::{HashMap, HashSet};

use super::super::Check;
use super::super::chain::{Chain, Link};
use super::prove::{Bounded, Kill, Place};
use crate::format::pointer::{Pointer, identity};
use crate::format::record::{Entry, Header, Kind};
use crate::map::Key;

/// A segment holds records of this sort.
const DATA: u8 = 1;
const NODES: u8 = 2;
/// Bytes of memory that a place or a kill takes, roughly.
pub(super) const PLACE_BYTES: u64 = 96;

/// What is looked for.
#[derive(Debug)]
pub(super) enum Wanted {
    /// Nodes below these.
    Nodes(HashSet<Key>),
    /// Blocks in these ranges, which are in order.
    Blocks(Vec<Range<u64>>),
}

/// What was found.
#[derive(Debug)]
pub(super) struct Evidence {
    wanted: Wanted,
    shift: u32,
    height: u8,
    sequence: u64,
    durable: u64,
    most: u64,
    pub places: Vec<Place>,
    pub kills: Vec<Kill>,
    /// How many places and kills there are, kept or not.
    pub seen: u64,
    /// Segments with stretches that belong to no record that can be found.
    gaps: Vec<bool>,
    kinds: Vec<u8>,
    /// The records that hold the blocks at these addresses, once known.
    written: HashMap<u64, Option<u64>>,
    /// The device failed to read something.
    pub failed: bool,
}

impl Evidence {
    fn link(&mut self, segment: u32, link: Link) {
        let at = segment as usize;
        match link {
            Link::Gap(gap) => {
                self.failed |= gap.unreadable;
                if let Some(gaps) = self.gaps.get_mut(at) {
                    *gaps = true;
                }
            }
            Link::Record(header, entries) => {
                let kind = if header.kind == Kind::Map { NODES } else { DATA };
                if let Some(kinds) = self.kinds.get_mut(at) {
                    *kinds |= kind;
                }
                self.record(&header, &entries);
            }
        }
    }

    fn record(&mut self, header: &Header, entries: &[Entry]) {
        let known = if header.kind == Kind::Map { self.durable } else { self.sequence };
        if header.sequence > known {
            return;
        }
        for (index, entry) in (0u32..).zip(entries) {
            let addr = header.payload_addr() + u64::from(index);
            if header.kind == Kind::Map
                && let Some(record) = self.written.get_mut(&addr)
            {
                *record = Some(header.sequence);
            }
            let order = (header.sequence, index);
            let to = Pointer { addr, csum: entry.csum };
            match (header.kind, &self.wanted) {
                (Kind::Map, Wanted::Nodes(tops)) => {
                    let Some(block) = below(entry.id, tops, self.shift, self.height) else {
                        continue;
                    };
                    self.add(Place { item: entry.id, block, to, order, source: 0 });
                }
                (Kind::Data | Kind::Relocate, Wanted::Blocks(ranges))
                    if is_in(ranges, entry.id) =>
                {
                    let source = if header.kind == Kind::Relocate { entry.aux } else { 0 };
                    self.add(Place { item: entry.id, block: entry.id, to, order, source });
                }
                (Kind::Trim | Kind::Zero, Wanted::Blocks(ranges)) => {
                    let (from, end) = (entry.id, entry.id + entry.aux);
                    let next = ranges.partition_point(|range| range.end <= from);
                    if ranges.get(next).is_some_and(|range| range.start < end) {
                        self.seen += 1;
                        if self.seen <= self.most {
                            self.kills.push(Kill { from, end, order });
                        }
                    }
                }
                _ => {}
            }
        }
    }

    fn add(&mut self, place: Place) {
        self.seen += 1;
        if self.seen <= self.most {
            self.places.push(place);
        }
    }

    /// There is more than may be kept.
    pub fn is_cut(&self) -> bool {
        self.seen > self.most
    }

    /// The record that wrote the node at `addr`, if its header was found.
    pub fn record_of(&self, addr: u64) -> Option<u64> {
        self.written.get(&addr).copied().flatten()
    }

    /// Segments of which every record was seen, and all hold what was looked for.
    pub fn firm(&self) -> Vec<bool> {
        let other = if matches!(self.wanted, Wanted::Nodes(_)) { DATA } else { NODES };
        self.gaps.iter().zip(&self.kinds).map(|(gap, kinds)| !gap && kinds & other == 0).collect()
    }

    /// More may be live somewhere than the records that were found can tell, given what is `owed`.
    pub fn hides_any(&self, owed: &[i64]) -> bool {
        let other = if matches!(self.wanted, Wanted::Nodes(_)) { DATA } else { NODES };
        let segments = self.gaps.iter().zip(&self.kinds).zip(owed);
        segments.into_iter().any(|((gap, kinds), owed)| {
            let pure_other = *kinds == other;
            *owed > 0 && !pure_other && (*gap || *kinds == DATA | NODES)
        })
    }
}

/// The first block of the node with identity `id`, if it is below one of `tops`.
fn below(id: u64, tops: &HashSet<Key>, shift: u32, height: u8) -> Option<u64> {
    let (table, level, index) = identity::parse_node(id)?;
    if table || level >= height {
        return None;
    }
    let mut above = index;
    let found = (level + 1..height).any(|level| {
        above >>= shift;
        tops.contains(&Key { level, index: above })
    });
    let block = index.checked_mul(1u64.checked_shl(shift * (u32::from(level) + 1))?)?;
    found.then_some(block)
}

/// Whether a block is in one of `ranges`, which are in order.
fn is_in(ranges: &[Range<u64>], block: u64) -> bool {
    let at = ranges.partition_point(|range| range.end <= block);
    ranges.get(at).is_some_and(|range| range.contains(&block))
}

impl Check<'_, '_> {
    /// Looks through all records of the checkpoint. `ends` says how far each segment is written; at most `most` places are
    /// kept. `nodes` are the addresses of lost nodes.
    pub(super) fn evidence(
        &mut self,
        wanted: Wanted,
        nodes: impl Iterator<Item = u64>,
        ends: &[u32],
        most: u64,
    ) -> Evidence {
        let point = &self.lane.point.durable;
        let count = ends.len();
        let mut evidence = Evidence {
            wanted,
            shift: self.lane.geometry.width.fanout_shift(),
            height: self.lane.map.height(),
            sequence: point.sequence,
            durable: point.durable.max(point.sequence),
            most,
            places: Vec::new(),
            kills: Vec::new(),
            seen: 0,
            gaps: vec![false; count],
            kinds: vec![0; count],
            written: nodes.map(|addr| (addr, None)).collect(),
            failed: false,
        };
        for (segment, end) in (0u32..).zip(ends) {
            let generation = Some(self.lane.segments.at(segment).generation);
            let chain = Chain { segment, generation, end: *end };
            self.chain(chain, &mut |link| evidence.link(segment, link));
        }
        evidence
    }
}

/// Puts ranges in order, each with the record up to which its node knows what became of it; what overlaps is one. Nodes
/// beyond the end of the volume, which only a forged map has, have no blocks.
pub(super) fn in_order(mut lost: Vec<Bounded>) -> Vec<Bounded> {
    lost.retain(|(range, _)| !range.is_empty());
    lost.sort_unstable_by_key(|(range, _)| (range.start, range.end));
    let mut out: Vec<Bounded> = Vec::with_capacity(lost.len());
    for (range, bound) in lost {
        match out.last_mut() {
            Some((before, least)) if range.start < before.end => {
                before.end = before.end.max(range.end);
                *least = bound.min(*least);
            }
            _ => out.push((range, bound)),
        }
    }
    out
}
