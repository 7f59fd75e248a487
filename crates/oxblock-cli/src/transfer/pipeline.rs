//! A bounded number of requests in flight on a volume.
//!
//! The bound is on bytes, since a request may be small: with nothing but small ones there is a bound on their number as
//! well. A pipeline that is dropped half-way waits for what is in flight, so that no completion is left to the next
//! user of the volume.

use oxblock::device::Buf;
use oxblock::submit::request::{Completion, Request, RequestKind};

use super::{CHUNK, DEPTH};
use crate::engine::BlockTarget;

/// The most requests in flight, whatever their size.
const MAX_REQUESTS: usize = 256;

/// Requests in flight on `target`.
pub struct Pipeline<'a, T: BlockTarget> {
    target: &'a mut T,
    in_flight: usize,
    bytes_in_flight: usize,
    done: Vec<Completion>,
}

impl<'a, T: BlockTarget> Pipeline<'a, T> {
    /// A pipeline with nothing in it.
    pub fn new(target: &'a mut T) -> Self {
        Self { target, in_flight: 0, bytes_in_flight: 0, done: Vec::new() }
    }

    /// Room for another request of `len` bytes.
    pub fn has_room(&self, len: usize) -> bool {
        let bytes = self.bytes_in_flight + len <= CHUNK * DEPTH;
        self.in_flight == 0 || (bytes && self.in_flight < MAX_REQUESTS)
    }

    /// Starts a request now: nothing is gained by holding back 1 MiB.
    pub fn push(&mut self, tag: u64, kind: RequestKind) {
        self.in_flight += 1;
        self.bytes_in_flight += weight(&kind);
        self.target.queue(Request { tag, kind });
        self.target.submit();
    }

    /// The target, to ask it something. Requests are not to go past the pipeline.
    pub fn target(&mut self) -> &mut T {
        self.target
    }

    /// Requests in flight.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Reads `len` bytes while everything else goes on; what else completes meanwhile is handed out by the next call.
    pub fn read_alone(&mut self, offset: u64, len: usize) -> (Buf, oxblock::Result<()>) {
        const ALONE: u64 = u64::MAX;
        let buf = Buf::new(len);
        self.target.queue(Request { tag: ALONE, kind: RequestKind::Read { offset, buf } });
        self.target.submit();
        loop {
            if let Some(at) = self.done.iter().position(|done| done.tag == ALONE) {
                let done = self.done.swap_remove(at);
                return (done.buf.unwrap_or_else(|| Buf::new(len)), done.result);
            }
            if self.target.poll(&mut self.done) == 0 {
                self.target.wait(None);
            }
        }
    }

    /// Completions that are there already, without blocking.
    pub fn ready(&mut self) -> Vec<Completion> {
        self.target.poll(&mut self.done);
        self.take()
    }

    /// At least one completion, blocking for it; none only when nothing is in flight.
    pub fn next(&mut self) -> Vec<Completion> {
        while self.in_flight > 0 && self.target.poll(&mut self.done) == 0 && self.done.is_empty() {
            self.target.wait(None);
        }
        self.take()
    }

    fn take(&mut self) -> Vec<Completion> {
        let done = std::mem::take(&mut self.done);
        self.in_flight = self.in_flight.saturating_sub(done.len());
        let bytes: usize =
            done.iter().filter_map(|done| done.buf.as_ref()).map(|buf| buf.len()).sum();
        self.bytes_in_flight = self.bytes_in_flight.saturating_sub(bytes);
        done
    }
}

impl<T: BlockTarget> Drop for Pipeline<'_, T> {
    fn drop(&mut self) {
        // After a panic the target may be in no state to complete anything: waiting could be for ever.
        while self.in_flight > 0 && !std::thread::panicking() {
            self.next();
        }
    }
}

/// The bytes that a request holds in memory.
fn weight(kind: &RequestKind) -> usize {
    match kind {
        RequestKind::Read { buf, .. } | RequestKind::Write { buf, .. } => buf.len(),
        RequestKind::Flush | RequestKind::Discard { .. } | RequestKind::WriteZeroes { .. } => 0,
    }
}

/// Buffers of [`CHUNK`] bytes that are used over and over.
#[derive(Default)]
pub struct Pool(Vec<Buf>);

impl Pool {
    /// A buffer of [`CHUNK`] bytes with any content.
    pub fn get(&mut self) -> Buf {
        self.0.pop().unwrap_or_else(|| Buf::new(CHUNK))
    }

    /// Takes a buffer back. Parts of one are of no use and go.
    pub fn put(&mut self, buf: Buf) {
        if buf.len() == CHUNK && self.0.len() < DEPTH {
            self.0.push(buf);
        }
    }
}
