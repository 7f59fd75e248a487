//! The ring queue: all devices of a lane on one io_uring, as registered files.
//!
//! Invariants:
//! - Buffers belong to the [`Table`] from `push` to the terminal completion, whatever happens to the queue.
//! - At most as many operations are in the kernel as the completion queue has entries: it never overflows. The rest
//!   waits in the backlog and is never lost.
//! - `staged` lists what is on the submission queue and not yet taken by the kernel, in order.
#![expect(unsafe_code, reason = "submissions hand buffers to the kernel; argued at the block")]

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::crew::Crew;
use super::flight::Table;
use super::open::Sharing;
use super::ring::Ring;
use super::target::Targets;
use super::{Done, IoQueue, Job, Op, QueueLimits, Waiter, wait_for};

/// Submissions that one call to the kernel can carry.
pub(super) const ENTRIES: u32 = 256;

/// The longest time that one `wait` polls before it blocks: a few times the cost of a blocking wake on a virtual
/// machine (45-60 us), and about the latency of a fast disk.
const POLL_MAX: Duration = Duration::from_micros(100);

/// After so many fruitless polls in a row, polling pauses ...
const MISSES_MAX: u32 = 4;
/// ... for so many waits.
const PAUSE: u32 = 64;

/// A queue on io_uring.
pub(super) struct UringQueue {
    ring: Ring,
    table: Table,
    staged: VecDeque<usize>,
    /// Operations in the kernel.
    kernel: usize,
    ready: VecDeque<Done>,
    poller: Poller,
    /// For jobs; operations are the kernel's.
    crew: Crew,
    shared: bool,
    // Last: the files outlive the ring.
    targets: Targets,
}

impl UringQueue {
    /// A queue for `targets`.
    ///
    /// # Errors
    /// When io_uring is not to be had: `ENOSYS`, `EPERM` in many containers, `ENOMEM` under tight limits.
    pub(super) fn new(targets: Targets, entries: u32, sharing: Sharing) -> io::Result<Self> {
        let files = targets.list.iter().map(|target| target.file.as_raw_fd()).collect();
        Ok(Self {
            ring: Ring::new(files, entries, sharing)?,
            table: Table::default(),
            staged: VecDeque::new(),
            kernel: 0,
            ready: VecDeque::new(),
            poller: Poller::default(),
            crew: Crew::new(targets.clone())?,
            shared: sharing == Sharing::Shared,
            targets,
        })
    }

    /// Moves the backlog on to the submission queue as far as there is room.
    fn stage(&mut self) {
        if self.ring.is_spoiled() && !self.renew() {
            return;
        }
        while self.kernel + self.staged.len() < self.ring.capacity() {
            let Some(key) = self.table.backlog.pop_front() else { return };
            let Some(entry) = self.table.entry(&self.targets, key) else {
                let done = self.table.run(&self.targets, key);
                self.ready.extend(done);
                continue;
            };
            // SAFETY: the entry points into buffers and vectors of flight `key`, which the table keeps, unmoved, until
            // the completion was concluded; a queue dropped early waits for it or leaks the table. Where a flight that
            // the kernel has not taken is given up (`fail_staged`), the ring is spoiled; `change_issuer` takes back only
            // what goes on a new ring.
            if !unsafe { self.ring.push(&entry) } {
                self.table.backlog.push_front(key);
                return;
            }
            self.staged.push_back(key);
        }
    }

    /// Enters the kernel and notes what it took of what is staged.
    fn enter_and_count(&mut self, want: usize, timeout: Option<Duration>) -> io::Result<()> {
        let result = self.ring.enter(want, timeout);
        let taken = self.staged.len().saturating_sub(self.ring.unsubmitted());
        self.staged.drain(..taken);
        self.kernel += taken;
        result
    }

