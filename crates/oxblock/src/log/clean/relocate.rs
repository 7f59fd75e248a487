//! Moving what is live of one record: data blocks into `relocate` records, nodes by the next checkpoint.

use smallvec::smallvec;

use super::walk::Walk;
use super::{Open, Victim};
use crate::format::layout::{BLOCK_SIZE, MAX_RECORD_PAYLOAD};
use crate::format::pointer::{Pointer, identity};
use crate::format::record::{Entry, Kind};
use crate::lane::Lane;
use crate::log::append::{Draft, STREAM_RELOCATE};
use crate::map::{Key, Miss};

/// What came of one entry of the victim.
pub(super) enum Moved {
    /// It is dealt with.
    Yes,
    /// Something else must come first.
    Later,
    /// It is live, and its content is not in the window.
    Unread,
    /// It is live, and what is in the window does not verify: that may have happened on the way.
    Doubtful,
}

impl Lane {
    /// Moves what is live of the open record.
    pub(super) fn move_live(
        &mut self,
        victim: &mut Victim,
        open: &mut Open,
        budget: &mut usize,
    ) -> Walk {
        let first =
            self.segments.addr(victim.segment, victim.at) + u64::from(open.header.header_blocks);
        while let Some(entry) = open.entries.get(open.next) {
            if *budget == 0 {
                return Walk::Wait;
            }
            let addr = first + open.next as u64;
            let moved = match open.header.kind {
                Kind::Data | Kind::Relocate => self.move_block(victim, entry.id, addr),
                Kind::Map => self.mark_node(entry.id, addr),
                Kind::Trim | Kind::Zero | Kind::Pad => Ok(Moved::Yes),
            };
            match moved {
                Ok(Moved::Yes) => {}
                Ok(Moved::Later) => return Walk::Wait,
                Ok(Moved::Unread) => {
                    let run = self.live_run(&open.entries, open.next, addr);
                    self.read_window(victim, self.segments.offset(addr), run, 1);
                    return Walk::Wait;
                }
                Ok(Moved::Doubtful) => {
                    victim.doubted = Some(addr);
                    self.counters.second_reads += 1;
                    self.read_once_more(victim, self.segments.offset(addr));
                    return Walk::Wait;
                }
                Err(miss) if self.fetches.is_lost(miss.key) => {}
                Err(miss) => {
                    self.fetch(miss, None);
                    return Walk::Wait;
                }
            }
            *budget -= 1;
            open.next += 1;
        }
        Walk::On
    }

    /// Blocks from `addr` on, those of `entries` from `from` on, that are live and can be read together.
    fn live_run(&mut self, entries: &[Entry], from: usize, addr: u64) -> u32 {
        let live = |(place, entry): &(u64, &Entry)| {
            self.map.get(entry.id).is_ok_and(|pointer| pointer.addr == *place)
        };
        let run = (addr..).zip(entries.iter().skip(from)).take_while(live).count();
        u32::try_from(run).unwrap_or(1).max(1)
    }

    /// Collects one data block if it is live.
    fn move_block(&mut self, victim: &Victim, block: u64, addr: u64) -> Result<Moved, Miss> {
        let pointer = self.map.get(block)?;
        if pointer.addr != addr {
            return Ok(Moved::Yes);
        }
        let window = victim.window.as_ref().map_or(&[][..], |window| &**window);
        let data = self
            .segments
            .offset(addr)
            .checked_sub(victim.start)
            .map(|block| block as usize * BLOCK_SIZE)
            .and_then(|at| window.get(at..at + BLOCK_SIZE));
        let Some(data) = data else { return Ok(Moved::Unread) };
        if self.geometry.csum.of(identity::data(block), data) != pointer.csum {
            if !victim.unreadable && victim.doubted != Some(addr) {
                return Ok(Moved::Doubtful);
            }
            // Stays where it is: reads of it fail with its address, and nothing else is lost.
            self.counters.checksum_errors += u64::from(!victim.unreadable);
            self.give_up(victim.segment);
            return Ok(Moved::Yes);
        }
        if !self.collect(block, pointer, data) {
            return Ok(Moved::Later);
        }
        self.cleaner.owed -= 1.0;
        Ok(Moved::Yes)
    }

