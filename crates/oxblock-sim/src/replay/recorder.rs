//! A queue between the engine and a real one that writes down every write, flush and discard, when it is pushed and when
//! the engine is told that it is done.
//!
//! It says that the device has a volatile cache, whatever the device says: the images that are built from the tape are
//! those of a device with one, and the engine must act accordingly.

use std::collections::HashMap;
use std::time::Duration;

use oxblock::device::{Action, Done, Fua, IoQueue, Job, Op, QueueLimits, Waiter};

use super::event::Event;
use super::tape::Tape;

/// A fault of the recorder on purpose, to prove that the replay can fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Lie {
    /// None.
    #[default]
    None,
    /// Flushes are not on the tape: the engine believes in what never happened.
    DropFlush,
    /// Writes that were done before a flush are on the tape as done after it.
    Reorder,
    /// Durable writes are on the tape as volatile ones.
    DropDurable,
}

/// See the module.
pub struct Recorder {
    /// There until it is dropped.
    inner: Option<Box<dyn IoQueue + Send>>,
    limits: Vec<QueueLimits>,
    tape: Tape,
    lie: Lie,
    /// Numbers of the operations in flight, by tag.
    flying: HashMap<u64, u64>,
    /// Flushes among them.
    flushes: Vec<u64>,
    /// Operations whose end is not on the tape yet, for [`Lie::Reorder`].
    late: Vec<u64>,
}

impl Recorder {
    /// A recorder over `inner`; durable writes are emulated as the engine sees it, or not.
    pub fn new(inner: Box<dyn IoQueue + Send>, tape: Tape, emulated: bool, lie: Lie) -> Self {
        let mut limits = inner.limits().to_vec();
        for limits in &mut limits {
            limits.write_cache = true;
            limits.fua = if emulated { Fua::Emulated } else { Fua::Native };
        }
        Self {
            inner: Some(inner),
            limits,
            tape,
            lie,
            flying: HashMap::new(),
            flushes: Vec::new(),
            late: Vec::new(),
        }
    }

    #[expect(clippy::expect_used, reason = "it is taken in `drop` and nowhere else")]
    fn inner(&mut self) -> &mut (dyn IoQueue + Send) {
        self.inner.as_deref_mut().expect("the queue is there until the end")
    }

    #[expect(clippy::expect_used, reason = "as above")]
    fn inner_ref(&self) -> &(dyn IoQueue + Send) {
        self.inner.as_deref().expect("the queue is there until the end")
    }

    fn done(&mut self, op: u64, well: bool) {
        if let Some(at) = self.flushes.iter().position(|flush| *flush == op) {
            self.flushes.swap_remove(at);
            self.tape.add(Event::Done { op, well });
            for op in std::mem::take(&mut self.late) {
                self.tape.add(Event::Done { op, well: true });
            }
        } else if self.lie == Lie::Reorder && well {
            self.late.push(op);
        } else {
            self.tape.add(Event::Done { op, well });
        }
    }
}

impl IoQueue for Recorder {
    fn limits(&self) -> &[QueueLimits] {
        &self.limits
    }

    fn push(&mut self, op: Op) {
        let none = std::iter::empty();
        let number = match &op.action {
            Action::Read(_) => None,
            Action::Flush if self.lie == Lie::DropFlush => None,
            Action::Flush => {
                let number = self.tape.add_op(Event::Flush, none);
                self.flushes.push(number);
                Some(number)
            }
            Action::Discard { len } => {
                Some(self.tape.add_op(Event::Discard { offset: op.offset, len: *len }, none))
            }
            Action::Write { bufs, durable } => {
                let len = bufs.iter().map(|buf| buf.len() as u64).sum();
                let durable = *durable && self.lie != Lie::DropDurable;
                let event = Event::Write { offset: op.offset, len, durable };
                Some(self.tape.add_op(event, bufs.iter().map(|buf| &**buf)))
            }
        };
        if let Some(number) = number {
            self.flying.insert(op.tag, number);
        }
        self.inner().push(op);
    }

    fn starts_at_once(&self, op: &Op) -> bool {
        self.inner_ref().starts_at_once(op)
    }

    fn run(&mut self, job: Job) {
        self.inner().run(job);
    }

    fn submit(&mut self) {
        self.inner().submit();
    }

    fn reap(&mut self, done: &mut Vec<Done>) -> usize {
        let before = done.len();
        let count = self.inner().reap(done);
        for done in done.iter().skip(before) {
            if let Some(op) = self.flying.remove(&done.tag) {
                self.done(op, done.result.is_ok());
            }
        }
        count
    }

    fn wait(&mut self, timeout: Option<Duration>) {
        self.inner().wait(timeout);
    }

    fn waiter(&self) -> Option<Waiter> {
        self.inner_ref().waiter()
    }

    fn in_flight(&self) -> usize {
        self.inner_ref().in_flight()
    }

    fn now(&self) -> u64 {
        self.inner_ref().now()
    }

    fn has_cheap_reads(&self) -> bool {
        self.inner_ref().has_cheap_reads()
    }

    fn works_beside(&self) -> bool {
        self.inner_ref().works_beside()
    }

    fn has_workers(&self) -> bool {
        self.inner_ref().has_workers()
    }

    fn describe(&self) -> String {
        format!("{}, recorded", self.inner_ref().describe())
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        // The queue waits for what is in flight, so all of it has come to its end, whoever is told.
        drop(self.inner.take());
        let mut left: Vec<u64> = self.flying.drain().map(|(_, op)| op).collect();
        left.append(&mut self.late);
        left.sort_unstable();
        for op in left {
            self.tape.add(Event::Done { op, well: true });
        }
    }
}
