//! The queue for memory-like devices that shares deep work with workers on other cores.
//!
//! On such a device an operation is a copy. A small one is done sooner than it is handed over, so the issuer does it.
//! When much is to be done at once, or a stream of it has been going on for a while, a worker is woken, and both take
//! operations from the same deque. Reads are copied by both at once. Writes to one file take turns at its lock, so they
//! are the worker's, and the issuer gathers and retires meanwhile; it takes one back only when the worker does not get
//! on with it.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use super::crew::{Crew, GLANCE, Task, WORTH};
use super::target::Targets;
use super::watch::Watch;
use super::{Action, Done, IoQueue, Job, Op, QueueLimits, Sharing, Waiter, sync};
use crate::workers::Claim;

/// Operations from which a batch of small ones is worth another core.
const MANY: usize = 4;

/// Inline calls, shared with workers where that pays.
pub(super) struct ShareQueue {
    targets: Targets,
    crew: Crew,
    waiter: Waiter,
    watch: Watch,
    pushed: Vec<Op>,
    ready: Vec<Done>,
    /// Others may wait without the queue, so nothing may be left for [`IoQueue::wait`] to do.
    shared: bool,
    /// Something is on offer: the issuer should run what is anybody's unless a worker takes it first, and all of it when
    /// no worker is awake.
    helps: bool,
}

impl ShareQueue {
    /// A queue for `targets`.
    ///
    /// # Errors
    /// When no event descriptor is to be had.
    pub(super) fn new(targets: Targets, sharing: Sharing) -> io::Result<Self> {
        let crew = Crew::new(targets.clone())?;
        let waiter = Waiter::new([crew.event()])?;
        let shared = sharing == Sharing::Shared;
        let (pushed, ready) = (Vec::new(), Vec::new());
        let watch = Watch::default();
        Ok(Self { targets, crew, waiter, watch, pushed, ready, shared, helps: false })
    }

    fn offer(&mut self, op: Op) {
        let reads = matches!(op.action, Action::Read(_));
        // Also for what is a worker's own: it may have fallen asleep before it could see it.
        self.helps = true;
        self.crew.offer(Task::Op(op), if reads { Claim::Anybody } else { Claim::Worker });
    }
}

/// What copying `op` takes, in nanoseconds: some 8 GB/s, and a system call.
fn cost(op: &Op) -> u64 {
    op.action.bytes() / 8
}

impl IoQueue for ShareQueue {
    fn limits(&self) -> &[QueueLimits] {
        &self.targets.limits
    }

    fn starts_at_once(&self, op: &Op) -> bool {
        cost(op) >= WORTH && self.crew.is_free()
    }

    fn push(&mut self, op: Op) {
        if self.starts_at_once(&op) {
            // So that it is under way while the caller prepares the next one.
            self.offer(op);
        } else {
            self.pushed.push(op);
        }
    }

    fn run(&mut self, job: Job) {
        self.crew.run(job, &mut self.ready);
        self.helps |= self.shared;
    }

    fn submit(&mut self) {
        if !self.pushed.is_empty() {
            let many = if self.pushed.len() >= MANY { WORTH } else { 0 };
            let cost = self.pushed.iter().map(cost).sum::<u64>().max(many);
            let share = cost >= WORTH && self.crew.rouse(cost, self.pushed.len());
            // Taken out and put back, so that its memory is used again.
            let mut pushed = std::mem::take(&mut self.pushed);
            for op in pushed.drain(..) {
                if share {
                    self.offer(op);
                } else {
                    self.ready.push(sync::run(&self.targets, op));
                }
            }
            self.pushed = pushed;
        }
        if std::mem::take(&mut self.helps) {
            self.crew.help(&mut self.ready);
        }
    }

    fn reap(&mut self, done: &mut Vec<Done>) -> usize {
        let here = self.ready.len();
        done.append(&mut self.ready);
        here + self.crew.reap(done)
    }

    fn wait(&mut self, timeout: Option<Duration>) {
        self.submit();
        if !self.ready.is_empty() || self.crew.out() == 0 {
            return;
        }
        if !self.crew.wait(timeout.unwrap_or(Duration::MAX), &mut self.ready) {
            self.crew.block(|| self.waiter.wait(timeout));
        }
    }

    fn watch(&mut self, fd: Arc<OwnedFd>) -> io::Result<()> {
        self.watch.add(fd);
        Ok(())
    }

    fn wait_watching(&mut self, timeout: Option<Duration>) {
        self.submit();
        if !self.ready.is_empty() {
            return;
        }
        if self.crew.out() == 0 {
            self.watch.wait(&[], timeout);
            return;
        }
        let limit = timeout.unwrap_or(GLANCE).min(GLANCE);
        if !self.crew.wait(limit, &mut self.ready) {
            let (event, watch) = (self.crew.event(), &self.watch);
            self.crew.block(|| watch.wait(&[&event], timeout));
        }
    }

    fn waiter(&self) -> Option<Waiter> {
        self.crew.event_for_others();
        Some(self.waiter.clone())
    }

    fn in_flight(&self) -> usize {
        self.pushed.len() + self.ready.len() + self.crew.out()
    }

    fn has_cheap_reads(&self) -> bool {
        true
    }

    fn works_beside(&self) -> bool {
        self.crew.is_free()
    }

    fn describe(&self) -> String {
        format!(
            "inline system calls in the issuer's context ({}); deep queues shared with workers on other cores",
            self.targets.paces()
        )
    }
}
