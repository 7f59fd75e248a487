//! The beginning of a check: superblocks, segment table, and the lane in memory.

use std::io;

use super::report::{CheckReport, Finding, FindingKind};
use crate::csum::Csum;
use crate::device::{IoQueue, device_size};
use crate::error::{ErrorKind, Result};
use crate::format::layout::{BLOCK_BYTES, SEGMENTS_PER_BLOCK, SUPERBLOCK_SIZE};
use crate::format::pointer::{PointerWidth, identity};
use crate::format::record::{Invalid, payload_identity};
use crate::format::segment::SegmentEntry;
use crate::format::superblock::Superblock;
use crate::lane::Lane;
use crate::log::append::STREAMS;
use crate::log::load::{
    Slot, build_segments, explain_none, load_table, newest, read_slots, supported, table_fits,
};
use crate::log::segments::Segments;
use crate::log::table::Table;
use crate::profile;
use crate::volume::inspect::{HeaderFault, Media, SlotState, judge};
use crate::volume::open::{OpenOptions, assemble};

/// A lane to look at, with its log replayed.
pub(super) struct Start {
    pub lane: Lane,
    /// The segment table could be read, so that what it says can be compared.
    pub table_is_sound: bool,
    /// The log was replayed to its end.
    pub log_is_sound: bool,
}

/// Checks what opening needs; `None` when there is nothing further to go on with.
pub(super) fn start(
    mut queue: Box<dyn IoQueue + Send>,
    options: &OpenOptions,
    report: &mut CheckReport,
) -> Result<Option<Start>> {
    let slots = read_slots(queue.as_mut());
    report.bytes += slots.len() as u64 * SUPERBLOCK_SIZE as u64;
    let Some(superblock) = newest(&slots).cloned() else {
        let error = explain_none(queue.as_mut(), &slots);
        if error.kind() != ErrorKind::Corrupt {
            return Err(error);
        }
        for slot in &slots {
            if let Err(error) = &slot.found {
                let meaning =
                    format!("{error}; no valid copy is left, so the volume does not open");
                report.add(Finding::new(FindingKind::Superblock, meaning).at(slot.offset));
            }
        }
        return Ok(None);
    };
    superblock.features.check(false)?;
    supported(&superblock)?;
    check_slots(queue.as_mut(), &slots, &superblock, report);
    if let Err(error) = table_fits(queue.as_ref(), &superblock) {
        let meaning = format!("{error}, so that there is nothing to go by");
        report.add(Finding::new(FindingKind::Superblock, meaning));
        return Ok(None);
    }
    let options = OpenOptions { read_only: true, ..options.clone() };
    let csum = Csum::new(superblock.csum, superblock.volume);
    let (table, segments) = match load_table(queue.as_mut(), &superblock, &csum) {
        Ok((table, entries, damage)) => {
            report.bytes += table.addresses().count() as u64 * BLOCK_BYTES;
            for damage in &damage {
                let width = PointerWidth::for_csum(superblock.csum.width());
                let shift = width.fanout_shift() * u32::from(damage.level);
                let per_block = SEGMENTS_PER_BLOCK as u64;
                let first = (u64::from(damage.index) << shift) * per_block;
                let end = ((u64::from(damage.index) + 1) << shift) * per_block;
                let last = end.min(u64::from(superblock.segments)).saturating_sub(1);
                let meaning = format!(
                    "what segments {first} to {last} hold is not known, and the volume does not open"
                );
                report.add(
                    Finding::new(FindingKind::SegmentTable, meaning)
                        .at(profile::locate(&superblock, damage.pointer.addr).1)
                        .values(damage.pointer.csum, damage.got),
                );
            }
            let segments = damage
                .is_empty()
                .then(|| build_segments(&superblock, &table, entries))
                .transpose()
                .unwrap_or_else(|error| {
                    let meaning = format!("{error}, and the volume does not open");
                    report.add(Finding::new(FindingKind::SegmentTable, meaning));
                    None
                });
            (table, segments)
        }
        Err(error) => {
            let meaning = format!("{error}, and the volume does not open");
            report.add(Finding::new(FindingKind::SegmentTable, meaning));
            let width = PointerWidth::for_csum(superblock.csum.width());
            (Table::new(width, superblock.segments), None)
        }
    };
    let table_is_sound = segments.is_some();
    let segments = segments.unwrap_or_else(|| blank_segments(&superblock, &table));
    let mut lane = match assemble(queue, superblock, &options, table, segments) {
        Ok(lane) => lane,
        Err(error) => {
            let meaning = format!("{error}, and the volume does not open");
            report.add(Finding::new(FindingKind::Superblock, meaning));
            return Ok(None);
        }
    };
    let mut log_is_sound = false;
    if table_is_sound {
        log_is_sound = replay(&mut lane, report);
        let damaged = lane.segments.iter().filter(|(_, segment)| segment.damaged).count();
        if damaged > 0 {
            report.notes.push(format!(
                "{damaged} segments are marked as holding a block that cannot be moved"
            ));
        }
    } else {
        report
            .notes
            .push("without the segment table, what follows the checkpoint is not looked at".into());
    }
    Ok(Some(Start { lane, table_is_sound, log_is_sound }))
}

