//! Requests that do not begin or end at a block: read, modify, write.
//!
//! Such a request is copied into whole blocks, its edge blocks are read, and the result is written like any other. So
//! that no write is lost in between, from the read to the place in the queue to the log nobody else may change those
//! blocks: a read-modify-write begins only when every earlier change of its blocks is retired, and while it is under way,
//! later changes of its blocks wait in the order in which they came. Requests that touch nobody's edge never wait.

use std::collections::VecDeque;
use std::ops::Range;

use slab::Slab;

use crate::device::Buf;
use crate::error::{Error, Result};
use crate::format::layout::{BLOCK_BYTES, BLOCK_SIZE};
use crate::format::record::Kind;
use crate::lane::Lane;
use crate::submit::queue::{inner_blocks, outer_blocks};
use crate::submit::read::ReadOwner;
use crate::submit::write::Owner;
use crate::trace::Ticket;

/// A request made of several steps.
#[derive(Debug)]
struct Job {
    ticket: Ticket,
    /// The caller's buffer, to hand back.
    buf: Option<Buf>,
    steps: u32,
    error: Option<Error>,
}

/// One read-modify-write.
#[derive(Debug)]
struct Rmw {
    job: usize,
    /// First block.
    block: u64,
    /// Whole blocks, the new bytes in place.
    buf: Buf,
    /// The new bytes within `buf`.
    fresh: Range<usize>,
    fua: bool,
    /// Edge blocks still to come.
    reading: u32,
}

impl Rmw {
    fn blocks(&self) -> Range<u64> {
        self.block..self.block + (self.buf.len() / BLOCK_SIZE) as u64
    }
}

/// Something that waits for blocks.
#[derive(Debug)]
enum Deferred {
    Rmw(Rmw),
    Data { ticket: Ticket, block: u64, buf: Buf, fua: bool },
    Range { owner: Owner, kind: Kind, blocks: Range<u64>, fua: bool },
}

impl Deferred {
    fn blocks(&self) -> Range<u64> {
        match self {
            Self::Rmw(rmw) => rmw.blocks(),
            Self::Data { block, buf, .. } => *block..*block + (buf.len() / BLOCK_SIZE) as u64,
            Self::Range { blocks, .. } => blocks.clone(),
        }
    }
}

/// Read-modify-writes under way, and who waits for them.
#[derive(Debug, Default)]
pub(crate) struct Rmws {
    jobs: Slab<Job>,
    active: Slab<Rmw>,
    deferred: VecDeque<Deferred>,
}

impl Rmws {
    /// Jobs that are not completed.
    pub fn open(&self) -> usize {
        self.jobs.len()
    }

    /// The request that a job is for.
    pub fn ticket(&self, job: usize) -> Option<Ticket> {
        self.jobs.get(job).map(|job| job.ticket)
    }

    /// The request that a read-modify-write is for.
    pub fn ticket_of_rmw(&self, rmw: usize) -> Option<Ticket> {
        self.active.get(rmw).and_then(|rmw| self.ticket(rmw.job))
    }
}

fn overlap(a: &Range<u64>, b: &Range<u64>) -> bool {
    a.start < b.end && b.start < a.end
}

impl Lane {
    /// Whole blocks to write, unless somebody's read-modify-write is in the way.
    pub fn admit_data(&mut self, ticket: Ticket, block: u64, buf: Buf, fua: bool) {
        if self.rmws.active.is_empty() && self.rmws.deferred.is_empty() {
            self.enqueue_data(Owner::Request(ticket), block, buf, fua);
        } else {
            self.defer(Deferred::Data { ticket, block, buf, fua });
        }
    }

    /// A range to trim or zero, likewise.
    pub fn admit_range(&mut self, owner: Owner, kind: Kind, blocks: Range<u64>, fua: bool) {
        if self.rmws.active.is_empty() && self.rmws.deferred.is_empty() {
            self.enqueue_range(owner, kind, blocks.start, blocks.end, fua);
        } else {
            self.defer(Deferred::Range { owner, kind, blocks, fua });
        }
    }

