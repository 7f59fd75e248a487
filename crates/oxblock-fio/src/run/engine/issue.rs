//! From a job's wish to a submitted request.

use oxblock::device::Buf;

use super::{Driver, Kind, Ready};
use crate::run::job::{Job, Next};
use crate::run::stream::{Direction, Io};
use crate::target::{Request, RequestKind};

impl Driver<'_, '_> {
    /// Lets a job issue what it can. On return nothing of it is queued unsubmitted.
    pub(super) fn step(&mut self, job: &mut Job<'_>, index: u32) -> Ready {
        if job.finished() {
            return Ready::Finished;
        }
        loop {
            if job.reaping {
                if job.reaped < job.need || job.in_flight > job.low {
                    return Ready::Blocked;
                }
                job.reaping = false;
            }
            if job.in_flight >= job.depth {
                self.submit(job);
                job.reaping = true;
                job.reaped = 0;
                job.need = job.reap_min.clamp(1, job.in_flight);
                continue;
            }
            match job.next(self.now) {
                Next::Io(io) => self.issue(job, index, &io),
                Next::ReadBack(offset, len) => {
                    job.mark_busy(offset, len, true);
                    let (buf, tail) = job.take_buffer(len);
                    let slot = self.slot(job, Kind::ReadBack, index, offset, len);
                    self.send(slot, 0, tail, RequestKind::Read { offset, buf });
                }
                Next::Flush => {
                    let oldest = self.oldest_in_flight(index);
                    let safe = oldest.map_or(job.writes, |oldest| oldest.saturating_sub(1));
                    let slot = self.slot(job, Kind::Flush, index, 0, 0);
                    self.send(slot, safe, None, RequestKind::Flush);
                }
                Next::Wait(at) => {
                    self.submit(job);
                    return Ready::Timer(at);
                }
                Next::Held => {
                    self.submit(job);
                    return Ready::Blocked;
                }
                Next::End => {
                    self.submit(job);
                    if job.in_flight > 0 {
                        return Ready::Blocked;
                    }
                    job.reaping = false;
                    if !job.advance(self.now) {
                        return Ready::Finished;
                    }
                    continue;
                }
            }
            if job.queued >= job.batch {
                self.submit(job);
                if job.polls {
                    return Ready::Again;
                }
            }
        }
    }

    fn issue(&mut self, job: &mut Job<'_>, index: u32, io: &Io) {
        let kind = Kind::Io(io.direction);
        let (offset, len) = (io.offset, io.len);
        match io.direction {
            Direction::Trim => {
                job.issued(io, None);
                let slot = self.slot(job, kind, index, offset, len);
                let len = u64::from(len);
                self.send(slot, 0, None, RequestKind::Discard { offset, len });
            }
            Direction::Read => {
                let (buf, tail) = job.take_buffer(len);
                job.issued(io, None);
                let slot = self.slot(job, kind, index, offset, len);
                self.send(slot, 0, tail, RequestKind::Read { offset, buf });
            }
            Direction::Write => {
                let (mut buf, tail) = job.take_buffer(len);
                let number = job.issued(io, Some(&mut buf));
                // Filling a buffer is not the target's latency.
                self.fresh &= !job.fills;
                let fua = job.plan.spec.sync;
                let slot = self.slot(job, kind, index, offset, len);
                self.send(slot, number, tail, RequestKind::Write { offset, buf, fua });
            }
        }
    }

    /// Takes a slot for a request of `job`.
    fn slot(&mut self, job: &mut Job<'_>, kind: Kind, index: u32, offset: u64, len: u32) -> u32 {
        if job.queued == 0 && !self.fresh {
            self.now = self.target.now();
            self.fresh = true;
        }
        // The depths of all jobs together are the number of slots, so one is free.
        let id = self.free.pop().unwrap_or(u32::MAX);
        if let Some(slot) = self.slots.get_mut(id as usize) {
            slot.kind = kind;
            slot.job = index;
            slot.offset = offset;
            slot.len = len;
            slot.start = self.now;
            slot.issue = self.now;
        }
        job.in_flight += 1;
        job.queued += 1;
        id
    }

    fn send(&mut self, id: u32, number: u64, tail: Option<Buf>, kind: RequestKind) {
        if let Some(slot) = self.slots.get_mut(id as usize) {
            slot.number = number;
            slot.tail = tail;
        }
        self.queued.push(id);
        self.in_flight += 1;
        self.target.queue(Request { tag: u64::from(id), kind });
    }

    /// Submits what `job` has queued.
    fn submit(&mut self, job: &mut Job<'_>) {
        if job.queued == 0 {
            return;
        }
        if job.queued > 1 {
            // Queueing the batch took time, which is submission latency.
            self.now = self.target.now();
            for id in &self.queued {
                if let Some(slot) = self.slots.get_mut(*id as usize) {
                    slot.issue = self.now;
                }
            }
        }
        self.queued.clear();
        job.stats.submitted(job.queued, job.in_flight);
        job.queued = 0;
        self.target.submit();
        self.fresh = false;
    }
}