    /// Enters the kernel with what is staged. `false` when it cannot take more now.
    fn enter(&mut self, want: usize, timeout: Option<Duration>) -> bool {
        match self.enter_and_count(want, timeout) {
            Ok(()) => true,
            Err(error) if error.raw_os_error() == Some(Errno::EXIST.raw_os_error()) => {
                self.change_issuer()
            }
            Err(error) => match Errno::from_io_error(&error) {
                // The submissions stay staged for the next try.
                Some(Errno::INTR) => true,
                Some(Errno::AGAIN | Errno::BUSY | Errno::NOMEM) => false,
                _ => {
                    self.fail_staged(&error);
                    false
                }
            },
        }
    }

    /// Another thread drives the queue now. Between operations that is fine: it gets its own ring.
    fn change_issuer(&mut self) -> bool {
        if self.kernel > 0 {
            // Only the first thread can run what is deferred; nothing is lost, it has to come back.
            return false;
        }
        while let Some(key) = self.staged.pop_back() {
            self.table.backlog.push_front(key);
        }
        match self.ring.rebuild() {
            Ok(()) => true,
            Err(error) => {
                self.fail_all(&error);
                false
            }
        }
    }

    /// Puts a new ring in the place of a spoiled one, or fails what waits for it. `false` while the old one is needed.
    fn renew(&mut self) -> bool {
        if self.kernel > 0 {
            return false;
        }
        let result = self.ring.rebuild();
        if let Err(error) = &result {
            self.fail_all(error);
        }
        result.is_ok()
    }

    fn fail_all(&mut self, error: &io::Error) {
        self.staged.extend(self.table.backlog.drain(..));
        self.fail_staged(error);
    }

    /// The kernel refuses submissions: what it has not taken fails, and is never to be taken.
    fn fail_staged(&mut self, error: &io::Error) {
        self.ring.spoil();
        while let Some(key) = self.staged.pop_front() {
            let copy =
                io::Error::new(error.kind(), format!("io_uring refuses operations: {error}"));
            let done = self.table.remove(key, Err(copy));
            self.ready.extend(done);
        }
    }

    /// Starts what can be started, then waits for `want` completions.
    fn pump(&mut self, want: usize, timeout: Option<Duration>) -> bool {
        loop {
            self.stage();
            if self.ring.is_spoiled() {
                return self.ring.enter(0, None).is_ok() && self.kernel == 0;
            }
            let more = !self.table.backlog.is_empty();
            let idle = self.staged.is_empty() && (want == 0 || self.kernel == 0);
            if idle {
                return true;
            }
            let full = self.kernel + self.staged.len() >= self.ring.capacity();
            // While more fits after this batch, do not wait yet.
            let last = !more || full;
            if !self.enter(if last { want } else { 0 }, timeout) {
                return false;
            }
            if last && self.staged.is_empty() {
                return true;
            }
        }
    }

    /// Moves completions to `ready` and restarts what came back short.
    fn collect(&mut self) {
        if self.kernel > 0 {
            self.ring.clear_event();
            if self.ring.wants_enter() && self.ring.run_deferred().is_err() {
                // The completions stay where they are; the next enter reports the error.
                return;
            }
            for (key, result) in self.ring.completions() {
                self.kernel -= 1;
                self.ready.extend(self.table.conclude(&self.targets, key, result));
            }
        }
        if !self.table.backlog.is_empty() || !self.staged.is_empty() {
            self.pump(0, None);
        }
    }
}

impl UringQueue {
    /// Waits while jobs are under way, and perhaps operations, and perhaps for `other`: whatever comes first. The issuer runs
    /// what is anybody's.
    fn wait_for_all(&mut self, other: Option<BorrowedFd<'_>>, timeout: Option<Duration>) {
        self.pump(0, None);
        let mut ready = Vec::new();
        // Not long: operations may end meanwhile.
        let limit = timeout.unwrap_or(JOB_SPIN).min(JOB_SPIN);
        let alone = self.table.len() == 0 && other.is_none();
        let limit = if alone { timeout.unwrap_or(Duration::MAX) } else { limit };
        let found = self.crew.wait(limit, &mut ready);
        self.ready.extend(ready);
        self.collect();
        if found || !self.ready.is_empty() {
            return;
        }
        match self.ring.descriptor() {
            Ok(ring) => {
                let event = self.crew.event();
                let events = [ring.as_fd(), event.as_fd()].into_iter().chain(other);
                self.crew.block(|| wait_for(events, timeout));
            }
            // Without a descriptor to spare the caller comes round again.
            Err(_) => std::thread::yield_now(),
        }
    }
}