    /// A write of any alignment.
    pub fn start_unaligned(&mut self, ticket: Ticket, offset: u64, buf: Buf, fua: bool) {
        let blocks = outer_blocks(offset, buf.len() as u64);
        let start = usize::try_from(offset % BLOCK_BYTES).unwrap_or(0);
        let fresh = start..start + buf.len();
        let mut whole = Buf::new(fresh.end.next_multiple_of(BLOCK_SIZE));
        if let Some(target) = whole.get_mut(fresh.clone()) {
            target.copy_from_slice(&buf);
        }
        let job = self.rmws.jobs.insert(Job { ticket, buf: Some(buf), steps: 1, error: None });
        let block = blocks.start;
        self.defer(Deferred::Rmw(Rmw { job, block, buf: whole, fresh, fua, reading: 0 }));
    }

    /// Zeroes over any range: whole blocks as a range, edges as read-modify-writes.
    pub fn start_zeroes(&mut self, ticket: Ticket, offset: u64, len: u64, fua: bool) {
        let inner = inner_blocks(offset, len);
        let end = offset + len;
        let job = self.rmws.jobs.insert(Job { ticket, buf: None, steps: 0, error: None });
        let mut edges = Vec::new();
        if !offset.is_multiple_of(BLOCK_BYTES) || end / BLOCK_BYTES == offset / BLOCK_BYTES {
            edges.push(offset..end.min((offset / BLOCK_BYTES + 1) * BLOCK_BYTES));
        }
        if !end.is_multiple_of(BLOCK_BYTES) && end / BLOCK_BYTES != offset / BLOCK_BYTES {
            edges.push(end / BLOCK_BYTES * BLOCK_BYTES..end);
        }
        let steps = edges.len() + usize::from(!inner.is_empty());
        if let Some(job) = self.rmws.jobs.get_mut(job) {
            job.steps = u32::try_from(steps).unwrap_or(0);
        }
        for edge in edges {
            let start = usize::try_from(edge.start % BLOCK_BYTES).unwrap_or(0);
            let len = usize::try_from(edge.end - edge.start).unwrap_or(0);
            self.defer(Deferred::Rmw(Rmw {
                job,
                block: edge.start / BLOCK_BYTES,
                buf: Buf::new(BLOCK_SIZE),
                fresh: start..start + len,
                fua,
                reading: 0,
            }));
        }
        if !inner.is_empty() {
            self.admit_range(Owner::Job(job), Kind::Zero, inner, fua);
        }
    }

    fn defer(&mut self, what: Deferred) {
        let waiting = self.rmws.deferred.len();
        self.rmws.deferred.push_back(what);
        self.advance_deferred();
        self.counters.deferred += u64::from(self.rmws.deferred.len() > waiting);
    }

    /// Starts whatever no longer has to wait; true when something did.
    pub fn advance_deferred(&mut self) -> bool {
        if self.rmws.deferred.is_empty() {
            return false;
        }
        let mut waiting = std::mem::take(&mut self.rmws.deferred);
        let mut still: VecDeque<Deferred> = VecDeque::new();
        let mut progressed = false;
        while let Some(what) = waiting.pop_front() {
            let blocks = what.blocks();
            let held = self.rmws.active.iter().any(|(_, rmw)| overlap(&rmw.blocks(), &blocks))
                || still.iter().any(|other| overlap(&other.blocks(), &blocks));
            let must_wait = match &what {
                Deferred::Rmw(_) => held || self.changing(&blocks),
                _ => held,
            };
            if must_wait {
                still.push_back(what);
                continue;
            }
            progressed = true;
            match what {
                Deferred::Rmw(rmw) => self.start_rmw(rmw),
                Deferred::Data { ticket, block, buf, fua } => {
                    self.enqueue_data(Owner::Request(ticket), block, buf, fua);
                }
                Deferred::Range { owner, kind, blocks, fua } => {
                    self.enqueue_range(owner, kind, blocks.start, blocks.end, fua);
                }
            }
        }
        debug_assert!(
            self.rmws.deferred.is_empty(),
            "starting one deferred request defers no other"
        );
        self.rmws.deferred = still;
        progressed
    }

