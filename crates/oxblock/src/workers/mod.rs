//! Workers that run jobs beside the thread that issues them, without ever being waited for in vain.
//!
//! Jobs are offered, not handed over: they lie in a deque from which workers steal, and from which the issuer takes back
//! what nobody has taken yet. Whoever comes first runs it. A worker that is slow, asleep, or denied a core by the
//! scheduler therefore costs nothing but its share. Jobs that the issuer would rather not run itself lie in a second
//! deque, which workers look into first; it can take them back all the same.
//!
//! A worker that finds nothing to do spins for a while and then sleeps. A spinning worker takes up a job within a
//! fraction of a microsecond; waking a sleeping one takes up to 50 us on virtual machines, so offers alone do not wake
//! it: [`Workers::wake`] does, and the issuer decides when that pays. It wakes nobody where there is one core only.
//!
//! What must be handed over is, even there ([`Workers::summon`]): the worker is **crowded** then, shares the issuer's
//! core, and neither of the two spins while the other could run.
//!
//! The count of awake workers is that of the workers that run, and of the **places** that were granted and not taken: whoever
//! wants to sleep takes a place, if there is one, and goes on.
//!
//! Invariants: a job is in a deque, with a worker, in `finished`, or with the issuer, and nowhere twice. A job that was
//! offered while [`Workers::is_awake`] said yes *afterwards* is taken up without any further call. Dropping [`Workers`]
//! waits for the jobs that are being run and for those on offer, so nothing that a job owns is freed under a running
//! call.

mod cost;
mod load;

pub use cost::{HandOff, hand_off};
pub(crate) use load::Load;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_deque::{Steal, Stealer, Worker};
use crossbeam_queue::SegQueue;

/// How long a worker without work spins before it sleeps: several times what waking it costs.
const SPIN: Duration = Duration::from_micros(200);

/// Turns of a spinning loop between two looks at the clock.
const TURNS: u32 = 64;

/// Time from which whoever spins lets others have the core in between, in case the one it waits for is among them.
const POLITE: Duration = Duration::from_micros(20);

/// Time between two looks at the cores that there are, each of which reads files.
const LOOK: Duration = Duration::from_millis(10);

/// The most threads, however many cores there are: one issuer does not make work for more.
const THREADS_MAX: usize = 4;

/// Whose job it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Claim {
    /// A worker's. The issuer takes it back only when no worker gets on with it.
    Worker,
    /// Whoever comes first.
    Anybody,
}

/// The workers, as their issuer sees them.
pub(crate) struct Workers<J, D> {
    theirs: Worker<J>,
    anybodys: Worker<J>,
    shared: Arc<Shared<J, D>>,
    threads: Vec<JoinHandle<()>>,
    /// Jobs offered that have neither been taken back nor reaped.
    out: usize,
    /// Cores that the issuer may use, and when that was found out.
    cores: usize,
    looked: Option<Instant>,
}

struct Shared<J, D> {
    theirs: Stealer<J>,
    anybodys: Stealer<J>,
    finished: SegQueue<D>,
    /// Workers that look for jobs, and places that one of them will take.
    awake: AtomicUsize,
    places: AtomicUsize,
    closing: AtomicBool,
    /// Workers have no core but the issuer's.
    crowded: AtomicBool,
    /// The issuer is about to block and wants to be told, or always does.
    listening: AtomicBool,
    always: AtomicBool,
    tell: Box<dyn Fn() + Send + Sync>,
    run: Box<dyn Fn(J) -> D + Send + Sync>,
}

impl<J: Send + 'static, D: Send + 'static> Workers<J, D> {
    /// Workers that run `run`; threads are started when they are first woken. `tell` is called for finished jobs while the
    /// issuer [listens](Self::listen).
    pub fn new(
        tell: impl Fn() + Send + Sync + 'static,
        run: impl Fn(J) -> D + Send + Sync + 'static,
    ) -> Self {
        let (theirs, anybodys) = (Worker::new_fifo(), Worker::new_fifo());
        let shared = Shared {
            theirs: theirs.stealer(),
            anybodys: anybodys.stealer(),
            finished: SegQueue::new(),
            awake: AtomicUsize::new(0),
            places: AtomicUsize::new(0),
            closing: AtomicBool::new(false),
            crowded: AtomicBool::new(false),
            listening: AtomicBool::new(false),
            always: AtomicBool::new(false),
            tell: Box::new(tell),
            run: Box::new(run),
        };
        Self {
            theirs,
            anybodys,
            shared: Arc::new(shared),
            threads: Vec::new(),
            out: 0,
            cores: 1,
            looked: None,
        }
    }

    /// True while a worker looks for jobs, so that an offer is taken up at once.
    pub fn is_awake(&self) -> bool {
        // Pairs with the fence in `sleep`: what was pushed before is seen by a worker that still counts as awake.
        fence(Ordering::SeqCst);
        self.awake() > 0
    }

    /// Workers that look for jobs or run one, as far as is known without waiting for news.
    pub fn awake(&self) -> usize {
        self.shared.awake.load(Ordering::Relaxed)
    }

    /// True while workers share the issuer's core, as there is no other.
    pub fn is_crowded(&self) -> bool {
        self.shared.crowded.load(Ordering::Relaxed)
    }

    /// Wakes a worker if there is a core for it; costs the issuer a system call.
    pub fn wake(&mut self) {
        // One core is the issuer's.
        let most = self.look_at_cores() - 1;
        self.wake_of(most);
    }

    /// The same, and where there is no core for it, one worker on the issuer's own.
    pub fn summon(&mut self) {
        let most = (self.look_at_cores() - 1).max(1);
        self.wake_of(most);
    }

