//! What jobs run against.
//!
//! A target is a poll-driven queue of block requests, in the style of the device seam. The loop's
//! contract with it:
//!
//! - `queue` never fails; the request starts with the next `submit`, or earlier.
//! - Every request ends in exactly one [`Completion`], in any order, with its buffer.
//! - Latency is counted from `submit` to the `poll` that hands the completion over, so a target
//!   that finishes a request inside `submit` is charged for it.
//! - Requests in flight to the same blocks are in no order, unless the target says otherwise.

#[cfg(test)]
mod memory;
mod null;
mod raw;
mod volume;

use std::time::Duration;

#[cfg(test)]
pub(crate) use memory::{MemoryTarget, Seen};
pub use null::NullTarget;
pub use oxblock::submit::request::{Completion, Request, RequestKind};
pub use raw::RawTarget;
pub use volume::VolumeTarget;

/// A block target: a volume, a bare device, or something in memory.
pub trait Target {
    /// Usable bytes.
    fn size(&self) -> u64;

    /// What offsets and lengths must be multiples of, bytes: 1 for a volume, the logical block size
    /// for a bare device.
    fn block_size(&self) -> u32;

    /// Queues a request.
    fn queue(&mut self, request: Request);

    /// Starts everything that was queued.
    fn submit(&mut self);

    /// Appends finished requests to `done` without blocking and returns how many.
    fn poll(&mut self, done: &mut Vec<Completion>) -> usize;

    /// Blocks until something can be polled, nothing is in flight, or `timeout` has passed.
    fn wait(&mut self, timeout: Option<Duration>);

    /// Nanoseconds on a monotonic clock of arbitrary origin.
    fn now(&self) -> u64 {
        monotonic()
    }

    /// Passes time while nothing is in flight.
    fn sleep(&mut self, duration: Duration) {
        std::thread::sleep(duration);
    }
}

/// The system's monotonic clock in nanoseconds.
pub(crate) fn monotonic() -> u64 {
    nanos(rustix::time::clock_gettime(rustix::time::ClockId::Monotonic))
}

/// A system time stamp in nanoseconds.
pub(crate) fn nanos(time: rustix::time::Timespec) -> u64 {
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}
