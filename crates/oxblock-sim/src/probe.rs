//! A queue between the engine and the simulator: notices when the engine hangs, keeps count of failed writes, says what kind
//! of device this is, since the engine tunes itself by that, and lies to it for the canaries.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use oxblock::Error;
use oxblock::device::sim::SimQueue;
use oxblock::device::{Action, Done, IoQueue, Job, Op, QueueLimits, Waiter};

use crate::plan::Plan;
use crate::sabotage::Sabotage;

/// Waits without a completion after which the engine counts as stuck.
const PATIENCE: u32 = 20_000;

/// Bytes of the areas for superblocks.
const AREA: u64 = 1 << 20;
/// Places in which a record is tried.
const PLACES: u32 = 4;

/// Writes that have failed, and whether that may stop a volume.
#[derive(Debug, Default)]
pub struct Failures {
    /// By the tags of the writes: the same record carries the same tag again.
    of_record: HashMap<u64, u32>,
    /// Of the present superblock, copies that have ended, and copies that have failed.
    copies: (u32, u32),
    /// Writes of the log that have failed since the last superblock.
    since: u32,
    excuse: bool,
}

impl Failures {
    /// A write with this tag has ended: of a superblock, or of the log.
    fn ended(&mut self, tag: u64, superblock: bool, failed: bool) {
        if superblock {
            self.copies.0 += 1;
            self.copies.1 += u32::from(failed);
            self.since = if failed { self.since } else { 0 };
            if self.copies.0 == 2 {
                self.excuse |= self.copies.1 == 2;
                self.copies = (0, 0);
            }
            return;
        }
        if !failed {
            self.of_record.remove(&tag);
            return;
        }
        self.since += 1;
        let times = self.of_record.entry(tag).or_default();
        *times += 1;
        self.excuse |= *times >= PLACES;
    }

    /// Whether a record failed in all places, or both copies of a superblock; or whether several have failed since the last
    /// checkpoint, and the volume says that this was one too many for the places which it had.
    pub fn is_excuse(&self, error: &Error) -> bool {
        let no_place = || error.to_string().contains("finding another place for the log");
        self.excuse || (self.since > 1 && no_place())
    }
}

/// See the module.
#[derive(Debug)]
pub struct Probe {
    inner: SimQueue,
    sabotage: Sabotage,
    cheap_reads: bool,
    works_beside: bool,
    ready: Vec<Done>,
    idle: u32,
    failures: Arc<Mutex<Failures>>,
    /// Writes under way by their tags, and whether they are of superblocks.
    writes: HashMap<u64, bool>,
}

impl Probe {
    /// A probe over `inner`, with the nature that `plan` gives the device.
    pub fn new(
        inner: SimQueue,
        sabotage: Sabotage,
        plan: &Plan,
        failures: Arc<Mutex<Failures>>,
    ) -> Self {
        Self {
            inner,
            sabotage,
            cheap_reads: plan.cheap_reads,
            works_beside: plan.works_beside,
            ready: Vec::new(),
            idle: 0,
            failures,
            writes: HashMap::new(),
        }
    }
}

impl IoQueue for Probe {
    fn limits(&self) -> &[QueueLimits] {
        self.inner.limits()
    }

    fn push(&mut self, mut op: Op) {
        match (&mut op.action, self.sabotage) {
            (Action::Flush, Sabotage::DropFlushes) => {
                let done = Done {
                    tag: op.tag,
                    device: Some(op.device),
                    bufs: Default::default(),
                    work: None,
                    result: Ok(()),
                };
                self.ready.push(done);
                return;
            }
            (Action::Write { durable, .. }, Sabotage::DropDurable) => *durable = false,
            _ => {}
        }
        if let Action::Write { .. } = &op.action {
            let end = self.inner.limits().first().map_or(0, |limits| limits.size) - AREA;
            self.writes.insert(op.tag, !(AREA..end).contains(&op.offset));
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
        let before = done.len();
        let count = early + self.inner.reap(done);
        if count > 0 {
            self.idle = 0;
        }
        if let Ok(mut failures) = self.failures.lock() {
            for done in done.iter().skip(before) {
                if let Some(superblock) = self.writes.remove(&done.tag) {
                    failures.ended(done.tag, superblock, done.result.is_err());
                }
            }
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
