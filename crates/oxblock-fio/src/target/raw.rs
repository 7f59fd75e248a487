//! The bare device: requests go to the device seam as they are, without a volume.
//!
//! The baseline that a volume is compared with. A durable write is passed on as such; zeroing and
//! trimming are both a discard, as a device offers no other. Tags pass through unchanged, so there
//! is no table here: the loop's slots are the table of what is in flight.

use std::time::Duration;

use oxblock::device::{Action, Bufs, Done, IoQueue, Op};
use oxblock::error::Error;

use super::{Completion, Request, RequestKind, Target};

/// A device queue, driven directly. Only device 0 of the queue is used.
pub struct RawTarget {
    queue: Box<dyn IoQueue + Send>,
    done: Vec<Done>,
    size: u64,
    block_size: u32,
}

impl RawTarget {
    /// Wraps an open queue.
    pub fn new(queue: Box<dyn IoQueue + Send>) -> Self {
        let (size, block_size) =
            queue.limits().first().map_or((0, 4096), |limits| (limits.size, limits.block_size));
        Self { queue, done: Vec::new(), size, block_size }
    }

    /// How operations reach the device, in one line.
    pub fn describe(&self) -> String {
        self.queue.describe()
    }
}

impl std::fmt::Debug for RawTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RawTarget({} bytes, {})", self.size, self.queue.describe())
    }
}

impl Target for RawTarget {
    fn size(&self) -> u64 {
        self.size
    }

    fn block_size(&self) -> u32 {
        self.block_size
    }

    fn queue(&mut self, request: Request) {
        let (offset, action) = match request.kind {
            RequestKind::Read { offset, buf } => (offset, Action::Read(Bufs::from_buf([buf]))),
            RequestKind::Write { offset, buf, fua } => {
                (offset, Action::Write { bufs: Bufs::from_buf([buf]), durable: fua })
            }
            RequestKind::Flush => (0, Action::Flush),
            RequestKind::Discard { offset, len } | RequestKind::WriteZeroes { offset, len, .. } => {
                (offset, Action::Discard { len })
            }
        };
        self.queue.push(Op { tag: request.tag, device: 0, offset, action });
    }

    fn submit(&mut self) {
        self.queue.submit();
    }

    fn poll(&mut self, done: &mut Vec<Completion>) -> usize {
        let count = self.queue.reap(&mut self.done);
        done.extend(self.done.drain(..).map(|mut end| Completion {
            tag: end.tag,
            buf: end.bufs.pop(),
            result:
                end.result.map_err(|source| Error::io("the device failed an operation", source)),
        }));
        count
    }

    fn wait(&mut self, timeout: Option<Duration>) {
        self.queue.wait(timeout);
    }

    fn now(&self) -> u64 {
        self.queue.now()
    }
}
