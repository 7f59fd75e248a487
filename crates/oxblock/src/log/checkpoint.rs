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
//! the checkpoint frees, and no segment that it adds to the reserve list, is used before its superblock is durable in
//! both areas. If a crash comes first, the previous checkpoint still stands, and so does everything that it points to.

use crate::complete::flush::FlushWaiter;
use crate::device::{Action, Buf, Bufs, Done, Op};
use crate::error::{Error, ErrorKind};
use crate::format::layout::{
    BLOCK_BYTES, BLOCK_SIZE, MAX_RECORD_HEADER, MAX_RECORD_PAYLOAD, MAX_RESERVE,
};
use crate::format::pointer::{Pointer, identity};
use crate::format::record::{Entry, Kind};
use crate::format::superblock::{Checkpoint, Head, offsets};
use crate::lane::{Class, Lane, tag};
use crate::log::append::{Draft, STREAM_MAP};

/// Map records of a checkpoint in flight at once, so that requests are not crowded out.
const MAP_RECORDS: usize = 4;

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
    Writing { point: Checkpoint, appended: Option<u64>, chosen: Vec<u32>, left: u32 },
}

/// The checkpoint of a lane: the durable one, and the one under way.
#[derive(Debug)]
pub(crate) struct Point {
    /// What is durable.
    pub durable: Checkpoint,
    stage: Stage,
    /// Asked for, whatever else says.
    wanted: bool,
    /// The next one is the last: the volume is being closed.
    closing: bool,
    /// The epoch of this life of the volume is durable, so records may be written.
    begun: bool,
}

impl Point {
    /// The state after opening at `durable`, of which the epoch belongs to an earlier life.
    pub fn new(durable: Checkpoint) -> Self {
        Self { durable, stage: Stage::Idle, wanted: false, closing: false, begun: false }
    }

    /// True when no checkpoint is under way or asked for.
    pub fn idle(&self) -> bool {
        matches!(self.stage, Stage::Idle) && !self.wanted
    }
}

impl Lane {
    /// True when records may be written: the epoch of this life is durable. Until then only the checkpoint that makes it
    /// so after a replay writes any, always the same ones: were others among them, a second crash could leave records of
    /// this epoch behind that the next recovery, which begins the same epoch again, would take for its own.
    pub fn begun(&self) -> bool {
        self.point.begun && self.log.epoch == self.point.durable.epoch
    }

    /// Recovery has replayed a tail: the lane goes on in a new epoch, which the checkpoint that comes next makes durable.
    /// Until then nothing but that checkpoint may be written, which the caller sees to.
    pub fn begin_after_replay(&mut self) {
        self.log.epoch = self.point.durable.epoch + 1;
        self.point.begun = true;
        self.point.wanted = true;
    }

    /// The volume is being closed: cleaning comes to its end.
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

    fn abandon_point(&mut self) {
        self.point.stage = Stage::Idle;
        self.point.wanted = false;
    }