/// Segments to walk a map with whose table is lost.
pub(super) fn blank_segments(superblock: &Superblock, table: &Table) -> Segments {
    let entries = vec![SegmentEntry::default(); superblock.segments as usize];
    let mut segments = Segments::new(entries, superblock.segment_blocks.trailing_zeros());
    let limit = superblock.log_blocks();
    for addr in table.addresses().filter(|addr| *addr < limit) {
        segments.table_moved(0, addr);
    }
    segments
}

fn check_slots(
    queue: &mut dyn IoQueue,
    slots: &[Slot],
    newest: &Superblock,
    report: &mut CheckReport,
) {
    let size = device_size(queue);
    let recorded = newest.devices.first().map_or(size, |device| device.size);
    if size < recorded {
        let meaning = format!(
            "it has {size} bytes, but the volume was made on {recorded}; it has been cut short, and the volume does \
             not open until its full length is restored"
        );
        report.add(Finding::new(FindingKind::Device, meaning).at(size));
    }
    let generation = newest.checkpoint.generation;
    for slot in slots {
        if slot.offset >= size {
            let meaning = "the copy is beyond the end of the device";
            report.add(Finding::new(FindingKind::Superblock, meaning).at(slot.offset));
            continue;
        }
        let meaning = match (judge(queue, slot, newest, recorded), &slot.found) {
            (SlotState::Good | SlotState::Blank, _) => continue,
            (SlotState::Stale, _) => {
                report.notes.push(format!(
                    "the superblock copy at offset {} is older than generation {generation}: its last write was \
                     interrupted; the next checkpoint renews it",
                    slot.offset
                ));
                continue;
            }
            (SlotState::Stranger, _) => {
                "the copy contradicts the one in force, which is used".to_owned()
            }
            (SlotState::Damaged, found) => {
                let what = match found {
                    Err(error) => error.to_string(),
                    Ok(_) => "what is there is no superblock".to_owned(),
                };
                format!(
                    "{what}; another copy is used, and a repair renews this one (a power cut while it is written leaves \
                     the same)"
                )
            }
        };
        report.add(Finding::new(FindingKind::Superblock, meaning).at(slot.offset));
    }
}

/// Replays the log behind the checkpoint. Damage there is told, and the state before it is what is checked. Returns
/// whether there was none.
fn replay(lane: &mut Lane, report: &mut CheckReport) -> bool {
    match lane.replay(false) {
        Ok(replayed) => {
            report.bytes += replayed.bytes;
            if replayed.changes > 0 {
                report.notes.push(format!(
                    "not closed cleanly: {} records ({} bytes of log) were replayed in memory",
                    replayed.records, replayed.bytes
                ));
            }
            return true;
        }
        Err(error) if error.kind() == ErrorKind::Corrupt => {
            let before = report.total_findings;
            describe_gap(lane, report);
            if report.total_findings == before {
                report.add(Finding::new(FindingKind::Log, error.to_string()));
            }
            report.notes.push("the state before the damage in the log is what was checked".into());
        }
        Err(error) => {
            let meaning = format!("{error}; what follows the last checkpoint is not known");
            report.add(Finding::new(FindingKind::Log, meaning));
        }
    }
    false
}

/// Finds out what is wrong with the record that is missing.
fn describe_gap(lane: &mut Lane, report: &mut CheckReport) {
    let missing = lane.log.retired + 1;
    let heads = (0..STREAMS).filter_map(|stream| lane.log.head(stream));
    let mut places: Vec<u64> =
        heads.map(|id| lane.segments.addr(id, lane.segments.at(id).written)).collect();
    let next = lane.segments.peek_reserve(0);
    places.extend(next.map(|id| lane.segments.addr(id, 0)));
    let blocks = u64::from(lane.segments.blocks());
    let superblock = lane.geometry.superblock.clone();
    let mut media = Media::new(lane.queue.as_mut(), &superblock);
    let lost = "it was durable, and what it and later records wrote is lost; the volume opens only with --rollback";
    for addr in places
        .into_iter()
        .filter(|addr| addr % blocks != 0 || Some(*addr / blocks) == next.map(u64::from))
    {
        let offset = media.offset(addr);
        let (header, entries) = match media.header(addr) {
            Ok(found) => found,
            Err(HeaderFault::Invalid(Invalid::Checksum { expected, got })) => {
                let meaning = format!("the header of log record {missing} is damaged: {lost}");
                report.add(
                    Finding::new(FindingKind::Log, meaning).at(offset).values(expected, Some(got)),
                );
                continue;
            }
            Err(HeaderFault::Unreadable(error)) if error.kind() != io::ErrorKind::Other => {
                let meaning = format!("log record {missing} may be there: {error}");
                report.add(Finding::new(FindingKind::Log, meaning).at(offset));
                continue;
            }
            Err(_) => continue,
        };
        if header.sequence != missing || header.epoch != superblock.checkpoint.epoch {
            continue;
        }
        let first = header.payload_addr();
        let sums = media.payload(&header, &entries);
        for ((addr, entry), got) in (first..).zip(&entries).zip(sums) {
            if got == Some(entry.csum) {
                continue;
            }
            let id = payload_identity(header.kind, entry);
            let meaning = format!("a block of log record {missing} is damaged: {lost}");
            let mut finding = Finding::new(FindingKind::Log, meaning)
                .at(media.offset(addr))
                .values(entry.csum, got);
            if identity::parse_node(id).is_none() {
                finding = finding.of_blocks(entry.id, entry.id + 1);
            }
            report.add(finding);
        }
    }
}
