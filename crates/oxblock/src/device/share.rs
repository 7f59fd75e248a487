//! A queue for memory-like devices that shares large reads with the kernel's workers.
//!
//! On such a device an operation is a copy. A small one is done sooner than it is handed over. Of several large reads the
//! caller does one by itself, and passes the others to the ring, whose workers copy on other cores meanwhile. One alone
//! is never passed on, and neither are writes: those to one file take turns at its lock, on however many cores.

use std::time::Duration;

use super::inline::InlineQueue;
use super::target::{Targets, now_ns};
use super::uring::UringQueue;
use super::{Action, Done, IoQueue, Op, QueueLimits, Waiter};

/// Bytes from which a read is large: copying them takes several times what handing them over does (25-50 us).
const LARGE: usize = 512 << 10;

/// Inline calls, and a ring for what would be worth another core.
pub(super) struct ShareQueue {
    inline: InlineQueue,
    ring: UringQueue,
    /// The large read of this submission that the caller does by itself.
    own: Option<Op>,
}

impl ShareQueue {
    pub(super) fn new(targets: Targets, ring: UringQueue) -> Self {
        Self { inline: InlineQueue::new(targets), ring, own: None }
    }
}

fn is_large_read(op: &Op) -> bool {
    match &op.action {
        Action::Read(bufs) => bufs.iter().map(|buf| buf.len()).sum::<usize>() >= LARGE,
        _ => false,
    }
}

impl IoQueue for ShareQueue {
    fn limits(&self) -> &[QueueLimits] {
        self.inline.limits()
    }

    fn push(&mut self, op: Op) {
        if !is_large_read(&op) {
            self.inline.push(op);
        } else if self.own.is_none() {
            self.own = Some(op);
        } else {
            // At once, so that it is under way while the caller prepares the next one.
            self.ring.push(op);
            self.ring.submit();
        }
    }

    fn submit(&mut self) {
        self.inline.submit();
        if let Some(op) = self.own.take() {
            self.inline.push(op);
            self.inline.submit();
        }
    }

    fn reap(&mut self, done: &mut Vec<Done>) -> usize {
        let here = self.inline.reap(done);
        if self.ring.in_flight() == 0 {
            return here;
        }
        here + self.ring.reap(done)
    }

    fn wait(&mut self, timeout: Option<Duration>) {
        if self.inline.in_flight() > 0 || self.own.is_some() {
            self.submit();
        } else {
            self.ring.wait(timeout);
        }
    }

    fn waiter(&self) -> Option<Waiter> {
        self.ring.waiter()
    }

    fn in_flight(&self) -> usize {
        self.inline.in_flight() + self.ring.in_flight() + usize::from(self.own.is_some())
    }

    fn now(&self) -> u64 {
        now_ns()
    }

    fn has_cheap_reads(&self) -> bool {
        true
    }

    fn describe(&self) -> String {
        format!(
            "{}; of several large reads at once, all but one by io_uring",
            self.inline.describe()
        )
    }
}
