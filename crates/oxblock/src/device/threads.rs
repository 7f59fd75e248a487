//! The thread queue: a pool of threads with plain system calls, for places where io_uring is forbidden. Jobs are a crew's,
//! as on a ring.
//!
//! Invariants: an operation belongs to exactly one of `waiting`, a worker, or `finished`; the event descriptor is
//! readable whenever `finished` is not empty; dropping the queue lets the workers finish everything submitted and joins
//! them, so no buffer is freed under a running call.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::crew::{Crew, GLANCE};
use super::target::Targets;
use super::watch::Watch;
use super::{Done, Event, IoQueue, Job, Op, QueueLimits, Sharing, Waiter, sync, wait_for};

/// The most threads: what keeps a disk busy. More are only started while all others are at work.
const THREADS_MAX: usize = 16;

/// A queue on a pool of threads.
pub(super) struct ThreadQueue {
    pool: Arc<Pool>,
    workers: Vec<JoinHandle<()>>,
    pushed: Vec<Op>,
    /// Operations pushed and not reaped.
    ops: usize,
    crew: Crew,
    /// Jobs that were done here.
    ready: Vec<Done>,
    waiter: Waiter,
    watch: Watch,
    /// Others may wait without the queue, so nothing may be left for [`IoQueue::wait`] to do.
    shared: bool,
}

/// What the queue shares with its workers.
struct Pool {
    targets: Targets,
    state: Mutex<State>,
    work: Condvar,
    event: Event,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Op>,
    finished: Vec<Done>,
    idle: usize,
    closing: bool,
}

impl ThreadQueue {
    /// A queue for `targets`. Threads are started when there is work for them.
    ///
    /// # Errors
    /// When no event descriptor or no thread is to be had.
    pub(super) fn new(targets: Targets, sharing: Sharing) -> io::Result<Self> {
        let event = Event::new()?;
        let crew = Crew::new(targets.clone())?;
        let waiter = Waiter::new([Arc::clone(event.descriptor()), crew.event()])?;
        let pool = Pool { targets, state: Mutex::default(), work: Condvar::new(), event };
        let mut queue = Self {
            pool: Arc::new(pool),
            workers: Vec::new(),
            pushed: Vec::new(),
            ops: 0,
            crew,
            ready: Vec::new(),
            waiter,
            watch: Watch::default(),
            shared: sharing == Sharing::Shared,
        };
        // The first one now, so that there is always one.
        queue.start_worker()?;
        Ok(queue)
    }

    fn start_worker(&mut self) -> io::Result<()> {
        let pool = Arc::clone(&self.pool);
        let name = format!("oxblock-io-{}", self.workers.len());
        self.workers.push(std::thread::Builder::new().name(name).spawn(move || pool.work())?);
        Ok(())
    }
}

impl Pool {
    fn lock(&self) -> MutexGuard<'_, State> {
        // No code that holds the lock can panic half-way through a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One worker's life.
    fn work(&self) {
        let mut state = self.lock();
        loop {
            if let Some(op) = state.waiting.pop_front() {
                drop(state);
                let done = sync::run(&self.targets, op);
                state = self.lock();
                if state.finished.is_empty() {
                    // Under the lock, so that the descriptor always tells what `finished` holds.
                    self.event.signal();
                }
                state.finished.push(done);
            } else if state.closing {
                return;
            } else {
                state.idle += 1;
                state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.idle -= 1;
            }
        }
    }
}

impl IoQueue for ThreadQueue {
    fn limits(&self) -> &[QueueLimits] {
        &self.pool.targets.limits
    }

    fn push(&mut self, op: Op) {
        self.ops += 1;
        self.pushed.push(op);
    }

    fn run(&mut self, job: Job) {
        self.crew.run(job, &mut self.ready);
    }

    fn submit(&mut self) {
        if self.shared && self.crew.out() > 0 {
            self.crew.help(&mut self.ready);
        }
        if self.pushed.is_empty() {
            return;
        }
        let mut state = self.pool.lock();
        let count = self.pushed.len();
        state.waiting.extend(self.pushed.drain(..));
        let missing = state.waiting.len().saturating_sub(state.idle);
        drop(state);
        for _ in 0..count {
            self.pool.work.notify_one();
        }
        for _ in 0..missing.min(THREADS_MAX.saturating_sub(self.workers.len())) {
            if self.start_worker().is_err() {
                // Fewer threads do the same work, only later.
                break;
            }
        }
    }

    fn reap(&mut self, done: &mut Vec<Done>) -> usize {
        let mut state = self.pool.lock();
        let count = state.finished.len();
        if count > 0 {
            done.append(&mut state.finished);
            self.pool.event.clear();
        }
        drop(state);
        self.ops -= count;
        let here = self.ready.len();
        done.append(&mut self.ready);
        count + here + self.crew.reap(done)
    }

    fn wait(&mut self, timeout: Option<Duration>) {
        self.submit();
        if !self.ready.is_empty() || self.crew.has_finished() {
            return;
        }
        if self.crew.out() == 0 {
            if self.ops > 0 {
                self.waiter.wait(timeout);
            }
            return;
        }
        // Not long while operations may end meanwhile.
        let most = timeout.unwrap_or(Duration::MAX);
        let limit = if self.ops > 0 { most.min(GLANCE) } else { most };
        if !self.crew.wait(limit, &mut self.ready) {
            let (ops, jobs) = (Arc::clone(self.pool.event.descriptor()), self.crew.event());
            self.crew.block(|| wait_for([ops.as_fd(), jobs.as_fd()], timeout));
        }
    }

    fn watch(&mut self, fd: Arc<OwnedFd>) -> io::Result<()> {
        self.watch.add(fd);
        Ok(())
    }

    fn wait_watching(&mut self, timeout: Option<Duration>) {
        self.submit();
        if !self.ready.is_empty() || self.crew.has_finished() {
            return;
        }
        let limit = timeout.unwrap_or(GLANCE).min(GLANCE);
        if self.crew.out() > 0 && self.crew.wait(limit, &mut self.ready) {
            return;
        }
        let (ops, jobs) = (Arc::clone(self.pool.event.descriptor()), self.crew.event());
        let watch = &self.watch;
        self.crew.block(|| watch.wait(&[&ops, &jobs], timeout));
    }

    fn waiter(&self) -> Option<Waiter> {
        self.crew.event_for_others();
        Some(self.waiter.clone())
    }

    fn in_flight(&self) -> usize {
        self.ops + self.ready.len() + self.crew.out()
    }

    fn describe(&self) -> String {
        format!("pool of up to {THREADS_MAX} threads ({})", self.pool.targets.paces())
    }
}

impl Drop for ThreadQueue {
    fn drop(&mut self) {
        self.pool.lock().closing = true;
        self.pool.work.notify_all();
        for worker in self.workers.drain(..) {
            // A worker that panicked has nothing in flight any more.
            worker.join().ok();
        }
    }
}
