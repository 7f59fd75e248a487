//! The thread queue: a pool of threads with plain system calls, for places where io_uring is forbidden.
//!
//! Invariants: an operation belongs to exactly one of `waiting`, a worker, or `finished`; the event descriptor is
//! readable whenever `finished` is not empty; dropping the queue lets the workers finish everything submitted and joins
//! them, so no buffer is freed under a running call.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::crew::Task;
use super::target::Targets;
use super::{Done, Event, IoQueue, Job, Op, QueueLimits, Waiter};

/// The most threads: what keeps a disk busy. More are only started while all others are at work.
const THREADS_MAX: usize = 16;

/// A queue on a pool of threads.
pub(super) struct ThreadQueue {
    pool: Arc<Pool>,
    workers: Vec<JoinHandle<()>>,
    pushed: Vec<Task>,
    in_flight: usize,
    waiter: Waiter,
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
    waiting: VecDeque<Task>,
    finished: Vec<Done>,
    idle: usize,
    closing: bool,
}

impl ThreadQueue {
    /// A queue for `targets`. Threads are started when there is work for them.
    ///
    /// # Errors
    /// When no event descriptor or no thread is to be had.
    pub(super) fn new(targets: Targets) -> io::Result<Self> {
        let event = Event::new()?;
        let waiter = Waiter::new([Arc::clone(event.descriptor())])?;
        let pool = Pool { targets, state: Mutex::default(), work: Condvar::new(), event };
        let mut queue = Self {
            pool: Arc::new(pool),
            workers: Vec::new(),
            pushed: Vec::new(),
            in_flight: 0,
            waiter,
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
            if let Some(task) = state.waiting.pop_front() {
                drop(state);
                let done = task.run(&self.targets);
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
        self.in_flight += 1;
        self.pushed.push(Task::Op(op));
    }

    fn run(&mut self, job: Job) {
        self.in_flight += 1;
        self.pushed.push(Task::Job(job));
    }

    fn submit(&mut self) {
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
        self.in_flight -= count;
        count
    }

    fn wait(&mut self, timeout: Option<Duration>) {
        self.submit();
        if self.in_flight > 0 {
            self.waiter.wait(timeout);
        }
    }

    fn waiter(&self) -> Option<Waiter> {
        Some(self.waiter.clone())
    }

    fn in_flight(&self) -> usize {
        self.in_flight
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
