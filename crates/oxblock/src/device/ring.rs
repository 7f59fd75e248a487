//! The ring itself: set-up with the best flags the kernel takes, entering it, reading completions.
//!
//! Invariants: nothing is pushed that the caller does not keep alive until its completion (the caller's duty, see
//! [`Ring::push`]); a ring for exclusive use belongs to the thread that enters it first.
#![expect(unsafe_code, reason = "a submission hands raw memory to the kernel; argued at the block")]

use std::cell::Cell;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

use io_uring::IoUring;
use io_uring::squeue::Entry;
use io_uring::types::{SubmitArgs, Timespec};

use super::Event;
use super::open::Sharing;

/// `IORING_ENTER_GETEVENTS` (linux/io_uring.h): run what is deferred, even when nothing is waited for.
const GETEVENTS: u32 = 1;

/// A set of set-up flags, best first; the kernel refuses what it does not know with `EINVAL`.
#[derive(Debug, Clone, Copy)]
struct Flags {
    exclusive: bool,
    submit_all: bool,
    name: &'static str,
}

const EXCLUSIVE: Flags =
    Flags { exclusive: true, submit_all: true, name: "single issuer, deferred task work" };
const SHARED: Flags = Flags { exclusive: false, submit_all: true, name: "shared" };
const PLAIN: Flags = Flags { exclusive: false, submit_all: false, name: "no set-up flags" };

/// A ring with registered files.
pub(super) struct Ring {
    ring: IoUring,
    files: Vec<RawFd>,
    entries: u32,
    sharing: Sharing,
    flags: Flags,
    /// The thread that enters first becomes the issuer; until then the ring is disabled.
    enabled: bool,
    /// Only with deferred task work: there the descriptor of the ring does not wake a poller for work that has yet to
    /// be run.
    event: Option<Event>,
    /// Somebody may wait on `event`. Until then the kernel does not signal it, which would cost on every completion.
    armed: Cell<bool>,
    /// Something is on the submission queue whose memory is not ours to give any more: nothing is submitted again.
    spoiled: bool,
}

impl Ring {
    /// A ring with `entries` submissions for `files`, which stay open as long as the ring.
    pub(super) fn new(files: Vec<RawFd>, entries: u32, sharing: Sharing) -> io::Result<Self> {
        let wanted: &[Flags] = match sharing {
            Sharing::Exclusive => &[EXCLUSIVE, SHARED, PLAIN],
            Sharing::Shared => &[SHARED, PLAIN],
        };
        let mut refusal = io::Error::from(io::ErrorKind::Unsupported);
        for flags in wanted {
            match build(entries, *flags) {
                Ok(ring) => {
                    ring.submitter().register_files(&files)?;
                    let event = if flags.exclusive { Some(register_event(&ring)?) } else { None };
                    return Ok(Self {
                        ring,
                        files,
                        entries,
                        sharing,
                        flags: *flags,
                        enabled: !flags.exclusive,
                        event,
                        armed: Cell::new(false),
                        spoiled: false,
                    });
                }
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => refusal = error,
                Err(error) => return Err(error),
            }
        }
        Err(refusal)
    }

    /// Starts afresh, for another thread. Only when nothing is in the kernel.
    pub(super) fn rebuild(&mut self) -> io::Result<()> {
        let fresh = Self::new(self.files.clone(), self.entries, self.sharing)?;
        // Those who wait already keep their descriptor.
        if let (Some(event), Some(_)) = (self.event.take(), &fresh.event) {
            fresh.ring.submitter().unregister_eventfd()?;
            fresh.ring.submitter().register_eventfd(event.as_raw_fd())?;
            let armed = self.armed.get();
            *self = fresh;
            self.event = Some(event);
            if armed {
                self.arm();
            }
            return Ok(());
        }
        *self = fresh;
        Ok(())
    }

