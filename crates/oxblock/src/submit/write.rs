//! Writes from acceptance to completion. A write may travel as several parts in consecutive records; its buffer comes
//! back in pieces, in order, and is joined again.

use std::collections::VecDeque;

use slab::Slab;

#[cfg(feature = "canary")]
use crate::canary::{self, Canary};
use crate::complete::flush::FlushWaiter;
use crate::complete::policy::{Cleared, EndFacts};
use crate::device::Buf;
use crate::error::{Error, ErrorKind};
use crate::format::layout::BLOCK_SIZE;
use crate::format::record::Kind;
use crate::lane::{Lane, Lost};
use crate::log::append::Record;
use crate::trace::Ticket;

/// Who is told that a write is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    /// A request.
    Request(Ticket),
    /// A job made of several steps, by its place in the table of jobs.
    Job(usize),
}

/// One write, trim or zero under way.
#[derive(Debug)]
pub(crate) struct Write {
    owner: Owner,
    fua: bool,
    /// Parts sent and not retired.
    flying: u32,
    /// All parts have been sent.
    sent: bool,
    /// Highest sequence number of its parts.
    sequence: u64,
    /// What has come back of its buffer.
    buf: Option<Buf>,
    /// What was never sent of it.
    rest: Option<Buf>,
    error: Option<Error>,
}

/// What waits to be gathered into records.
#[derive(Debug)]
pub(crate) enum Item {
    /// Whole blocks.
    Data {
        write: usize,
        block: u64,
        buf: Buf,
        fua: bool,
        /// All of it or nothing after a crash.
        atomic: bool,
        /// What is before it is in a record already.
        rest: bool,
    },
    /// A range of blocks to trim or zero.
    Range { write: usize, kind: Kind, from: u64, end: u64, scan: Scan },
}

/// How far a range has been looked ahead over.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scan {
    pub at: u64,
    pub leaves: usize,
}

impl Item {
    /// The blocks that it changes.
    pub fn blocks(&self) -> std::ops::Range<u64> {
        match self {
            Self::Data { block, buf, .. } => *block..*block + (buf.len() / BLOCK_SIZE) as u64,
            Self::Range { from, end, .. } => *from..*end,
        }
    }
}

/// The table of writes and the queue to the gatherer.
#[derive(Debug, Default)]
pub(crate) struct Writes {
    table: Slab<Write>,
    pub incoming: VecDeque<Item>,
}

impl Writes {
    /// Writes that are not completed.
    pub fn open(&self) -> usize {
        self.table.len()
    }

    /// Who is told that a write is done.
    pub fn owner(&self, write: usize) -> Option<Owner> {
        self.table.get(write).map(|write| write.owner)
    }

    fn get(&mut self, write: usize) -> &mut Write {
        match self.table.get_mut(write) {
            Some(write) => write,
            None => unreachable!("write {write} is not open"),
        }
    }

    /// Opens a write.
    pub fn begin(&mut self, owner: Owner, fua: bool) -> usize {
        let write = Write {
            owner,
            fua,
            flying: 0,
            sent: false,
            sequence: 0,
            buf: None,
            rest: None,
            error: None,
        };
        self.table.insert(write)
    }

    /// A part goes into record `sequence`; `last` when no more will follow.
    pub fn part_sent(&mut self, write: usize, sequence: u64, last: bool) {
        let write = self.get(write);
        write.flying += 1;
        write.sent = last;
        write.sequence = sequence;
    }
}

impl Lane {
    /// Accepts whole blocks for writing.
    pub fn enqueue_data(&mut self, owner: Owner, block: u64, buf: Buf, fua: bool) {
        let write = self.writes.begin(owner, fua);
        // Unaligned requests of 1 MiB touch one block more.
        let atomic = buf.len() / BLOCK_SIZE <= crate::format::layout::MAX_RECORD_PAYLOAD + 1;
        self.writes.incoming.push_back(Item::Data { write, block, buf, fua, atomic, rest: false });
    }

    /// Accepts a range of whole blocks to trim or zero.
    pub fn enqueue_range(&mut self, owner: Owner, kind: Kind, from: u64, end: u64, fua: bool) {
        let write = self.writes.begin(owner, fua);
        let scan = Scan { at: from, leaves: self.map.record_leaves() };
        self.writes.incoming.push_back(Item::Range { write, kind, from, end, scan });
    }

