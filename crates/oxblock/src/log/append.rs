//! Appending records: sequence numbers, streams, space.
//!
//! A lane has three append streams with one sequence over all of them. Data, relocated data and map nodes die at very
//! different rates, so each has segments of its own; cleaning then finds segments that are nearly empty instead of
//! segments in which everything is half alive. A stream takes its next segment from the front of the reserve list. So
//! segments are opened in the order of the sequence, except where a record has to go elsewhere (`elsewhere.rs`), and none
//! is far behind the last one that recovery has opened by then: [`REPLAY_WINDOW`].

use std::collections::VecDeque;

use crate::device::{Action, Buf, Bufs, Op};
use crate::format::layout::{
    BLOCK_SIZE, MAX_RECORD_HEADER, MAX_RECORD_PAYLOAD, REPLAY_WINDOW, SEGMENTS_PER_BLOCK,
};
use crate::format::pointer::PointerWidth;
use crate::format::record::{Entry, FLAG_CONTINUES, Header, Kind, encode, header_blocks};
use crate::format::superblock::Head;
use crate::lane::{Class, Lane, tag};
use crate::log::elsewhere::Elsewhere;
use crate::log::segments::Segments;
use crate::profile;
use crate::submit::sums::Summing;

/// Data, trims and zeroes of requests.
pub(crate) const STREAM_DATA: u8 = 0;
/// What cleaning moves.
pub(crate) const STREAM_RELOCATE: u8 = 1;
/// Map nodes and the segment table.
pub(crate) const STREAM_MAP: u8 = 2;
/// Streams of a lane.
pub(crate) const STREAMS: u8 = 3;

/// A share of a write request in a record.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part {
    /// The write, by its place in the table of writes.
    pub write: usize,
}

/// A record that is not retired yet.
#[derive(Debug)]
pub(crate) struct Record {
    pub sequence: u64,
    pub kind: Kind,
    pub stream: u8,
    /// The next record belongs to the same atomic request.
    pub continues: bool,
    /// Address of the header.
    pub addr: u64,
    pub header_blocks: u32,
    pub entries: Vec<Entry>,
    /// Whose payload this is, in order, one buffer each; for ranges, one entry each.
    pub parts: Vec<Part>,
    /// The device write is done.
    pub written: bool,
    /// The device write has failed: it goes elsewhere.
    pub lost: bool,
    /// It was written durably.
    pub durable: bool,
    /// Entries applied so far.
    pub applied: usize,
    /// Progress within a range entry.
    pub at: u64,
    /// Map nodes that applying it may dirty.
    pub soils: usize,
    /// Header and payload, once written.
    pub bufs: Bufs,
    /// What a payload of the lane's own was cut from.
    pub rest: Option<Buf>,
    /// Workers compute its checksums; it is not sent yet.
    pub summing: Option<Summing>,
}

impl Record {
    /// Address of payload block `index`.
    pub fn payload(&self, index: usize) -> u64 {
        self.addr + u64::from(self.header_blocks) + index as u64
    }

    /// True when the record opened its segment.
    pub fn opens(&self, segments: &Segments) -> bool {
        segments.offset(self.addr) == 0
    }
}

/// A segment that was opened since the durable checkpoint.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Opened {
    /// The record that did.
    pub sequence: u64,
    pub segment: u32,
    /// That record has gone elsewhere: recovery never opens the segment.
    pub left: bool,
}

