//! The workers behind a queue: copying and computing on other cores, where that pays.
//!
//! What is offered here is measured in the nanoseconds that it takes one core. Little is not offered at all: it is done
//! sooner than it is handed over. Workers are woken for one large batch, or when a stream of work has been going on for
//! a while, and go to sleep by themselves.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::target::{Targets, now_ns};
use super::{Done, Event, Job, Op, sync};
use crate::workers::{Claim, Load, Workers};

/// Work from which a task is worth another core: ten times what an awake worker needs to take it up.
pub(super) const WORTH: u64 = 4_000;

/// Work in a batch of several tasks that pays for waking a worker.
const LARGE: u64 = 100_000;

/// Work in a stream of worthwhile batches after which a worker is woken.
const STREAM: u64 = 500_000;

/// The stream has ended after so long without a worthwhile batch.
const STREAM_GAP: u64 = 1_000_000;

/// How long a wait for the workers keeps from looking at what else may have come.
pub(super) const GLANCE: Duration = Duration::from_micros(20);

/// How long the issuer waits for a worker before it takes the worker's own tasks back.
const PATIENCE: Duration = Duration::from_micros(200);

/// What workers do.
pub(super) enum Task {
    Op(Op),
    Job(Job),
}

impl Task {
    /// Runs it to its end.
    pub(super) fn run(self, targets: &Targets) -> Done {
        match self {
            Self::Op(op) => sync::run(targets, op),
            Self::Job(job) => job.run(),
        }
    }
}

/// How much worthwhile work has come without a pause.
#[derive(Debug, Default)]
struct Stream {
    cost: u64,
    last: u64,
}

impl Stream {
    /// Notes work at `now`; true when the stream is long enough to wake a worker.
    fn note(&mut self, cost: u64, now: u64) -> bool {
        if now.saturating_sub(self.last) > STREAM_GAP {
            self.cost = 0;
        }
        self.last = now;
        self.cost = self.cost.saturating_add(cost);
        self.cost >= STREAM
    }
}

/// The workers of one queue.
pub(super) struct Crew {
    workers: Workers<Task, Done>,
    stream: Stream,
    load: Load,
    targets: Targets,
    event: Event,
    /// The event was signalled and not cleared since.
    told: Arc<AtomicBool>,
}

impl Crew {
    /// Workers on `targets`.
    ///
    /// # Errors
    /// When no event descriptor is to be had.
    pub(super) fn new(targets: Targets) -> io::Result<Self> {
        let event = Event::new()?;
        let (signal, on) = (event.clone(), targets.clone());
        let told = Arc::new(AtomicBool::new(false));
        let tells = Arc::clone(&told);
        let tell = move || {
            signal.signal();
            tells.store(true, Ordering::SeqCst);
        };
        let workers = Workers::new(tell, move |task: Task| task.run(&on));
        Ok(Self { workers, stream: Stream::default(), load: Load::new(), targets, event, told })
    }

    /// Polls readable when tasks may have finished, for whoever [blocks](Self::block) by it.
    pub(super) fn event(&self) -> Arc<OwnedFd> {
        Arc::clone(self.event.descriptor())
    }

    /// The same for those who wait without the queue.
    pub(super) fn event_for_others(&self) -> Arc<OwnedFd> {
        self.workers.tell_always();
        self.event()
    }

    /// True while a worker looks for tasks.
    pub(super) fn is_awake(&self) -> bool {
        self.workers.is_awake()
    }

    /// True while a worker looks for tasks and has a core for them.
    pub(super) fn is_free(&self) -> bool {
        !self.load.was_saturated() && !self.workers.is_crowded() && self.is_awake()
    }

    /// Wakes a worker if `cost` nanoseconds of work, in `tasks` tasks, are worth it; true when one is awake and has a core
    /// for it.
    pub(super) fn rouse(&mut self, cost: u64, tasks: usize) -> bool {
        if cost < WORTH {
            return self.is_free();
        }
        let now = now_ns();
        if self.load.is_saturated(now, self.workers.awake()) {
            return false;
        }
        let large = cost >= LARGE && tasks > 1;
        let late = self.workers.waiting() > 0 || !self.is_awake();
        if late && (self.stream.note(cost, now) || large) {
            self.workers.wake();
        }
        self.is_free()
    }

