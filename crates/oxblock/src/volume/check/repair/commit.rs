//! Making a repair durable.

use std::time::Duration;

use super::super::Check;
use super::Stop;
use crate::error::Result;
use crate::format::layout::MAX_RESERVE;
use crate::log::append::STREAMS;
use crate::map::Key;

/// Segments for checkpoints beyond those that they are known to need.
const SPARE: usize = 8;

impl Check<'_, '_> {
    /// Counts anew what the map reaches, without reading data.
    pub(super) fn recount(&mut self) {
        self.live.fill(0);
        (self.mapped, self.gone, self.gone_run) = (0, 0, None);
        self.beyond.clear();
        let root = Key { level: self.lane.map.height() - 1, index: 0 };
        self.walk_nodes(root, true, &mut |check, key, media, pointers| {
            check.take_in(key, media, pointers);
        });
    }

    /// True when what was counted is what the segments and the map say, and nothing [lies](Self::find_beyond) where records
    /// will go.
    pub(super) fn counts_agree(&self) -> bool {
        let held = self.lane.segments.iter().zip(&self.live).all(|((_, segment), live)| {
            segment.live == *live
                && (*live == 0
                    || !matches!(
                        segment.state,
                        crate::log::segments::State::Free | crate::log::segments::State::Reserved
                    ))
        });
        let heads = (0..STREAMS).filter_map(|stream| self.lane.log.head(stream));
        let free = heads.into_iter().all(|head| !self.beyond.contains_key(&head));
        held && free && self.lane.map.mapped() == self.mapped
    }

    /// Replaces the account of live blocks by what was counted. Nothing goes where something lives: heads are sealed and
    /// segments are taken off the reserve list where that is so. `needed` are blocks that the old state may need.
    pub(super) fn take_counts(&mut self, needed: &[u64]) {
        let lane = &mut self.lane;
        let (retired, sequence) = (lane.log.retired, lane.point.durable.sequence);
        let mut segments = lane.segments.recounted(&self.live, retired);
        for addr in lane.table.addresses() {
            segments.table_moved(0, addr);
        }
        for stream in 0..STREAMS {
            let Some(head) = lane.log.head(stream) else { continue };
            if self.beyond.contains_key(&head) {
                lane.log.set_head(stream, None);
            } else {
                segments.set_open(head, lane.segments.at(head).written);
            }
        }
        let reserve: Vec<u32> =
            lane.segments.reserve().filter(|id| !segments.at(*id).holds_any()).collect();
        segments.set_reserve(&reserve);
        let old: Vec<u32> = needed.iter().map(|addr| segments.of(*addr)).collect();
        let tail: Vec<u32> = segments
            .iter()
            .filter(|(id, segment)| segment.sealed > sequence || old.contains(id))
            .map(|(id, _)| id)
            .collect();
        segments.settle_anew(&|id| tail.binary_search(&id).is_ok());
        lane.segments = segments;
        lane.map.set_mapped(self.mapped);
    }

    /// Makes the state in memory durable, under a new epoch, as recovery does.
    pub(super) fn commit(&mut self, rollback: bool) -> Result<(), Stop> {
        let wanted = (self.lane.checkpoint_segments() + SPARE).min(MAX_RESERVE / 2);
        self.lane.segments.fill_reserve(wanted);
        self.lane.begin_after_replay(rollback);
        self.drive()
    }

    /// Makes another checkpoint.
    pub(super) fn checkpoint(&mut self) -> Result<(), Stop> {
        self.lane.want_checkpoint();
        self.drive()
    }

    /// Runs the lane until nothing is under way.
    pub(super) fn drive(&mut self) -> Result<(), Stop> {
        let mut none = Vec::new();
        while self.lane.busy() {
            self.lane.submit();
            self.lane.poll(&mut none);
            if let Some(error) = self.lane.latched.clone() {
                return Err(Stop::Failed(error));
            }
            if self.lane.busy() {
                self.lane.wait(Some(Duration::from_millis(100)));
            }
        }
        Ok(())
    }
}