    /// A part is applied; `buf` is its share of the buffer.
    pub fn part_retired(&mut self, id: usize, buf: Option<Buf>, sequence: u64) {
        let write = self.writes.get(id);
        write.flying -= 1;
        join(&mut write.buf, buf);
        let done = write.flying == 0 && write.sent;
        if !done {
            return;
        }
        #[cfg(feature = "canary")]
        if canary::is(Canary::FuaVolatile) {
            self.finish_write(id);
            return;
        }
        let end = EndFacts {
            durable: write.fua && write.error.is_none(),
            write_cache: self.geometry.limits.write_cache,
            fua: self.log.durable >= sequence,
            ..EndFacts::default()
        };
        if self.count_cleared(&end) == Some(Cleared::Flush) {
            self.want_durable(sequence, FlushWaiter::Write(id));
        } else {
            self.finish_write(id);
        }
    }

    /// The flush that a FUA write waited for is over.
    pub fn write_durable(&mut self, id: usize) {
        if let Some(error) = self.latched.clone() {
            self.writes.get(id).error = Some(error);
        }
        self.finish_write(id);
    }

    /// A part will never be applied: the lane is latched.
    pub fn part_failed(&mut self, id: usize, buf: Option<Buf>) {
        let latched = self.latched.clone();
        let write = self.writes.get(id);
        write.flying -= 1;
        join(&mut write.buf, buf);
        write.error = latched;
        if write.flying == 0 && write.sent {
            self.finish_write(id);
        }
    }

    /// An entry of a record could not be applied, because the node that must hold it is lost.
    pub fn fail_entry(&mut self, record: &Record, entry: usize, why: Option<Lost>) {
        let Some(block) = record.entries.get(entry).map(|entry| entry.id) else { return };
        let part = match record.kind {
            Kind::Data => {
                let mut end = 0;
                record.bufs.iter().skip(1).position(|buf| {
                    end += buf.len() / BLOCK_SIZE;
                    entry < end
                })
            }
            Kind::Trim | Kind::Zero => Some(entry),
            _ => None,
        };
        let Some(part) = part.and_then(|part| record.parts.get(part)) else { return };
        self.writes.get(part.write).error = Some(lost_node(block, why));
    }

    fn finish_write(&mut self, id: usize) {
        let mut write = self.writes.table.remove(id);
        join(&mut write.buf, write.rest.take());
        let result = write.error.map_or(Ok(()), Err);
        match write.owner {
            Owner::Request(ticket) => self.complete(ticket, write.buf, result),
            Owner::Job(job) => self.job_step_done(job, result),
        }
    }

    /// Fails everything that waits to be gathered.
    pub fn fail_incoming(&mut self, error: &Error) {
        while let Some(item) = self.writes.incoming.pop_front() {
            let (id, buf) = match item {
                Item::Data { write, buf, .. } => (write, Some(buf)),
                Item::Range { write, .. } => (write, None),
            };
            let write = self.writes.get(id);
            write.sent = true;
            write.error = Some(error.clone());
            // Pieces come back in order, and what flies is before what never left.
            write.rest = buf;
            if write.flying == 0 {
                self.finish_write(id);
            }
        }
    }
}

/// The error of a block whose map node cannot be had.
pub(crate) fn lost_node(block: u64, why: Option<Lost>) -> Error {
    let (kind, what) = match why {
        Some(Lost::Unreadable) => (ErrorKind::Io, "cannot be read from the device"),
        Some(Lost::Damaged) | None => (ErrorKind::Corrupt, "is damaged; run 'oxblock check'"),
    };
    Error::new(kind, format!("block {block}: the map node that holds it {what}"))
}

/// Joins the next piece of a buffer to what has come back already.
fn join(buf: &mut Option<Buf>, next: Option<Buf>) {
    let Some(next) = next else { return };
    match buf {
        None => *buf = Some(next),
        Some(first) => {
            // Pieces of one buffer, in order, always join; a stranger would be a fault of the lane.
            assert!(first.join(next).is_ok(), "pieces of a buffer came back out of order");
        }
    }
}
