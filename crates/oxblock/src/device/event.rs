//! A descriptor that polls readable once it was signalled, until it is cleared.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use rustix::event::{EventfdFlags, eventfd};

/// The descriptor. Clones are the same one.
#[derive(Debug, Clone)]
pub(crate) struct Event(Arc<OwnedFd>);

impl Event {
    /// An event that was not signalled.
    pub fn new() -> io::Result<Self> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self(Arc::new(fd)))
    }

    /// Makes the descriptor readable.
    pub fn signal(&self) {
        // It fails only when it is full of signals already.
        #[expect(clippy::host_endian_bytes, reason = "the kernel reads a native integer")]
        rustix::io::write(&*self.0, &1u64.to_ne_bytes()).ok();
    }

    /// Takes back all signals so far.
    pub fn clear(&self) {
        // It fails only when there is none.
        rustix::io::read(&*self.0, &mut [0; 8]).ok();
    }

    /// True when it would poll readable.
    #[cfg(test)]
    pub fn is_signalled(&self) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let mut fds = [PollFd::new(&self.0, PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut fds, Some(&now)).is_ok_and(|ready| ready == 1)
    }

    /// To poll.
    pub fn descriptor(&self) -> &Arc<OwnedFd> {
        &self.0
    }
}

impl AsRawFd for Event {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}
