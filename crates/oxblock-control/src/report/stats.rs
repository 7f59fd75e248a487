//! Figures.

use std::collections::BTreeMap;

use oxblock::stats::{Flow, Times};
use oxblock::volume::DeviceInfo;
use serde::{Deserialize, Serialize};

use super::{MapCache, Segments, State};
use crate::source::Seen;

/// Figures of a server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stats {
    /// [`VERSION`](super::VERSION).
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
