//! What is served, and how it is.

use oxblock::volume::DeviceInfo;
use serde::{Deserialize, Serialize};

use super::{MapCache, Segments, State};
use crate::source::Seen;

/// A server, and what it serves.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// [`VERSION`](super::VERSION).
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
