//! One volume behind many callers: combining.
//!
//! A caller puts its request into the inbox and then tries to become the driver. Whoever holds the engine takes
//! everything out of the inbox, so a caller that finds it taken need not wait for the lock: its request is seen by the
//! driver, or by itself. Nobody holds the engine while waiting for a device: one caller, the leader, waits outside, drives
//! when something has come, and passes the lead on when it leaves.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::task::Waker;
use std::thread::Thread;
use std::time::{Duration, Instant};

use slab::Slab;

use crate::complete::verify::Claim;
use crate::device::Waiter;
use crate::error::{Error, ErrorKind, Result};
use crate::submit::request::{Completion, Request, RequestKind};
use crate::volume::poll::Volume;

/// The longest that anybody sleeps without looking again; a safety net, not a pace.
const NAP: Duration = Duration::from_millis(50);
/// The longest that a caller polls for its completion before it sleeps. Waking a thread costs about half of it.
pub(super) const SPIN_LIMIT: u64 = 100_000;

/// Time from which a caller that polls lets others have its core in between, in nanoseconds.
const POLITE: u64 = 20_000;

/// Locks, whatever panicked before: the data behind these locks is consistent between statements.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One call under way.
#[derive(Debug, Default)]
pub(super) struct Call {
    ready: AtomicBool,
    inner: Mutex<CallInner>,
}

#[derive(Debug, Default)]
struct CallInner {
    completion: Option<Answer>,
    waker: Option<Waker>,
}

/// The end of a call: its completion, and what its caller has to verify of it.
pub(super) type Answer = (Completion, Option<Claim>);

/// A request in the inbox.
#[derive(Debug)]
struct Posted {
    call: Arc<Call>,
    kind: RequestKind,
    /// The caller verifies what it reads.
    client: bool,
}

impl Call {
    /// The completion, once it is there.
    pub fn take(&self) -> Option<Answer> {
        if !self.ready.load(Ordering::Acquire) {
            return None;
        }
        lock(&self.inner).completion.take()
    }

    /// True once the completion is there.
    #[cfg(test)]
    fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire)
    }

    /// Has `waker` woken when the completion is there; false when it is there already.
    pub fn wake_with(&self, waker: &Waker) -> bool {
        let mut inner = lock(&self.inner);
        if inner.completion.is_some() {
            return false;
        }
        match &mut inner.waker {
            Some(old) => old.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
        true
    }

    fn finish(&self, answer: Answer) -> Option<Waker> {
        let mut inner = lock(&self.inner);
        inner.completion = Some(answer);
        self.ready.store(true, Ordering::Release);
        inner.waker.take()
    }
}

/// The volume and who waits for what.
#[derive(Debug)]
struct Engine {
    /// `None` once it is closed.
    volume: Option<Volume>,
    calls: Slab<Arc<Call>>,
    done: Vec<Completion>,
}

/// What handles share.
#[derive(Debug)]
pub(super) struct Core {
    engine: Mutex<Engine>,
    inbox: Mutex<Vec<Posted>>,
    waiter: Option<Waiter>,
    /// Wakes whoever waits with the waiter.
    kick: Option<Waker>,
    /// Somebody waits for the devices.
    led: AtomicBool,
    /// Callers asleep, to be made leader.
    followers: Mutex<Vec<Thread>>,
    /// Running mean of what a call takes, in nanoseconds.
    latency: AtomicU64,
    /// The thread that waits on behalf of tasks.
    reactor: Arc<Reactor>,
    pub size: u64,
}

/// How many calls of tasks wait, for the reactor thread to sleep by.
#[derive(Debug, Default)]
struct Reactor {
    started: AtomicBool,
    waiting: Mutex<usize>,
    some: Condvar,
}

impl Reactor {
    /// Sleeps while no task waits; wakes now and then to see whether the volume is still there.
    fn sleep(&self) {
        let waiting = lock(&self.waiting);
        if *waiting == 0 {
            drop(self.some.wait_timeout(waiting, NAP));
        }
    }
}

impl Core {
    pub fn new(volume: Volume) -> Self {
        let waiter = volume.lane.queue.waiter();
        Self {
            kick: waiter.clone().map(|waiter| Waker::from(Arc::new(Kick(waiter)))),
            waiter,
            size: volume.size(),
            engine: Mutex::new(Engine {
                volume: Some(volume),
                calls: Slab::new(),
                done: Vec::new(),
            }),
            inbox: Mutex::default(),
            led: AtomicBool::new(false),
            followers: Mutex::default(),
            latency: AtomicU64::new(SPIN_LIMIT / 2),
            reactor: Arc::default(),
        }
    }

