//! The queue that an engine drives.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::machine::Machine;
use crate::device::watch::Watch;
use crate::device::{Done, IoQueue, Job, Op, QueueLimits, Waiter};

/// The machine, shared by handle and queues.
pub(super) type Shared = Arc<Mutex<Machine>>;

/// Locks the machine; a test that panicked elsewhere does not take this one along.
pub(super) fn lock(machine: &Shared) -> MutexGuard<'_, Machine> {
    machine.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An [`IoQueue`] over all devices of a [`SimDisk`](super::SimDisk).
///
/// Dropping it ends what it has in flight, as the contract asks. A program that dies with its
/// power does not do that: cut the power first, then drop.
pub struct SimQueue {
    machine: Shared,
    id: u64,
    limits: Vec<QueueLimits>,
    /// Jobs, in the order in which they end; done at once, since nobody can see inside.
    jobs: BTreeMap<(u64, u64), Done>,
    jobs_begun: u64,
    watch: Watch,
}

impl SimQueue {
    pub(super) fn open(machine: &Shared) -> Self {
        let mut state = lock(machine);
        let limits = state.devices.iter().map(|device| device.config.limits()).collect();
        let id = state.open();
        drop(state);
        let (machine, jobs) = (Arc::clone(machine), BTreeMap::new());
        Self { machine, id, limits, jobs, jobs_begun: 0, watch: Watch::default() }
    }
}

impl IoQueue for SimQueue {
    fn limits(&self) -> &[QueueLimits] {
        &self.limits
    }

    fn push(&mut self, op: Op) {
        lock(&self.machine).push(self.id, op);
    }

    fn run(&mut self, job: Job) {
        let due = lock(&self.machine).job_due(job.cost);
        self.jobs_begun += 1;
        self.jobs.insert((due, self.jobs_begun), job.run());
    }

    fn submit(&mut self) {
        lock(&self.machine).step();
    }

    fn reap(&mut self, done: &mut Vec<Done>) -> usize {
        let mut machine = lock(&self.machine);
        machine.step();
        let now = machine.now();
        let count = machine.reap(self.id, done);
        drop(machine);
        let later = self.jobs.split_off(&(now + 1, 0));
        let ended = std::mem::replace(&mut self.jobs, later);
        let jobs = ended.len();
        done.extend(ended.into_values());
        count + jobs
    }

    fn wait(&mut self, timeout: Option<Duration>) {
        let limit = timeout.map(|limit| u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX));
        let job = self.jobs.first_key_value().map(|((due, _), _)| *due);
        lock(&self.machine).wait(self.id, limit, job);
    }

    fn watch(&mut self, fd: Arc<OwnedFd>) -> io::Result<()> {
        self.watch.add(fd);
        Ok(())
    }

    fn wait_watching(&mut self, timeout: Option<Duration>) {
        // Descriptors are real, the devices' time is not: it passes while anything is in flight, and only then.
        if self.in_flight() == 0 {
            self.watch.wait(&[], timeout);
        } else {
            self.wait(timeout);
        }
    }

    fn waiter(&self) -> Option<Waiter> {
        None // Simulated time passes in `wait`; there is nothing real to block on.
    }

    fn in_flight(&self) -> usize {
        lock(&self.machine).in_flight(self.id) + self.jobs.len()
    }

    fn now(&self) -> u64 {
        lock(&self.machine).now()
    }

    fn describe(&self) -> String {
        "simulated device".to_owned()
    }
}

impl Drop for SimQueue {
    fn drop(&mut self) {
        lock(&self.machine).close(self.id);
    }
}

impl std::fmt::Debug for SimQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SimQueue").field("id", &self.id).finish_non_exhaustive()
    }
}
