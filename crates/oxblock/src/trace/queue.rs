//! The lane's queue of device operations, with marks on what goes through it.
//!
//! It counts what is pushed and reaped, and adds one branch for the trace; everything else is the queue's own, reached through `Deref`.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use super::TraceSink;
use super::tracer::{Numbers, Tracer};
use crate::device::{Done, IoQueue, Job, Op, QueueLimits, Waiter};
use crate::stats::DeviceTraffic;

/// A queue, and the trace of its lane if there is one.
pub(crate) struct Traced {
    queue: Box<dyn IoQueue + Send>,
    trace: Option<Box<Tracer>>,
    /// The numbers that a trace which has been taken away has given out: what it knew is still under way, and must not be
    /// taken for something of the next one.
    numbers: Numbers,
    /// What goes through, by device.
    traffic: Vec<DeviceTraffic>,
}

impl Traced {
    /// The queue, without a trace.
    pub fn new(queue: Box<dyn IoQueue + Send>) -> Self {
        let traffic = vec![DeviceTraffic::default(); queue.limits().len()];
        Self { queue, trace: None, numbers: Numbers::default(), traffic }
    }

    /// The queue alone; what was traced is over.
    pub fn into_inner(mut self) -> Box<dyn IoQueue + Send> {
        self.set_sink(None);
        std::mem::replace(&mut self.queue, Box::new(Gone))
    }

    /// Sets the sink, or takes it away. Spans that are open end for the sink that was there.
    pub fn set_sink(&mut self, sink: Option<Box<dyn TraceSink>>) {
        if let Some(trace) = self.trace.take() {
            self.numbers = trace.close(self.queue.now());
        }
        self.trace = sink.map(|sink| Box::new(Tracer::new(sink, self.numbers)));
    }

    /// The trace and the time, if there is a trace.
    pub fn trace(&mut self) -> Option<(&mut Tracer, u64)> {
        let trace = self.trace.as_mut()?;
        Some((trace, self.queue.now()))
    }

    /// True when there is a trace.
    pub fn is_traced(&self) -> bool {
        self.trace.is_some()
    }

    /// What went through, by device.
    pub fn traffic(&self) -> &[DeviceTraffic] {
        &self.traffic
    }

    /// The queue itself, for loading and recovery.
    pub fn as_mut(&mut self) -> &mut (dyn IoQueue + Send) {
        self.queue.as_mut()
    }

    /// [`IoQueue::push`].
    pub fn push(&mut self, op: Op) {
        let at_once = self.is_traced() && self.queue.starts_at_once(&op);
        if let Some((trace, now)) = self.trace() {
            trace.pushed(&op, now);
            if at_once {
                trace.submitted_last(now);
            }
        }
        if let Some(device) = self.traffic.get_mut(usize::from(op.device)) {
            device.begun(&op);
        }
        self.queue.push(op);
    }

    /// [`IoQueue::submit`].
    pub fn submit(&mut self) {
        // An operation may run to its end inside, so its mark comes first.
        if let Some((trace, now)) = self.trace() {
            trace.submitted(now);
        }
        self.queue.submit();
    }

    /// [`IoQueue::reap`].
    pub fn reap(&mut self, done: &mut Vec<Done>) -> usize {
        let before = done.len();
        let count = self.queue.reap(done);
        for done in done.iter().skip(before) {
            let device = done.device.and_then(|device| self.traffic.get_mut(usize::from(device)));
            if let Some(device) = device {
                device.ended(done);
            }
        }
        if count > 0
            && let Some((trace, now)) = self.trace()
        {
            done.iter().skip(before).for_each(|done| trace.reaped(done.tag, now));
        }
        count
    }
}

/// In place of a queue that was taken away: nobody uses it any more.
struct Gone;

impl IoQueue for Gone {
    fn limits(&self) -> &[QueueLimits] {
        &[]
    }

    fn push(&mut self, op: Op) {
        unreachable!("operation {} goes to a queue that is gone", op.tag)
    }

    fn run(&mut self, _: Job) {
        unreachable!("a job goes to a queue that is gone")
    }

    fn submit(&mut self) {}

    fn reap(&mut self, _: &mut Vec<Done>) -> usize {
        0
    }

    fn wait(&mut self, _: Option<Duration>) {}

    fn waiter(&self) -> Option<Waiter> {
        None
    }

    fn in_flight(&self) -> usize {
        0
    }

    fn describe(&self) -> String {
        "gone".into()
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        self.set_sink(None);
    }
}

impl Deref for Traced {
    type Target = dyn IoQueue + Send;

    fn deref(&self) -> &Self::Target {
        self.queue.as_ref()
    }
}

impl DerefMut for Traced {
    fn deref_mut(&mut self) -> &mut Self::Target {
        self.queue.as_mut()
    }
}