    /// Puts a request into the inbox. It starts with the next [`drive`](Self::drive), whoever calls it.
    /// With `client` its caller verifies what it reads, see [`settle`](Self::settle).
    pub fn post(&self, kind: RequestKind, client: bool) -> Arc<Call> {
        let call = Arc::new(Call::default());
        lock(&self.inbox).push(Posted { call: Arc::clone(&call), kind, client });
        call
    }

    /// Verifies what the engine left to the caller, in the caller's context.
    ///
    /// # Errors
    /// The read once more, for the engine to find what is wrong with it, try again, and list what is bad.
    pub fn settle(offset: u64, answer: Answer) -> std::result::Result<Completion, RequestKind> {
        match answer {
            (Completion { buf: Some(buf), .. }, Some(claim)) if !claim.holds(&buf) => {
                Err(RequestKind::Read { offset, buf })
            }
            (completion, _) => Ok(completion),
        }
    }

    /// Drives the engine unless somebody else does.
    pub fn drive(&self) {
        loop {
            let mut engine = match self.engine.try_lock() {
                Ok(engine) => engine,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                // The driver looks into the inbox once more after it has let go.
                Err(TryLockError::WouldBlock) => return,
            };
            let wakers = engine.run(&self.inbox);
            drop(engine);
            wakers.into_iter().for_each(Waker::wake);
            if lock(&self.inbox).is_empty() {
                return;
            }
        }
    }

    /// Waits for the devices without holding the engine, if nobody else does; false when somebody does.
    fn lead(&self) -> bool {
        if self.led.swap(true, Ordering::AcqRel) {
            return false;
        }
        match &self.waiter {
            Some(waiter) => waiter.wait(Some(NAP)),
            // Nothing to wait on from outside: the queue itself knows how to wait.
            None => {
                if let Some(volume) = &mut lock(&self.engine).volume {
                    volume.wait(Some(NAP));
                }
            }
        }
        self.led.store(false, Ordering::Release);
        true
    }

    /// Runs one request to its end in the caller's context.
    pub fn call(&self, kind: RequestKind) -> Completion {
        let offset = kind.read_offset();
        let answer = self.answer(kind, true);
        Self::settle(offset, answer).unwrap_or_else(|again| self.answer(again, false).0)
    }

    fn answer(&self, kind: RequestKind, client: bool) -> Answer {
        let call = self.post(kind, client);
        let begin = Instant::now();
        let mut napping = None;
        loop {
            self.drive();
            if let Some(answer) = call.take() {
                self.leave(begin);
                return answer;
            }
            let waited = nanos(begin);
            let usual = self.latency.load(Ordering::Relaxed);
            if usual < SPIN_LIMIT && waited < 2 * usual {
                if waited < POLITE {
                    std::hint::spin_loop();
                } else {
                    // The caller whose completion is there may be waiting for this core.
                    std::thread::yield_now();
                }
                continue;
            }
            // Another caller may drive, and finish this call, while this one waits for the devices.
            if self.kick.as_ref().is_some_and(|kick| !call.wake_with(kick)) || self.lead() {
                continue;
            }
            let waker = napping
                .get_or_insert_with(|| Waker::from(Arc::new(Unpark(std::thread::current()))));
            if call.wake_with(waker) {
                self.follow();
            }
        }
    }

    /// Sleeps until the call is done or the lead falls to this thread.
    fn follow(&self) {
        let me = std::thread::current();
        lock(&self.followers).push(me.clone());
        // A leader that leaves lets go of the lead first and looks for followers then, so one of the two sees the other.
        if self.led.load(Ordering::Acquire) {
            std::thread::park_timeout(NAP);
        }
        lock(&self.followers).retain(|thread| thread.id() != me.id());
    }

    /// Wakes a follower if nobody leads.
    fn promote(&self) {
        if !self.led.load(Ordering::Acquire)
            && let Some(follower) = lock(&self.followers).pop()
        {
            follower.unpark();
        }
    }

    /// A caller leaves: if it was the one that waited for the devices, somebody else must.
    fn leave(&self, begin: Instant) {
        let usual = self.latency.load(Ordering::Relaxed);
        let now = usual - usual / 8 + nanos(begin) / 8;
        self.latency.store(now, Ordering::Relaxed);
        self.promote();
    }