    /// Cores that the issuer may use, at least 1. They follow its affinity, with a short delay.
    fn look_at_cores(&mut self) -> usize {
        let now = Instant::now();
        if self.looked.is_none_or(|looked| now.duration_since(looked) >= LOOK) {
            self.looked = Some(now);
            self.cores = cores();
            self.shared.crowded.store(self.cores == 1, Ordering::Relaxed);
        }
        self.cores
    }

    /// Wakes one more worker if fewer than `most` are awake.
    fn wake_of(&mut self, most: usize) {
        let awake = self.shared.awake.load(Ordering::SeqCst);
        if awake >= most.min(THREADS_MAX) {
            return;
        }
        // Counted here, so that it counts as awake from now on; whoever wakes for nothing goes back to sleep.
        self.shared.awake.fetch_add(1, Ordering::SeqCst);
        if awake < self.threads.len() {
            self.shared.places.fetch_add(1, Ordering::SeqCst);
            self.threads.iter().for_each(|thread| thread.thread().unpark());
            return;
        }
        let shared = Arc::clone(&self.shared);
        let name = format!("oxblock-worker-{}", self.threads.len());
        match std::thread::Builder::new().name(name).spawn(move || shared.work()) {
            Ok(thread) => self.threads.push(thread),
            // Without a thread the issuer does it all.
            Err(_) => drop(self.shared.awake.fetch_sub(1, Ordering::SeqCst)),
        }
    }

    /// Offers a job.
    pub fn offer(&mut self, job: J, claim: Claim) {
        self.out += 1;
        match claim {
            Claim::Worker => self.theirs.push(job),
            Claim::Anybody => self.anybodys.push(job),
        }
    }

    /// Takes back the oldest job that is anybody's and that nobody has taken yet.
    pub fn take(&mut self) -> Option<J> {
        let job = self.anybodys.pop();
        self.out -= usize::from(job.is_some());
        job
    }

    /// Takes back any job that nobody has taken yet.
    pub fn reclaim(&mut self) -> Option<J> {
        if let Some(job) = self.theirs.pop() {
            self.out -= 1;
            return Some(job);
        }
        self.take()
    }

    /// Jobs offered that have neither been taken back nor reaped.
    pub fn out(&self) -> usize {
        self.out
    }

    /// Jobs on offer that nobody has taken.
    pub fn waiting(&self) -> usize {
        self.theirs.len() + self.anybodys.len()
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

    /// Spins until something can be reaped or `limit` has passed; true when something can. Not on a crowded core, where
    /// nothing comes of it.
    pub fn spin(&self, limit: Duration) -> bool {
        if self.is_crowded() {
            return self.has_finished();
        }
        let begin = Instant::now();
        loop {
            for _ in 0..TURNS {
                if self.has_finished() {
                    return true;
                }
                std::hint::spin_loop();
            }
            let spun = begin.elapsed();
            if spun >= limit {
                return false;
            }
            if spun >= POLITE {
                std::thread::yield_now();
            }
        }
    }

    /// From now on `tell` is called for every job that finishes, since others than the issuer wait for it.
    pub fn tell_always(&self) {
        self.shared.always.store(true, Ordering::SeqCst);
    }

    /// Wants to be told of the next job that finishes; false when there is one already. Ends with
    /// [`unlisten`](Self::unlisten).
    pub fn listen(&self) -> bool {
        self.shared.listening.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        !self.has_finished()
    }

    /// The issuer does not wait any more.
    pub fn unlisten(&self) {
        self.shared.listening.store(false, Ordering::Relaxed);
    }
}

/// Cores that the calling thread may use, at least 1.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| cores.get())
}

impl<J, D> Shared<J, D> {
    /// A worker's life.
    fn work(&self) {
        let mut idle = Instant::now();
        let mut turns = 0;
        loop {
            match self.theirs.steal().or_else(|| self.anybodys.steal()) {
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
                    if turns % TURNS == 0 {
                        match idle.elapsed() {
                            spun if spun >= SPIN || self.crowded.load(Ordering::Relaxed) => {
                                self.sleep();
                                idle = Instant::now();
                            }
                            spun if spun >= POLITE => std::thread::yield_now(),
                            _ => {}
                        }
                    }
                }
            }
        }
    }

    fn finish(&self, done: D) {
        self.finished.push(done);
        fence(Ordering::SeqCst);
        // Once is enough for whoever listens: it reaps all there is.
        let first =
            self.listening.load(Ordering::Relaxed) && self.listening.swap(false, Ordering::Relaxed);
        if first || self.always.load(Ordering::Relaxed) {
            (self.tell)();
        }
    }

    /// Sleeps until woken, unless a job came just before the issuer could know.
    fn sleep(&self) {
        self.awake.fetch_sub(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if !(self.theirs.is_empty() && self.anybodys.is_empty()) {
            self.awake.fetch_add(1, Ordering::SeqCst);
            return;
        }
        while !self.take_place() && !self.closing.load(Ordering::SeqCst) {
            std::thread::park();
        }
    }

    fn take_place(&self) -> bool {
        let less = |places: usize| places.checked_sub(1);
        self.places.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_ok()
    }
}

impl<J, D> Drop for Workers<J, D> {
    fn drop(&mut self) {
        self.shared.closing.store(true, Ordering::SeqCst);
        for thread in &self.threads {
            thread.thread().unpark();
        }
        for thread in self.threads.drain(..) {
            // A worker that panicked runs nothing any more.
            thread.join().ok();
        }
    }
}

#[cfg(test)]
mod tests;
