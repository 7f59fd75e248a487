//! The records of one segment, from header to header.

use super::Check;
use crate::device::Buf;
use crate::format::layout::BLOCK_SIZE;
use crate::format::record::{Entry, Header, Invalid, claimed_blocks, decode};

/// Blocks of a read that looks for one header, and of one in a stretch of small records.
const FEW: u32 = 4;
const MANY: u32 = 256;
/// A record of fewer blocks than this is small.
const SMALL: u32 = 32;

/// Which records of a segment are looked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chain {
    pub segment: u32,
    /// The segment's generation; `None`: any that does not fall from record to record.
    pub generation: Option<u64>,
    /// Where the chain ends, in blocks.
    pub end: u32,
}

/// What comes next in a segment.
#[derive(Debug)]
pub(super) enum Link {
    /// A record of the chain.
    Record(Header, Vec<Entry>),
    /// Blocks up to `end` that belong to no record that can be found.
    Gap(Stretch),
}

/// A stretch of a segment that belongs to no record that can be found.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stretch {
    pub segment: u32,
    pub from: u32,
    pub end: u32,
    /// Checksums of the header at its start, where there is one.
    pub values: Option<(u128, u128)>,
    pub unreadable: bool,
}

/// Checksums of what should be a header: expected, and of what is there.
type Sums = Option<(u128, u128)>;

/// What the next record of a chain must not fall behind.
#[derive(Debug, Clone, Copy, Default)]
struct Last {
    generation: u64,
    sequence: u64,
    epoch: u64,
}

impl Check<'_, '_> {
    /// Walks a chain from the start of its segment.
    pub(super) fn chain(&mut self, chain: Chain, seen: &mut dyn FnMut(Link)) {
        let Chain { segment, end, .. } = chain;
        let mut at = 0;
        let mut last = Last::default();
        let mut gap: Option<Stretch> = None;
        let mut few = FEW;
        let mut window: Option<(u32, Buf)> = None;
        let mut doubted = None;
        while at < end {
            let held = window.as_ref().is_some_and(|(start, buf)| covers(*start, buf, at, end));
            if !held {
                let count = few.min(end - at);
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
                            gap.get_or_insert_with(|| stretch(segment, at, None, true));
                            at += 1;
                            few = FEW;
                        }
                        continue;
                    }
                }
            }
            let Some((start, buf)) = &window else { continue };
            let bytes = buf.get((at - start) as usize * BLOCK_SIZE..).unwrap_or(&[]);
            match self.header_of(chain, at, bytes, last) {
                Ok((header, entries)) => {
                    if let Some(mut gap) = gap.take() {
                        gap.end = at;
                        seen(Link::Gap(gap));
                    }
                    last = Last {
                        generation: header.generation,
                        sequence: header.sequence,
                        epoch: header.epoch,
                    };
                    let blocks = header.blocks();
                    few = if blocks < SMALL { MANY } else { FEW };
                    at += blocks;
                    seen(Link::Record(header, entries));
                }
                // Nothing is said of a header that was read once; in a gap there is none to be sure of.
                Err(_) if gap.is_none() && doubted != Some(at) => {
                    doubted = Some(at);
                    window = None;
                }
                Err(values) => {
                    gap.get_or_insert_with(|| stretch(segment, at, values, false));
                    few = MANY;
                    at += 1;
                }
            }
        }
        if let Some(mut gap) = gap.take() {
            gap.end = end;
            seen(Link::Gap(gap));
        }
    }

    /// The header at the start of `bytes`, or the checksums of what should be one.
    fn header_of(
        &self,
        chain: Chain,
        at: u32,
        bytes: &[u8],
        last: Last,
    ) -> Result<(Header, Vec<Entry>), Sums> {
        let addr = self.lane.segments.addr(chain.segment, at);
        let geometry = &self.lane.geometry;
        let (header, entries) = decode(bytes, addr, geometry.width, &geometry.csum).map_err(
            |invalid| match invalid {
                Invalid::Checksum { expected, got } => Some((expected, got)),
                _ => None,
            },
        )?;
        let generation = match chain.generation {
            Some(generation) => header.generation == generation,
            None => header.generation >= last.generation,
        };
        let ours = geometry.owns(&header, at)
            && header.segment == chain.segment
            && generation
            && header.sequence > last.sequence
            && header.epoch >= last.epoch;
        if ours { Ok((header, entries)) } else { Err(None) }
    }
}

/// Whether a window from `start` on shows the whole header at `at`.
fn covers(start: u32, buf: &[u8], at: u32, end: u32) -> bool {
    let behind = start + u32::try_from(buf.len() / BLOCK_SIZE).unwrap_or(0);
    if at < start || at >= behind {
        return false;
    }
    let bytes = buf.get((at - start) as usize * BLOCK_SIZE..).unwrap_or(&[]);
    let blocks = claimed_blocks(bytes).unwrap_or(1);
    // A window that begins here shows all that can be read.
    at == start || at + blocks <= behind || behind >= end
}

fn stretch(segment: u32, from: u32, values: Option<(u128, u128)>, unreadable: bool) -> Stretch {
    Stretch { segment, from, end: from, values, unreadable }
}