/// The log's position and what is in flight.
#[derive(Debug)]
pub(crate) struct Log {
    pub epoch: u64,
    /// Sequence number of the next record.
    pub next: u64,
    /// All records up to this one are applied.
    pub retired: u64,
    /// All records up to this one are on stable media.
    pub durable: u64,
    /// Records of an atomic group that are applied, and wait for its end to retire with it.
    pub held: VecDeque<Record>,
    /// Map nodes that records in flight may yet dirty.
    pub soiling: usize,
    /// The open segment of each stream.
    pub heads: [Option<u32>; STREAMS as usize],
    /// Data records whose device write is not done.
    pub flying: usize,
    /// Records that wait for checksums from workers.
    pub summing: usize,
    /// Records that are not retired, in order of sequence.
    pub records: VecDeque<Record>,
    /// Segments opened since the durable checkpoint, in the order in which that was.
    pub opened: VecDeque<Opened>,
    /// What goes elsewhere, because its write has failed.
    pub elsewhere: Elsewhere,
    /// Blocks appended since the lane was opened.
    pub appended: u64,
    /// `appended` at the sequence number of the last checkpoint.
    pub appended_at_point: u64,
    /// Header buffers to use again, by their length in blocks.
    spare: [Vec<Buf>; MAX_RECORD_HEADER],
    /// Vectors to use again.
    spare_entries: Vec<Vec<Entry>>,
    spare_parts: Vec<Vec<Part>>,
    /// Payloads of the lane's own to use again, each large enough for any record.
    spare_payloads: Vec<Buf>,
}

impl Log {
    pub fn new(epoch: u64, sequence: u64) -> Self {
        Self {
            epoch,
            next: sequence + 1,
            retired: sequence,
            durable: sequence,
            held: VecDeque::new(),
            soiling: 0,
            heads: [None; STREAMS as usize],
            flying: 0,
            summing: 0,
            records: VecDeque::new(),
            opened: VecDeque::new(),
            elsewhere: Elsewhere::default(),
            appended: 0,
            appended_at_point: 0,
            spare: Default::default(),
            spare_entries: Vec::new(),
            spare_parts: Vec::new(),
            spare_payloads: Vec::new(),
        }
    }

    pub fn head(&self, stream: u8) -> Option<u32> {
        self.heads.get(usize::from(stream)).copied().flatten()
    }

    pub fn set_head(&mut self, stream: u8, segment: Option<u32>) {
        if let Some(head) = self.heads.get_mut(usize::from(stream)) {
            *head = segment;
        }
    }

    /// The record of a sequence number that is not retired yet.
    pub fn record_mut(&mut self, sequence: u64) -> Option<&mut Record> {
        let first = self.records.front()?.sequence;
        self.records.get_mut(usize::try_from(sequence.checked_sub(first)?).ok()?)
    }

    pub fn entries(&mut self) -> Vec<Entry> {
        self.spare_entries.pop().unwrap_or_default()
    }

    pub fn parts(&mut self) -> Vec<Part> {
        self.spare_parts.pop().unwrap_or_default()
    }

    /// Memory for the largest payload, for records that the lane itself fills.
    pub fn payload_buf(&mut self) -> Buf {
        self.spare_payloads.pop().unwrap_or_else(|| Buf::new(MAX_RECORD_PAYLOAD * BLOCK_SIZE))
    }

    /// Takes back what [`payload_buf`](Self::payload_buf) gave, in its two parts.
    pub fn recycle_payload(&mut self, mut payload: Buf, rest: Buf) {
        const KEEP: usize = 8;
        if self.spare_payloads.len() < KEEP && payload.join(rest).is_ok() {
            self.spare_payloads.push(payload);
        }
    }

    /// Segments that were opened behind the last one of which recovery would know by the record that is retired last.
    pub fn opened_ahead(&self) -> usize {
        let known = |opened: &&Opened| !opened.left && opened.sequence <= self.retired;
        self.opened.iter().rev().take_while(|opened| !known(opened)).count()
    }

    fn header_buf(&mut self, blocks: usize) -> Buf {
        let spare = self.spare.get_mut(blocks - 1).and_then(Vec::pop);
        spare.unwrap_or_else(|| Buf::new(blocks * BLOCK_SIZE))
    }