/// How long a wait for a job keeps from looking at the ring.
const JOB_SPIN: Duration = Duration::from_micros(20);

/// One wait asks for this share of what is in flight: a quarter. On a virtual disk at depth 16 that gives 1.1 times the
/// operations of a wait for each, for two thirds of the CPU time.
const DEEP_SHARE: usize = 4;
/// The most completions that one wait asks for.
const DEEP_WAIT: usize = 16;

impl IoQueue for UringQueue {
    fn limits(&self) -> &[QueueLimits] {
        &self.targets.limits
    }

    fn push(&mut self, op: Op) {
        if let Some(done) = self.table.accept(&self.targets, op) {
            self.ready.push_back(done);
        }
    }

    fn run(&mut self, job: Job) {
        self.crew.run(job, &mut self.ready);
    }

    fn submit(&mut self) {
        self.pump(0, None);
        if self.shared && self.crew.out() > 0 {
            self.crew.help(&mut self.ready);
        }
    }

    fn reap(&mut self, done: &mut Vec<Done>) -> usize {
        self.collect();
        let count = self.ready.len();
        done.extend(self.ready.drain(..));
        count + self.crew.reap(done)
    }

    fn wait(&mut self, timeout: Option<Duration>) {
        let start = Instant::now();
        loop {
            self.collect();
            if !self.ready.is_empty() || self.crew.has_finished() {
                return;
            }
            if self.crew.out() > 0 {
                self.wait_for_all(None, timeout);
                return;
            }
            if self.table.len() == 0 {
                return;
            }
            let left = match timeout {
                None => None,
                Some(limit) => match limit.checked_sub(start.elapsed()) {
                    None | Some(Duration::ZERO) => return,
                    left => left,
                },
            };
            // With many operations in flight several end close together: one wait for a share of them costs less than a
            // wait for each, and the next ones leave together.
            let want = (self.kernel / DEEP_SHARE).clamp(1, DEEP_WAIT);
            let budget = self.poller.budget().min(left.unwrap_or(Duration::MAX));
            if want == 1 && !budget.is_zero() {
                let began = Instant::now();
                let found = poll(&mut self.ring, began, budget);
                self.poller.learn(found, began.elapsed());
                if found {
                    continue;
                }
            }
            if !self.pump(want, left) {
                // Out of memory in the kernel, or the wrong thread: time is all that can help.
                std::thread::sleep(left.unwrap_or(Duration::MAX).min(Duration::from_millis(1)));
            }
        }
    }

    fn wait_with(&mut self, other: BorrowedFd<'_>, timeout: Option<Duration>) {
        self.collect();
        if !self.ready.is_empty() || self.crew.has_finished() {
            return;
        }
        if self.crew.out() > 0 {
            self.wait_for_all(Some(other), timeout);
            return;
        }
        let ring = (self.kernel > 0).then(|| self.ring.descriptor());
        match ring.transpose() {
            // With nothing in the kernel its descriptor may still be readable from before.
            Ok(ring) => wait_for(ring.iter().map(|ring| ring.as_fd()).chain([other]), timeout),
            // Without a descriptor to spare the caller comes round again.
            Err(_) => std::thread::yield_now(),
        }
    }

    fn waiter(&self) -> Option<Waiter> {
        // Without a descriptor to spare, callers fall back on `wait`.
        let others = self.crew.event_for_others();
        Waiter::new([self.ring.descriptor().ok()?, others]).ok()
    }

    fn in_flight(&self) -> usize {
        self.table.len() + self.ready.len() + self.crew.out()
    }

    fn describe(&self) -> String {
        format!("io_uring, {} ({})", self.ring.flags(), self.targets.paces())
    }
}

