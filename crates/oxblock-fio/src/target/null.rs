//! A target that does nothing, at once: what is left is the cost of the loop.

use std::time::Duration;

use super::{Completion, Request, RequestKind, Target};

/// Completes every request in `submit`, untouched.
#[derive(Debug, Default)]
pub struct NullTarget {
    size: u64,
    queued: Vec<Completion>,
}

impl NullTarget {
    /// A target of `size` bytes.
    pub fn new(size: u64) -> Self {
        Self { size, queued: Vec::new() }
    }
}

impl Target for NullTarget {
    fn size(&self) -> u64 {
        self.size
    }

    fn block_size(&self) -> u32 {
        1
    }

    fn queue(&mut self, request: Request) {
        let buf = match request.kind {
            RequestKind::Read { buf, .. } | RequestKind::Write { buf, .. } => Some(buf),
            _ => None,
        };
        self.queued.push(Completion { tag: request.tag, buf, result: Ok(()) });
    }

    fn submit(&mut self) {}

    fn poll(&mut self, done: &mut Vec<Completion>) -> usize {
        let count = self.queued.len();
        done.append(&mut self.queued);
        count
    }

    fn wait(&mut self, _: Option<Duration>) {}
}
