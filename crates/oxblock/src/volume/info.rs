//! What there is to know about an open volume.

use uuid::Uuid;

use super::policy::{Facts, InForce, Reasons};
use super::poll::Volume;
use crate::csum::speed;
use crate::device::QueueLimits;
use crate::format::layout::BLOCK_BYTES;
use crate::lane::Geometry;
use crate::log::recovery::Replayed;
use crate::log::segments::State;
use crate::stats::{Counters, DeviceTraffic};
use crate::workers::cores;

/// A volume as it is now. Sizes are bytes.
#[derive(Debug, Clone, PartialEq)]
pub struct Info {
    /// Identity.
    pub uuid: String,
    /// Name; may be empty.
    pub label: String,
    /// What users see.
    pub size: u64,
    /// Of it, what was written and not given up.
    pub used: u64,
    /// Space of the log: data, map, and what cleaning works with.
    pub capacity: u64,
    /// Of all devices together.
    pub device_size: u64,
    /// How segments use their slots.
    pub profile: &'static str,
    /// Checksum type of blocks.
    pub csum: &'static str,
    /// GB/s (10^9 bytes a second) of one thread that checksums, measured once in this process.
    pub csum_speed: f64,
    /// Lanes.
    pub lanes: u16,
    /// Creation time, seconds since 1970.
    pub created: u64,
    /// Segments.
    pub segments: SegmentInfo,
    /// Checkpoints in the volume's life.
    pub generation: u64,
    /// Lives of the volume: it goes up when one begins to write.
    pub epoch: u64,
    /// Sequence number of the last record that was applied.
    pub sequence: u64,
    /// It had been closed in good order before it was opened.
    pub clean: bool,
    /// Only reads are taken, as it was opened so.
    pub read_only: bool,
    /// Why nothing can be written any more, when that has come to pass.
    pub failed: Option<String>,
    /// What opening replayed.
    pub replayed: Replayed,
    /// The map.
    pub map: MapInfo,
    /// The devices.
    pub devices: Vec<DeviceInfo>,
    /// What was done since the volume was opened.
    pub counters: Counters,
    /// Blocks that failed verification in the volume's life, up to now. Of what was found since the last checkpoint, a
    /// crash forgets the count.
    pub checksum_errors: u64,
    /// How operations reach the devices, and why.
    pub device_call: String,
    /// The policy in force, and where its parts come from.
    pub policy: InForce,
    /// Why it does what it does here.
    pub reasons: Reasons,
}

/// Segments by state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SegmentInfo {
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

/// The map and its cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MapInfo {
    /// Levels of the tree.
    pub height: u8,
    /// Nodes in memory; a node has 4096 bytes.
    pub cached: usize,
    /// The most nodes in memory.
    pub limit: usize,
    /// Nodes that the next checkpoint must write.
    pub dirty: usize,
    /// Look-ups since the volume was opened.
    pub lookups: u64,
    /// Nodes read from the device, which look-ups waited for.
    pub fetched: u64,
    /// Nodes dropped to make room.
    pub evicted: u64,
    /// Nodes that are damaged, or could not be read when they were last asked for.
    pub lost: usize,
}

/// A device and what it can do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Where it was when the volume was made.
    pub path: String,
    /// Identity.
    pub uuid: String,
    /// Bytes.
    pub size: u64,
    /// What it can do.
    pub limits: QueueLimits,
    /// What it has done since the volume was opened.
    pub traffic: DeviceTraffic,
}

impl Volume {
    /// What there is to know. The first call in a process measures the checksum, which takes about 3 ms.
    pub fn info(&self) -> Info {
        let lane = &self.lane;
        let superblock = &lane.geometry.superblock;
        let point = &lane.point.durable;
        let opened = &superblock.checkpoint;
        let stats = lane.map.stats();
        let uuid = |bytes: [u8; 16]| Uuid::from_bytes(bytes).to_string();
        let limits = lane.queue.limits();
        let devices: Vec<DeviceInfo> = superblock
            .devices
            .iter()
            .zip(limits)
            .zip(lane.queue.traffic())
            .map(|((device, limits), traffic)| DeviceInfo {
                path: device.path.clone(),
                uuid: uuid(device.uuid),
                size: limits.size,
                limits: limits.clone(),
                traffic: *traffic,
            })
            .collect();
        Info {
            uuid: uuid(superblock.volume),
            label: self.label().to_owned(),
            size: self.size(),
            used: self.used(),
            capacity: superblock.log_blocks() * BLOCK_BYTES,
            device_size: devices.iter().map(|device| device.size).sum(),
            profile: superblock.profile.name(),
            csum: superblock.csum.name(),
            csum_speed: speed(superblock.csum),
            lanes: superblock.lanes,
            created: superblock.created,
            segments: self.segment_info(),
            generation: point.generation,
            epoch: point.epoch,
            sequence: lane.log.retired,
            clean: opened.clean,
            read_only: lane.geometry.read_only,
            failed: lane.latched.as_ref().map(ToString::to_string),
            replayed: self.replayed(),
            map: MapInfo {
                height: lane.map.height(),
                cached: stats.cached,
                limit: lane.map.limit(),
                dirty: stats.dirty,
                lookups: stats.lookups,
                fetched: stats.fetched,
                evicted: stats.evicted,
                lost: lane.fetches.lost(),
            },
            devices,
            counters: lane.counters,
            checksum_errors: lane.checksum_errors(),
            device_call: lane.queue.describe(),
            policy: lane.placement.force,
            reasons: self.facts().reasons(&lane.placement.force.policy),
        }
    }

    /// What the policies go by, for this volume on this machine.
    pub fn facts(&self) -> Facts {
        let Geometry { superblock, limits, .. } = &self.lane.geometry;
        Facts {
            csum: superblock.csum,
            costs: self.lane.placement.force.costs,
            cores: cores(),
            workers: self.lane.queue.has_workers(),
            io_opt: limits.io_opt,
            bio_max_bytes: limits.bio_max_bytes,
        }
    }

    fn segment_info(&self) -> SegmentInfo {
        let segments = &self.lane.segments;
        let mut info = SegmentInfo {
            size: u64::from(segments.blocks()) * BLOCK_BYTES,
            count: segments.count(),
            ..SegmentInfo::default()
        };
        for (_, segment) in segments.iter() {
            let state = match segment.state {
                State::Free => &mut info.free,
                State::Reserved => &mut info.reserved,
                State::Open => &mut info.open,
                State::Sealed => &mut info.sealed,
                State::Pending | State::Discarding => &mut info.pending,
            };
            *state += 1;
            info.damaged += u32::from(segment.damaged);
        }
        info
    }
}
