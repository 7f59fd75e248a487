//! A failed write of the log goes elsewhere, and nobody notices.
//!
//! A record whose device write failed is *lost*. While any is, nothing is appended. When all writes of the log that are
//! under way have ended, the lost record, and those behind it in its segment, go to a fresh segment: with the same numbers
//! and contents, in order, under new headers. They are not retired, since retirement goes by number, so nothing points to
//! their old places, with one exception: parents hold the addresses of nodes. So when records of the map go elsewhere their
//! content is of no use there, they only keep the sequence whole, and the checkpoint is begun anew.
//!
//! Of what the old place holds, nothing counts. It may be all of a record, for a write may have failed and reached the media:
//! then both places hold the same, and recovery goes by the one that was opened last.
//!
//! A record that was lost in [`PLACES`] segments latches the lane, and so does one for which no segment of the reserve list is
//! left: only a checkpoint could name more.

use std::io;

#[cfg(feature = "canary")]
use crate::canary::{self, Canary};
use crate::device::Bufs;
use crate::format::layout::{BLOCK_SIZE, REPLAY_WINDOW};
use crate::format::record::Kind;
use crate::lane::Lane;
use crate::log::append::{Opened, STREAM_DATA, STREAM_MAP, STREAM_RELOCATE};

/// Segments in which a record is tried.
pub(crate) const PLACES: u32 = 4;

/// What goes elsewhere.
#[derive(Debug, Default)]
pub(crate) struct Elsewhere {
    /// Records whose write has failed, and that are not sent again yet.
    pub lost: usize,
    /// Why the last of them failed.
    error: Option<io::Error>,
    /// The first record that was lost when some were sent again, and how often it has been.
    first: u64,
    tries: u32,
}

impl Elsewhere {
    /// Nothing may be appended: what is lost goes first.
    pub fn holds(&self) -> bool {
        self.lost > 0
    }
}

impl Lane {
    /// The device write of a record has failed.
    pub fn record_failed(&mut self, sequence: u64, bufs: Bufs, error: io::Error) {
        self.counters.failed_writes += 1;
        let Some(record) = self.log.record_mut(sequence) else {
            unreachable!("record {sequence} is not in the log")
        };
        let (addr, stream) = (record.addr, record.stream);
        record.bufs = bufs;
        // Latched: nothing is written any more, and its requests are told so.
        record.written = self.latched.is_some();
        record.lost = self.latched.is_none();
        self.log.flying -= usize::from(stream == STREAM_DATA);
        if self.latched.is_none() {
            self.log.elsewhere.lost += 1;
            self.segments.set_failed(self.segments.of(addr));
            if self.log.elsewhere.error.replace(error).is_none() {
                self.notices.push("a write of the log has failed and went elsewhere".into());
            }
        }
    }

    /// Sends what is lost to other segments once nothing of the log is under way; true when anything was done.
    pub fn go_elsewhere(&mut self) -> bool {
        if !self.log.elsewhere.holds() {
            return false;
        }
        if self.latched.is_some() {
            self.leave_lost();
            return true;
        }
        if !self.log.records.iter().all(|record| record.written || record.lost) {
            return false;
        }
        // Each segment with the first record that it has lost.
        let mut places: Vec<(u32, u64)> = Vec::new();
        for record in self.log.records.iter().filter(|record| record.lost) {
            let segment = self.segments.of(record.addr);
            if !places.iter().any(|(known, _)| *known == segment) {
                places.push((segment, record.sequence));
            }
        }
        let first = places.first().map_or(0, |(_, first)| *first);
        let elsewhere = &mut self.log.elsewhere;
        elsewhere.tries = if first == elsewhere.first { elsewhere.tries + 1 } else { 1 };
        elsewhere.first = first;
        let tired = elsewhere.tries >= PLACES;
        let mut possible = !tired;
        let mut nodes = false;
        for (segment, first) in places {
            possible = possible && self.move_records(segment, first, &mut nodes);
        }
        if !possible {
            let error = self.log.elsewhere.error.take();
            let doing = match tired {
                true => "writing the log",
                false => "finding another place for the log until the next checkpoint",
            };
            self.latch_io(doing, error.unwrap_or_else(|| io::Error::other("lost")));
            self.leave_lost();
            return true;
        }
        if nodes {
            self.abort_point();
        }
        true
    }

