//! Where the lane tells its trace what happens. Each hook is one branch when there is no trace.

use super::tracer::{Background, Seen, Taken};
use super::{Kind, TraceSink};
use crate::format::layout::{BLOCK_BYTES, BLOCK_SIZE};
use crate::lane::{Class, Lane, tag};
use crate::log::append::Part;
use crate::submit::bio::Bio;
use crate::submit::read::ReadOwner;
use crate::submit::request::{Request, RequestKind};
use crate::submit::write::Owner;

/// Who a request is: to its caller, and to the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ticket {
    /// The caller's tag.
    pub tag: u64,
    /// The trace's number of it; 0 for none.
    pub trace: u64,
    /// What it asks for, and how many bytes it is about.
    pub kind: Kind,
    pub bytes: u64,
    /// When it came in, on the clock of the devices.
    pub began: u64,
}

/// What a request asks for, and how many bytes it is about.
fn subject(request: &Request) -> (Kind, u64) {
    match &request.kind {
        RequestKind::Read { buf, .. } => (Kind::Read, buf.len() as u64),
        RequestKind::Write { buf, .. } => (Kind::Write, buf.len() as u64),
        RequestKind::Flush => (Kind::Flush, 0),
        RequestKind::Discard { len, .. } => (Kind::Discard, *len),
        RequestKind::WriteZeroes { len, .. } => (Kind::WriteZeroes, *len),
    }
}

impl Lane {
    /// Sets the sink, or takes it away.
    pub fn set_trace(&mut self, sink: Option<Box<dyn TraceSink>>) {
        self.queue.set_sink(sink);
        self.trace_background();
    }

    /// A request comes in, which is counted from `began` on.
    pub fn trace_request(&mut self, request: &Request, began: u64) -> Ticket {
        let (kind, bytes) = subject(request);
        let trace = self.queue.trace().map_or(0, |(trace, now)| trace.request(kind, bytes, now));
        Ticket { tag: request.tag, trace, kind, bytes, began }
    }

    /// The time, if there is a trace; otherwise 0.
    pub fn trace_clock(&mut self) -> u64 {
        self.queue.trace().map_or(0, |(_, now)| now)
    }

    /// Parts of writes, `(blocks, cut)` of each, go into the next record. They were taken from the queue at `began`.
    pub fn trace_gathered(
        &mut self,
        began: u64,
        parts: &[Part],
        shares: impl Iterator<Item = (u64, bool)>,
    ) {
        if let Some((trace, now)) = self.queue.trace() {
            let (writes, rmws) = (&self.writes, &self.rmws);
            let taken = parts.iter().zip(shares).map(|(part, (blocks, cut))| Taken {
                request: match writes.owner(part.write) {
                    Some(Owner::Request(ticket)) => ticket.trace,
                    Some(Owner::Job(job)) => rmws.ticket(job).map_or(0, |ticket| ticket.trace),
                    None => 0,
                },
                bytes: blocks * BLOCK_BYTES,
                cut,
            });
            trace.gathered(self.log.next, taken, began, now);
        }
    }

    /// A read is taken up.
    pub fn trace_look_up(&mut self, read: usize) {
        if self.queue.is_traced() {
            let request = self.traced_read(read);
            if let Some((trace, now)) = self.queue.trace() {
                trace.looking_up(request, now);
            }
        }
    }

    /// A bio is about to be pushed, as number `id`. Returns the part of its request that it is.
    pub fn trace_bio(&mut self, bio: &Bio, id: usize) -> u32 {
        if !self.queue.is_traced() {
            return 0;
        }
        let request = self.traced_read(bio.read);
        let bytes = (bio.blocks() * BLOCK_SIZE) as u64;
        let tag = tag(Class::Read, id as u64);
        self.queue.trace().map_or(0, |(trace, now)| trace.read_bio(request, tag, bytes, now))
    }

    /// A bio is verified.
    pub fn trace_verified(&mut self, bio: &Bio) {
        if self.queue.is_traced() {
            let request = self.traced_read(bio.read);
            if let Some((trace, now)) = self.queue.trace() {
                trace.verified(request, bio.part, now);
            }
        }
    }

    /// The trace's number of the request that a read is for.
    fn traced_read(&self, read: usize) -> u64 {
        let ticket = match self.reads.owner(read) {
            Some(ReadOwner::Request(ticket)) => Some(*ticket),
            Some(ReadOwner::Unaligned { ticket, .. }) => Some(*ticket),
            Some(ReadOwner::Rmw(id)) => self.rmws.ticket_of_rmw(*id),
            None => None,
        };
        ticket.map_or(0, |ticket| ticket.trace)
    }

    /// A record is retired.
    pub fn trace_retired(&mut self, sequence: u64) {
        if let Some((trace, now)) = self.queue.trace() {
            trace.retired(sequence, now);
        }
    }

    /// A request is completed.
    pub fn trace_completed(&mut self, ticket: Ticket) {
        if let Some((trace, now)) = self.queue.trace() {
            trace.completed(ticket.trace, now);
        }
    }

    /// The caller has taken all completions.
    pub fn trace_handed_over(&mut self) {
        if let Some((trace, now)) = self.queue.trace() {
            trace.handed_over(now);
        }
    }

    /// Looks what the background jobs are at. They change in few places of the loop, so looking once per step is enough,
    /// and keeps the jobs themselves free of marks.
    pub fn trace_background(&mut self) {
        let Some((trace, now)) = self.queue.trace() else { return };
        let counters = &self.counters;
        let ended = counters.checkpoints + counters.checkpoints_aborted;
        let running = counters.checkpoints_begun > ended && self.latched.is_none();
        let dirty = self.map.stats().frozen as u64 * BLOCK_BYTES;
        let checkpoint = Seen {
            running: running.then_some((counters.checkpoints_begun, dirty)),
            done: counters.map_blocks * BLOCK_BYTES,
        };
        trace.background(Background::Checkpoint, checkpoint, now);
        let victim = self.cleaner.victim().filter(|_| self.latched.is_none());
        let cleaning = Seen {
            running: victim
                .map(|(segment, live)| (u64::from(segment), u64::from(live) * BLOCK_BYTES)),
            done: counters.relocated_blocks * BLOCK_BYTES,
        };
        trace.background(Background::Cleaning, cleaning, now);
    }
}
