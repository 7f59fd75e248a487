//! What is told. Sizes are bytes, times nanoseconds; names are stable, and more may be added.

mod stats;
mod status;

use std::fmt;

use oxblock::volume::Info;
use serde::{Deserialize, Serialize};

pub use stats::{DeviceStats, Requests, Stats, VolumeStats};
pub use status::{DeviceStatus, Status, VolumeStatus};

/// The version of all that is told.
pub const VERSION: u32 = 1;

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Question {
    /// What is served, and how it is.
    Status,
    /// Figures that go up, and how much there is of what goes up and down.
    Stats,
}

/// Whether a volume takes requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// All of them.
    Working,
    /// Reads, as it was opened so.
    ReadOnly,
    /// Reads, as a write has failed.
    Failed,
}

impl State {
    /// Every state.
    pub const ALL: [Self; 3] = [Self::Working, Self::ReadOnly, Self::Failed];

    /// The name in output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::ReadOnly => "read-only",
            Self::Failed => "failed",
        }
    }

    pub(crate) fn of(info: &Info) -> Self {
        match (&info.failed, info.read_only) {
            (Some(_), _) => Self::Failed,
            (None, true) => Self::ReadOnly,
            (None, false) => Self::Working,
        }
    }
}

/// Segments by state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segments {
    /// Bytes of one.
    pub size: u64,
    /// All of them.
    pub count: u32,
    /// Empty.
    pub free: u32,
    /// Next to be written.
    pub reserved: u32,
    /// Being written.
    pub open: u32,
    /// Written, with something live.
    pub sealed: u32,
    /// Nothing live any more; free after the next checkpoint.
    pub pending: u32,
    /// Of the sealed ones, those with a live block that cannot be moved.
    pub damaged: u32,
}

/// The map and its cache, in nodes of 4096 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MapCache {
    /// In memory.
    pub cached: u64,
    /// The most in memory.
    pub limit: u64,
    /// To be written by the next checkpoint.
    pub dirty: u64,
    /// Damaged, or not to be read.
    pub lost: u64,
    /// Look-ups.
    pub lookups: u64,
    /// Nodes read from the device.
    pub fetched: u64,
    /// Nodes dropped to make room.
    pub evicted: u64,
}

/// How many are in which state, for people.
impl fmt::Display for Segments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { free, reserved, open, sealed, pending, damaged, .. } = self;
        write!(
            f,
            "{free} free, {reserved} reserved, {open} open, {sealed} sealed, {pending} pending, {damaged} damaged"
        )
    }
}

impl From<&Info> for Segments {
    fn from(info: &Info) -> Self {
        let segments = &info.segments;
        Self {
            size: segments.size,
            count: segments.count,
            free: segments.free,
            reserved: segments.reserved,
            open: segments.open,
            sealed: segments.sealed,
            pending: segments.pending,
            damaged: segments.damaged,
        }
    }
}

impl From<&Info> for MapCache {
    fn from(info: &Info) -> Self {
        let map = &info.map;
        Self {
            cached: map.cached as u64,
            limit: map.limit as u64,
            dirty: map.dirty as u64,
            lost: map.lost as u64,
            lookups: map.lookups,
            fetched: map.fetched,
            evicted: map.evicted,
        }
    }
}