    /// The lane is latched: what is lost stays so, and its requests are told.
    fn leave_lost(&mut self) {
        for record in &mut self.log.records {
            record.written |= std::mem::take(&mut record.lost);
        }
        self.log.elsewhere.lost = 0;
    }

    /// Sends the records of the segment `old` from `first` on to another one; false when there is none.
    fn move_records(&mut self, old: u32, first: u64, nodes: &mut bool) -> bool {
        let in_old = self
            .log
            .records
            .iter()
            .filter(|record| record.sequence >= first && self.segments.of(record.addr) == old);
        #[cfg(feature = "canary")]
        let in_old = in_old.filter(|record| record.lost || !canary::is(Canary::LeaveBehind));
        let moved: Vec<(u64, u8)> = in_old.map(|record| (record.sequence, record.stream)).collect();
        let Some(stream) = moved.first().map(|(_, stream)| *stream) else { return true };
        // Checkpoints keep what they need once. They have reserved twice that: for themselves, and for recovery after a
        // crash in the middle of them.
        let keep = if stream == STREAM_MAP { 0 } else { self.checkpoint_segments().div_ceil(2) };
        if self.segments.reserved() <= keep || self.log.opened_ahead() >= REPLAY_WINDOW {
            return false;
        }
        let Some(fresh) = self.segments.open() else { return false };
        *nodes |= stream == STREAM_MAP;
        self.log.opened.push_back(Opened { sequence: first, segment: fresh, left: false });
        for (sequence, _) in moved {
            self.move_record(sequence, fresh);
        }
        if self.log.head(stream) == Some(old) {
            self.segments.seal(old);
            self.log.set_head(stream, Some(fresh));
        } else {
            // The stream has gone on already, and what follows is there.
            self.segments.seal(fresh);
        }
        true
    }

    /// Sends one record again, behind what is in the segment `fresh` by now.
    fn move_record(&mut self, sequence: u64, fresh: u32) {
        let addr = self.segments.addr(fresh, self.segments.at(fresh).written);
        let Some(record) = self.log.record_mut(sequence) else {
            unreachable!("record {sequence} is not in the log")
        };
        let old = std::mem::replace(&mut record.addr, addr);
        record.written = false;
        let lost = std::mem::take(&mut record.lost);
        let mut payload = std::mem::take(&mut record.bufs);
        // The header is encoded anew.
        payload.remove(0);
        let bytes: usize = payload.iter().map(|buf| buf.len()).sum();
        let first = old + u64::from(record.header_blocks);
        let blocks = record.header_blocks + u32::try_from(bytes / BLOCK_SIZE).unwrap_or(u32::MAX);
        let stream = record.stream;
        let placed: Vec<u64> = match record.kind {
            Kind::Map => record.entries.iter().map(|entry| entry.id).collect(),
            _ => Vec::new(),
        };
        for (addr, id) in (first..).zip(placed) {
            self.misplaced(id, addr);
        }
        if self.segments.offset(old) == 0 {
            let left = self.segments.of(old);
            let mut opened = self.log.opened.iter_mut();
            if let Some(opened) = opened.find(|opened| opened.segment == left) {
                opened.left = true;
            }
        }
        self.log.elsewhere.lost -= usize::from(lost);
        self.log.flying += usize::from(stream == STREAM_DATA);
        self.segments.append(fresh, blocks, sequence);
        self.log.appended += u64::from(blocks);
        self.counters.log_blocks += u64::from(blocks);
        *match stream {
            STREAM_DATA => &mut self.counters.resent_data,
            STREAM_RELOCATE => &mut self.counters.resent_relocations,
            _ => &mut self.counters.resent_nodes,
        } += 1;
        self.send_record(sequence, payload);
    }
}
