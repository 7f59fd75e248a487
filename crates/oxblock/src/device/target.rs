//! One open device: its descriptor, its lock and its bounds.
//!
//! Invariants: every transfer is checked against `size` before the system sees it, so that no write makes a file grow;
//! the lock is held until the last field of the queue that owns the target is gone, which is after all of its I/O.

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use super::lock::Lock;
use super::pace::Pace;
use super::{Action, DeviceIndex, QueueLimits};

/// An open device.
#[derive(Debug)]
pub(super) struct Target {
    /// For I/O. Never the descriptor that holds the lock, see [`Lock`].
    pub(super) file: OwnedFd,
    /// As given by the caller, for messages.
    pub(super) path: PathBuf,
    /// A block device, not a file.
    pub(super) block: bool,
    /// Usable bytes.
    pub(super) size: u64,
    /// How fast a small read is, and what follows from it.
    pub(super) pace: Pace,
    /// Keeps others out for as long as the target lives.
    #[expect(dead_code, reason = "held for its drop")]
    pub(super) lock: Option<Lock>,
}

/// The devices of one queue, with their limits at the same index.
#[derive(Debug, Clone, Default)]
pub(super) struct Targets {
    pub(super) list: Vec<Arc<Target>>,
    pub(super) limits: Vec<QueueLimits>,
}

impl Targets {
    pub(super) fn get(&self, device: DeviceIndex) -> io::Result<&Arc<Target>> {
        self.list.get(usize::from(device)).ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidInput, format!("there is no device {device}"))
        })
    }

    /// How fast they are, in a sentence for `info`.
    pub(super) fn paces(&self) -> String {
        let paces: Vec<String> = self.list.iter().map(|target| target.pace.sentence()).collect();
        paces.join("; ")
    }

    /// Refuses what does not lie inside the device; returns the bytes that `action` covers.
    pub(super) fn check(
        &self,
        device: DeviceIndex,
        offset: u64,
        action: &Action,
    ) -> io::Result<u64> {
        let target = self.get(device)?;
        let len = action.bytes();
        if offset.checked_add(len).is_some_and(|end| end <= target.size) {
            return Ok(len);
        }
        let kind = match action {
            Action::Read(_) => io::ErrorKind::UnexpectedEof,
            Action::Flush => return Ok(0),
            Action::Write { .. } | Action::Discard { .. } => io::ErrorKind::StorageFull,
        };
        let (path, size) = (target.path.display(), target.size);
        Err(io::Error::new(
            kind,
            format!("{len} bytes at {offset} are beyond the end of {path} ({size} bytes)"),
        ))
    }
}

impl Action {
    /// The bytes of the device that the action covers.
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Self::Read(bufs) | Self::Write { bufs, .. } => {
                bufs.iter().map(|buf| buf.len() as u64).sum()
            }
            Self::Flush => 0,
            Self::Discard { len } => *len,
        }
    }

    /// The buffers, for the way back to the caller.
    pub(super) fn into_bufs(self) -> super::Bufs {
        match self {
            Self::Read(bufs) | Self::Write { bufs, .. } => bufs,
            Self::Flush | Self::Discard { .. } => super::Bufs::new(),
        }
    }
}

/// Nanoseconds on the system's monotonic clock.
pub(super) fn now_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    // The monotonic clock starts at boot and is never negative.
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
    seconds.wrapping_mul(1_000_000_000).wrapping_add(nanos)
}
