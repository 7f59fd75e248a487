//! A target in memory with a clock of its own, for tests: it records what it was asked, takes a
//! fixed simulated time per request, and can be told to fail or to hold a corrupt byte.

use std::time::Duration;

use oxblock::error::{Error, ErrorKind};

use super::{Completion, Request, RequestKind, Target};
use crate::num;

/// One request as the target saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// `'r'`, `'w'`, `'W'` (durable write), `'t'` (discard), `'z'` (write zeroes), `'f'` (flush).
    pub kind: char,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
    /// Simulated time at which it was queued, ns.
    pub at: u64,
    /// The number of the `submit` that started it, from 0.
    pub batch: u64,
}

/// Bytes in memory behind a simulated clock. Requests finish in order, `latency` after `submit`.
#[derive(Debug)]
pub struct MemoryTarget {
    /// The content. May be changed between runs, to plant damage.
    pub data: Vec<u8>,
    /// Everything asked so far.
    pub seen: Vec<Seen>,
    /// Simulated time from `submit` to completion, ns.
    pub latency: u64,
    /// Fail every write that starts at or beyond this byte.
    pub fail_writes_from: Option<u64>,
    /// `block_size` to announce.
    pub block_size: u32,
    /// Most requests ever in flight together.
    pub deepest: usize,
    clock: u64,
    batch: u64,
    queued: Vec<Request>,
    running: std::collections::VecDeque<(u64, Completion)>,
}

impl MemoryTarget {
    /// `size` zero bytes, 1 us per request.
    pub fn new(size: u64) -> Self {
        Self {
            data: vec![0; num::index(size)],
            seen: Vec::new(),
            latency: 1_000,
            fail_writes_from: None,
            block_size: 1,
            deepest: 0,
            clock: 1,
            batch: 0,
            queued: Vec::new(),
            running: std::collections::VecDeque::new(),
        }
    }

    fn range(&mut self, offset: u64, len: usize) -> Option<&mut [u8]> {
        let start = num::index(offset);
        self.data.get_mut(start..start.checked_add(len)?)
    }

    fn carry_out(&mut self, request: Request) -> Completion {
        let beyond =
            || Err(Error::new(ErrorKind::OutOfRange, "beyond the end of the memory target"));
        let tag = request.tag;
        let (buf, result) = match request.kind {
            RequestKind::Read { offset, mut buf } => {
                let result = match self.range(offset, buf.len()) {
                    Some(from) => {
                        buf.copy_from_slice(from);
                        Ok(())
                    }
                    None => beyond(),
                };
                (Some(buf), result)
            }
            RequestKind::Write { offset, buf, .. } => {
                let fails = self.fail_writes_from.is_some_and(|from| offset >= from);
                let result = match self.range(offset, buf.len()) {
                    Some(_) if fails => Err(Error::new(ErrorKind::Io, "told to fail")),
                    Some(to) => {
                        to.copy_from_slice(&buf);
                        Ok(())
                    }
                    None => beyond(),
                };
                (Some(buf), result)
            }
            RequestKind::Flush => (None, Ok(())),
            RequestKind::Discard { offset, len } | RequestKind::WriteZeroes { offset, len, .. } => {
                let result = match self.range(offset, num::index(len)) {
                    Some(to) => {
                        to.fill(0);
                        Ok(())
                    }
                    None => beyond(),
                };
                (None, result)
            }
        };
        Completion { tag, buf, result }
    }
}

impl Target for MemoryTarget {
    fn size(&self) -> u64 {
        self.data.len() as u64
    }

    fn block_size(&self) -> u32 {
        self.block_size
    }

    fn queue(&mut self, request: Request) {
        let (kind, offset, len) = match &request.kind {
            RequestKind::Read { offset, buf } => ('r', *offset, buf.len() as u64),
            RequestKind::Write { offset, buf, fua: false } => ('w', *offset, buf.len() as u64),
            RequestKind::Write { offset, buf, fua: true } => ('W', *offset, buf.len() as u64),
            RequestKind::Flush => ('f', 0, 0),
            RequestKind::Discard { offset, len } => ('t', *offset, *len),
            RequestKind::WriteZeroes { offset, len, .. } => ('z', *offset, *len),
        };
        self.seen.push(Seen { kind, offset, len, at: self.clock, batch: self.batch });
        self.queued.push(request);
    }

    fn submit(&mut self) {
        self.batch += 1;
        for request in std::mem::take(&mut self.queued) {
            let completion = self.carry_out(request);
            self.running.push_back((self.clock + self.latency, completion));
        }
        self.deepest = self.deepest.max(self.running.len());
    }

    fn poll(&mut self, done: &mut Vec<Completion>) -> usize {
        // Time passes for those who poll, too.
        self.clock += 10;
        let before = done.len();
        while let Some((_, completion)) = self.running.pop_front_if(|(at, _)| *at <= self.clock) {
            done.push(completion);
        }
        done.len() - before
    }

    fn wait(&mut self, timeout: Option<Duration>) {
        if let Some((ready, _)) = self.running.front() {
            let limit = timeout.map_or(u64::MAX, |limit| {
                self.clock.saturating_add(u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX))
            });
            self.clock = self.clock.max((*ready).min(limit));
        }
    }

    fn now(&self) -> u64 {
        self.clock
    }

    fn sleep(&mut self, duration: Duration) {
        self.clock += u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX / 2).max(1);
    }
}
