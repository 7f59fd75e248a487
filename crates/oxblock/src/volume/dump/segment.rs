//! A segment's entry in the table, and its records.

use super::out_of_range;
use super::value::{Fields, Value, fields};
use crate::error::Result;
use crate::format::segment::FLAG_DAMAGED;
use crate::log::load::load_table;
use crate::volume::inspect::Media;

pub(super) fn segment(media: &mut Media<'_>, number: u64) -> Result<Fields> {
    let superblock = media.superblock;
    let limit = u64::from(superblock.segments);
    let id = u32::try_from(number).ok().filter(|_| number < limit);
    let id = id.ok_or_else(|| out_of_range("segment", number, limit))?;
    let (table, entries, damage) = load_table(media.queue, superblock, &media.csum)?;
    let point = &superblock.checkpoint;
    let first = u64::from(id) * u64::from(superblock.segment_blocks);
    let behind = first + u64::from(superblock.segment_blocks);
    let entry = entries.get(id as usize).copied().unwrap_or_default();
    let tables = table.addresses().filter(|addr| (first..behind).contains(addr)).count();
    let head = point.heads.iter().flatten().find(|head| head.segment == id);
    let state = if head.is_some() {
        "open"
    } else if point.reserve.contains(&id) {
        "reserved"
    } else if entry.live.get() > 0 || tables > 0 {
        "sealed"
    } else {
        "free"
    };
    let mut out = fields([
        ("segment", id.into()),
        ("state", state.into()),
        ("addr", first.into()),
        ("device_offset", media.offset(first).into()),
        ("generation", entry.generation.get().into()),
        ("sealed", entry.sealed.get().into()),
        ("live", entry.live.get().into()),
        ("table_blocks", (tables as u64).into()),
        ("written", head.map_or(entry.written.get(), |head| head.offset).into()),
        ("damaged", (entry.flags.get() & FLAG_DAMAGED != 0).into()),
        ("device", u64::from(entry.device.get()).into()),
        ("slot", entry.slot.get().into()),
    ]);
    if !damage.is_empty() {
        let text = format!("{} blocks are damaged; the entry may be one of theirs", damage.len());
        out.push(("segment_table".into(), text.into()));
    }
    let (records, end) = chain(media, first, behind);
    out.push(("records".into(), Value::List(records)));
    out.push(("records_end".into(), Value::Group(end)));
    Ok(out)
}

/// The chain of records from `addr` to the first place where there is none.
fn chain(media: &mut Media<'_>, addr: u64, behind: u64) -> (Vec<Value>, Fields) {
    let mut records = Vec::new();
    let mut at = addr;
    let mut generation = None;
    let mut sequence = 0;
    let why = loop {
        if at >= behind {
            break "the segment is full".to_owned();
        }
        let (header, _) = match media.header(at) {
            Ok(found) => found,
            Err(fault) => break fault.to_string(),
        };
        if header.volume != media.superblock.volume {
            break "a record of another volume".to_owned();
        }
        if generation.is_some_and(|generation| generation != header.generation)
            || header.sequence <= sequence
        {
            break "a record of an earlier life of the segment".to_owned();
        }
        generation = Some(header.generation);
        sequence = header.sequence;
        records.push(Value::Group(fields([
            ("addr", at.into()),
            ("kind", header.kind.name().into()),
            ("stream", u64::from(header.stream).into()),
            ("sequence", header.sequence.into()),
            ("epoch", header.epoch.into()),
            ("generation", header.generation.into()),
            ("durable", header.durable.into()),
            ("entries", header.entries.into()),
            ("blocks", header.blocks().into()),
        ])));
        at += u64::from(header.blocks());
    };
    (records, fields([("addr", at.into()), ("why", why.into())]))
}
