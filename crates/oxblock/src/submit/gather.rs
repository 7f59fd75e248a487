//! Gathering: queued writes leave together in one record.
//!
//! While device writes are in flight, later requests pile up and leave with the next record (group commit, no timer). A
//! request that does not fit into what is left of a segment is cut there; if it was promised to be atomic, the record is
//! marked so that recovery takes both or none, and nothing else gets a sequence number in between.

use smallvec::SmallVec;

use crate::device::Bufs;
use crate::format::layout::{BLOCK_SIZE, MAX_RECORD_PAYLOAD};
use crate::format::pointer::PointerWidth;
use crate::format::record::{Entry, Kind};
use crate::lane::Lane;
use crate::log::append::{Draft, Part, STREAM_DATA};
use crate::submit::sums::Share;
use crate::submit::write::{Item, Scan};

/// The most records in flight.
const RECORD_DEPTH: usize = 32;

/// The least requests of a record that is kept small so that another can be got ready beside it.
const SHARE_MIN: usize = 8;

/// What gathering came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// A record was sent.
    Sent,
    /// A record was sent and the next must follow at once.
    Continues,
    /// Nothing can be sent now.
    Stuck,
}

/// Leaves of the map that hold `count` blocks from `block` on.
fn leaves_of(block: u64, count: usize, width: PointerWidth) -> usize {
    let shift = width.fanout_shift();
    let last = block + (count as u64).saturating_sub(1);
    usize::try_from((last >> shift) - (block >> shift) + 1).unwrap_or(usize::MAX)
}

impl Lane {
    /// Sends as many records as the depth, the space and the queue allow; true when any was sent.
    pub fn gather(&mut self) -> bool {
        let mut sent = false;
        while !self.writes.incoming.is_empty() && self.may_gather() {
            match self.gather_one(false) {
                Outcome::Sent => sent = true,
                Outcome::Continues => {
                    sent = true;
                    let next = self.gather_one(true);
                    assert_eq!(next, Outcome::Sent, "an atomic group was cut short");
                }
                Outcome::Stuck => break,
            }
        }
        sent
    }

    /// Whether another record should leave now, rather than wait for more requests to join it.
    fn may_gather(&self) -> bool {
        if self.latched.is_some() || !self.begun() || self.log.elsewhere.holds() {
            return false;
        }
        self.log.flying < self.gather_depth()
            || (self.log.flying < RECORD_DEPTH && self.full_record_waits())
    }

    /// Records that may be in flight before another waits for more requests to join it.
    fn gather_depth(&self) -> usize {
        let beside = self.queue.works_beside() || self.log.summing > 0;
        self.tuning.gather_depth + usize::from(beside)
    }

    /// True when what waits fills a record.
    fn full_record_waits(&self) -> bool {
        let mut blocks = 0;
        self.writes.incoming.iter().any(|item| {
            if let Item::Data { buf, .. } = item {
                blocks += buf.len() / BLOCK_SIZE;
            }
            blocks >= MAX_RECORD_PAYLOAD
        })
    }

    /// Sends one record; `group` when it ends an atomic group and cannot wait.
    fn gather_one(&mut self, group: bool) -> Outcome {
        match self.writes.incoming.front() {
            Some(Item::Data { .. }) => self.gather_data(group),
            Some(Item::Range { .. }) => self.gather_range(),
            None => Outcome::Stuck,
        }
    }

    fn gather_data(&mut self, group: bool) -> Outcome {
        let began = self.trace_clock();
        if !group && !self.pace_allows() {
            self.counters.space_stalls += 1;
            return Outcome::Stuck;
        }
        let Some(limit) = self.prepare(STREAM_DATA, Kind::Data, 1) else {
            self.counters.space_stalls += 1;
            return Outcome::Stuck;
        };
        let mut entries = self.log.entries();
        let mut parts = self.log.parts();
        let mut payload = Bufs::new();
        let mut shares: SmallVec<[Share; 64]> = SmallVec::new();
        let mut leaves = self.map.record_leaves();
        let mut continues = false;
        let mut any_fua = false;
        // With a worker beside, half of what is open is under way while the other half is got ready.
        let share = if self.queue.works_beside() { self.writes.open() / 2 } else { usize::MAX };
        while entries.len() < limit && parts.len() < share.max(SHARE_MIN) {
            let Some(Item::Data { write, block, mut buf, fua, atomic, rest }) = self.pop_data()
            else {
                break;
            };
            let blocks = buf.len() / BLOCK_SIZE;
            let room = limit - entries.len();
            let touched = leaves_of(block, blocks, self.geometry.width);
            let mut last = true;
            if blocks > room || (touched > leaves && !entries.is_empty()) {
                // Cut it only where a segment ends, or where it is larger than any record, and only if the rest of an
                // atomic request is sure to find room at once.
                let cut = blocks > room
                    && (touched <= leaves || entries.is_empty())
                    && (limit < MAX_RECORD_PAYLOAD || blocks > MAX_RECORD_PAYLOAD)
                    && !group
                    && (!atomic || self.may_open(STREAM_DATA));
                if !cut {
                    let item = Item::Data { write, block, buf, fua, atomic, rest };
                    self.writes.incoming.push_front(item);
                    break;
                }
                let behind = buf.split_off(room * BLOCK_SIZE);
                let next = block + room as u64;
                let item = Item::Data { write, block: next, buf: behind, fua, atomic, rest: true };
                self.writes.incoming.push_front(item);
                continues = atomic;
                last = false;
            }
            leaves = leaves.saturating_sub(touched);
            let blocks = buf.len() / BLOCK_SIZE;
            entries.extend((block..).take(blocks).map(|id| Entry { id, csum: 0, aux: 0 }));
            shares.push(Share { blocks, fua, cut: rest || !last });
            any_fua |= fua;
            self.writes.part_sent(write, self.log.next, last);
            parts.push(Part { write });
            payload.push(buf);
            if !last {
                break;
            }
        }
        if entries.is_empty() {
            // The first request cannot be cut and does not fit here: go on in the next segment.
            return self.skip_rest(STREAM_DATA, group);
        }
        self.prefetch(&entries);
        let sizes = shares.iter().map(|share| (share.blocks as u64, share.cut));
        self.trace_gathered(began, &parts, sizes);
        self.counters.written_blocks += entries.len() as u64;
        // Of a group only the end can make anything durable, and it never comes after everything else.
        let durable = any_fua && !continues && self.log.durable == self.log.next - 1;
        let summing = self.sum_record(&mut entries, &shares, &mut payload);
        let (kind, stream, rest) = (Kind::Data, STREAM_DATA, None);
        let draft =
            Draft { kind, stream, continues, durable, entries, parts, payload, rest, summing };
        self.append(draft);
        // With a limit a large request leaves piece by piece, the first while the others are being prepared.
        if self.placement.bio.early && !self.writes.incoming.is_empty() {
            self.queue.submit();
        }
        if continues { Outcome::Continues } else { Outcome::Sent }
    }

