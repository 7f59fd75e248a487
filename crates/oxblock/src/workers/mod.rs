//! A worker that runs jobs beside the thread that issues them, without ever being waited for in vain.
//!
//! Jobs are offered, not handed over: they lie in a deque from which the worker steals and from which the issuer takes
//! back what nobody has taken yet. Whoever comes first runs it. A worker that is slow, asleep, or denied a core by the
//! scheduler therefore costs nothing but its share.
//!
//! A worker that finds nothing to do spins for a while and then sleeps. A spinning worker takes up a job within a
//! fraction of a microsecond; waking a sleeping one takes up to 50 us on virtual machines, so offers alone do not wake
//! it: [`Workers::wake`] does, and the issuer decides when that pays.
//!
//! Invariants: a job is in the deque, with the worker, in `finished`, or with the issuer, and nowhere twice. Dropping
//! [`Workers`] waits for the job that is being run, so nothing that a job owns is freed under a running call.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_deque::{Steal, Stealer, Worker};
use crossbeam_queue::SegQueue;
use rustix::event::{EventfdFlags, eventfd};

/// How long a worker without work spins before it sleeps: several times what waking it costs.
const SPIN: Duration = Duration::from_micros(200);

/// Turns of a spinning loop between two looks at the clock.
const TURNS: u32 = 64;

/// The worker, as its issuer sees it.
pub(crate) struct Workers<J, D> {
    deque: Worker<J>,
    shared: Arc<Shared<J, D>>,
    thread: Option<JoinHandle<()>>,
    /// Jobs offered that have neither been taken back nor reaped.
    out: usize,
}

struct Shared<J, D> {
    stealer: Stealer<J>,
    finished: SegQueue<D>,
    /// The worker looks for jobs.
    awake: AtomicBool,
    closing: AtomicBool,
    /// The issuer is about to block on the event, or it is always to be told.
    listening: AtomicBool,
    always: bool,
    event: Arc<OwnedFd>,
    run: Box<dyn Fn(J) -> D + Send + Sync>,
}

impl<J: Send + 'static, D: Send + 'static> Workers<J, D> {
    /// A worker that runs `run`; its thread is started when it is first woken. With `always` the event is signalled for
    /// every finished job, for issuers that wait on [`event`](Self::event) by themselves.
    ///
    /// # Errors
    /// When no event descriptor is to be had.
    pub fn new(always: bool, run: impl Fn(J) -> D + Send + Sync + 'static) -> io::Result<Self> {
        let deque = Worker::new_fifo();
        let shared = Shared {
            stealer: deque.stealer(),
            finished: SegQueue::new(),
            awake: AtomicBool::new(false),
            closing: AtomicBool::new(false),
            listening: AtomicBool::new(false),
            always,
            event: Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?),
            run: Box::new(run),
        };
        Ok(Self { deque, shared: Arc::new(shared), thread: None, out: 0 })
    }

    /// Polls readable when jobs may have finished.
    pub fn event(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.shared.event)
    }

    /// True while the worker looks for jobs, so that an offer is taken up at once.
    pub fn is_awake(&self) -> bool {
        self.shared.awake.load(Ordering::Relaxed)
    }

    /// Wakes the worker if there is a core for it; costs the issuer a system call.
    pub fn wake(&mut self) {
        // Asked each time: it follows the affinity of the calling thread.
        if self.is_awake()
            || std::thread::available_parallelism().map_or(1, |cores| cores.get()) < 2
        {
            return;
        }
        self.shared.awake.store(true, Ordering::SeqCst);
        match &self.thread {
            Some(thread) => thread.thread().unpark(),
            None => {
                let shared = Arc::clone(&self.shared);
                let started = std::thread::Builder::new()
                    .name("oxblock-worker".to_owned())
                    .spawn(move || shared.work());
                match started {
                    Ok(thread) => self.thread = Some(thread),
                    // Without a thread the issuer does it all.
                    Err(_) => self.shared.awake.store(false, Ordering::SeqCst),
                }
            }
        }
    }

    /// Offers a job.
    pub fn offer(&mut self, job: J) {
        self.out += 1;
        self.deque.push(job);
    }

    /// Takes back the oldest job that nobody has taken yet.
    pub fn take_back(&mut self) -> Option<J> {
        let job = self.deque.pop();
        self.out -= usize::from(job.is_some());
        job
    }

    /// Jobs offered that have neither been taken back nor reaped.
    pub fn out(&self) -> usize {
        self.out
    }

    /// True when something can be reaped.
    pub fn has_finished(&self) -> bool {
        !self.shared.finished.is_empty()
    }

    /// Moves what is finished to `done` and returns how many.
    pub fn reap(&mut self, done: &mut Vec<D>) -> usize {
        let before = done.len();
        while self.out > 0
            && let Some(finished) = self.shared.finished.pop()
        {
            self.out -= 1;
            done.push(finished);
        }
        done.len() - before
    }

    /// Spins until something can be reaped or `limit` has passed; true when something can.
    pub fn spin(&self, limit: Duration) -> bool {
        let begin = Instant::now();
        loop {
            for _ in 0..TURNS {
                if self.has_finished() {
                    return true;
                }
                std::hint::spin_loop();
            }
            if begin.elapsed() >= limit {
                return false;
            }
        }
    }

    /// Has the event signalled for the next job that finishes; false when there is one already. Take it back by
    /// [`unlisten`](Self::unlisten).
    pub fn listen(&self) -> bool {
        self.shared.listening.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        !self.has_finished()
    }

    /// The issuer does not wait any more.
    pub fn unlisten(&self) {
        self.shared.listening.store(self.shared.always, Ordering::Relaxed);
        // Not signalled: nothing to take back.
        rustix::io::read(&*self.shared.event, &mut [0; 8]).ok();
    }
}

impl<J, D> Shared<J, D> {
    /// The worker's life.
    fn work(&self) {
        let mut idle = Instant::now();
        let mut turns = 0;
        loop {
            match self.stealer.steal() {
                Steal::Success(job) => {
                    self.finish((self.run)(job));
                    idle = Instant::now();
                    turns = 0;
                }
                Steal::Retry => {}
                Steal::Empty if self.closing.load(Ordering::Acquire) => return,
                Steal::Empty => {
                    std::hint::spin_loop();
                    turns += 1;
                    if turns % TURNS == 0 && idle.elapsed() >= SPIN {
                        self.sleep();
                        idle = Instant::now();
                    }
                }
            }
        }
    }

    fn finish(&self, done: D) {
        self.finished.push(done);
        fence(Ordering::SeqCst);
        if self.always || self.listening.load(Ordering::Relaxed) {
            // Cannot fail but when it is full of signals already.
            rustix::io::write(&*self.event, &event_count()).ok();
        }
    }

    /// Sleeps until woken. A job that was offered before anybody could know stays in the deque; its issuer takes it back.
    fn sleep(&self) {
        self.awake.store(false, Ordering::SeqCst);
        while !self.awake.load(Ordering::SeqCst) && !self.closing.load(Ordering::SeqCst) {
            std::thread::park();
        }
    }
}

#[expect(clippy::host_endian_bytes, reason = "the kernel reads a native integer")]
fn event_count() -> [u8; 8] {
    1u64.to_ne_bytes()
}

impl<J, D> Drop for Workers<J, D> {
    fn drop(&mut self) {
        self.shared.closing.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A worker that panicked runs nothing any more.
            thread.join().ok();
        }
    }
}

#[cfg(test)]
mod tests;
