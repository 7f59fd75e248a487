//! Opening volumes.

use std::path::PathBuf;

use crate::csum::Csum;
use crate::device::{DeviceCall, DeviceOptions, IoQueue, Opened, Sharing, open_devices};
use crate::error::{Error, ErrorKind, Result};
use crate::format::layout::{BLOCK_BYTES, COUNTER_LIMIT};
use crate::format::pointer::PointerWidth;
use crate::format::superblock::Superblock;
use crate::lane::{Geometry, Lane, NUMBER_LIMIT, Placement};
use crate::log::load::{Slot, build_segments, choose_superblock, load_table, read_slots};
use crate::log::segments::Segments;
use crate::log::table::Table;
use crate::map::{MIN_NODES, Map};
use crate::volume::policy::{Costs, CrcCode, InForce, Policy, kept};
use crate::volume::poll::Volume;

/// What every counter must have left before its limit for a volume to be written: more than any life of one counts, at a
/// million records a second for eight years.
const COUNTS_LEFT: u64 = 1 << 48;

/// How to open a volume.
#[derive(Debug, Clone)]
pub struct OpenOptions {
    /// Change nothing on the device, not even to record what recovery found.
    pub read_only: bool,
    /// The most bytes of map nodes in memory. At least [`MIN_MAP_CACHE`](Self::MIN_MAP_CACHE).
    pub map_cache_bytes: u64,
    /// How operations reach the device.
    pub device_call: DeviceCall,
    /// The volume may be driven by several threads, one at a time. [`Handle`](crate::volume::Handle) needs it.
    pub shared: bool,
    /// What decides the way of a request. What is `auto` here is as the volume keeps it.
    pub policy: Policy,
    /// What the policies go by; `None`: measured.
    pub costs: Option<Costs>,
    /// Accept damage at the end of the log, and go back to the state before it.
    pub rollback: bool,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            read_only: false,
            map_cache_bytes: 64 << 20,
            device_call: DeviceCall::Auto,
            shared: false,
            policy: Policy::default(),
            costs: None,
            rollback: false,
        }
    }
}

impl OpenOptions {
    /// The least that a map cache works with, in bytes; it gets as much even when told less.
    pub const MIN_MAP_CACHE: u64 = MIN_NODES as u64 * BLOCK_BYTES;
}

impl Volume {
    /// Opens the volume on `devices`, replaying what a crash left.
    ///
    /// # Errors
    /// [`ErrorKind::NotAVolume`], naming what is there instead; [`ErrorKind::Busy`], naming by whom it is used;
    /// [`ErrorKind::Unsupported`]; [`ErrorKind::Corrupt`] for damage that opening cannot pass over; what the system says
    /// of the devices.
    pub fn open(devices: &[PathBuf], options: &OpenOptions) -> Result<Self> {
        let (path, opened) = open_device(devices, options, options.read_only)?;
        let mut volume =
            Self::open_on(opened.queue, options).map_err(|error| error.context(path.display()))?;
        volume.add_notices(opened.notices);
        Ok(volume)
    }

    /// Opens the volume behind a queue of devices.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub fn open_on(mut queue: Box<dyn IoQueue + Send>, options: &OpenOptions) -> Result<Self> {
        let slots = read_slots(queue.as_mut());
        let superblock = choose_superblock(queue.as_mut(), &slots)?;
        superblock.features.check(!options.read_only)?;
        let mut notices: Vec<String> = slots
            .iter()
            .filter_map(|slot| {
                let error = slot.found.as_ref().err()?;
                Some(format!(
                    "superblock copy at offset {}: {error}; another copy is used",
                    slot.offset
                ))
            })
            .collect();
        notices.extend(one_copy(&slots, &superblock));
        notices.extend(kept(&superblock).1);
        let mut lane = build_lane(queue, superblock, options)?;
        let replayed = lane.replay(options.rollback)?;
        if replayed.changes > 0 {
            notices.push(format!(
                "not closed cleanly: {} records ({} bytes of log) replayed",
                replayed.records, replayed.bytes
            ));
        }
        let lost = lane.fetches.lost();
        if lost > 0 {
            notices.push(format!("{lost} map nodes are damaged; run 'oxblock check'"));
        }
        if lane.geometry.superblock.features.has_passed_over() {
            notices.push(
                "recovery has passed over writes to damaged parts of the map, whose blocks fail; 'oxblock check --repair' \
                 makes them usable again"
                    .into(),
            );
        }
        if !options.read_only {
            check_counters(&lane)?;
            if replayed.records > 0 || options.rollback {
                settle(&mut lane, options.rollback)?;
            }
        }
        Ok(Self::new(lane, notices, replayed))
    }
}

/// Says that the newest superblock has only one copy that is whole: the write of the other failed, was cut short, or what it
/// wrote was damaged since.
fn one_copy(slots: &[Slot], newest: &Superblock) -> Option<String> {
    let generation = newest.checkpoint.generation;
    let found = slots.iter().filter_map(|slot| slot.found.as_ref().ok()?.as_ref());
    let copies = found.filter(|found| found.checkpoint.generation == generation).count();
    (copies == 1).then(|| {
        format!("superblock {generation} has only one copy; the next checkpoint writes both")
    })
}