    fn pop_data(&mut self) -> Option<Item> {
        match self.writes.incoming.front() {
            Some(Item::Data { .. }) => self.writes.incoming.pop_front(),
            _ => None,
        }
    }

    /// Leaves the rest of the stream's segment unused.
    fn skip_rest(&mut self, stream: u8, group: bool) -> Outcome {
        if !self.may_open(stream) {
            self.counters.space_stalls += 1;
            return Outcome::Stuck;
        }
        if let Some(head) = self.log.head(stream) {
            self.segments.seal(head);
            self.log.set_head(stream, None);
        }
        self.gather_one(group)
    }

    /// Looks up what retirement will change, all at once: what is not cached is being fetched while the device writes, and
    /// what is cached comes into the processor's caches with the look-ups overlapping, not one after the other.
    fn prefetch(&mut self, entries: &[Entry]) {
        for entry in entries {
            if let Err(miss) = std::hint::black_box(self.map.get(entry.id))
                && !self.fetches.is_lost(miss.key)
            {
                self.fetch(miss, None);
            }
        }
    }

    /// Sends the next piece of the range at the front: as much as meets a bounded number of existing leaves.
    fn gather_range(&mut self) -> Outcome {
        let Some(Item::Range { write, kind, from, end, mut scan }) =
            self.writes.incoming.pop_front()
        else {
            return Outcome::Stuck;
        };
        let reach = loop {
            match self.map.trim_reach(&mut scan.at, end, &mut scan.leaves) {
                Ok(reach) => break reach,
                Err(miss) if self.fetches.is_lost(miss.key) => {
                    // Go on behind what the lost node covers; applying will fail for what is in it.
                    scan.at = self.map.end_of(miss.key).min(end);
                }
                Err(miss) => {
                    self.fetch(miss, None);
                    self.writes.incoming.push_front(Item::Range { write, kind, from, end, scan });
                    return Outcome::Stuck;
                }
            }
        };
        if self.prepare(STREAM_DATA, kind, 1).is_none() {
            self.counters.space_stalls += 1;
            self.writes.incoming.push_front(Item::Range { write, kind, from, end, scan });
            return Outcome::Stuck;
        }
        let mut entries = self.log.entries();
        entries.push(Entry { id: from, csum: 0, aux: reach - from });
        let mut parts = self.log.parts();
        parts.push(Part { write });
        let last = reach >= end;
        self.writes.part_sent(write, self.log.next, last);
        let began = self.trace_clock();
        self.trace_gathered(began, &parts, std::iter::once((reach - from, !last)));
        if !last {
            // The rest queues up behind what came meanwhile.
            let scan = Scan { at: reach, leaves: self.map.record_leaves() };
            self.writes.incoming.push_back(Item::Range { write, kind, from: reach, end, scan });
        }
        self.append(Draft {
            kind,
            stream: STREAM_DATA,
            continues: false,
            durable: false,
            entries,
            parts,
            payload: Bufs::new(),
            rest: None,
            summing: None,
        });
        Outcome::Sent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_touches_one_leaf_more_when_it_is_not_aligned() {
        let leaves = |block, count| leaves_of(block, count, PointerWidth::Narrow);
        assert_eq!([leaves(0, 1), leaves(0, 256), leaves(0, 257)], [1, 1, 2]);
        assert_eq!([leaves(255, 1), leaves(255, 2), leaves(255, 258)], [1, 2, 3]);
    }
}
