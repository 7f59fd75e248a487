//! Checkpoints: a durable map root and segment table from which recovery replays.
//!
//! ```text
//! Idle ─► Placing ─► Settling ─► Flushing ─► Writing ─► Idle
//!   freeze    nodes and    all those     device     superblock,
//!             table go     records are   flush      both areas
//!             to the log   retired
//! ```
//!
//! It covers exactly the records up to the one that was last retired when it froze. Requests go on meanwhile: their
//! records take numbers among the checkpoint's own, and what they change is copied first where it is frozen. Nothing that
//! the checkpoint frees, and no segment that it adds to the reserve list, is used before its superblock is durable and
//! both writes of it have ended. If a crash comes first, the previous checkpoint still stands, and so does everything that it points to.

mod commit;
mod place;

#[cfg(feature = "canary")]
use crate::canary::{self, Canary};
use crate::complete::flush::FlushWaiter;
use crate::format::layout::ROLLBACK_LEAP;
use crate::format::pointer::identity;
use crate::format::superblock::{Checkpoint, Head};
use crate::lane::Lane;
use crate::log::append::STREAM_MAP;
use crate::map::Key;

/// Segments that make a refill of the reserve list worth a checkpoint.
pub(crate) const REFILL: usize = 4;

/// What the running checkpoint has noted.
#[derive(Debug)]
struct Frozen {
    sequence: u64,
    appended: u64,
    heads: Vec<Option<Head>>,
    used_blocks: u64,
    /// The last record of the checkpoint itself, and how many it has written.
    last: u64,
    own: u64,
    clean: bool,
}

impl Frozen {
    fn wrote(&mut self, sequence: u64) {
        self.last = sequence;
        self.own += 1;
    }
}

/// Where the running checkpoint is.
#[derive(Debug)]
enum Stage {
    Idle,
    Placing(Frozen),
    Settling(Frozen),
    Flushing(Frozen),
    Writing {
        point: Checkpoint,
        appended: Option<u64>,
        chosen: Vec<u32>,
        /// Copies under way.
        left: u32,
        /// One of the copies could not be written.
        failed: bool,
    },
}

/// The checkpoint of a lane: the durable one, and the one under way.
#[derive(Debug)]
pub(crate) struct Point {
    /// What is durable.
    pub durable: Checkpoint,
    stage: Stage,
    /// Asked for, whatever else says.
    wanted: bool,
    /// The last one was given up.
    again: bool,
    /// The next one is the last: the volume is being closed.
    closing: bool,
    /// The epoch of this life of the volume is durable, so records may be written.
    begun: bool,
}

impl Point {
    /// The state after opening at `durable`, of which the epoch belongs to an earlier life.
    pub fn new(durable: Checkpoint) -> Self {
        Self {
            durable,
            stage: Stage::Idle,
            wanted: false,
            again: false,
            closing: false,
            begun: false,
        }
    }

    /// True when no checkpoint is under way or asked for.
    pub fn idle(&self) -> bool {
        matches!(self.stage, Stage::Idle) && !self.wanted
    }
}

impl Lane {
    /// True when records may be written: the epoch of this life is durable. Until then only the checkpoint that makes it
    /// so after a replay writes any. A crash can leave them behind, and the next recovery begins the same epoch again: so
    /// that checkpoint covers its own records and leaps over more numbers than they can have.
    pub fn begun(&self) -> bool {
        self.point.begun && self.log.epoch == self.point.durable.epoch
    }

    /// Recovery has replayed a tail: the lane goes on in a new epoch, which the checkpoint that comes next makes durable.
    /// Until then nothing but that checkpoint may be written, which the caller sees to. After a `rollback` the lives that are
    /// given up may have had epochs of their own, whose superblocks are lost.
    pub fn begin_after_replay(&mut self, rollback: bool) {
        self.log.epoch = self.point.durable.epoch + if rollback { ROLLBACK_LEAP } else { 1 };
        self.point.begun = true;
        self.point.wanted = true;
    }

    /// The volume is being closed: cleaning comes to its end with the writes that are under way.
    pub fn begin_close(&mut self) {
        self.point.closing = true;
    }

    /// True from [`begin_close`](Self::begin_close) on.
    pub fn is_closing(&self) -> bool {
        self.point.closing
    }

    /// Asks for a checkpoint, whatever it would say.
    pub fn want_checkpoint(&mut self) {
        self.point.wanted = true;
    }

    /// Asks for a checkpoint if one could free anything; false when the last one says all that there is to say.
    pub fn try_checkpoint(&mut self) -> bool {
        self.point.wanted = self.point.durable.sequence != self.log.retired;
        self.point.wanted
    }

    /// Asks for the last checkpoint, if there is anything that it would say.
    pub fn want_last_checkpoint(&mut self) {
        let news = self.point.durable.sequence != self.log.retired
            || self.map.stats().dirty > 0
            || !self.point.durable.clean;
        self.point.wanted |= news && self.point.begun && self.latched.is_none();
    }

