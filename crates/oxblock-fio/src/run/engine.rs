//! The event loop that drives all jobs of a phase, in one thread.
//!
//! The loop's own cost is part of what is measured, so: no system calls but the target's, no
//! allocation per I/O, one clock reading per submitted batch and one per reaped batch. The cached
//! time is *fresh* until the target is called; a batch of one that follows a poll at once needs no
//! reading of its own.
//!
//! A request's slot is its tag. It holds what is needed when the request comes back, while the
//! target owns the buffer.

use std::sync::atomic::Ordering;
use std::time::Duration;

use oxblock::device::Buf;

use super::job::{Job, Next};
use super::stream::{Direction, Io};
use super::{Durable, Progress, RunOptions};
use crate::num;
use crate::target::{Completion, Request, RequestKind, Target};

/// What a request in flight is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Free,
    Io(Direction),
    ReadBack,
    Flush,
}

/// A request in flight.
#[derive(Debug)]
struct Slot {
    kind: Kind,
    job: u32,
    len: u32,
    offset: u64,
    /// Queued at, ns.
    start: u64,
    /// Submitted at, ns.
    issue: u64,
    /// Of a write: its number. Of a flush: every write up to this number was back before it.
    number: u64,
    /// The part of the job's buffer that this request does not use.
    tail: Option<Buf>,
}

/// What a job is waiting for.
enum Ready {
    /// Nothing: it polls.
    Again,
    /// Its own I/O.
    Blocked,
    /// A time, and its own I/O.
    Timer(u64),
    Finished,
}

/// Everything but the jobs.
struct Driver<'a, 'o> {
    target: &'a mut dyn Target,
    options: &'a RunOptions<'o>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Slots queued since the last submit; all of the same job.
    queued: Vec<u32>,
    in_flight: u64,
    now: u64,
    fresh: bool,
}

