//! Committing: the superblock that makes a checkpoint stand, and what may be used again once it does.

use super::Stage;
use crate::device::{Action, Buf, Done, Op};
use crate::format::layout::{BLOCK_BYTES, MAX_RESERVE, REPLAY_LEAP};
use crate::format::superblock::{Checkpoint, offsets};
use crate::lane::{Class, Lane, tag};
use crate::log::segments::State;

impl Lane {
    /// Everything that the checkpoint points to is durable: now the superblock.
    pub fn point_flushed(&mut self) {
        let stage = std::mem::replace(&mut self.point.stage, Stage::Idle);
        let Stage::Flushing(mut frozen) = stage else { return };
        if self.latched.is_some() {
            return;
        }
        if self.log.next - 1 == frozen.last && frozen.last - frozen.sequence == frozen.own {
            // Nothing came in between: the checkpoint covers its own records too, and recovery finds no tail at all.
            frozen.sequence = frozen.last;
            frozen.heads = self.log.heads_after_retired(&self.segments);
            frozen.appended = self.log.appended;
        } else {
            frozen.clean = false;
        }
        assert!(self.log.durable >= frozen.last, "a checkpoint ahead of what is durable");
        if !self.begun() {
            // After a replay. An interrupted recovery before this one may have left records of the same epoch.
            assert_eq!(frozen.sequence, self.log.next - 1, "recovery covers what it has written");
            frozen.sequence += REPLAY_LEAP;
            self.log.next = frozen.sequence + 1;
            self.log.retired = frozen.sequence;
            self.log.durable = frozen.sequence;
        }
        for head in &mut frozen.heads {
            // Nothing of what follows the checkpoint is in a segment that was left without another record: it may be free.
            let left = head
                .as_ref()
                .map(|head| self.segments.at(head.segment))
                .is_some_and(|at| at.state != State::Open && at.sealed <= frozen.sequence);
            if left {
                *head = None;
            }
        }
        // Segments that records after the checkpoint opened, then those that may still be opened, then new ones: the
        // order in which they were opened, and will be.
        let mut reserve: Vec<u32> = self
            .log
            .opened
            .iter()
            .filter(|opened| opened.sequence > frozen.sequence && !opened.left)
            .map(|opened| opened.segment)
            .collect();
        reserve.extend(self.segments.reserve());
        let wanted = self.reserve_target().saturating_sub(self.segments.reserved());
        let wanted = wanted.min(MAX_RESERVE - reserve.len());
        let chosen = self.segments.choose_reserve(wanted, frozen.sequence);
        reserve.extend(&chosen);
        let point = Checkpoint {
            generation: self.point.durable.generation,
            epoch: self.log.epoch,
            sequence: frozen.sequence,
            durable: self.log.durable,
            map_height: self.map.height(),
            map_root: self.map.frozen_root(),
            table_height: self.table.height(),
            table_root: self.table.root(),
            heads: frozen.heads,
            reserve,
            used_blocks: frozen.used_blocks,
            clean: frozen.clean,
            checksum_errors: self.checksum_errors(),
        };
        self.write_superblock(point, Some(frozen.appended), chosen);
    }

    /// Segments that the reserve list should name: twice what a tail takes, and what checkpoints need.
    fn reserve_target(&self) -> usize {
        let segment = u64::from(self.segments.blocks());
        let tail = usize::try_from(2 * self.tuning.tail_blocks / segment).unwrap_or(0);
        (tail + self.checkpoint_segments() + 8).min(MAX_RESERVE / 2)
    }

    pub(super) fn write_superblock(
        &mut self,
        mut point: Checkpoint,
        appended: Option<u64>,
        chosen: Vec<u32>,
    ) {
        point.generation += 1;
        let mut superblock = self.geometry.superblock.clone();
        superblock.checkpoint = point.clone();
        let bytes = superblock.encode();
        let places = offsets(superblock.lane, point.generation, self.geometry.limits.size);
        for (copy, offset) in (0..).zip(places) {
            self.queue.push(Op {
                tag: tag(Class::Superblock, copy),
                device: 0,
                offset,
                action: Action::Write {
                    bufs: smallvec::smallvec![Buf::copy_of(&bytes)],
                    durable: true,
                },
            });
        }
        self.point.stage = Stage::Writing { point, appended, chosen, left: 2, failed: false };
    }

    /// A copy of the superblock is on the media, or not. One is enough: the newest valid copy counts, and the slot that the
    /// next one overwrites is the other.
    pub fn superblock_written(&mut self, done: Done) {
        let stage = std::mem::replace(&mut self.point.stage, Stage::Idle);
        let Stage::Writing { point, appended, chosen, left, mut failed } = stage else { return };
        if let Err(error) = done.result {
            self.counters.failed_writes += 1;
            if failed {
                self.latch_io("writing the superblock", error);
            } else if self.counters.single_superblocks == 0 {
                // Once: an area may fail for good, and a volume may be open for years.
                let (copy, generation) = (done.tag & 1, point.generation);
                self.notices.push(format!(
                    "copy {copy} of superblock {generation} could not be written ({error}); the other copy counts, and \
                     the next checkpoint writes both"
                ));
            }
            failed = true;
        }
        if left > 1 {
            let left = left - 1;
            self.point.stage = Stage::Writing { point, appended, chosen, left, failed };
            return;
        }
        if self.latched.is_some() {
            return;
        }
        self.counters.single_superblocks += u64::from(failed);
        self.point_durable(point, appended, chosen);
    }

    /// The checkpoint stands: what it freed may be used again.
    fn point_durable(&mut self, point: Checkpoint, appended: Option<u64>, chosen: Vec<u32>) {
        self.log.epoch = point.epoch;
        self.point.begun = true;
        let sequence = point.sequence;
        self.point.durable = point;
        let Some(appended) = appended else { return };
        self.counters.checkpoints += 1;
        self.log.appended_at_point = appended;
        self.log.opened.retain(|opened| opened.sequence > sequence);
        self.segments.extend_reserve(chosen);
        for segment in self.segments.reap_pending(sequence) {
            let enough = self.segments.warm() >= self.tuning.warm_segments;
            if self.geometry.limits.discard && enough {
                self.discard(segment);
            } else {
                self.segments.release(segment, false);
            }
        }
    }

    /// Gives a freed segment's space back to the device.
    fn discard(&mut self, segment: u32) {
        let (device, offset) =
            crate::profile::locate(&self.geometry.superblock, self.segments.addr(segment, 0));
        let len = u64::from(self.segments.blocks()) * BLOCK_BYTES;
        self.queue.push(Op {
            tag: tag(Class::Discard, u64::from(segment)),
            device,
            offset,
            action: Action::Discard { len },
        });
    }

    /// A segment's discard is done. That it failed changes nothing: the content was free already.
    pub fn discarded(&mut self, segment: u64) {
        self.segments.release(u32::try_from(segment).unwrap_or(u32::MAX), true);
    }
}
