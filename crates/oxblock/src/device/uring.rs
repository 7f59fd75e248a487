//! The ring queue: all devices of a lane on one io_uring, as registered files.
//!
//! Invariants:
//! - Buffers belong to the [`Table`] from `push` to the terminal completion, whatever happens to the queue.
//! - At most as many operations are in the kernel as the completion queue has entries: it never overflows. The rest
//!   waits in the backlog and is never lost.
//! - `staged` lists what is on the submission queue and not yet taken by the kernel, in order.
//! - `armed` says which watched descriptors the ring polls: each once, from the wait that needs it until it polls readable.
#![expect(unsafe_code, reason = "submissions hand buffers to the kernel; argued at the block")]

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use io_uring::{opcode, types};
use rustix::event::PollFlags;
use rustix::io::Errno;

use super::crew::{Crew, GLANCE};
use super::flight::Table;
use super::open::Sharing;
use super::ring::Ring;
use super::target::Targets;
use super::watch::Watch;
use super::{Done, IoQueue, Job, Op, QueueLimits, Waiter};

/// Submissions that one call to the kernel can carry.
pub(super) const ENTRIES: u32 = 256;

/// The longest time that one `wait` polls before it blocks: a few times the cost of a blocking wake on a virtual
/// machine (45-60 us), and about the latency of a fast disk.
const POLL_MAX: Duration = Duration::from_micros(100);

/// After so many fruitless polls in a row, polling pauses ...
const MISSES_MAX: u32 = 4;
/// ... for so many waits.
const PAUSE: u32 = 64;

/// The most descriptors that are watched.
const WATCHES_MAX: usize = 8;

/// The watched descriptor that a submission polls; `None` for operations, whose keys are places in a table. The inverse is
/// `usize::MAX - index`.
fn watched(key: usize) -> Option<usize> {
    Some(usize::MAX - key).filter(|index| *index < WATCHES_MAX)
}

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
    watch: Watch,
    armed: [bool; WATCHES_MAX],
    /// A poll came back with an error: from then on waits with operations in flight are short sleeps.
    polls_fail: bool,
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
            watch: Watch::default(),
            armed: [false; WATCHES_MAX],
            polls_fail: false,
            shared: sharing == Sharing::Shared,
            targets,
        })
    }

    /// Moves the backlog on to the submission queue as far as there is room.
    fn stage(&mut self) {
        if self.ring.is_spoiled() && !self.renew() {
            return;
        }
        while self.kernel + self.staged.len() < self.capacity() {
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
        self.kernel += self.staged.drain(..taken).filter(|key| watched(*key).is_none()).count();
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
            if watched(key).is_none() {
                self.table.backlog.push_front(key);
            }
        }
        match self.rebuild() {
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
        let result = self.rebuild();
        if let Err(error) = &result {
            self.fail_all(error);
        }
        result.is_ok()
    }

    /// A new ring, which polls nothing yet.
    fn rebuild(&mut self) -> io::Result<()> {
        self.armed = [false; WATCHES_MAX];
        self.ring.rebuild()
    }

    /// How many operations may be in the kernel at once, with room for what the polls of watched descriptors complete.
    fn capacity(&self) -> usize {
        self.ring.capacity().saturating_sub(WATCHES_MAX).max(1)
    }

    fn fail_all(&mut self, error: &io::Error) {
        self.staged.extend(self.table.backlog.drain(..));
        self.fail_staged(error);
    }

    /// The kernel refuses submissions: what it has not taken fails, and is never to be taken.
    fn fail_staged(&mut self, error: &io::Error) {
        self.ring.spoil();
        while let Some(key) = self.staged.pop_front() {
            if watched(key).is_some() {
                continue;
            }
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
            let full = self.kernel + self.staged.len() >= self.capacity();
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
                if let Some(armed) = watched(key).and_then(|index| self.armed.get_mut(index)) {
                    *armed = false;
                    self.polls_fail |= result < 0;
                    continue;
                }
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
    /// Waits while jobs are under way, and perhaps operations: whatever ends first, or is `watched`. The issuer runs what is
    /// anybody's.
    fn wait_for_both(&mut self, timeout: Option<Duration>, watched: &Watch) {
        self.pump(0, None);
        let mut ready = Vec::new();
        // Not long: operations may end meanwhile.
        let only_jobs = self.table.len() == 0 && watched.len() == 0;
        let limit = timeout.unwrap_or(if only_jobs { Duration::MAX } else { GLANCE });
        let limit = if only_jobs { limit } else { limit.min(GLANCE) };
        let found = self.crew.wait(limit, &mut ready);
        self.ready.extend(ready);
        self.collect();
        if found || !self.ready.is_empty() {
            return;
        }
        let event = self.crew.event();
        if self.table.len() == 0 {
            // The ring may have something to say that is of no operation, and nobody would take note of it.
            self.crew.block(|| watched.wait(&[&event], timeout));
            return;
        }
        match self.ring.descriptor() {
            Ok(ring) => self.crew.block(|| watched.wait(&[&ring, &event], timeout)),
            // Without a descriptor to spare the caller comes round again.
            Err(_) => std::thread::yield_now(),
        }
    }

    /// Has the ring poll what is watched, so that one call waits for that and for operations.
    fn arm(&mut self) {
        if self.ring.is_spoiled() {
            return;
        }
        for (index, armed) in self.armed.iter_mut().enumerate() {
            let Some(fd) = self.watch.get(index) else { return };
            if *armed {
                continue;
            }
            let events = u32::from(PollFlags::IN.bits());
            let key = usize::MAX - index;
            let entry = opcode::PollAdd::new(types::Fd(fd), events).build().user_data(key as u64);
            // SAFETY: a poll points to no memory.
            if !unsafe { self.ring.push(&entry) } {
                return;
            }
            *armed = true;
            self.staged.push_back(key);
        }
    }

    /// True when the ring polls all that is watched.
    fn is_armed(&self) -> bool {
        self.armed.iter().take(self.watch.len()).all(|armed| *armed)
    }
}

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
                self.wait_for_both(timeout, &Watch::default());
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

    fn watch(&mut self, fd: Arc<OwnedFd>) -> io::Result<()> {
        if self.watch.len() == WATCHES_MAX {
            let text = format!("at most {WATCHES_MAX} descriptors are watched");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        self.watch.add(fd);
        Ok(())
    }

    fn wait_watching(&mut self, timeout: Option<Duration>) {
        self.collect();
        if !self.ready.is_empty() || self.crew.has_finished() {
            return;
        }
        if self.crew.out() > 0 {
            let watch = std::mem::take(&mut self.watch);
            self.wait_for_both(timeout, &watch);
            self.watch = watch;
            return;
        }
        if self.table.len() == 0 {
            self.watch.wait(&[], timeout);
            return;
        }
        // What waits for room goes first; then there is some for the polls.
        self.pump(0, None);
        if !self.ready.is_empty() {
            return;
        }
        if !self.polls_fail {
            self.arm();
        }
        if !self.is_armed() || !self.pump(1, timeout) {
            // As in `wait`.
            std::thread::sleep(timeout.unwrap_or(Duration::MAX).min(Duration::from_millis(1)));
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
                if watched(key).is_some() {
                    continue;
                }
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
    use std::os::fd::AsFd;
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
