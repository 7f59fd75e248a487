//! The record headers of all segments that hold something live.
//!
//! Reads never look at headers, but cleaning does: it walks a segment from header to header and cannot move what follows
//! a damaged one. So a gap in the chain is damage if, and only if, something live lies in it.

use std::ops::Range;

use hashbrown::HashMap;

use super::Check;
use super::chain::{Chain, Link, Stretch};
use super::report::{Finding, FindingKind};
use crate::profile;

/// Gaps from which on no further segment is looked through before these are dealt with.
const GAPS_KEPT: usize = 4096;

/// A gap in the records of a segment.
#[derive(Debug)]
struct Gap {
    place: Stretch,
    /// Live blocks in it, nodes and table blocks among them.
    live: u64,
    /// The lowest and the highest logical block in it.
    blocks: Option<(u64, u64)>,
}

/// The gaps of some segments.
#[derive(Debug, Default)]
pub(super) struct Gaps {
    list: Vec<Gap>,
    index: HashMap<u32, Vec<usize>>,
    shift: u32,
}

impl Gaps {
    fn add(&mut self, place: Stretch) {
        self.index.entry(place.segment).or_default().push(self.list.len());
        self.list.push(Gap { place, live: 0, blocks: None });
    }

    /// There are none.
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Something live is at `addr`: `block`, or a node. Returns whether it is in a gap.
    pub(super) fn hit(&mut self, addr: u64, block: Option<u64>) -> bool {
        let segment = u32::try_from(addr >> self.shift).unwrap_or(u32::MAX);
        let offset = u32::try_from(addr & ((1 << self.shift) - 1)).unwrap_or(u32::MAX);
        let Some(gaps) = self.index.get(&segment) else { return false };
        for gap in gaps {
            let Some(gap) = self.list.get_mut(*gap) else { continue };
            if !(gap.place.from..gap.place.end).contains(&offset) {
                continue;
            }
            gap.live += 1;
            if let Some(block) = block {
                let (low, high) = gap.blocks.unwrap_or((block, block));
                gap.blocks = Some((low.min(block), high.max(block)));
            }
            return true;
        }
        false
    }
}

impl Check<'_, '_> {
    /// Walks the headers of every segment in use.
    pub(super) fn headers(&mut self) {
        let mut segments = 0..self.lane.segments.count();
        while !segments.is_empty() {
            let mut gaps = self.find_gaps(&mut segments);
            if gaps.is_empty() {
                continue;
            }
            self.walk_gaps(&mut gaps);
            for addr in self.lane.table.addresses().collect::<Vec<_>>() {
                gaps.hit(addr, None);
            }
            for gap in gaps.list.into_iter().filter(|gap| gap.live > 0) {
                self.tell_gap(&gap);
            }
        }
    }

    /// The gaps between the records of those of `segments` that are in use. Where there are many it stops early; `segments`
    /// are then those that are left.
    pub(super) fn find_gaps(&mut self, segments: &mut Range<u32>) -> Gaps {
        let shift = self.lane.segments.blocks().trailing_zeros();
        let mut gaps = Gaps { shift, ..Gaps::default() };
        while gaps.list.len() < GAPS_KEPT
            && let Some(segment) = segments.next()
        {
            let live = self.live.get(segment as usize).copied().unwrap_or(0);
            let state = self.lane.segments.at(segment);
            if live == 0 && state.table == 0 {
                continue;
            }
            let chain = Chain { segment, generation: Some(state.generation), end: state.written };
            let mut headers = 0;
            self.chain(chain, &mut |link| match link {
                Link::Record(..) => headers += 1,
                Link::Gap(gap) => gaps.add(gap),
            });
            self.report.headers += headers;
        }
        gaps
    }

    fn tell_gap(&mut self, gap: &Gap) {
        let Stretch { segment, from, values, unreadable, .. } = gap.place;
        let addr = self.lane.segments.addr(segment, from);
        let meaning = format!(
            "cleaning cannot move the {} live blocks behind it, so segment {segment} is not reused; they can be read",
            gap.live
        );
        let mut finding = Finding::new(FindingKind::RecordHeader, meaning).at(profile::locate(
            &self.lane.geometry.superblock,
            addr,
        )
        .1);
        if let Some((low, high)) = gap.blocks {
            finding = finding.of_blocks(low, high + 1);
        }
        match values {
            Some((expected, got)) => finding = finding.values(expected, Some(got)),
            None if unreadable => finding.meaning = format!("read error; {}", finding.meaning),
            None => finding.meaning = format!("there is none; {}", finding.meaning),
        }
        self.report.add(finding);
    }
}