    /// Whether a checkpoint should begin now.
    fn point_due(&self) -> bool {
        if self.point.wanted {
            return true;
        }
        let tail = self.log.appended - self.log.appended_at_point;
        let refill = self.segments.free() + self.segments.pending();
        // A refill is worth a checkpoint when it brings several segments, or when writes would wait without it.
        let low = self.segments.reserved() <= self.reserve_kept() + REFILL
            && (refill >= REFILL
                || (self.segments.reserved() <= self.reserve_kept()
                    && (refill > 0 || self.walked_waits())));
        low || tail >= self.tuning.tail_blocks || self.map.stats().dirty >= self.map.dirty_target()
    }

    /// Takes the running checkpoint as far as it goes; true when anything was done.
    pub fn advance_point(&mut self) -> bool {
        if self.latched.is_some() {
            self.abandon_point();
            return false;
        }
        match std::mem::replace(&mut self.point.stage, Stage::Idle) {
            Stage::Idle => self.maybe_begin(),
            Stage::Placing(frozen) => self.place_some(frozen),
            Stage::Settling(frozen) => {
                let settled = self.log.retired >= frozen.last;
                let last = frozen.last;
                if settled {
                    self.map.settled();
                    self.point.stage = Stage::Flushing(frozen);
                    self.want_durable(last, FlushWaiter::Checkpoint);
                } else {
                    self.point.stage = Stage::Settling(frozen);
                }
                settled
            }
            other => {
                self.point.stage = other;
                false
            }
        }
    }

    /// A block of a map record lies at `addr`, where it may not be: what it holds must be written once more. Its old place
    /// counts until then as every place does that a node is moved from.
    pub fn misplaced(&mut self, id: u64, addr: u64) {
        let Some((table, level, index)) = identity::parse_node(id) else { return };
        if !table {
            self.map.misplaced(Key { level, index }, addr);
            return;
        }
        let place =
            usize::try_from(index).ok().and_then(|index| self.table.level(level).get(index));
        if place.is_some_and(|pointer| pointer.addr == addr) {
            // Writing any block of entries rewrites the pointers above it.
            let shift = self.geometry.width.fanout_shift() * u32::from(level);
            self.segments.rewrite_table(usize::try_from(index << shift).unwrap_or(usize::MAX));
        }
    }

    /// Records of the map go elsewhere, and parents hold the addresses that their nodes had: the checkpoint that placed
    /// them is begun anew. All records that are not lost are written by now, so what they hold may leave the cache.
    pub fn abort_point(&mut self) {
        match std::mem::replace(&mut self.point.stage, Stage::Idle) {
            Stage::Placing(_) | Stage::Settling(_) => {
                self.map.unfreeze();
                self.point.wanted = true;
                self.point.again = true;
                self.counters.checkpoints_aborted += 1;
            }
            // They are of one that was given up before.
            other => self.point.stage = other,
        }
    }

    fn abandon_point(&mut self) {
        self.point.stage = Stage::Idle;
        self.point.wanted = false;
    }

    fn maybe_begin(&mut self) -> bool {
        if self.geometry.read_only || self.log.elsewhere.holds() {
            return false;
        }
        if self.point.again {
            // Records of the one that was given up come first: then this one can cover all that there is, as the last
            // one does, and as recovery must.
            if self.log.records.iter().any(|record| record.stream == STREAM_MAP) {
                return false;
            }
            self.point.again = false;
        }
        if !self.point.begun {
            // The first write of this life: its epoch comes first.
            if self.writes.incoming.is_empty() && !self.point.wanted {
                return false;
            }
            let mut point = self.point.durable.clone();
            point.epoch += 1;
            point.clean = false;
            // Of the new epoch there is nothing yet.
            point.durable = point.sequence;
            self.write_superblock(point, None, Vec::new());
            return true;
        }
        // Only between records, and never inside an atomic group.
        let between = self.log.records.front().is_none_or(|r| r.applied == 0 && r.at == 0);
        if !between || !self.log.held.is_empty() || !self.point_due() {
            return false;
        }
        self.point.wanted = false;
        let clean = self.point.closing && self.log.records.is_empty();
        let heads = self.log.heads_after_retired(&self.segments);
        let sequence = self.log.retired;
        #[cfg(feature = "canary")]
        let sequence =
            if canary::is(Canary::CheckpointAhead) { self.log.next - 1 } else { sequence };
        self.counters.checkpoints_begun += 1;
        self.map.freeze();
        self.segments.freeze();
        self.point.stage = Stage::Placing(Frozen {
            sequence,
            appended: self.log.appended,
            heads,
            // A count that began too high must not make a superblock that nobody can open.
            used_blocks: self.map.mapped().min(self.geometry.blocks),
            last: self.log.retired,
            own: 0,
            clean,
        });
        true
    }
}

#[cfg(test)]
mod tests;
