//! What data is moved to and from: the poll interface of a volume, as a trait, so that tests can bring their own in
//! memory.

use std::time::Duration;

use oxblock::error::Result;
use oxblock::submit::request::{Completion, Request};
use oxblock::volume::{Extent, Volume};

/// A volume to move data to and from: requests go in, completions come out, in any order.
pub trait BlockTarget {
    /// Bytes, a multiple of 4096.
    fn size(&self) -> u64;
    /// Queues a request.
    fn queue(&mut self, request: Request);
    /// Starts what was queued.
    fn submit(&mut self);
    /// Moves completions to `done` without blocking and returns how many.
    fn poll(&mut self, done: &mut Vec<Completion>) -> usize;
    /// Blocks until there is something to poll, or `timeout` has passed.
    fn wait(&mut self, timeout: Option<Duration>);
    /// The first stretch at byte `from` or beyond that does not simply read as zeroes.
    fn next_data(&mut self, from: u64) -> Result<Option<Extent>>;
}

impl BlockTarget for Volume {
    fn size(&self) -> u64 {
        Self::size(self)
    }

    fn queue(&mut self, request: Request) {
        Self::queue(self, request);
    }

    fn submit(&mut self) {
        Self::submit(self);
    }

    fn poll(&mut self, done: &mut Vec<Completion>) -> usize {
        Self::poll(self, done)
    }

    fn wait(&mut self, timeout: Option<Duration>) {
        Self::wait(self, timeout);
    }

    fn next_data(&mut self, from: u64) -> Result<Option<Extent>> {
        Ok(Self::next_data(self, from))
    }
}