    /// Offers a task, and sees to it that the next one is only if there is still a core for it.
    pub(super) fn offer(&mut self, task: Task, claim: Claim) {
        self.load.is_saturated(now_ns(), self.workers.awake());
        self.workers.offer(task, claim);
    }

    /// Has a job done: by a worker, whatever that costs, where it is to be handed over, though of a backlog the issuer takes
    /// its share rather than wait; by whoever comes first where that pays; else here. Where there is no thread to take it,
    /// it is run here too: nothing may be left behind for a wait that others do without the queue.
    pub(super) fn run(&mut self, job: Job, ready: &mut impl Extend<Done>) {
        if job.handed_over {
            let backlog = job.cost >= WORTH && self.workers.waiting() > 0;
            let claim = if backlog { Claim::Anybody } else { Claim::Worker };
            self.workers.offer(Task::Job(job), claim);
            if !self.is_awake() || self.workers.waiting() > 1 {
                self.workers.summon();
            }
        } else if self.rouse(job.cost, 2) {
            self.workers.offer(Task::Job(job), Claim::Anybody);
        } else {
            ready.extend([job.run()]);
        }
        if !self.is_awake() {
            self.reclaim(ready);
        }
    }

    /// The issuer's share of what is anybody's: all that no worker takes first.
    pub(super) fn help(&mut self, ready: &mut impl Extend<Done>) {
        while let Some(task) = self.workers.take() {
            ready.extend([task.run(&self.targets)]);
        }
        if !self.is_awake() {
            self.reclaim(ready);
        }
    }

    /// Runs whatever nobody has taken.
    fn reclaim(&mut self, ready: &mut impl Extend<Done>) {
        while let Some(task) = self.workers.reclaim() {
            ready.extend([task.run(&self.targets)]);
        }
    }

    /// Tasks offered and not yet reaped or run here.
    pub(super) fn out(&self) -> usize {
        self.workers.out()
    }

    /// Moves what is finished to `done`.
    pub(super) fn reap(&mut self, done: &mut Vec<Done>) -> usize {
        // Before looking, so that what ends meanwhile is told of again. A task may have been reaped before its end was
        // told, so also when nothing is out: else whoever waits by the event would find it readable for ever.
        if self.told.load(Ordering::Relaxed) {
            self.told.store(false, Ordering::SeqCst);
            self.event.clear();
        }
        if self.workers.out() == 0 || !self.workers.has_finished() {
            return 0;
        }
        self.workers.reap(done)
    }

    /// True when something can be reaped.
    pub(super) fn has_finished(&self) -> bool {
        self.workers.has_finished()
    }

    /// Brings the tasks on for up to `limit`: runs what is anybody's, waits for the workers' own, and takes those back
    /// when nothing comes. True when there is something to reap, here or in `ready`.
    pub(super) fn wait(&mut self, limit: Duration, ready: &mut Vec<Done>) -> bool {
        if let Some(task) = self.workers.take() {
            ready.push(task.run(&self.targets));
            return true;
        }
        if self.workers.spin(limit.min(PATIENCE)) {
            return true;
        }
        // A crowded worker runs as soon as the issuer blocks.
        if limit > PATIENCE && !self.workers.is_crowded() {
            self.reclaim(ready);
        }
        !ready.is_empty()
    }

    /// Blocks by `block` until a task ends; `block` has to return when the event is signalled.
    pub(super) fn block(&mut self, block: impl FnOnce()) {
        if self.workers.listen() {
            block();
            // Whoever signalled may have lost its core before it could say so, and an issuer that never sleeps would keep
            // it from it.
            self.event.clear();
        }
        self.workers.unlisten();
    }
}
