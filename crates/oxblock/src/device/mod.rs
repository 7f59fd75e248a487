//! The device seam: a queue of device operations that is submitted and reaped, and a clock.
//!
//! Everything above this module is the same whatever is below it. An implementation covers all devices of one lane, so
//! that one ring serves them together. The contract, which the conformance suite (`conformance.rs`) holds every
//! implementation to:
//!
//! - An operation owns its buffers from [`IoQueue::push`] until its [`Done`] is reaped. Dropping the queue waits for
//!   what is in flight, or leaks its buffers; it never frees memory that a device may still touch.
//! - `push` never fails and never blocks; `submit` starts everything pushed. An implementation may run an operation to
//!   its end inside `submit` where that is faster than a hand-off.
//! - Every operation ends in exactly one `Done`, in any order. Short transfers are continued inside; a read beyond the
//!   end of the device is an error (`UnexpectedEof`), never short data. A write or a discard beyond it is an error
//!   (`StorageFull`) too, and never makes a file grow.
//! - Offsets, lengths and buffer addresses are multiples of [`QueueLimits::block_size`] (the engine always uses 4096).
//! - A `Write` with `durable` set is on stable media when it is done, it alone (FUA). A `Flush` that is done has made
//!   every write durable that was *done before the flush was pushed*; nothing is promised about writes in flight.
//! - After a `Discard` the range reads as anything until it is written again.

pub mod buf;
#[cfg(test)]
pub(crate) mod conformance;
mod crew;
mod event;
mod extents;
mod flight;
mod inline;
pub mod limits;
mod lock;
pub mod open;
mod pace;
mod prepare;
mod ring;
mod share;
pub mod sim;
mod split;
mod sync;
mod target;
mod threads;
mod uring;
mod watch;

use std::any::Any;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use smallvec::SmallVec;

pub use buf::Buf;
pub(crate) use event::Event;
pub(crate) use extents::Extents;
pub use lock::Lock;
pub use open::{DeviceCall, DeviceOptions, Made, Opened, Sharing, open_devices};
pub use prepare::{preallocate, sync_folder};

/// The buffers of one operation, gathered or scattered in order.
pub type Bufs = SmallVec<[Buf; 1]>;

/// The index of a device within its volume.
pub type DeviceIndex = u16;

/// One operation on one device.
#[derive(Debug)]
pub struct Op {
    /// Given back in [`Done`]; unique among the operations in flight. Its layout belongs to the engine.
    pub tag: u64,
    /// Which device.
    pub device: DeviceIndex,
    /// First byte on the device.
    pub offset: u64,
    /// What to do there.
    pub action: Action,
}

/// What an [`Op`] does.
#[derive(Debug)]
pub enum Action {
    /// Fill the buffers, in order, from consecutive bytes.
    Read(Bufs),
    /// Write the buffers, in order, to consecutive bytes.
    Write {
        /// What to write.
        bufs: Bufs,
        /// Done only when on stable media (FUA).
        durable: bool,
    },
    /// Make all earlier completed writes durable.
    Flush,
    /// Give up `len` bytes of content. Best effort: "not supported" counts as done.
    Discard {
        /// Bytes.
        len: u64,
    },
}

/// Computing that owns all that it needs, and can so run on any thread.
pub trait Work: Any + Send {
    /// Does it.
    fn run(&mut self);
}

/// A piece of work for [`IoQueue::run`].
pub struct Job {
    /// Given back in [`Done`]; unique among the operations and jobs in flight.
    pub tag: u64,
    /// What to do.
    pub work: Box<dyn Work>,
    /// About how long it takes one core, in nanoseconds.
    pub cost: u64,
    /// It is for a worker, whatever the hand-off costs; the issuer does it where there is no thread for one, when the
    /// workers do not get on with it, and out of a backlog. Otherwise it is for whoever comes first.
    pub handed_over: bool,
}

