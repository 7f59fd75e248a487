//! A queue over devices of which some are called inline and some through another queue.
//!
//! Both halves know all devices by the same index; only the routing differs, so that a volume may be mirrored between
//! memory and disk.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use super::inline::InlineQueue;
use super::target::Targets;
use super::{Done, IoQueue, Job, Op, QueueLimits, Waiter};

/// Routes each operation by its device.
pub(super) struct SplitQueue {
    /// For the devices whose flag is set.
    inline: InlineQueue,
    other: Box<dyn IoQueue + Send>,
    is_inline: Vec<bool>,
}

impl SplitQueue {
    /// `targets` are the devices for inline calls; `other` serves the rest.
    pub(super) fn new(
        targets: Targets,
        other: Box<dyn IoQueue + Send>,
        is_inline: Vec<bool>,
    ) -> Self {
        Self { inline: InlineQueue::new(targets), other, is_inline }
    }
}

impl IoQueue for SplitQueue {
    fn limits(&self) -> &[QueueLimits] {
        self.other.limits()
    }

    fn push(&mut self, op: Op) {
        match self.is_inline.get(usize::from(op.device)) {
            Some(true) => self.inline.push(op),
            _ => self.other.push(op),
        }
    }

    fn run(&mut self, job: Job) {
        self.other.run(job);
    }

    fn submit(&mut self) {
        // The slow half first, so that its devices work while the fast ones are served.
        self.other.submit();
        self.inline.submit();
    }

    fn reap(&mut self, done: &mut Vec<Done>) -> usize {
        self.inline.reap(done) + self.other.reap(done)
    }

    fn wait(&mut self, timeout: Option<Duration>) {
        if self.inline.in_flight() > 0 {
            self.submit();
        } else {
            self.other.wait(timeout);
        }
    }

    fn watch(&mut self, fd: Arc<OwnedFd>) -> io::Result<()> {
        self.other.watch(fd)
    }

    fn wait_watching(&mut self, timeout: Option<Duration>) {
        if self.inline.in_flight() > 0 {
            self.submit();
        } else {
            self.other.wait_watching(timeout);
        }
    }

    fn waiter(&self) -> Option<Waiter> {
        self.other.waiter()
    }

    fn in_flight(&self) -> usize {
        self.inline.in_flight() + self.other.in_flight()
    }

    fn describe(&self) -> String {
        format!("{}; {}", self.other.describe(), self.inline.describe())
    }
}
