//! The poll interface.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::format::layout::BLOCK_BYTES;
use crate::lane::Lane;
use crate::log::recovery::Replayed;
use crate::map::Stats as MapStats;
use crate::stats::{Counters, Traffic};
use crate::submit::request::{Completion, Request};
use crate::trace::TraceSink;

/// An open volume, driven by its owner: queue requests, [`submit`](Self::submit), [`poll`](Self::poll) for completions.
///
/// Nothing happens between calls, there is no thread and no lock. Dropping a volume without [`close`](Self::close)
/// loses nothing that was flushed; what was acknowledged since may be lost, as with a power cut.
pub struct Volume {
    pub(crate) lane: Lane,
    replayed: Replayed,
}

impl std::fmt::Debug for Volume {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Volume").field("size", &self.size()).finish_non_exhaustive()
    }
}

impl Volume {
    pub(crate) fn new(mut lane: Lane, notices: Vec<String>, replayed: Replayed) -> Self {
        lane.notices.splice(0..0, notices);
        Self { lane, replayed }
    }

    pub(crate) fn add_notices(&mut self, more: Vec<String>) {
        self.lane.notices.extend(more);
    }

    /// Bytes, a multiple of 4096.
    pub fn size(&self) -> u64 {
        self.lane.geometry.blocks * BLOCK_BYTES
    }

    /// Bytes that are in use: written, and not given up since.
    pub fn used(&self) -> u64 {
        self.lane.map.mapped() * BLOCK_BYTES
    }

    /// Its label; empty when it has none.
    pub fn label(&self) -> &str {
        &self.lane.geometry.superblock.label
    }

    /// What the user should know, one sentence each: about how the volume was opened, and about writes that have failed since
    /// and went elsewhere.
    pub fn notices(&self) -> &[String] {
        &self.lane.notices
    }

    /// What recovery replayed when the volume was opened.
    pub fn replayed(&self) -> Replayed {
        self.replayed
    }

    /// Queues a request. It starts with the next [`submit`](Self::submit); a request that is not valid completes at once
    /// with its error.
    pub fn queue(&mut self, request: Request) {
        self.lane.queue(request);
    }

    /// Starts everything that was queued. Requests queued together leave together.
    pub fn submit(&mut self) {
        self.lane.submit();
    }

    /// Moves completions to `done` without blocking and returns how many.
    pub fn poll(&mut self, done: &mut Vec<Completion>) -> usize {
        self.lane.poll(done)
    }

    /// Blocks until there may be something to poll, or `timeout` has passed.
    pub fn wait(&mut self, timeout: Option<Duration>) {
        self.lane.wait(timeout);
    }

    /// Has [`wait_watching`](Self::wait_watching) end also when `fd` polls readable: so that a front-end waits for its requests
    /// and for the devices in one place, in one thread. `fd` stays open as long as the volume. A few are watched; whoever
    /// has many puts an epoll descriptor here.
    ///
    /// # Errors
    /// More descriptors than can be watched.
    pub fn watch(&mut self, fd: Arc<OwnedFd>) -> Result<()> {
        let watched = self.lane.queue.watch(fd);
        watched.map_err(|error| Error::io("these devices cannot be waited for with others", error))
    }

    /// Blocks until there may be something to poll, a [watched](Self::watch) descriptor polls readable, or `timeout` has
    /// passed. Unlike [`wait`](Self::wait) it blocks on an idle volume too. It hardly polls before it blocks: callers that
    /// gain from polling do it themselves, for all that they wait for.
    pub fn wait_watching(&mut self, timeout: Option<Duration>) {
        self.lane.wait_watching(timeout);
    }

    /// Sets who gets the marks of what happens from here on ([`trace`](crate::trace)), or nobody. Spans that are open end
    /// for the sink that was there before, and it is dropped. Requests that are under way are not in the new one's trace.
    pub fn set_trace(&mut self, sink: Option<Box<dyn TraceSink>>) {
        self.lane.set_trace(sink);
    }

    /// What the volume has done since it was opened.
    pub fn counters(&self) -> Counters {
        self.lane.counters
    }

    /// The requests since the volume was opened.
    pub fn traffic(&self) -> &Traffic {
        &self.lane.traffic
    }

    /// Counters of the map and its cache.
    pub fn map_stats(&self) -> MapStats {
        self.lane.map.stats()
    }

    /// Finishes what is queued, makes everything durable, and closes. Completions that nobody polled are dropped.
    ///
    /// # Errors
    /// What kept it from becoming durable.
    pub fn close(mut self) -> Result<()> {
        self.lane.begin_close();
        self.drain()?;
        self.lane.want_last_checkpoint();
        self.drain()
    }

    /// Runs until nothing is under way.
    ///
    /// # Errors
    /// What latched the volume.
    pub(crate) fn drain(&mut self) -> Result<()> {
        let mut dropped = Vec::new();
        while self.lane.busy() {
            self.lane.submit();
            self.lane.poll(&mut dropped);
            dropped.clear();
            if self.lane.busy() {
                self.lane.wait(Some(Duration::from_millis(100)));
            }
        }
        self.lane.latched.clone().map_or(Ok(()), |error: Error| Err(error))
    }
}