/// Opens the one device of a volume.
pub(crate) fn open_device<'a>(
    devices: &'a [PathBuf],
    options: &OpenOptions,
    read_only: bool,
) -> Result<(&'a PathBuf, Opened)> {
    let [path] = devices else {
        return Err(Error::new(
            ErrorKind::Unsupported,
            format!("{} devices given; this version opens volumes of one device", devices.len()),
        ));
    };
    let opened = open_devices(
        devices,
        &DeviceOptions {
            writable: !read_only,
            create_size: None,
            exclusive: true,
            call: options.device_call,
            sharing: if options.shared { Sharing::Shared } else { Sharing::Exclusive },
        },
    )?;
    Ok((path, opened))
}

/// Refuses to write what nobody could read, a record or superblock whose counters are beyond their limit, and records
/// whose numbers operations cannot carry. No volume comes there by being used.
pub(crate) fn check_counters(lane: &Lane) -> Result<()> {
    let point = &lane.point.durable;
    let own = [
        ("generation", point.generation, COUNTER_LIMIT),
        ("epoch", point.epoch, COUNTER_LIMIT),
        ("sequence", lane.log.next, COUNTER_LIMIT.min(NUMBER_LIMIT)),
    ];
    let segments = lane.segments.iter();
    let segments =
        segments.map(|(_, segment)| ("segment generation", segment.generation, COUNTER_LIMIT));
    let mut all = own.into_iter().chain(segments);
    match all.find(|(_, counter, limit)| *counter >= limit - COUNTS_LEFT) {
        None => Ok(()),
        Some((name, counter, _)) => Err(Error::new(
            ErrorKind::Corrupt,
            format!(
                "the {name} is {counter}, which leaves no room to count on; open the volume read-only"
            ),
        )),
    }
}

/// Makes what was replayed durable under a new epoch before anything else is written.
fn settle(lane: &mut Lane, rollback: bool) -> Result<()> {
    lane.begin_after_replay(rollback);
    let mut none = Vec::new();
    while !lane.point.idle() {
        lane.submit();
        lane.poll(&mut none);
        if let Some(error) = lane.latched.clone() {
            return Err(error.context("recovery"));
        }
        if !lane.point.idle() {
            lane.wait(Some(std::time::Duration::from_millis(100)));
        }
    }
    Ok(())
}

pub(crate) fn build_lane(
    mut queue: Box<dyn IoQueue + Send>,
    superblock: Superblock,
    options: &OpenOptions,
) -> Result<Lane> {
    let csum = Csum::new(superblock.csum, superblock.volume);
    let (table, entries, damage) = load_table(queue.as_mut(), &superblock, &csum)?;
    if let Some(error) = damage.iter().find_map(|damage| damage.error.clone()) {
        return Err(error);
    }
    if let Some(damage) = damage.first() {
        return Err(Error::new(
            ErrorKind::Corrupt,
            format!(
                "block {} of level {} of the segment table is damaged; run 'oxblock check'",
                damage.index, damage.level
            ),
        ));
    }
    let segments = build_segments(&superblock, &table, entries)?;
    assemble(queue, superblock, options, table, segments)
}

/// The lane of `superblock` at its checkpoint, with what was loaded of it.
pub(crate) fn assemble(
    queue: Box<dyn IoQueue + Send>,
    superblock: Superblock,
    options: &OpenOptions,
    table: Table,
    segments: Segments,
) -> Result<Lane> {
    let (policy, origin) = options.policy.over(&kept(&superblock).0);
    let csum = Csum::new(superblock.csum, superblock.volume);
    let csum = match policy.crc {
        CrcCode::Auto | CrcCode::Fast => csum,
        CrcCode::Table => csum.with_table_crc(),
    };
    let width = PointerWidth::for_csum(superblock.csum.width());
    let point = superblock.checkpoint.clone();
    let nodes = usize::try_from(options.map_cache_bytes / BLOCK_BYTES).unwrap_or(usize::MAX);
    let map = Map::new(width, superblock.volume_blocks, point.map_root, point.used_blocks, nodes);
    if map.height() != point.map_height {
        return Err(Error::new(ErrorKind::Corrupt, "the map has the wrong height"));
    }
    let Some(mut limits) = queue.limits().first().cloned() else {
        return Err(Error::new(ErrorKind::InvalidInput, "no device"));
    };
    // The second area is where the device ended when the volume was made.
    limits.size = superblock.devices.first().map_or(limits.size, |device| device.size);
    let costs = options.costs.unwrap_or_else(|| Costs::measure(&csum));
    let placement = Placement::new(InForce { policy, origin, costs }, &limits);
    let geometry = Geometry {
        csum,
        width,
        blocks: superblock.volume_blocks,
        limits,
        read_only: options.read_only,
        superblock,
    };
    Ok(Lane::new(queue, geometry, placement, map, segments, table, point))
}
