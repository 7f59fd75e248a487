//! A segment table that is lost or contradicts itself, made anew from the records of the segments and from the map.

use super::super::Check;
use super::super::chain::{Chain, Link};
use super::Stop;
use crate::format::segment::SegmentEntry;
use crate::log::segments::Segments;
use crate::map::Key;

impl Check<'_, '_> {
    /// Makes the segments of the checkpoint anew: how often each was opened and how far it is written from its records,
    /// what is live in it from the map.
    pub(super) fn rebuild_table(&mut self) -> Result<(), Stop> {
        let point = self.lane.point.durable.clone();
        let mut entries = self.scan_segments();
        let root = Key { level: self.lane.map.height() - 1, index: 0 };
        self.walk_nodes(root, true, &mut |check, key, media, pointers| {
            check.take_in(key, media, pointers);
        });
        let blocks = self.lane.segments.blocks();
        for (entry, live) in entries.iter_mut().zip(&self.live) {
            if *live > blocks {
                return Err(Stop::Refused("the map reaches more blocks than there are".into()));
            }
            entry.live = (*live).into();
        }
        let mut segments = Segments::new(entries, blocks.trailing_zeros());
        for head in point.heads.iter().flatten() {
            segments.set_open(head.segment, head.offset);
        }
        segments.set_reserve(&point.reserve);
        segments.settle();
        self.lane.segments = segments;
        Ok(())
    }

    fn scan_segments(&mut self) -> Vec<SegmentEntry> {
        let blocks = self.lane.segments.blocks();
        let count = self.lane.segments.count();
        let mut entries = vec![SegmentEntry::default(); count as usize];
        let mut highest = 0;
        let mut unknown = Vec::new();
        for (segment, entry) in (0..count).zip(&mut entries) {
            let mut at = 0;
            let chain = Chain { segment, generation: None, end: blocks };
            self.chain(chain, &mut |link| match link {
                Link::Gap(gap) => at = gap.end,
                Link::Record(header, _) => {
                    at += header.blocks();
                    entry.generation = header.generation.into();
                    entry.sealed = header.sequence.into();
                    entry.written = at.into();
                }
            });
            highest = highest.max(entry.generation.get());
            if entry.written.get() == 0 {
                unknown.push(segment);
            }
        }
        for segment in unknown {
            // Above all that may be there and cannot be seen.
            if let Some(entry) = entries.get_mut(segment as usize) {
                entry.generation = (highest + 1).into();
            }
        }
        entries
    }
}