    pub(super) fn flags(&self) -> &'static str {
        self.flags.name
    }

    /// How many operations may be in the kernel at once, so that completions never overflow.
    pub(super) fn capacity(&self) -> usize {
        self.ring.params().cq_entries() as usize
    }

    /// A descriptor that polls readable when there are completions.
    pub(super) fn descriptor(&self) -> io::Result<Arc<OwnedFd>> {
        if let Some(event) = &self.event {
            if !self.armed.get() {
                self.arm();
            }
            return Ok(Arc::clone(event.descriptor()));
        }
        self.ring_descriptor().map(Arc::new)
    }

    fn ring_descriptor(&self) -> io::Result<OwnedFd> {
        // SAFETY: the descriptor is borrowed from the ring, which outlives this call.
        let fd = unsafe { BorrowedFd::borrow_raw(self.ring.as_raw_fd()) };
        fd.try_clone_to_owned()
    }

    /// Makes the kernel signal `event`.
    fn arm(&self) {
        self.armed.set(true);
        // SAFETY: the view is short-lived and used for a flag only, so no two of them move the queue's head; `&self` of
        // a type that is not `Sync` excludes other threads.
        let completion = unsafe { self.ring.completion_shared() };
        completion.enable_eventfd();
        // Completions from before gave no signal. A spurious one is allowed.
        if let Some(event) = &self.event {
            event.signal();
        }
    }

    /// Forgets signals; before looking for completions, so that none is missed.
    pub(super) fn clear_event(&mut self) {
        if let (Some(event), true) = (&self.event, self.armed.get()) {
            event.clear();
        }
    }

    /// What is on the submission queue has been given up by its owner. It cannot be taken off, so from now on the kernel is
    /// only entered for what it has already; [`rebuild`](Self::rebuild) makes an end of that.
    pub(super) fn spoil(&mut self) {
        self.spoiled = true;
    }

    /// See [`spoil`](Self::spoil).
    pub(super) fn is_spoiled(&self) -> bool {
        self.spoiled
    }

    /// Puts a submission on the ring; `false` when the ring is full. The kernel sees it with the next `enter`.
    ///
    /// # Safety
    /// The memory that `entry` points to must stay valid, and ours to give, until the completion has been read, or the ring
    /// is spoiled or gone before the kernel took the entry.
    pub(super) unsafe fn push(&mut self, entry: &Entry) -> bool {
        // SAFETY: passed on to the caller.
        unsafe { self.ring.submission().push(entry) }.is_ok()
    }

    /// Submissions that the kernel has not taken yet.
    pub(super) fn unsubmitted(&mut self) -> usize {
        self.ring.submission().len()
    }

    /// Something waits inside the kernel for an `enter`: deferred completions, or an overflow.
    pub(super) fn wants_enter(&mut self) -> bool {
        let submission = self.ring.submission();
        submission.taskrun() || submission.cq_overflow()
    }

    /// Completions are there, or one `enter` away.
    pub(super) fn has_completions(&mut self) -> bool {
        !self.ring.completion().is_empty() || self.wants_enter()
    }

    /// Hands submissions to the kernel and waits for `want` completions, `timeout` at the longest. Running out of time
    /// is no error.
    pub(super) fn enter(&mut self, want: usize, timeout: Option<Duration>) -> io::Result<()> {
        if !self.enabled {
            self.ring.submitter().register_enable_rings()?;
            self.enabled = true;
        }
        if self.spoiled {
            // Without waiting: who wants more comes round again.
            // SAFETY: no submission is handed over, and no argument.
            unsafe { self.ring.submitter().enter::<()>(0, 0, GETEVENTS, None) }?;
            return Ok(());
        }
        let result = match timeout {
            Some(limit) if want > 0 && self.ring.params().is_feature_ext_arg() => {
                let limit = Timespec::from(limit);
                self.ring.submitter().submit_with_args(want, &SubmitArgs::new().timespec(&limit))
            }
            Some(limit) if want > 0 => {
                // Before 5.11 the call has no timeout.
                self.ring.submit()?;
                super::Waiter::new([self.ring_descriptor()?.into()])?.wait(Some(limit));
                return Ok(());
            }
            _ => self.ring.submit_and_wait(want),
        };
        match result {
            Err(error) if error.raw_os_error() != Some(rustix::io::Errno::TIME.raw_os_error()) => {
                Err(error)
            }
            _ => Ok(()),
        }
    }

    /// Runs what the kernel has deferred, without waiting.
    pub(super) fn run_deferred(&mut self) -> io::Result<()> {
        self.enter(0, None)
    }

    /// The completions that are there, as (`user_data`, result).
    pub(super) fn completions(&mut self) -> impl Iterator<Item = (usize, i32)> {
        // `user_data` is a slab key, see `flight.rs`; it came from a `usize`.
        self.ring
            .completion()
            .map(|entry| (usize::try_from(entry.user_data()).unwrap_or(usize::MAX), entry.result()))
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // A ring dies in the background; registered files would stay open, and a device busy, for a while longer. Where
        // it fails the delay is all the harm.
        self.ring.submitter().unregister_files().ok();
    }
}

/// An event descriptor that the kernel signals once it is armed.
fn register_event(ring: &IoUring) -> io::Result<Event> {
    let event = Event::new()?;
    ring.submitter().register_eventfd(event.as_raw_fd())?;
    // SAFETY: the ring is new, nobody else looks at its completions; only a flag is set.
    unsafe { ring.completion_shared() }.disable_eventfd();
    Ok(event)
}

fn build(entries: u32, flags: Flags) -> io::Result<IoUring> {
    let mut builder = IoUring::builder();
    builder.setup_cqsize(entries.saturating_mul(4)).setup_clamp().dontfork();
    if flags.submit_all {
        builder.setup_submit_all();
    }
    if flags.exclusive {
        builder.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag().setup_r_disabled();
    }
    builder.build(entries)
}
