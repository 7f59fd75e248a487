//! Flushes: one in flight at a time, for everybody who waits.

use std::collections::VecDeque;

#[cfg(feature = "canary")]
use crate::canary::{self, Canary};
use crate::device::{Action, Done, Op};
use crate::lane::{Class, Lane, tag};
use crate::trace::Ticket;

/// Who wants everything up to a sequence number durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FlushWaiter {
    /// A flush request.
    Request(Ticket),
    /// A FUA write, by its place in the table of writes.
    Write(usize),
    /// The checkpoint that is under way.
    Checkpoint,
}

/// The flush in flight and who waits.
#[derive(Debug, Default)]
pub(crate) struct Flushes {
    waiting: VecDeque<(u64, FlushWaiter)>,
    /// What the flush in flight covers.
    flying: Option<u64>,
}

impl Flushes {
    /// True when nobody waits and nothing is in flight.
    pub fn idle(&self) -> bool {
        self.waiting.is_empty() && self.flying.is_none()
    }
}

impl Lane {
    /// Tells `waiter` when all records up to `sequence`, which are retired, are durable.
    pub fn want_durable(&mut self, sequence: u64, waiter: FlushWaiter) {
        debug_assert!(sequence <= self.log.retired);
        if self.latched.is_some() || self.log.durable >= sequence {
            self.durable_for(waiter);
            return;
        }
        #[cfg(feature = "canary")]
        if canary::is(Canary::FlushEarly) && matches!(waiter, FlushWaiter::Request(_)) {
            self.durable_for(waiter);
            return;
        }
        self.flushes.waiting.push_back((sequence, waiter));
    }

    /// Sends a flush if somebody waits and none is in flight; true when it did.
    pub fn start_flush(&mut self) -> bool {
        if self.flushes.waiting.is_empty() || self.flushes.flying.is_some() {
            return false;
        }
        self.flushes.flying = Some(self.log.retired);
        self.counters.flushes += 1;
        self.queue.push(Op {
            tag: tag(Class::Flush, 0),
            device: 0,
            offset: 0,
            action: Action::Flush,
        });
        true
    }

    /// The flush is done.
    pub fn flushed(&mut self, done: Done) {
        let covered = self.flushes.flying.take().unwrap_or(0);
        match done.result {
            Ok(()) => self.log.durable = self.log.durable.max(covered),
            // A failed flush says nothing about what is durable, and asking again may lie: nothing is promised any more.
            Err(error) => self.latch_io("flushing", error),
        }
        for _ in 0..self.flushes.waiting.len() {
            let Some((sequence, waiter)) = self.flushes.waiting.pop_front() else { return };
            if self.latched.is_some() || sequence <= self.log.durable {
                self.durable_for(waiter);
            } else {
                self.flushes.waiting.push_back((sequence, waiter));
            }
        }
    }

    /// What `waiter` waited for is durable, or the lane is latched.
    fn durable_for(&mut self, waiter: FlushWaiter) {
        match waiter {
            FlushWaiter::Request(ticket) => {
                let result = self.latched.clone().map_or(Ok(()), Err);
                self.complete(ticket, None, result);
            }
            FlushWaiter::Write(write) => self.write_durable(write),
            FlushWaiter::Checkpoint => self.point_flushed(),
        }
    }
}
