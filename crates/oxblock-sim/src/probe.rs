//! A queue between the engine and the simulator: notices when the engine hangs, says what kind of device this is, since
//! the engine tunes itself by that, and lies to it for the canaries.

use std::time::Duration;

use oxblock::device::sim::SimQueue;
use oxblock::device::{Action, Done, IoQueue, Job, Op, QueueLimits, Waiter};

use crate::plan::Plan;
use crate::sabotage::Sabotage;

/// Waits without a completion after which the engine counts as stuck.
const PATIENCE: u32 = 20_000;

/// See the module.
#[derive(Debug)]
pub struct Probe {
    inner: SimQueue,
    sabotage: Sabotage,
    cheap_reads: bool,
    works_beside: bool,
    ready: Vec<Done>,
    idle: u32,
}

impl Probe {
    /// A probe over `inner`, with the nature that `plan` gives the device.
    pub fn new(inner: SimQueue, sabotage: Sabotage, plan: &Plan) -> Self {
        let (cheap_reads, works_beside) = (plan.cheap_reads, plan.works_beside);
        Self { inner, sabotage, cheap_reads, works_beside, ready: Vec::new(), idle: 0 }
    }
}

impl IoQueue for Probe {
    fn limits(&self) -> &[QueueLimits] {
        self.inner.limits()
    }

    fn push(&mut self, mut op: Op) {
        match (&mut op.action, self.sabotage) {
            (Action::Flush, Sabotage::DropFlushes) => {
                let done =
                    Done { tag: op.tag, bufs: Default::default(), work: None, result: Ok(()) };
                self.ready.push(done);
                return;
            }
            (Action::Write { durable, .. }, Sabotage::DropDurable) => *durable = false,
            _ => {}
        }
        self.inner.push(op);
    }

    fn run(&mut self, job: Job) {
        self.inner.run(job);
    }

    fn submit(&mut self) {
        self.inner.submit();
    }

    fn reap(&mut self, done: &mut Vec<Done>) -> usize {
        let early = self.ready.len();
        done.append(&mut self.ready);
        let count = early + self.inner.reap(done);
        if count > 0 {
            self.idle = 0;
        }
        count
    }

    fn wait(&mut self, timeout: Option<Duration>) {
        if !self.ready.is_empty() {
            return;
        }
        self.idle += 1;
        #[expect(clippy::panic, reason = "the only way out of an engine that waits for nothing")]
        if self.idle > PATIENCE {
            panic!("the engine is stuck: it waits, with {} in flight", self.inner.in_flight());
        }
        self.inner.wait(timeout);
    }

    fn waiter(&self) -> Option<Waiter> {
        None
    }

    fn in_flight(&self) -> usize {
        self.inner.in_flight() + self.ready.len()
    }

    fn now(&self) -> u64 {
        self.inner.now()
    }

    fn has_cheap_reads(&self) -> bool {
        self.cheap_reads
    }

    fn works_beside(&self) -> bool {
        self.works_beside
    }

    fn describe(&self) -> String {
        "simulated device behind a probe".to_owned()
    }
}
