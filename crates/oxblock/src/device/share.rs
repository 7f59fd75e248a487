//! The queue for memory-like devices that shares deep work with a worker on another core.
//!
//! On such a device an operation is a copy. A small one is done sooner than it is handed over, so the issuer does it.
//! When much is to be done at once, or a stream of it has been going on for a while, a worker is woken, and both take
//! operations from the same deque. Reads are copied by both at once. Writes to one file take turns at its lock, so they
//! are the worker's, and the issuer gathers and retires meanwhile; it takes one back only when the worker does not get
//! on with it.

use std::io;
use std::time::Duration;

use super::inline::InlineQueue;
use super::target::{Targets, now_ns};
use super::{Action, Done, IoQueue, Op, QueueLimits, Sharing, Waiter, sync};
use crate::workers::Workers;

/// Bytes from which an operation is worth another core by itself: copying them takes ten times what an awake worker
/// needs to take it up.
const WORTH: u64 = 32 << 10;

/// Operations from which a batch of small ones is.
const MANY: usize = 4;

/// Bytes of a batch of several that pay for waking the worker: copying them takes 100 us.
const LARGE: u64 = 1 << 20;

/// Bytes in a stream of worthwhile batches after which the worker is woken: about a millisecond of copying.
const STREAM: u64 = 4 << 20;

/// The stream has ended after so many nanoseconds without a worthwhile batch.
const STREAM_GAP: u64 = 1_000_000;

/// How long the issuer waits for the worker before it takes operations back.
const PATIENCE: Duration = Duration::from_micros(200);

/// Inline calls, shared with a worker where that pays.
pub(super) struct ShareQueue {
    inline: InlineQueue,
    worker: Workers<Op, Done>,
    waiter: Waiter,
    pushed: Vec<Op>,
    stream: Stream,
    /// Others may wait for completions without the queue, so that nothing must be left for [`IoQueue::wait`] to do.
    shared: bool,
    /// Something is on offer that the issuer should run unless the worker takes it first.
    helps: bool,
}

/// How much worthwhile work has come without a pause.
#[derive(Debug, Default)]
struct Stream {
    bytes: u64,
    last: u64,
}

impl Stream {
    /// Notes `bytes` at `now`; true when the stream is long enough to wake the worker.
    fn note(&mut self, bytes: u64, now: u64) -> bool {
        if now.saturating_sub(self.last) > STREAM_GAP {
            self.bytes = 0;
        }
        self.last = now;
        self.bytes += bytes;
        self.bytes >= STREAM
    }
}

impl ShareQueue {
    pub(super) fn new(targets: Targets, sharing: Sharing) -> io::Result<Self> {
        let for_worker = targets.clone();
        let shared = sharing == Sharing::Shared;
        let worker = Workers::new(shared, move |op| sync::run(&for_worker, op))?;
        let waiter = Waiter::new(worker.event())?;
        Ok(Self {
            inline: InlineQueue::new(targets),
            worker,
            waiter,
            pushed: Vec::new(),
            stream: Stream::default(),
            shared,
            helps: false,
        })
    }

    fn offer(&mut self, op: Op) {
        self.helps |= self.shared || matches!(op.action, Action::Read(_));
        self.worker.offer(op);
    }

    /// The issuer's own share: all that the worker does not take first.
    fn help(&mut self) {
        self.helps = false;
        while let Some(op) = self.worker.take_back() {
            self.inline.run(op);
        }
    }
}

impl IoQueue for ShareQueue {
    fn limits(&self) -> &[QueueLimits] {
        self.inline.limits()
    }

    fn push(&mut self, op: Op) {
        if self.worker.is_awake() && op.action.bytes() >= WORTH {
            // At once, so that it is under way while the caller prepares the next one.
            self.offer(op);
        } else {
            self.pushed.push(op);
        }
    }

    fn submit(&mut self) {
        let bytes: u64 = self.pushed.iter().map(|op| op.action.bytes()).sum();
        let worth = bytes >= WORTH || self.pushed.len() >= MANY;
        if worth && !self.worker.is_awake() {
            let large = bytes >= LARGE && self.pushed.len() > 1;
            if self.stream.note(bytes, now_ns()) || large {
                self.worker.wake();
            }
        }
        let share = worth && self.worker.is_awake();
        for op in std::mem::take(&mut self.pushed) {
            if share {
                self.offer(op);
            } else {
                self.inline.run(op);
            }
        }
        if self.helps {
            self.help();
        }
    }

    fn reap(&mut self, done: &mut Vec<Done>) -> usize {
        if self.shared && self.worker.has_finished() {
            // Before looking, so that what ends meanwhile is told of again.
            self.worker.unlisten();
        }
        self.inline.reap(done) + self.worker.reap(done)
    }

    fn wait(&mut self, timeout: Option<Duration>) {
        self.submit();
        if self.inline.in_flight() > 0 || self.worker.out() == 0 {
            return;
        }
        if self.worker.spin(timeout.map_or(PATIENCE, |limit| limit.min(PATIENCE))) {
            return;
        }
        self.help();
        if self.inline.in_flight() == 0 && self.worker.listen() {
            self.waiter.wait(timeout);
        }
        self.worker.unlisten();
    }

    fn waiter(&self) -> Option<Waiter> {
        Some(self.waiter.clone())
    }

    fn in_flight(&self) -> usize {
        self.pushed.len() + self.inline.in_flight() + self.worker.out()
    }

    fn has_cheap_reads(&self) -> bool {
        true
    }

    fn works_beside(&self) -> bool {
        self.worker.is_awake()
    }

    fn describe(&self) -> String {
        format!("{}; deep queues shared with a worker on another core", self.inline.describe())
    }
}