impl Job {
    /// Does it, here and now.
    pub fn run(mut self) -> Done {
        self.work.run();
        Done {
            tag: self.tag,
            device: None,
            bufs: Bufs::new(),
            work: Some(self.work),
            result: Ok(()),
        }
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job")
            .field("tag", &self.tag)
            .field("cost", &self.cost)
            .finish_non_exhaustive()
    }
}

/// The end of an [`Op`] or of a [`Job`].
pub struct Done {
    /// The operation's tag.
    pub tag: u64,
    /// The operation's device; none for jobs.
    pub device: Option<DeviceIndex>,
    /// Its buffers, in order; empty for `Flush`, `Discard` and jobs.
    pub bufs: Bufs,
    /// The work of a job, done.
    pub work: Option<Box<dyn Work>>,
    /// How it went. After an error the content of read buffers is unspecified.
    pub result: io::Result<()>,
}

impl fmt::Debug for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Done")
            .field("tag", &self.tag)
            .field("bufs", &self.bufs)
            .field("result", &self.result)
            .finish_non_exhaustive()
    }
}

/// How a device makes one write durable without a flush.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fua {
    /// Nothing is volatile: every completed write is durable.
    NotNeeded,
    /// A durable write costs about a write (`RWF_DSYNC` on a device with FUA).
    Native,
    /// A durable write is a write and a flush underneath.
    Emulated,
}

impl Fua {
    /// The name in output.
    pub fn name(self) -> &'static str {
        match self {
            Self::NotNeeded => "not needed",
            Self::Native => "native",
            Self::Emulated => "emulated",
        }
    }
}

/// What a device can do, asked from the system when it is opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueLimits {
    /// Usable size in bytes, a multiple of 4096.
    pub size: u64,
    /// `logical_block_size`: the smallest unit that can be written, in bytes.
    pub block_size: u32,
    /// `dma_alignment`: what a buffer address must be a multiple of, in bytes.
    pub dma_alignment: u32,
    /// `io_opt`: the device's preferred I/O size in bytes, 0 when it names none.
    pub io_opt: u32,
    /// `bio_max_bytes`: the largest single operation that is worth sending, in bytes.
    pub bio_max_bytes: u32,
    /// Completed writes may be lost with the power until a flush.
    pub write_cache: bool,
    /// How a durable write is made.
    pub fua: Fua,
    /// Discards reach the device.
    pub discard: bool,
    /// Sequential-write zones; such devices are refused for now.
    pub zoned: bool,
    /// The device spins: seeks are dear, and many operations at once do not help.
    pub rotational: bool,
    /// `O_DIRECT` is in force; otherwise I/O goes through the page cache and is made durable by `fdatasync`.
    pub direct: bool,
}

/// A queue of device operations. See the module's contract.
pub trait IoQueue {
    /// The devices behind this queue, by index.
    fn limits(&self) -> &[QueueLimits];

    /// Queues an operation. It starts with the next [`submit`](Self::submit), or earlier.
    fn push(&mut self, op: Op);

    /// Whether `op`, were it pushed now, would start at once, without a [`submit`](Self::submit).
    fn starts_at_once(&self, _op: &Op) -> bool {
        false
    }

    /// Has `job` done beside the issuer, or inside the next [`submit`](Self::submit), [`wait`](Self::wait) or this very
    /// call where that is faster. It ends in one `Done` like an operation, and always well.
    fn run(&mut self, job: Job);

    /// Starts everything that was pushed.
    fn submit(&mut self);

    /// Moves finished operations to `done` without blocking and returns how many.
    fn reap(&mut self, done: &mut Vec<Done>) -> usize;

    /// Blocks until something can be reaped, nothing is in flight, or `timeout` has passed.
    fn wait(&mut self, timeout: Option<Duration>);

