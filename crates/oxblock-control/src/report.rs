//! What is told. Sizes are bytes, times nanoseconds; names are stable, and more may be added.

use std::collections::BTreeMap;
use std::fmt;

use oxblock::stats::{Flow, Times};
use oxblock::volume::{DeviceInfo, Info};
use serde::{Deserialize, Serialize};

use crate::source::Seen;

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

/// A server, and what it serves.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// [`VERSION`].
    pub version: u32,
    /// The version of the program.
    pub program: String,
    /// Its process.
    pub pid: u32,
    /// How long it has been serving.
    pub uptime: u64,
    /// What it serves.
    pub volumes: Vec<VolumeStatus>,
}

/// How a volume is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VolumeStatus {
    /// The name of the export, or where it is mounted.
    pub name: String,
    /// Identity.
    pub uuid: String,
    /// Its name on the media; may be empty.
    pub label: String,
    /// What users see.
    pub size: u64,
    /// Of it, what was written and not given up.
    pub used: u64,
    /// Space of the log.
    pub capacity: u64,
    /// Whether it takes requests.
    pub state: State,
    /// Why it takes no more writes, if it has failed.
    pub failed: Option<String>,
    /// How segments use their slots.
    pub profile: String,
    /// Checksum type.
    pub csum: String,
    /// Blocks that failed verification in its life.
    pub checksum_errors: u64,
    /// Checkpoints in its life.
    pub generation: u64,
    /// Segments.
    pub segments: Segments,
    /// The map and its cache.
    pub map: MapCache,
    /// How operations reach the devices.
    pub device_call: String,
    /// The devices.
    pub devices: Vec<DeviceStatus>,
    /// Clients that are connected, where it has such.
    pub clients: Option<u64>,
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

/// A device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceStatus {
    /// Where it was when the volume was made.
    pub path: String,
    /// Identity.
    pub uuid: String,
    /// Bytes.
    pub size: u64,
    /// Operations of it that failed since the volume was opened.
    pub errors: u64,
}

/// Figures of a server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stats {
    /// [`VERSION`].
    pub version: u32,
    /// When they were taken, since the server began.
    pub uptime: u64,
    /// Those of each volume, since it was opened.
    pub volumes: Vec<VolumeStats>,
}

/// Figures of a volume.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VolumeStats {
    /// The name of the export, or where it is mounted.
    pub name: String,
    /// What users see.
    pub size: u64,
    /// Of it, what was written and not given up.
    pub used: u64,
    /// Whether it takes requests.
    pub state: State,
    /// Requests by kind: `read`, `write`, `flush`, `discard`, `write_zeroes`.
    pub requests: BTreeMap<String, Requests>,
    /// Counters of the engine.
    pub counters: BTreeMap<String, u64>,
    /// Segments.
    pub segments: Segments,
    /// The map and its cache.
    pub map: MapCache,
    /// The devices.
    pub devices: Vec<DeviceStats>,
    /// Clients that are connected, where it has such.
    pub clients: Option<u64>,
}

/// Requests of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requests {
    /// How many ended.
    pub count: u64,
    /// Bytes of those that went well.
    pub bytes: u64,
    /// How many failed.
    pub errors: u64,
    /// How many are under way.
    pub in_flight: u64,
    /// How long all of them took together.
    pub time: u64,
    /// The summary of how long they took.
    pub latency: BTreeMap<String, u64>,
    /// How long they took, in full: pairs of the longest time of a bucket and how many fell into it, shortest first. A bucket
    /// is 1 % wide.
    pub buckets: Vec<(u64, u64)>,
}

/// Operations of a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceStats {
    /// Where it was when the volume was made.
    pub path: String,
    /// Bytes.
    pub size: u64,
    /// Reads begun.
    pub reads: u64,
    /// Bytes that they ask for.
    pub read_bytes: u64,
    /// Writes begun.
    pub writes: u64,
    /// Bytes that they carry.
    pub written_bytes: u64,
    /// Flushes begun.
    pub flushes: u64,
    /// Discards begun.
    pub discards: u64,
    /// Operations that failed.
    pub errors: u64,
    /// Operations under way.
    pub in_flight: u64,
}

impl From<&Seen> for VolumeStatus {
    fn from(seen: &Seen) -> Self {
        let info = &seen.info;
        Self {
            name: seen.name.clone(),
            uuid: info.uuid.clone(),
            label: info.label.clone(),
            size: info.size,
            used: info.used,
            capacity: info.capacity,
            state: State::of(info),
            failed: info.failed.clone(),
            profile: info.profile.into(),
            csum: info.csum.into(),
            checksum_errors: info.checksum_errors,
            generation: info.generation,
            segments: info.into(),
            map: info.into(),
            device_call: info.device_call.clone(),
            devices: info.devices.iter().map(DeviceStatus::from).collect(),
            clients: seen.clients,
        }
    }
}

impl From<&Seen> for VolumeStats {
    fn from(seen: &Seen) -> Self {
        let info = &seen.info;
        let requests = seen.traffic.all().map(|(kind, flow)| (kind.name().into(), flow.into()));
        let counters = info.counters.named().into_iter();
        Self {
            name: seen.name.clone(),
            size: info.size,
            used: info.used,
            state: State::of(info),
            requests: requests.collect(),
            counters: counters.map(|(name, value)| (name.into(), value)).collect(),
            segments: info.into(),
            map: info.into(),
            devices: info.devices.iter().map(DeviceStats::from).collect(),
            clients: seen.clients,
        }
    }
}

impl From<&Flow> for Requests {
    fn from(flow: &Flow) -> Self {
        Self {
            count: flow.latency.count(),
            bytes: flow.bytes,
            errors: flow.errors,
            in_flight: flow.in_flight,
            time: flow.latency.sum(),
            latency: summary(&flow.latency.times()),
            buckets: flow.latency.buckets().collect(),
        }
    }
}

fn summary(times: &Times) -> BTreeMap<String, u64> {
    let named = times.named().into_iter().filter(|(name, _)| *name != "count");
    named.map(|(name, value)| (name.into(), value)).collect()
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

impl From<&DeviceInfo> for DeviceStatus {
    fn from(device: &DeviceInfo) -> Self {
        Self {
            path: device.path.clone(),
            uuid: device.uuid.clone(),
            size: device.size,
            errors: device.traffic.errors,
        }
    }
}

impl From<&DeviceInfo> for DeviceStats {
    fn from(device: &DeviceInfo) -> Self {
        let traffic = &device.traffic;
        Self {
            path: device.path.clone(),
            size: device.size,
            reads: traffic.reads,
            read_bytes: traffic.read_bytes,
            writes: traffic.writes,
            written_bytes: traffic.written_bytes,
            flushes: traffic.flushes,
            discards: traffic.discards,
            errors: traffic.errors,
            in_flight: traffic.in_flight,
        }
    }
}
