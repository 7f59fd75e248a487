//! The record headers of all segments that hold something live.
//!
//! Reads never look at headers, but cleaning does: it walks a segment from header to header and cannot move what follows
//! a damaged one. So a gap in the chain is damage if, and only if, something live lies in it.

use hashbrown::HashMap;

use super::Check;
use super::report::{Finding, FindingKind};
use crate::format::layout::BLOCK_SIZE;
use crate::format::record::{Header, Invalid, claimed_blocks, decode};
use crate::profile;

/// Blocks of a read that looks for one header, and of one in a stretch of small records.
const FEW: u32 = 4;
const MANY: u32 = 256;
/// A record of fewer blocks than this is small.
const SMALL: u32 = 32;
/// The most gaps that are looked into.
const GAPS_KEPT: usize = 4096;

/// A stretch of a segment that belongs to no record that can be found.
#[derive(Debug)]
struct Gap {
    segment: u32,
    from: u32,
    end: u32,
    /// Checksums of the header at its start, where there is one.
    values: Option<(u128, u128)>,
    unreadable: bool,
    /// Live blocks in it, nodes and table blocks among them.
    live: u64,
    /// The lowest and the highest logical block in it.
    blocks: Option<(u64, u64)>,
}

/// All gaps, by segment.
#[derive(Debug, Default)]
pub(super) struct Gaps {
    list: Vec<Gap>,
    index: HashMap<u32, Vec<usize>>,
    shift: u32,
    more: u64,
}

impl Gaps {
    fn add(&mut self, gap: Gap) {
        if self.list.len() >= GAPS_KEPT {
            self.more += 1;
            return;
        }
        self.index.entry(gap.segment).or_default().push(self.list.len());
        self.list.push(gap);
    }

    /// Something live is at `addr`: `block`, or a node.
    pub(super) fn hit(&mut self, addr: u64, block: Option<u64>) {
        let segment = u32::try_from(addr >> self.shift).unwrap_or(u32::MAX);
        let offset = u32::try_from(addr & ((1 << self.shift) - 1)).unwrap_or(u32::MAX);
        let Some(gaps) = self.index.get(&segment) else { return };
        for gap in gaps {
            let Some(gap) = self.list.get_mut(*gap) else { continue };
            if !(gap.from..gap.end).contains(&offset) {
                continue;
            }
            gap.live += 1;
            if let Some(block) = block {
                let (low, high) = gap.blocks.unwrap_or((block, block));
                gap.blocks = Some((low.min(block), high.max(block)));
            }
        }
    }
}

impl Check<'_, '_> {
    /// Walks the headers of every segment in use.
    pub(super) fn headers(&mut self) {
        let shift = self.lane.segments.blocks().trailing_zeros();
        let mut gaps = Gaps { shift, ..Gaps::default() };
        for segment in 0..self.lane.segments.count() {
            let live = self.live.get(segment as usize).copied().unwrap_or(0);
            if live > 0 || self.lane.segments.at(segment).table > 0 {
                self.chain(segment, &mut gaps);
            }
        }
        if gaps.list.is_empty() {
            return;
        }
        self.walk_gaps(&mut gaps);
        for addr in self.lane.table.addresses().collect::<Vec<_>>() {
            gaps.hit(addr, None);
        }
        if gaps.more > 0 {
            self.report.notes.push(format!("{} more gaps between records", gaps.more));
        }
        for gap in gaps.list.into_iter().filter(|gap| gap.live > 0) {
            self.tell_gap(&gap);
        }
    }

    fn tell_gap(&mut self, gap: &Gap) {
        let addr = self.lane.segments.addr(gap.segment, gap.from);
        let meaning = format!(
            "cleaning cannot move the {} live blocks behind it, so segment {} is not reused; they can be read",
            gap.live, gap.segment
        );
        let mut finding = Finding::new(FindingKind::RecordHeader, meaning).at(profile::locate(
            &self.lane.geometry.superblock,
            addr,
        )
        .1);
        if let Some((low, high)) = gap.blocks {
            finding = finding.of_blocks(low, high + 1);
        }
        match gap.values {
            Some((expected, got)) => finding = finding.values(expected, Some(got)),
            None if gap.unreadable => finding.meaning = format!("read error; {}", finding.meaning),
            None => finding.meaning = format!("there is none; {}", finding.meaning),
        }
        self.report.add(finding);
    }