    /// Has [`wait_watching`](Self::wait_watching) end also when `fd` polls readable. For front-ends, whose requests come by
    /// descriptors: one thread waits for them and the devices together. A few; whoever has many puts an epoll descriptor
    /// here.
    ///
    /// # Errors
    /// More descriptors than the queue can watch; `Unsupported` where it can watch none.
    fn watch(&mut self, _fd: Arc<OwnedFd>) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Blocks until something can be reaped, a [watched](Self::watch) descriptor polls readable, or `timeout` has passed.
    /// Unlike [`wait`](Self::wait) it blocks with nothing in flight too, and it hardly polls before it does: whoever waits for
    /// more than the devices looks for all of it, if that pays. Spurious returns are possible.
    fn wait_watching(&mut self, timeout: Option<Duration>) {
        self.wait(timeout);
    }

    /// A way to block for completions *without* holding the queue, for callers that share it between threads; `None`
    /// where there is nothing to block on. It wakes for operations that outlast `submit`; those that end inside it can be
    /// reaped at once, so reap before waiting.
    fn waiter(&self) -> Option<Waiter>;

    /// Operations pushed and not yet reaped.
    fn in_flight(&self) -> usize;

    /// Nanoseconds on this queue's clock: monotonic, arbitrary origin; simulated time in the simulator.
    fn now(&self) -> u64 {
        target::now_ns()
    }

    /// A small read costs little more than its copy, so that reading what is not needed only to have fewer reads does
    /// not pay.
    fn has_cheap_reads(&self) -> bool {
        false
    }

    /// Operations go on beside the issuer now although they are as cheap as a copy: two writes in flight overlap the
    /// issuer's work on one with the device's on the other. Where operations wait for a device, more in one is better.
    fn works_beside(&self) -> bool {
        false
    }

    /// There are workers for jobs, or there would be with a core to run on; without them [`run`](Self::run) does every job
    /// here and now.
    fn has_workers(&self) -> bool {
        true
    }

    /// How operations reach the device, in one line for `info`, with the reason.
    fn describe(&self) -> String;
}

/// Bytes of the one device of a queue; 0 where there is none.
pub(crate) fn device_size(queue: &dyn IoQueue) -> u64 {
    queue.limits().first().map_or(0, |limits| limits.size)
}

/// Blocks for completions outside the queue; made by [`IoQueue::waiter`].
#[derive(Debug, Clone)]
pub struct Waiter(Arc<WaiterInner>);

#[derive(Debug)]
struct WaiterInner {
    /// Poll readable while completions can be reaped.
    completions: SmallVec<[Arc<OwnedFd>; 2]>,
    /// Signalled by a kick.
    kick: Event,
}

impl Waiter {
    /// A waiter on descriptors that poll readable while completions can be reaped.
    ///
    /// # Errors
    /// When no event descriptor is to be had.
    pub(crate) fn new(completions: impl IntoIterator<Item = Arc<OwnedFd>>) -> io::Result<Self> {
        let completions = completions.into_iter().collect();
        Ok(Self(Arc::new(WaiterInner { completions, kick: Event::new()? })))
    }

    /// Blocks until completions can be reaped, somebody [kicks](Self::kick), or `timeout` has passed. Spurious returns
    /// are possible.
    pub fn wait(&self, timeout: Option<Duration>) {
        let completions = self.0.completions.iter().map(|event| event.as_fd());
        wait_for(completions.chain([self.0.kick.descriptor().as_fd()]), timeout);
        self.0.kick.clear();
    }

    /// Makes a [`wait`](Self::wait) that is under way, or the next one, return.
    pub fn kick(&self) {
        self.0.kick.signal();
    }
}

/// Blocks until one of `events` polls readable or `timeout` has passed. Spurious returns are possible.
fn wait_for<'a>(events: impl IntoIterator<Item = BorrowedFd<'a>>, timeout: Option<Duration>) {
    let timeout = timeout.and_then(|limit| Timespec::try_from(limit).ok());
    let mut fds: SmallVec<[PollFd<'_>; 3]> =
        events.into_iter().map(|event| PollFd::from_borrowed_fd(event, PollFlags::IN)).collect();
    // A failed poll (EINTR) is a spurious return: the caller looks for completions again.
    poll(&mut fds, timeout.as_ref()).ok();
}