    /// Takes the vectors and the header of a retired record back for the next ones.
    pub fn recycle(&mut self, record: &mut Record, header: Option<Buf>) {
        const KEEP: usize = 64;
        let mut entries = std::mem::take(&mut record.entries);
        let mut parts = std::mem::take(&mut record.parts);
        if self.spare_entries.len() < KEEP {
            entries.clear();
            self.spare_entries.push(entries);
            parts.clear();
            self.spare_parts.push(parts);
        }
        if let Some(header) = header
            && let Some(spare) = self.spare.get_mut((header.len() / BLOCK_SIZE).wrapping_sub(1))
            && spare.len() < KEEP
        {
            spare.push(header);
        }
    }

    /// Where each stream goes on after the last retired record. A stream whose next record opens a segment has no head:
    /// recovery finds that segment on the reserve list.
    pub fn heads_after_retired(&self, segments: &Segments) -> Vec<Option<Head>> {
        (0..STREAMS)
            .map(|stream| match self.records.iter().find(|record| record.stream == stream) {
                Some(record) if record.opens(segments) => None,
                Some(record) => Some(Head {
                    segment: segments.of(record.addr),
                    offset: segments.offset(record.addr),
                }),
                None => self
                    .head(stream)
                    .map(|segment| Head { segment, offset: segments.at(segment).written }),
            })
            .collect()
    }
}

/// The most payload blocks of a record that fits into `room` blocks.
pub(crate) fn payload_that_fits(kind: Kind, room: u32, width: PointerWidth) -> usize {
    let room = room as usize;
    let mut payload = room.saturating_sub(1).min(MAX_RECORD_PAYLOAD);
    while payload > 0 && payload + header_blocks(kind, payload, width) > room {
        payload -= 1;
    }
    payload
}

/// What a record consists of, before it has its place.
pub(crate) struct Draft {
    pub kind: Kind,
    pub stream: u8,
    pub continues: bool,
    /// Write durably.
    pub durable: bool,
    pub entries: Vec<Entry>,
    pub parts: Vec<Part>,
    /// The payload, in the order of the entries.
    pub payload: Bufs,
    /// What the payload was cut from, if it is from [`Log::payload_buf`].
    pub rest: Option<Buf>,
    /// The payload, when workers compute its checksums.
    pub summing: Option<Summing>,
}

impl Lane {
    /// Blocks left in the open segment of a stream.
    pub fn room(&self, stream: u8) -> u32 {
        let written = self.log.head(stream).map(|id| self.segments.at(id).written);
        written.map_or(0, |written| self.segments.blocks() - written)
    }

    /// Segments that checkpoints need: this one and, after a crash in the middle of it, recovery's.
    pub fn checkpoint_segments(&self) -> usize {
        let stats = self.map.stats();
        let table = self.segments.count() as usize / SEGMENTS_PER_BLOCK + 2;
        let blocks = 2 * (stats.dirty + stats.frozen + table) + 64;
        blocks.div_ceil(self.segments.blocks() as usize) + 1
    }

    /// Segments of the reserve list that requests may not open: they are for checkpoints and for cleaning.
    /// One more is for the end of an atomic request that begins in the last segment which may be opened: a segment must
    /// never be opened without a record that goes there at once, since recovery expects both in the same order.
    pub fn reserve_kept(&self) -> usize {
        self.checkpoint_segments() + 3
    }

    /// Whether a stream may open another segment and still leave the others what they need to make progress.
    pub fn may_open(&self, stream: u8) -> bool {
        let keep = match stream {
            STREAM_MAP => 0,
            STREAM_RELOCATE => self.checkpoint_segments(),
            _ => self.checkpoint_segments() + 2,
        };
        // What goes elsewhere must still be within reach of recovery.
        let near = stream == STREAM_MAP || self.log.opened_ahead() < REPLAY_WINDOW / 2;
        self.segments.reserved() > keep && near
    }