impl Drop for UringQueue {
    fn drop(&mut self) {
        // What is only queued never reached the kernel and needs no care.
        while self.kernel > 0 {
            let result = self.enter_and_count(1, Some(Duration::from_secs(1)));
            let errno = result.as_ref().err().and_then(Errno::from_io_error);
            if result.is_err() && !matches!(errno, Some(Errno::INTR | Errno::AGAIN | Errno::BUSY)) {
                // The wrong thread, or a broken ring: the kernel may still use the buffers. Leak them, and keep the
                // devices locked, as writes may still reach them.
                self.table.leak();
                std::mem::forget(std::mem::take(&mut self.targets));
                return;
            }
            for (key, result) in self.ring.completions() {
                self.kernel -= 1;
                self.table.conclude(&self.targets, key, result);
            }
            if self.ring.is_spoiled() {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
}

/// Spins until completions are there or `budget` is used up.
fn poll(ring: &mut Ring, began: Instant, budget: Duration) -> bool {
    loop {
        for _ in 0..8 {
            if ring.has_completions() {
                return true;
            }
            std::hint::spin_loop();
        }
        if began.elapsed() >= budget {
            return false;
        }
    }
}

/// Decides whether to poll before blocking, from how it went lately.
#[derive(Debug, Default)]
struct Poller {
    /// Smoothed time that successful polls took, in nanoseconds.
    usual: u64,
    /// Fruitless polls in a row.
    misses: u32,
    /// Waits to come that do not poll.
    pause: u32,
}

impl Poller {
    fn budget(&mut self) -> Duration {
        if self.pause > 0 {
            self.pause -= 1;
            return Duration::ZERO;
        }
        // Twice the usual, as latencies scatter; all of it while nothing is known.
        match self.usual {
            0 => POLL_MAX,
            usual => Duration::from_nanos(usual * 2 + 10_000).min(POLL_MAX),
        }
    }

    fn learn(&mut self, found: bool, took: Duration) {
        if found {
            let took = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX / 8);
            self.usual = if self.usual == 0 { took } else { (self.usual * 7 + took) / 8 };
            self.misses = 0;
            return;
        }
        self.misses += 1;
        if self.misses >= MISSES_MAX {
            self.misses = 0;
            self.usual = 0;
            self.pause = PAUSE;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::Arc;

    use super::super::limits::of_file;
    use super::super::pace::Pace;
    use super::super::target::Target;
    use super::super::{Action, Buf};
    use super::*;

    #[test]
    fn what_was_given_up_never_reaches_the_kernel() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 20).unwrap();
        let path = PathBuf::from("device");
        let limits = of_file(&file, &path, false).unwrap();
        let (size, pace) = (limits.size, Pace::measure(file.as_fd(), limits.size, false, false));
        let target = Target { file: file.into(), path, block: false, size, pace, lock: None };
        let targets = Targets { list: vec![Arc::new(target)], limits: vec![limits] };
        let mut queue = match UringQueue::new(targets, ENTRIES, Sharing::Exclusive) {
            Ok(queue) => queue,
            Err(error) => return println!("skipped: {error}"),
        };
        let read = |tag| {
            let action = Action::Read([Buf::new(4096)].into_iter().collect());
            Op { tag, device: 0, offset: 0, action }
        };
        queue.push(read(1));
        queue.stage();
        assert_eq!(queue.ring.unsubmitted(), 1);
        queue.fail_staged(&io::Error::other("no"));
        let mut done = Vec::new();
        queue.reap(&mut done);
        assert!(done.pop().is_some_and(|done| done.tag == 1 && done.result.is_err()));
        // Its buffer is gone; the next operation goes by a ring on which it is not.
        queue.push(read(2));
        queue.submit();
        while queue.in_flight() > 0 {
            queue.wait(None);
            queue.reap(&mut done);
        }
        assert!(done.pop().is_some_and(|done| done.tag == 2 && done.result.is_ok()));
        assert_eq!((done.len(), queue.kernel), (0, 0));
    }
}