/// Runs `jobs` together until all are finished.
pub(super) fn run_phase(
    jobs: &mut [Job<'_>],
    target: &mut dyn Target,
    options: &RunOptions<'_>,
) -> Result<(), String> {
    let slots: u32 = jobs.iter().map(|job| job.depth).fold(0, u32::saturating_add);
    let empty = |_| Slot {
        kind: Kind::Free,
        job: 0,
        len: 0,
        offset: 0,
        start: 0,
        issue: 0,
        number: 0,
        tail: None,
    };
    let now = target.now();
    let mut driver = Driver {
        target,
        options,
        slots: (0..slots).map(empty).collect(),
        free: (0..slots).rev().collect(),
        queued: Vec::with_capacity(slots as usize),
        in_flight: 0,
        now,
        fresh: true,
    };
    driver.run(jobs)
}

impl Driver<'_, '_> {
    fn run(&mut self, jobs: &mut [Job<'_>]) -> Result<(), String> {
        let mut done: Vec<Completion> = Vec::with_capacity(self.slots.len());
        let watched = self.options.progress.is_some() || self.options.stop.is_some();
        let pulse = match self.options.progress_interval {
            0 => 250_000_000,
            interval => interval,
        };
        let mut watch_at = if watched { self.now + pulse } else { u64::MAX };
        loop {
            let (mut again, mut alive, mut timer) = (false, false, watch_at);
            for (index, job) in (0u32..).zip(jobs.iter_mut()) {
                match self.step(job, index) {
                    Ready::Finished => continue,
                    Ready::Again => again = true,
                    Ready::Blocked => {}
                    Ready::Timer(at) => timer = timer.min(at),
                }
                alive = true;
                again |= job.spins(self.now);
            }
            if !alive {
                return Ok(());
            }
            let mut count = self.target.poll(&mut done);
            if count == 0 && !again {
                self.idle(timer)?;
                count = self.target.poll(&mut done);
            }
            self.now = self.target.now();
            self.fresh = true;
            if count > 0 {
                for completion in done.drain(..) {
                    self.complete(jobs, completion);
                }
                for job in jobs.iter_mut().filter(|job| job.batch_reaped > 0) {
                    job.stats.reaped(job.batch_reaped);
                    job.batch_reaped = 0;
                }
            }
            for job in jobs.iter_mut().filter(|job| job.event_at <= self.now) {
                job.tick(self.now);
                self.fresh = false;
            }
            if self.now >= watch_at {
                watch_at = self.now + pulse;
                self.watch(jobs);
            }
        }
    }

    /// Lets a job issue what it can. On return nothing of it is queued unsubmitted.
    fn step(&mut self, job: &mut Job<'_>, index: u32) -> Ready {
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
                // Once full, at least one must come back, or `low` would let the job overrun.
                job.low = job.low.min(job.depth);
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
        let slot = self.slot(job, Kind::Io(io.direction), index, io.offset, io.len);
        let offset = io.offset;
        match io.direction {
            Direction::Trim => {
                job.issued(io, None);
                let len = u64::from(io.len);
                self.send(slot, 0, None, RequestKind::Discard { offset, len });
            }
            Direction::Read => {
                let (buf, tail) = job.take_buffer(io.len);
                job.issued(io, None);
                self.send(slot, 0, tail, RequestKind::Read { offset, buf });
            }
            Direction::Write => {
                let (mut buf, tail) = job.take_buffer(io.len);
                let number = job.issued(io, Some(&mut buf));
                let fua = job.plan.spec.sync;
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

    /// Nothing can be issued and nothing is ready: waits for the target or the next timer.
    fn idle(&mut self, timer: u64) -> Result<(), String> {
        let timeout = (timer != u64::MAX)
            .then(|| Duration::from_nanos(timer.saturating_sub(self.target.now())));
        match timeout {
            _ if self.in_flight > 0 => self.target.wait(timeout),
            Some(timeout) => self.target.sleep(timeout),
            None => return Err("a job waits, but nothing is in flight".into()),
        }
        Ok(())
    }

    fn complete(&mut self, jobs: &mut [Job<'_>], completion: Completion) {
        let Ok(id) = u32::try_from(completion.tag) else { return };
        let Some(slot) = self.slots.get_mut(id as usize) else { return };
        let Some(job) = jobs.get_mut(slot.job as usize) else { return };
        let kind = std::mem::replace(&mut slot.kind, Kind::Free);
        let (index, offset, len, number) = (slot.job, slot.offset, slot.len, slot.number);
        let (slat, clat) = (slot.issue - slot.start, self.now.saturating_sub(slot.issue));
        let tail = slot.tail.take();
        self.free.push(id);
        self.in_flight -= 1;
        job.in_flight -= 1;
        job.reaped += 1;
        job.batch_reaped += 1;
        let buf = completion.buf;
        match (completion.result, kind) {
            (Err(error), _) => job.failed(offset, len, kind == Kind::ReadBack, error),
            (Ok(()), Kind::Io(direction)) => {
                job.stats.io(direction, len, slat, clat);
                job.completed(&Io { direction, offset, len }, number, buf.as_ref());
                if direction == Direction::Write && job.plan.spec.sync {
                    self.durable(job, index, None);
                }
            }
            (Ok(()), Kind::ReadBack) => {
                job.stats.io(Direction::Read, len, slat, clat);
                if let Some(buf) = &buf {
                    job.read_back(offset, len, buf);
                }
            }
            (Ok(()), Kind::Flush) => {
                job.stats.flush(clat);
                self.durable(job, index, Some(number));
            }
            (Ok(()), Kind::Free) => {}
        }
        if let Some(buf) = buf {
            job.give_buffer(buf, tail);
        }
    }

    /// Says which writes of a job are durable now: all up to `number`, or, where every write is
    /// durable when it is acknowledged, all before the oldest in flight.
    fn durable(&self, job: &Job<'_>, index: u32, number: Option<u64>) {
        let Some(tell) = self.options.durable else { return };
        let before_oldest =
            || self.oldest_in_flight(index).map_or(job.writes, |oldest| oldest.saturating_sub(1));
        let writes = number.unwrap_or_else(before_oldest);
        tell(&Durable { job: job.plan.index, writes });
    }

    /// The lowest number of a write of this job in flight.
    fn oldest_in_flight(&self, index: u32) -> Option<u64> {
        let writes = self.slots.iter().filter(|slot| {
            slot.job == index && slot.kind == Kind::Io(Direction::Write) && slot.number > 0
        });
        writes.map(|slot| slot.number).min()
    }

    fn watch(&mut self, jobs: &mut [Job<'_>]) {
        if self.options.stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
            jobs.iter_mut().for_each(|job| job.stopping = true);
        }
        if let Some(progress) = self.options.progress {
            let running = jobs.iter().filter(|job| !job.finished()).count();
            let sum: f64 = jobs.iter().map(|job| job.fraction(self.now)).sum();
            progress(&Progress {
                running,
                fraction: sum / num::float(jobs.len().max(1) as u64),
                ios: jobs.iter().map(|job| job.stats.ios()).sum(),
                bytes: jobs.iter().map(|job| job.stats.bytes()).sum(),
                nanos: self.now,
            });
            self.fresh = false;
        }
    }
}
