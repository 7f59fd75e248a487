//! The queue for memory-like devices: every operation is run to its end inside `submit`, by the issuer.
//!
//! On such a device the ring would pass each write to a kernel worker, a hop of 25-50 us for a copy of 1-2 us. Nothing
//! ever outlasts `submit`, so there is never anything to wait for but what a front-end has watched.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use super::target::Targets;
use super::watch::Watch;
use super::{Done, IoQueue, Job, Op, QueueLimits, Waiter, sync};

/// Runs operations at once, by plain system calls.
#[derive(Debug)]
pub(super) struct InlineQueue {
    targets: Targets,
    pushed: Vec<Op>,
    ready: Vec<Done>,
    watch: Watch,
}

impl InlineQueue {
    pub(super) fn new(targets: Targets) -> Self {
        Self { targets, pushed: Vec::new(), ready: Vec::new(), watch: Watch::default() }
    }
}

impl IoQueue for InlineQueue {
    fn limits(&self) -> &[QueueLimits] {
        &self.targets.limits
    }

    fn push(&mut self, op: Op) {
        self.pushed.push(op);
    }

    fn run(&mut self, job: Job) {
        self.ready.push(job.run());
    }

    fn submit(&mut self) {
        for op in self.pushed.drain(..) {
            self.ready.push(sync::run(&self.targets, op));
        }
    }

    fn reap(&mut self, done: &mut Vec<Done>) -> usize {
        let count = self.ready.len();
        done.append(&mut self.ready);
        count
    }

    fn wait(&mut self, _timeout: Option<Duration>) {
        self.submit();
    }

    fn watch(&mut self, fd: Arc<OwnedFd>) -> io::Result<()> {
        self.watch.add(fd);
        Ok(())
    }

    fn wait_watching(&mut self, timeout: Option<Duration>) {
        if self.in_flight() > 0 {
            self.submit();
        } else {
            self.watch.wait(&[], timeout);
        }
    }

    fn waiter(&self) -> Option<Waiter> {
        None
    }

    fn in_flight(&self) -> usize {
        self.pushed.len() + self.ready.len()
    }

    fn has_cheap_reads(&self) -> bool {
        true
    }

    fn has_workers(&self) -> bool {
        false
    }

    fn describe(&self) -> String {
        format!("inline system calls in the issuer's context ({})", self.targets.paces())
    }
}