    /// A task sleeps until its call is done: the reactor thread waits for the devices meanwhile.
    pub fn task_waits(self: &Arc<Self>) {
        *lock(&self.reactor.waiting) += 1;
        self.reactor.some.notify_one();
        if !self.reactor.started.swap(true, Ordering::AcqRel) {
            let (core, reactor) = (Arc::downgrade(self), Arc::clone(&self.reactor));
            let thread = std::thread::Builder::new().name("oxblock-reactor".into());
            // It holds the volume only while a task does, so that dropping the last handle closes the devices.
            let spawned = thread.spawn(move || {
                loop {
                    reactor.sleep();
                    match core.upgrade() {
                        Some(core) => core.react(),
                        None => return,
                    }
                }
            });
            // Without a thread the tasks wake themselves, which costs more but works.
            self.reactor.started.store(spawned.is_ok(), Ordering::Release);
        }
    }

    /// The task's call is done or dropped.
    pub fn task_left(&self) {
        *lock(&self.reactor.waiting) -= 1;
    }

    /// True when tasks can leave the waiting to the reactor.
    pub fn has_reactor(&self) -> bool {
        self.reactor.started.load(Ordering::Acquire)
    }

    fn react(&self) {
        if *lock(&self.reactor.waiting) == 0 {
            return;
        }
        if !self.lead() {
            // A blocking caller leads; it drives for everybody.
            std::thread::sleep(Duration::from_micros(50));
        }
        self.drive();
        if *lock(&self.reactor.waiting) == 0 {
            self.promote();
        }
    }

    /// Runs `look` on the open volume, with the engine held.
    pub fn with<T>(&self, look: impl FnOnce(&mut Volume) -> T) -> Result<T> {
        match &mut lock(&self.engine).volume {
            Some(volume) => Ok(look(volume)),
            None => Err(closed()),
        }
    }

    /// Finishes every call, then closes the volume.
    pub fn close(&self) -> Result<()> {
        let mut engine = lock(&self.engine);
        let mut wakers = engine.run(&self.inbox);
        while !engine.calls.is_empty() {
            if let Some(volume) = &mut engine.volume {
                volume.wait(Some(NAP));
            }
            wakers.extend(engine.run(&self.inbox));
        }
        let volume = engine.volume.take();
        drop(engine);
        wakers.into_iter().for_each(Waker::wake);
        volume.map_or_else(|| Err(closed()), Volume::close)
    }
}

impl Engine {
    /// Takes in what is posted, goes one round, hands out what is done. The wakers are for after the lock.
    fn run(&mut self, inbox: &Mutex<Vec<Posted>>) -> Vec<Waker> {
        let posted = std::mem::take(&mut *lock(inbox));
        let mut wakers = Vec::new();
        let Some(volume) = &mut self.volume else {
            for Posted { call, kind, .. } in posted {
                let completion = Completion { tag: 0, buf: kind.into_buf(), result: Err(closed()) };
                wakers.extend(call.finish((completion, None)));
            }
            return wakers;
        };
        for Posted { call, kind, client } in posted {
            let tag = self.calls.insert(call) as u64;
            volume.lane.queue_for(Request { tag, kind }, client);
        }
        volume.submit();
        volume.poll(&mut self.done);
        // All that has ended: nobody would come back for the rest before the devices have news.
        while volume.lane.has_more() {
            volume.poll(&mut self.done);
        }
        for completion in self.done.drain(..) {
            let call =
                usize::try_from(completion.tag).ok().and_then(|tag| self.calls.try_remove(tag));
            let Some(call) = call else { unreachable!("a completion that nobody waits for") };
            let claim = volume.lane.claims.pop_front_if(|(tag, _)| *tag == completion.tag);
            wakers.extend(call.finish((completion, claim.map(|(_, claim)| claim))));
        }
        wakers
    }
}

fn closed() -> Error {
    Error::new(ErrorKind::Closed, "the volume is closed")
}

pub(super) fn nanos(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// Wakes a thread that is parked.
struct Unpark(Thread);

impl std::task::Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Wakes a thread that waits for the devices.
struct Kick(Waiter);

impl std::task::Wake for Kick {
    fn wake(self: Arc<Self>) {
        self.0.kick();
    }
}

#[cfg(test)]
mod tests;
