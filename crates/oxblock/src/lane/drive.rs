//! The loop: reap, apply, send; never block.

use std::time::Duration;

use super::Lane;
use super::tag::{Class, classify};
use crate::error::{Error, ErrorKind};
use crate::submit::request::Completion;

/// Rounds of one call, so that a caller with a fast device gets its completions in between.
const ROUNDS: usize = 4;

impl Lane {
    /// Sends what is queued.
    pub fn submit(&mut self) {
        self.step();
        self.queue.submit();
        self.moment = None;
    }

    /// The time, as it was when it was last needed in this call or, between two calls, since the one before: to read it for
    /// every request would be too much.
    pub fn moment(&mut self) -> u64 {
        let queue = &self.queue;
        *self.moment.get_or_insert_with(|| queue.now())
    }

    /// Reaps and goes on until nothing more can be done at once; moves completions to `out`.
    pub fn poll(&mut self, out: &mut Vec<Completion>) -> usize {
        for _ in 0..ROUNDS {
            self.moment = None;
            let reaped = self.reap();
            let stepped = self.step();
            if reaped || stepped {
                // What was reaped may have sent more too.
                self.queue.submit();
            }
            if !(reaped || stepped) || !(self.done.is_empty() || self.out.is_empty()) {
                break;
            }
        }
        let count = self.out.len();
        out.extend(self.out.drain(..));
        self.trace_handed_over();
        self.moment = None;
        count
    }

    /// True when more has ended than the last poll dealt with.
    pub fn has_more(&self) -> bool {
        !self.done.is_empty()
    }

    /// Blocks until something can be reaped or `timeout` has passed.
    pub fn wait(&mut self, timeout: Option<Duration>) {
        if self.out.is_empty() && self.done.is_empty() {
            self.queue.wait(timeout);
        }
    }

    /// Blocks until something can be reaped, a watched descriptor polls readable, or `timeout` has passed.
    pub fn wait_watching(&mut self, timeout: Option<Duration>) {
        if !self.out.is_empty() || !self.done.is_empty() {
            return;
        }
        // What can go on at once would otherwise wait for a descriptor that knows nothing of it.
        if self.step() {
            self.queue.submit();
            return;
        }
        if self.out.is_empty() {
            self.queue.wait_watching(timeout);
        }
    }

    /// True when requests, or work that they began, are under way.
    pub fn busy(&self) -> bool {
        self.queue.in_flight() > 0
            || !self.done.is_empty()
            || self.writes.open() > 0
            || self.rmws.open() > 0
            || self.reads.open() > 0
            || !self.log.records.is_empty()
            || !self.flushes.idle()
            || !self.point.idle()
            || self.fetches.flying() > 0
    }

    /// True when writes wait and nothing is under way that could help them. Creation leaves enough room that this does
    /// not come to pass unless damaged segments, which cannot be cleaned, take it up.
    fn is_stuck(&self) -> bool {
        !self.writes.incoming.is_empty()
            && self.begun()
            && self.queue.in_flight() == 0
            && self.done.is_empty()
            && self.point.idle()
            && (!self.cleaning() || self.cleaner_starves())
    }

    fn reap(&mut self) -> bool {
        if self.done.is_empty() {
            self.queue.reap(&mut self.done);
            self.done.reverse();
        }
        let any = !self.done.is_empty();
        for _ in 0..self.tuning.reaped {
            let Some(done) = self.done.pop() else { break };
            let (class, number) = classify(done.tag);
            match class {
                Class::Record => self.record_ended(number, done),
                Class::Read => self.bio_ended(number, done),
                Class::Node => self.fetched(number, &done),
                Class::Flush => self.flushed(done),
                Class::Superblock => self.superblock_written(done),
                Class::Clean => self.window_read(done),
                Class::Discard => self.discarded(number),
                Class::Sum => self.summed(done),
                Class::End => self.end_returned(done),
            }
        }
        any
    }

    /// Does everything that can be done without waiting; true when anything was sent or finished.
    fn step(&mut self) -> bool {
        let mut any = self.start_reads();
        any |= self.go_elsewhere();
        any |= self.retire();
        any |= self.advance_deferred();
        any |= self.gather();
        any |= self.advance_point();
        any |= self.advance_cleaner();
        any |= self.start_flush();
        self.trace_background();
        if !any && self.is_stuck() && !self.try_checkpoint() {
            self.latched = Some(Error::new(
                ErrorKind::NoSpace,
                "no space is left that cleaning could win back; the volume takes no more writes until it is reopened",
            ));
        }
        if let Some(segment) = self.segments.contradicted()
            && self.latched.is_none()
        {
            self.latched = Some(Error::new(
                ErrorKind::Corrupt,
                format!(
                    "the segment table contradicts the map about segment {segment}; \
                     the volume takes no more writes: run 'oxblock check'"
                ),
            ));
        }
        if let Some(error) = self.latched.clone() {
            self.fail_deferred(&error);
            self.fail_incoming(&error);
        }
        any
    }
}