    /// The most map nodes that applying a record dirties.
    fn soils(&self, kind: Kind, entries: &[Entry]) -> usize {
        let shift = self.geometry.width.fanout_shift();
        let leaves = match kind {
            Kind::Data | Kind::Relocate => {
                let mut last = u64::MAX;
                let mut changes = |entry: &&Entry| {
                    std::mem::replace(&mut last, entry.id >> shift) != entry.id >> shift
                };
                entries.iter().filter(|entry| changes(entry)).count()
            }
            Kind::Trim | Kind::Zero => self.map.record_leaves(),
            Kind::Map | Kind::Pad => return 0,
        };
        leaves * usize::from(self.map.height())
    }

    /// Whether the map's cache has room for what another record dirties. Records are held back here, before they are
    /// written, because retirement must never wait for a checkpoint: the checkpoint waits for it.
    fn map_has_room(&self) -> bool {
        let (limit, stats) = (self.map.dirty_limit(), self.map.stats());
        // A checkpoint that is begun anew has more to place than a first one.
        let more = stats.frozen.saturating_sub(limit);
        stats.dirty + more + self.log.soiling < limit || self.map.most_nodes() <= limit
    }

    /// Makes sure that a record with some payload fits into the stream's open segment; opens the next one if need be
    /// and allowed. Returns how many payload blocks fit, or `None` when there is no space now.
    pub fn prepare(&mut self, stream: u8, kind: Kind, entries: usize) -> Option<usize> {
        // The end of an atomic group cannot wait.
        let group = self.log.records.back().is_some_and(|record| record.continues);
        if stream != STREAM_MAP && !group && !self.map_has_room() {
            return None;
        }
        let width = self.geometry.width;
        let fits = |room: u32| {
            if kind.has_payload() {
                payload_that_fits(kind, room, width)
            } else if header_blocks(kind, entries, width) <= room as usize {
                entries
            } else {
                0
            }
        };
        let fit = fits(self.room(stream));
        if fit > 0 {
            return Some(fit);
        }
        let kept = stream == STREAM_DATA && !group;
        if !self.may_open(stream) || kept && self.segments.reserved() <= self.reserve_kept() {
            return None;
        }
        self.open_next(stream)?;
        Some(fits(self.segments.blocks()))
    }

    /// Opens the next segment for a stream, whatever room is left in its present one. A record of the stream must follow
    /// before any other.
    pub fn open_next(&mut self, stream: u8) -> Option<u32> {
        let id = self.segments.open()?;
        if let Some(old) = self.log.head(stream) {
            self.segments.seal(old);
        }
        self.log.set_head(stream, Some(id));
        self.log.opened.push_back(Opened { sequence: self.log.next, segment: id, left: false });
        Some(id)
    }

    /// Gives a drafted record its sequence number and its place and sends it. The stream's open segment has room for it.
    pub fn append(&mut self, draft: Draft) -> u64 {
        let Draft { kind, stream, continues, durable, entries, parts, payload, rest, summing } =
            draft;
        let Some(segment) = self.log.head(stream) else {
            unreachable!("append to stream {stream} without a segment")
        };
        let header_len = header_blocks(kind, entries.len(), self.geometry.width);
        let header_blocks = u32::try_from(header_len).unwrap_or(u32::MAX);
        let payload_blocks = if kind.has_payload() { entries.len() } else { 0 };
        let payload_blocks = u32::try_from(payload_blocks).unwrap_or(u32::MAX);
        let addr = self.segments.addr(segment, self.segments.at(segment).written);
        let soils = self.soils(kind, &entries);
        self.log.soiling += soils;
        let sequence = self.log.next;
        self.log.next += 1;
        self.segments.append(segment, header_blocks + payload_blocks, sequence);
        self.log.appended += u64::from(header_blocks + payload_blocks);
        self.counters.records += 1;
        self.counters.atomic_groups += u64::from(continues);
        self.counters.log_blocks += u64::from(header_blocks + payload_blocks);
        if stream != STREAM_RELOCATE {
            self.pace_spend(u64::from(header_blocks + payload_blocks));
        }

        self.log.flying += usize::from(stream == STREAM_DATA);
        self.log.records.push_back(Record {
            sequence,
            kind,
            stream,
            continues,
            addr,
            header_blocks,
            entries,
            parts,
            written: false,
            lost: false,
            durable,
            applied: 0,
            at: 0,
            soils,
            bufs: Bufs::new(),
            rest,
            summing,
        });
        match self.log.records.back() {
            Some(record) if record.summing.is_some() => self.log.summing += 1,
            _ => self.send_record(sequence, payload),
        }
        sequence
    }