    /// Walks one segment.
    fn chain(&mut self, segment: u32, gaps: &mut Gaps) {
        let written = self.lane.segments.at(segment).written;
        let mut at = 0;
        let mut sequence = 0;
        let mut gap: Option<Gap> = None;
        let mut few = FEW;
        let mut window: Option<(u32, crate::device::Buf)> = None;
        let mut doubted = None;
        while at < written {
            let held = window.as_ref().is_some_and(|(start, buf)| covers(*start, buf, at, written));
            if !held {
                let count = few.min(written - at);
                let addr = self.lane.segments.addr(segment, at);
                match self.read_now(addr, count as usize) {
                    Some(buf) => {
                        window = Some((at, buf));
                        few = few.max(FEW);
                    }
                    None => {
                        // What cannot be read may be more than the header; step over it block by block.
                        few = 1;
                        if count == 1 {
                            gap.get_or_insert_with(|| new_gap(segment, at, None, true));
                            at += 1;
                            few = FEW;
                        }
                        continue;
                    }
                }
            }
            let Some((start, buf)) = &window else { continue };
            let bytes = buf.get((at - start) as usize * BLOCK_SIZE..).unwrap_or(&[]);
            match self.header_of(segment, at, bytes, sequence) {
                Ok(header) => {
                    if let Some(mut gap) = gap.take() {
                        gap.end = at;
                        gaps.add(gap);
                    }
                    self.report.headers += 1;
                    sequence = header.sequence;
                    let blocks = header.blocks();
                    few = if blocks < SMALL { MANY } else { FEW };
                    at += blocks;
                }
                // Nothing is said of a header that was read once; in a gap there is none to be sure of.
                Err(_) if gap.is_none() && doubted != Some(at) => {
                    doubted = Some(at);
                    window = None;
                }
                Err(values) => {
                    gap.get_or_insert_with(|| new_gap(segment, at, values, false));
                    few = MANY;
                    at += 1;
                }
            }
        }
        if let Some(mut gap) = gap.take() {
            gap.end = written;
            gaps.add(gap);
        }
    }

    /// The header at the start of `bytes`, or the checksums of what should be one.
    fn header_of(
        &self,
        segment: u32,
        at: u32,
        bytes: &[u8],
        sequence: u64,
    ) -> Result<Header, Option<(u128, u128)>> {
        let addr = self.lane.segments.addr(segment, at);
        let geometry = &self.lane.geometry;
        let (header, _) = decode(bytes, addr, geometry.width, &geometry.csum).map_err(
            |invalid| match invalid {
                Invalid::Checksum { expected, got } => Some((expected, got)),
                _ => None,
            },
        )?;
        let ours = geometry.owns(&header, at)
            && header.segment == segment
            && header.generation == self.lane.segments.at(segment).generation
            && header.sequence > sequence;
        if ours { Ok(header) } else { Err(None) }
    }
}

/// Whether a window from `start` on shows the whole header at `at`.
fn covers(start: u32, buf: &[u8], at: u32, written: u32) -> bool {
    let end = start + u32::try_from(buf.len() / BLOCK_SIZE).unwrap_or(0);
    if at < start || at >= end {
        return false;
    }
    let bytes = buf.get((at - start) as usize * BLOCK_SIZE..).unwrap_or(&[]);
    let blocks = claimed_blocks(bytes).unwrap_or(1);
    // A window that begins here shows all that can be read.
    at == start || at + blocks <= end || end >= written
}

fn new_gap(segment: u32, from: u32, values: Option<(u128, u128)>, unreadable: bool) -> Gap {
    Gap { segment, from, end: from, values, unreadable, live: 0, blocks: None }
}