    /// Collects a verified block for the next record; false when there is no room for it now.
    pub(super) fn collect(&mut self, block: u64, from: Pointer, data: &[u8]) -> bool {
        // Each may be in a leaf of its own.
        let full = self.cleaner.entries.len() >= MAX_RECORD_PAYLOAD.min(self.map.record_leaves());
        if full && !self.send_moved() {
            return false;
        }
        let cleaner = &mut self.cleaner;
        let payload = cleaner.payload.get_or_insert_with(|| self.log.payload_buf());
        let at = cleaner.entries.len() * BLOCK_SIZE;
        if let Some(target) = payload.get_mut(at..at + BLOCK_SIZE) {
            target.copy_from_slice(data);
        }
        cleaner.entries.push(Entry { id: block, csum: from.csum, aux: from.addr });
        true
    }

    /// Has the next checkpoint move a node if it is live.
    pub(super) fn mark_node(&mut self, id: u64, addr: u64) -> Result<Moved, Miss> {
        let Some((table, level, index)) = identity::parse_node(id) else { return Ok(Moved::Yes) };
        if table {
            let index = usize::try_from(index).unwrap_or(usize::MAX);
            let place = self.table.level(level).get(index).map(|pointer| pointer.addr);
            if place == Some(addr) {
                // Writing any block of entries rewrites the pointers above it.
                let shift = self.geometry.width.fanout_shift() * u32::from(level);
                self.segments.rewrite_table(index << shift);
            }
            return Ok(Moved::Yes);
        }
        let key = Key { level, index };
        if self.map.node_addr(key)? != addr {
            return Ok(Moved::Yes);
        }
        if self.map.stats().dirty >= self.map.dirty_limit() {
            return Ok(Moved::Later);
        }
        self.map.rewrite(key)?;
        Ok(Moved::Yes)
    }

    /// Sends what has been collected; true when something was sent.
    pub(super) fn send_moved(&mut self) -> bool {
        let count = self.cleaner.entries.len();
        if count == 0 {
            return false;
        }
        let prepared = self.prepare(STREAM_RELOCATE, Kind::Relocate, count);
        self.cleaner.starved = prepared.is_none() && !self.may_open(STREAM_RELOCATE);
        let Some(fit) = prepared else { return false };
        let mut entries = std::mem::take(&mut self.cleaner.entries);
        let Some(mut payload) = self.cleaner.payload.take() else {
            unreachable!("moved blocks without a payload")
        };
        let sent = fit.min(count);
        let tail = payload.split_off(sent * BLOCK_SIZE);
        if sent < count {
            let mut next = self.log.payload_buf();
            let len = (count - sent) * BLOCK_SIZE;
            if let (Some(to), Some(from)) = (next.get_mut(..len), tail.get(..len)) {
                to.copy_from_slice(from);
            }
            self.cleaner.payload = Some(next);
            self.cleaner.entries = entries.split_off(sent);
        }
        self.counters.relocated_blocks += entries.len() as u64;
        let parts = self.log.parts();
        self.cleaner.moved = self.append(Draft {
            kind: Kind::Relocate,
            stream: STREAM_RELOCATE,
            continues: false,
            durable: false,
            entries,
            parts,
            payload: smallvec![payload],
            rest: Some(tail),
            summing: None,
        });
        true
    }

    /// Marks a segment in which something lives that cannot be moved; it counts once.
    pub(super) fn give_up(&mut self, segment: u32) {
        self.counters.damaged_segments += u64::from(!self.segments.at(segment).damaged);
        self.segments.set_damaged(segment);
    }
}