    /// Encodes the header of a record that has all its checksums, and sends it.
    pub fn send_record(&mut self, sequence: u64, payload: Bufs) {
        let Some(record) = self.log.record_mut(sequence) else {
            unreachable!("record {sequence} is not in the log")
        };
        let entries = std::mem::take(&mut record.entries);
        let (kind, stream, continues) = (record.kind, record.stream, record.continues);
        let (addr, durable) = (record.addr, record.durable);
        let payload_blocks = if kind.has_payload() { entries.len() } else { 0 };
        let header_len = header_blocks(kind, entries.len(), self.geometry.width);
        let segment = self.segments.of(addr);
        let mut header = self.log.header_buf(header_len);
        encode(
            &Header {
                kind,
                stream,
                flags: if continues { FLAG_CONTINUES } else { 0 },
                header_blocks: u16::try_from(header_len).unwrap_or(u16::MAX),
                payload_blocks: u32::try_from(payload_blocks).unwrap_or(u32::MAX),
                entries: u32::try_from(entries.len()).unwrap_or(u32::MAX),
                volume: self.geometry.superblock.volume,
                lane: self.geometry.superblock.lane,
                sequence,
                epoch: self.log.epoch,
                durable: self.log.durable,
                addr,
                segment,
                generation: self.segments.at(segment).generation,
            },
            &entries,
            self.geometry.width,
            &self.geometry.csum,
            &mut header,
        );
        let mut bufs = Bufs::with_capacity(1 + payload.len());
        bufs.push(header);
        bufs.extend(payload);
        assert_eq!(
            bufs.iter().map(|buf| buf.len()).sum::<usize>(),
            (header_len + payload_blocks) * BLOCK_SIZE,
            "record {sequence} is not as long as its header says"
        );
        let latched = self.latched.is_some();
        let failed = self.segments.at(segment).failed;
        let Some(record) = self.log.record_mut(sequence) else {
            unreachable!("record {sequence} is not in the log")
        };
        record.entries = entries;
        if latched || failed {
            // It was with workers when the lane was latched, and nothing is written any more; or when a write before it
            // failed, and it goes elsewhere with that.
            record.bufs = bufs;
            record.written = latched;
            record.lost = !latched;
            self.log.elsewhere.lost += usize::from(!latched);
            self.log.flying -= usize::from(stream == STREAM_DATA);
            return;
        }
        let (device, offset) = profile::locate(&self.geometry.superblock, addr);
        self.queue.push(Op {
            tag: tag(Class::Record, sequence),
            device,
            offset,
            action: Action::Write { bufs, durable },
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_takes_as_much_as_fits_and_no_more() {
        for width in [PointerWidth::Narrow, PointerWidth::Wide] {
            for kind in [Kind::Data, Kind::Map, Kind::Relocate] {
                for room in 0..300 {
                    let fits =
                        |payload| payload + header_blocks(kind, payload, width) <= room as usize;
                    let payload = payload_that_fits(kind, room, width);
                    assert!(payload == 0 || fits(payload), "{payload} do not fit into {room}");
                    assert!(payload == MAX_RECORD_PAYLOAD || !fits(payload + 1), "{room}");
                }
            }
        }
    }
}
