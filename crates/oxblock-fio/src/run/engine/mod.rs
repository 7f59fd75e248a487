//! The event loop that drives all jobs of a phase, in one thread.
//!
//! The loop's own cost is part of what is measured, so: no system calls but the target's, no
//! allocation per I/O, one clock reading per submitted batch and one per reaped batch. The cached
//! time is *fresh* until the target is called; a batch of one that follows a poll at once needs no
//! reading of its own.
//!
//! A request's slot is its tag. It holds what is needed when the request comes back, while the
//! target owns the buffer.

mod complete;
mod issue;

use std::sync::atomic::Ordering;
use std::time::Duration;

use oxblock::device::Buf;

use super::job::Job;
use super::stream::Direction;
use super::{Progress, RunOptions};
use crate::num;
use crate::target::{Completion, Target};

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
pub(in crate::run) fn run_phase(
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
        let mut watch_at = if watched { self.now.saturating_add(pulse) } else { u64::MAX };
        loop {
            let (mut again, mut alive, mut timer) = (false, false, watch_at);
            for (index, job) in (0u32..).zip(jobs.iter_mut()) {
                match self.step(job, index) {
                    Ready::Finished => continue,
                    Ready::Again => again = true,
                    Ready::Blocked => {}
                    // The last moment of the clock is a time too; `u64::MAX` means that there is none.
                    Ready::Timer(at) => timer = timer.min(at.min(u64::MAX - 1)),
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
            // Before what has just come back is counted: it belongs to the stretch that is under way now.
            for job in jobs.iter_mut().filter(|job| job.stats.windows.due(self.now)) {
                let bytes = job.stats.bytes();
                job.stats.windows.roll(self.now, bytes);
            }
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
                watch_at = self.now.saturating_add(pulse);
                self.watch(jobs);
            }
        }
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