    /// True while a change of one of `blocks` is queued or in the log and not retired.
    fn changing(&self, blocks: &Range<u64>) -> bool {
        self.writes.incoming.iter().any(|item| overlap(&item.blocks(), blocks))
            || self.log.records.iter().any(|record| match record.kind {
                Kind::Data => record.entries.iter().any(|entry| blocks.contains(&entry.id)),
                Kind::Trim | Kind::Zero => record
                    .entries
                    .iter()
                    .any(|entry| overlap(&(entry.id..entry.id + entry.aux), blocks)),
                _ => false,
            })
    }

    fn start_rmw(&mut self, mut rmw: Rmw) {
        self.counters.read_modify_writes += 1;
        let blocks = rmw.blocks();
        let mut edges = Vec::with_capacity(2);
        if rmw.fresh.start != 0 {
            edges.push(blocks.start);
        }
        if rmw.fresh.end != rmw.buf.len() && (edges.is_empty() || blocks.end - 1 != blocks.start) {
            edges.push(blocks.end - 1);
        }
        rmw.reading = u32::try_from(edges.len()).unwrap_or(0);
        let id = self.rmws.active.insert(rmw);
        if edges.is_empty() {
            // Only the buffer was not aligned.
            self.send_rmw(id);
        }
        for block in edges {
            self.start_block_read(ReadOwner::Rmw(id), block);
        }
    }

    /// An edge block of a read-modify-write has come.
    pub fn rmw_read(&mut self, id: usize, block: u64, old: &Buf, result: Result<()>) {
        let Some(rmw) = self.rmws.active.get_mut(id) else {
            unreachable!("read-modify-write {id} is not active")
        };
        rmw.reading -= 1;
        let base = usize::try_from(block - rmw.block).unwrap_or(0) * BLOCK_SIZE;
        let fresh = rmw.fresh.clone();
        let mut keep = |range: Range<usize>| {
            let within = range.start.saturating_sub(base)..range.end.saturating_sub(base);
            if let (Some(to), Some(from)) = (rmw.buf.get_mut(range), old.get(within)) {
                to.copy_from_slice(from);
            }
        };
        keep(base..fresh.start.clamp(base, base + BLOCK_SIZE));
        keep(fresh.end.clamp(base, base + BLOCK_SIZE)..base + BLOCK_SIZE);
        let (left, job) = (rmw.reading, rmw.job);
        if let Err(error) = result
            && let Some(job) = self.rmws.jobs.get_mut(job)
        {
            job.error = Some(error.context("reading the rest of a partly written block"));
        }
        if left == 0 {
            self.send_rmw(id);
        }
    }

    /// All edges are there: the blocks join the queue to the log, and who waited for them may go on behind.
    fn send_rmw(&mut self, id: usize) {
        let rmw = self.rmws.active.remove(id);
        let failed = self.rmws.jobs.get(rmw.job).and_then(|job| job.error.clone());
        match failed.or_else(|| self.latched.clone()) {
            Some(error) => self.job_step_done(rmw.job, Err(error)),
            None => self.enqueue_data(Owner::Job(rmw.job), rmw.block, rmw.buf, rmw.fua),
        }
        // Taken up by the lane's next step: `advance_deferred` may be what called.
    }

    /// A step of a job is over; the last one completes it.
    pub fn job_step_done(&mut self, id: usize, result: Result<()>) {
        let Some(job) = self.rmws.jobs.get_mut(id) else { unreachable!("job {id} is not open") };
        job.steps -= 1;
        if let Err(error) = result {
            job.error.get_or_insert(error);
        }
        if job.steps == 0 {
            let job = self.rmws.jobs.remove(id);
            let result = job.error.map_or(Ok(()), Err);
            self.complete(job.ticket, job.buf, result);
        }
    }

    /// Fails everything that is deferred.
    pub fn fail_deferred(&mut self, error: &Error) {
        while let Some(what) = self.rmws.deferred.pop_front() {
            match what {
                Deferred::Rmw(rmw) => self.job_step_done(rmw.job, Err(error.clone())),
                Deferred::Data { ticket, buf, .. } => {
                    self.complete(ticket, Some(buf), Err(error.clone()));
                }
                Deferred::Range { owner: Owner::Request(ticket), .. } => {
                    self.complete(ticket, None, Err(error.clone()));
                }
                Deferred::Range { owner: Owner::Job(job), .. } => {
                    self.job_step_done(job, Err(error.clone()));
                }
            }
        }
    }
}
