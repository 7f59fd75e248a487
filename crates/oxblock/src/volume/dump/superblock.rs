//! Superblock slots and the checkpoint.

use super::value::{Fields, Value, fields, pointer, uuid};
use crate::device::{IoQueue, device_size};
use crate::format::layout::SUPERBLOCK_SIZE;
use crate::format::superblock::{Checkpoint, Head, Superblock};
use crate::log::load::Slot;
use crate::volume::inspect::{SlotState, judge};

pub(super) fn superblocks(queue: &mut dyn IoQueue, slots: &[Slot], newest: &Superblock) -> Fields {
    let size = device_size(queue);
    let recorded = newest.devices.first().map_or(size, |device| device.size);
    let mut copies = Vec::new();
    for slot in slots {
        let state = match judge(queue, slot, newest, recorded) {
            SlotState::Good => "valid",
            SlotState::Stale => "older than it should be",
            SlotState::Blank => "blank",
            SlotState::Damaged => "damaged",
            SlotState::Stranger => "contradicts the one in force",
        };
        let mut copy = fields([("offset", slot.offset.into()), ("state", state.into())]);
        match &slot.found {
            Ok(Some(found)) => {
                copy.push(("generation".into(), found.checkpoint.generation.into()));
            }
            Ok(None) => {}
            Err(error) => copy.push(("error".into(), error.to_string().into())),
        }
        copies.push(Value::Group(copy));
    }
    let devices = newest.devices.iter().map(|device| {
        Value::Group(fields([
            ("uuid", uuid(device.uuid)),
            ("size", device.size.into()),
            ("path", device.path.as_str().into()),
        ]))
    });
    fields([
        ("copies", Value::List(copies)),
        ("version", crate::format::layout::VERSION.into()),
        ("size", (SUPERBLOCK_SIZE as u64).into()),
        ("compat", newest.features.compat.into()),
        ("ro_compat", newest.features.ro_compat.into()),
        ("incompat", newest.features.incompat.into()),
        ("volume", uuid(newest.volume)),
        ("device", uuid(newest.device)),
        ("created", newest.created.into()),
        ("lane", u64::from(newest.lane).into()),
        ("lanes", u64::from(newest.lanes).into()),
        ("device_index", u64::from(newest.device_index).into()),
        ("csum", newest.csum.name().into()),
        ("profile", newest.profile.name().into()),
        ("streams", u64::from(newest.streams).into()),
        ("volume_blocks", newest.volume_blocks.into()),
        ("segment_blocks", newest.segment_blocks.into()),
        ("segments", newest.segments.into()),
        ("data_start", newest.data_start.into()),
        ("label", newest.label.as_str().into()),
        ("devices", Value::List(devices.collect())),
        ("policy", policy(newest)),
        ("checkpoint", Value::Group(checkpoint(&newest.checkpoint))),
    ])
}

/// The policy that the volume keeps, by its numbers.
fn policy(superblock: &Superblock) -> Value {
    if !superblock.features.has_policy() {
        return Value::None;
    }
    let policy = &superblock.policy;
    Value::Group(fields([
        ("submit", u64::from(policy.submit).into()),
        ("complete", u64::from(policy.complete).into()),
        ("crc", u64::from(policy.crc).into()),
        ("bio_max_bytes", policy.bio_max_bytes.into()),
    ]))
}

pub(super) fn checkpoint(point: &Checkpoint) -> Fields {
    let head = |head: &Option<Head>| match head {
        None => Value::None,
        Some(head) => {
            Value::Group(fields([("segment", head.segment.into()), ("offset", head.offset.into())]))
        }
    };
    fields([
        ("generation", point.generation.into()),
        ("epoch", point.epoch.into()),
        ("sequence", point.sequence.into()),
        ("clean", point.clean.into()),
        ("used_blocks", point.used_blocks.into()),
        ("checksum_errors", point.checksum_errors.into()),
        ("durable", point.durable.into()),
        ("map_height", u64::from(point.map_height).into()),
        ("map_root", pointer(point.map_root)),
        ("table_height", u64::from(point.table_height).into()),
        ("table_root", pointer(point.table_root)),
        ("heads", Value::List(point.heads.iter().map(head).collect())),
        ("reserve", Value::List(point.reserve.iter().map(|id| (*id).into()).collect())),
    ])
}
