//! Descriptors of a front-end, to be waited for together with the devices.

use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;

use super::wait_for;

/// What a queue watches for its owner. They are shared, not lent, so that no number is given to another descriptor while
/// somebody still polls it.
#[derive(Debug, Default)]
pub(super) struct Watch {
    fds: SmallVec<[Arc<OwnedFd>; 2]>,
}

impl Watch {
    /// One more.
    pub(super) fn add(&mut self, fd: Arc<OwnedFd>) {
        self.fds.push(fd);
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.fds.len()
    }

    /// The number of one of them.
    pub(super) fn get(&self, index: usize) -> Option<RawFd> {
        self.fds.get(index).map(|fd| fd.as_raw_fd())
    }

    /// Blocks until one of them or one of `own` polls readable, or `timeout` has passed. Spurious returns are possible.
    pub(super) fn wait(&self, own: &[&OwnedFd], timeout: Option<Duration>) {
        let watched = self.fds.iter().map(|fd| fd.as_fd());
        wait_for(own.iter().map(|fd| fd.as_fd()).chain(watched), timeout);
    }
}