    fn maybe_begin(&mut self) -> bool {
        if self.geometry.read_only {
            return false;
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
        self.counters.checkpoints_begun += 1;
        self.map.freeze();
        self.segments.freeze();
        self.point.stage = Stage::Placing(Frozen {
            sequence: self.log.retired,
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

    /// Sends the next records of nodes, then the table.
    fn place_some(&mut self, mut frozen: Frozen) -> bool {
        let mut any = false;
        loop {
            let flying = self.log.records.iter().filter(|r| r.stream == STREAM_MAP).count();
            if flying >= MAP_RECORDS {
                break;
            }
            if self.map.unplaced() == 0 {
                if self.place_table(&mut frozen).is_none() {
                    self.out_of_space();
                    return any;
                }
                self.point.stage = Stage::Settling(frozen);
                return true;
            }
            match self.place_nodes() {
                Some(sequence) => frozen.wrote(sequence),
                None => {
                    self.out_of_space();
                    return any;
                }
            }
            any = true;
        }
        self.point.stage = Stage::Placing(frozen);
        any
    }

    /// The reserve that is kept for checkpoints was not enough, which is a fault of the accounting: stop before anything
    /// is lost. The previous checkpoint and the log stand.
    fn out_of_space(&mut self) {
        self.latched = Some(Error::new(
            ErrorKind::NoSpace,
            "no segment is left for a checkpoint; the volume takes no more writes until it is reopened",
        ));
    }

    /// Puts one record of map nodes into the log.
    fn place_nodes(&mut self) -> Option<u64> {
        let fit = self.prepare(STREAM_MAP, Kind::Map, 0)?;
        let count = fit.min(self.map.unplaced());
        let first = self.next_payload(STREAM_MAP, count);
        let (mut payload, rest) = self.map_payload(count);
        let mut entries = self.log.entries();
        for (addr, out) in (first..).zip(payload.chunks_exact_mut(BLOCK_SIZE)) {
            let csum = &self.geometry.csum;
            let placed = self.map.place(addr, out, &mut |id, data| csum.of(id, data));
            let Some(placed) = placed else { unreachable!("a node to place is missing") };
            self.segments.placed(placed.old, addr, placed.alive);
            entries.push(Entry { id: placed.key.identity(), csum: placed.csum, aux: 0 });
        }
        Some(self.append_map(entries, payload, rest))
    }

    /// Address that the first of `count` payload blocks of the stream's next record will have.
    fn next_payload(&self, stream: u8, count: usize) -> u64 {
        let Some(segment) = self.log.head(stream) else {
            unreachable!("stream {stream} has no segment")
        };
        let header =
            crate::format::record::header_blocks(Kind::Map, count, self.geometry.width) as u64;
        self.segments.addr(segment, self.segments.at(segment).written) + header
    }

    /// Memory for `count` nodes, and what it was cut from.
    fn map_payload(&mut self, count: usize) -> (Buf, Buf) {
        let mut payload = self.log.payload_buf();
        let rest = payload.split_off(count * BLOCK_SIZE);
        (payload, rest)
    }

    fn append_map(&mut self, entries: Vec<Entry>, payload: Buf, rest: Buf) -> u64 {
        self.counters.map_blocks += entries.len() as u64;
        let parts = self.log.parts();
        let payload: Bufs = smallvec::smallvec![payload];
        let (kind, stream) = (Kind::Map, STREAM_MAP);
        self.append(Draft {
            kind,
            stream,
            continues: false,
            durable: false,
            entries,
            parts,
            payload,
            rest: Some(rest),
            summing: None,
        })
    }

    /// Puts the changed blocks of the segment table into the log, and the pointers above them.
    fn place_table(&mut self, frozen: &mut Frozen) -> Option<()> {
        let opened: Vec<u32> = self.log.opened.iter().map(|(_, segment)| *segment).collect();
        self.segments.soil_frozen(&opened);
        let mut nodes = self.segments.take_frozen_dirty();
        // The table must name every segment that it is itself written into, so it goes into one, as a whole.
        let most = 2 * nodes.len() + usize::from(self.table.height()) * (MAX_RECORD_HEADER + 1);
        if (self.room(STREAM_MAP) as usize) < most {
            let id = self.open_next(STREAM_MAP)?;
            self.segments.soil_frozen(&[id]);
            nodes.extend(self.segments.take_frozen_dirty());
            nodes.sort_unstable();
            nodes.dedup();
        }
        for level in 0..self.table.height() {
            for some in nodes.chunks(MAX_RECORD_PAYLOAD) {
                let mut some = some;
                while !some.is_empty() {
                    let fit = self.prepare(STREAM_MAP, Kind::Map, 0)?;
                    let (now, later) = some.split_at(fit.min(some.len()));
                    frozen.wrote(self.place_table_nodes(level, now));
                    some = later;
                }
            }
            nodes = self.table.parents(&nodes);
        }
        Some(())
    }

    fn place_table_nodes(&mut self, level: u8, nodes: &[u32]) -> u64 {
        let first = self.next_payload(STREAM_MAP, nodes.len());
        let (mut payload, rest) = self.map_payload(nodes.len());
        let mut entries = self.log.entries();
        let places = (first..).zip(nodes);
        for ((addr, index), out) in places.zip(payload.chunks_exact_mut(BLOCK_SIZE)) {
            if level == 0 {
                use zerocopy::IntoBytes;
                let table = self.segments.table_entries(*index);
                out.fill(0);
                if let Some(target) = out.get_mut(..size_of_val(table.as_slice())) {
                    target.copy_from_slice(table.as_bytes());
                }
            } else {
                self.table.encode(level, *index, out);
            }
            let id = identity::node(true, level, u64::from(*index));
            let csum = self.geometry.csum.of(id, out);
            let old = self.table.set(level, *index as usize, Pointer { addr, csum });
            self.segments.table_moved(old.addr, addr);
            entries.push(Entry { id, csum, aux: 0 });
        }
        self.append_map(entries, payload, rest)
    }

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
        // Segments that records after the checkpoint opened, then those that may still be opened, then new ones: the
        // order in which recovery will meet them.
        let mut reserve: Vec<u32> = self
            .log
            .opened
            .iter()
            .filter(|(sequence, _)| *sequence > frozen.sequence)
            .map(|(_, segment)| *segment)
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

    fn write_superblock(&mut self, mut point: Checkpoint, appended: Option<u64>, chosen: Vec<u32>) {
        point.generation += 1;
        let mut superblock = self.geometry.superblock.clone();
        superblock.checkpoint = point.clone();
        let bytes = Buf::copy_of(&superblock.encode());
        let places = offsets(superblock.lane, point.generation, self.geometry.limits.size);
        for (copy, offset) in (0..).zip(places) {
            debug_assert!(offset.is_multiple_of(BLOCK_BYTES));
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
        self.point.stage = Stage::Writing { point, appended, chosen, left: 2 };
    }

    /// A copy of the superblock is on the media, or not.
    pub fn superblock_written(&mut self, done: Done) {
        if let Err(error) = done.result {
            self.latch_io("writing the superblock", error);
        }
        let stage = std::mem::replace(&mut self.point.stage, Stage::Idle);
        let Stage::Writing { point, appended, chosen, left } = stage else { return };
        if left > 1 {
            self.point.stage = Stage::Writing { point, appended, chosen, left: left - 1 };
            return;
        }
        if self.latched.is_some() {
            return;
        }
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
        while self.log.opened.front().is_some_and(|(opened, _)| *opened <= sequence) {
            self.log.opened.pop_front();
        }
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
