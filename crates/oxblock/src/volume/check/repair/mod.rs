//! Repair: what can be made anew from records is made anew, and nothing is guessed about data.
//!
//! The steps, all of them in memory until the last two:
//!
//! 1. A check says what is damaged. Where that is nothing that can be repaired, nothing is written.
//! 2. The lane at its checkpoint. A segment table that is lost is made of the segments' records and the map (`table`).
//! 3. Lost nodes of the map are made of records, as far as the segment table proves what they held (`evidence`, `prove`,
//!    `nodes`).
//! 4. The log is replayed by the engine's own code, and what the map reaches is counted. Counts that say something else
//!    are replaced, and nothing goes where something lives (`commit`).
//! 5. A checkpoint under a new epoch, as after recovery: until its superblock is durable the old state stands, which
//!    nothing of the new one overwrites. What lies behind damaged record headers is moved then (`rescue`), and further
//!    checkpoints renew every copy of the superblock.
//! 6. Another check says what is left.

mod commit;
mod evidence;
mod nodes;
mod prove;
mod report;
mod rescue;
mod table;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

pub use report::{RepairReport, Repaired};

use super::report::{CheckReport, FindingKind};
use super::start::blank_segments;
use super::{Check, CheckProgress, run};
use crate::csum::Csum;
use crate::device::{IoQueue, device_size};
use crate::error::{Error, ErrorKind, Result};
use crate::format::pointer::PointerWidth;
use crate::format::superblock::Superblock;
use crate::lane::Lane;
use crate::log::load::{build_segments, load_table, newest, read_slots, supported, table_fits};
use crate::log::table::Table;
use crate::volume::inspect::{SlotState, judge};
use crate::volume::open::{OpenOptions, assemble, check_counters, open_device};
use nodes::Rebuilt;
use report::can_be_repaired;

/// Why a repair does not go on.
#[derive(Debug)]
enum Stop {
    /// It must not be done, for this reason; nothing was written.
    Refused(String),
    /// It failed.
    Failed(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// Checks the volume on `devices`, which nobody else may have open, and repairs what can be repaired. With
/// [`rollback`](OpenOptions::rollback) damage at the end of the log is repaired too, by going back to the state before it.
///
/// # Errors
/// What keeps it from beginning, as for [`check`](super::check), and a device that is read-only; what kept the repair from
/// becoming durable: the volume is as it was then, or repaired in part.
pub fn repair(
    devices: &[PathBuf],
    options: &OpenOptions,
    progress: &mut CheckProgress<'_>,
) -> Result<RepairReport> {
    let (path, opened) = open_device(devices, options, false)?;
    let repaired = repair_on(opened.queue, options, progress);
    let mut report = repaired.map_err(|error| error.context(path.display()))?;
    report.found.notes.splice(0..0, opened.notices);
    Ok(report)
}

/// Repairs the volume behind a queue of devices.
///
/// # Errors
/// As for [`repair`].
pub fn repair_on(
    queue: Box<dyn IoQueue + Send>,
    options: &OpenOptions,
    progress: &mut CheckProgress<'_>,
) -> Result<RepairReport> {
    let (found, queue) = run(queue, options, progress)?;
    let Some(queue) = queue else {
        let why = "there is nothing to go by";
        return Ok(RepairReport::unchanged(found, Some(why.into())));
    };
    if !found.is_cut() && !found.findings.iter().any(can_be_repaired) {
        return Ok(RepairReport::unchanged(found, None));
    }
    match attempt(queue, options, &found, progress) {
        Ok((queue, repaired)) => {
            let (left, _) = run(queue, options, progress)?;
            Ok(RepairReport { found, repaired, refused: None, left })
        }
        Err(Stop::Refused(why)) => Ok(RepairReport::unchanged(found, Some(why))),
        Err(Stop::Failed(error)) => Err(error.context("repair")),
    }
}

/// What is loaded of a volume, and what was not.
struct Loaded {
    lane: Lane,
    /// How far each segment is written by its entry in the table; `None` when the table is lost.
    ends: Option<Vec<u32>>,
    /// Blocks of the table as it was.
    old_table: Vec<u64>,
}

fn attempt(
    queue: Box<dyn IoQueue + Send>,
    options: &OpenOptions,
    found: &CheckReport,
    progress: &mut CheckProgress<'_>,
) -> Result<(Box<dyn IoQueue + Send>, Vec<Repaired>), Stop> {
    // Of what is not listed any kind may be.
    let has = |kind| found.is_cut() || found.findings.iter().any(|finding| finding.kind == kind);
    let Loaded { lane, ends, old_table } = load(queue, options)?;
    let mut check = Check::new(lane, CheckReport::default(), progress);
    let table_is_lost = ends.is_none();
    let mut rebuilt = Rebuilt::default();
    if table_is_lost {
        check.rebuild_table()?;
    } else if has(FindingKind::MapNode) {
        check.recount();
    }
    if !check.lost.is_empty() {
        let written: Vec<u32> =
            check.lane.segments.iter().map(|(_, segment)| segment.written).collect();
        let ends = ends.unwrap_or_default().into_iter().chain(std::iter::repeat(0));
        let ends = written.into_iter().zip(ends).map(|(one, other)| one.max(other)).collect();
        let passed_over = check.lane.geometry.superblock.features.has_passed_over();
        rebuilt = check.rebuild_nodes(ends, !table_is_lost && !passed_over)?;
        rebuilt.passed_over = passed_over;
        check.lane.geometry.superblock.features.clear_passed_over();
    }
    check.lane.makes_nodes_anew = true;
    replay(&mut check.lane, options.rollback)?;
    check_counters(&check.lane)?;
    check.recount();
    if !check.lost.is_empty() {
        let what = "map nodes that were read before cannot be read any more";
        return Err(Error::new(ErrorKind::Io, what).into());
    }
    check.find_beyond();
    let agree = check.counts_agree();
    if !agree || table_is_lost || rebuilt.lost > 0 {
        check.take_counts(&old_table);
    }
    check.lane.geometry.superblock.features.set_lost(check.gone > 0);
    check.commit(options.rollback)?;
    // Where nodes or the table were lost, the check could not see what lives behind which header.
    let headers = table_is_lost || rebuilt.lost > 0 || has(FindingKind::RecordHeader);
    let moved = if headers { check.rescue()? } else { 0 };
    check.lane.begin_close();
    check.checkpoint()?;
    let repaired = tell(found, table_is_lost, &rebuilt, agree, moved, options.rollback);
    Ok((check.lane.queue.into_inner(), repaired))
}

/// Loads what a repair begins with, or says why there must be none.
fn load(mut queue: Box<dyn IoQueue + Send>, options: &OpenOptions) -> Result<Loaded, Stop> {
    let slots = read_slots(queue.as_mut());
    let Some(superblock) = newest(&slots).cloned() else {
        return Err(Stop::Refused("no copy of the superblock is left".into()));
    };
    superblock.features.check(true)?;
    supported(&superblock)?;
    table_fits(queue.as_ref(), &superblock)?;
    let size = device_size(queue.as_ref());
    let recorded = superblock.devices.first().map_or(size, |device| device.size);
    if size < recorded {
        return Err(Stop::Refused(
            "the device has been cut short: restore its full length first".into(),
        ));
    }
    for slot in &slots {
        if judge(queue.as_mut(), slot, &superblock, recorded) == SlotState::Stranger {
            return Err(Stop::Refused(format!(
                "the superblock copy at offset {} contradicts the one in force, and nothing says which of them is right",
                slot.offset
            )));
        }
    }
    if names_twice(&superblock) {
        return Err(Stop::Refused("the checkpoint names a segment twice".into()));
    }
    let csum = Csum::new(superblock.csum, superblock.volume);
    let mut old_table = Vec::new();
    let mut whole = None;
    if let Ok((table, entries, damage)) = load_table(queue.as_mut(), &superblock, &csum) {
        let limit = superblock.log_blocks();
        old_table.extend(table.addresses().filter(|addr| *addr < limit));
        let ends = entries.iter().map(|entry| entry.written.get()).collect();
        let segments =
            damage.is_empty().then(|| build_segments(&superblock, &table, entries).ok()).flatten();
        whole = segments.map(|segments| (table, segments, ends));
    }
    let options = OpenOptions { read_only: false, ..options.clone() };
    let (table, segments, ends) = match whole {
        Some((table, segments, ends)) => (table, segments, Some(ends)),
        None => {
            let width = PointerWidth::for_csum(superblock.csum.width());
            let table = Table::new(width, superblock.segments);
            let segments = blank_segments(&superblock, &table);
            (table, segments, None)
        }
    };
    let lane = assemble(queue, superblock, &options, table, segments)?;
    Ok(Loaded { lane, ends, old_table })
}

fn names_twice(superblock: &Superblock) -> bool {
    let point = &superblock.checkpoint;
    let heads = point.heads.iter().flatten().map(|head| head.segment);
    let mut named: Vec<u32> = heads.chain(point.reserve.iter().copied()).collect();
    let count = named.len();
    named.sort_unstable();
    named.dedup();
    named.len() < count
}

/// Replays the log.
fn replay(lane: &mut Lane, rollback: bool) -> Result<(), Stop> {
    match lane.replay(rollback) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::Corrupt => Err(Stop::Refused(format!(
            "{error}; nothing is repaired before that is decided: repair with --rollback to accept it"
        ))),
        Err(error) => Err(error.into()),
    }
}

/// What was done, in sentences.
fn tell(
    found: &CheckReport,
    table_is_lost: bool,
    rebuilt: &Rebuilt,
    agree: bool,
    moved: u64,
    rollback: bool,
) -> Vec<Repaired> {
    let count = |kind| found.findings.iter().filter(|finding| finding.kind == kind).count() as u64;
    let mut all = Vec::new();
    let mut say = |kind, count: u64, meaning: String| {
        if count > 0 {
            all.push(Repaired { kind, count, meaning });
        }
    };
    let copies = count(FindingKind::Superblock);
    say(FindingKind::Superblock, copies, format!("{copies} copies of the superblock were renewed"));
    let table = u64::from(table_is_lost);
    say(
        FindingKind::SegmentTable,
        table,
        "the segment table was made anew from the records of the segments and the map".into(),
    );
    let log = match rollback {
        true => {
            "the end of the log was given up, as --rollback accepts; the state before it stands"
        }
        false => "records of the log with damaged map nodes were passed over; they change no block",
    };
    say(FindingKind::Log, count(FindingKind::Log), log.into());
    say(FindingKind::MapNode, rebuilt.lost, rebuilt.sentence(table_is_lost));
    let counts = count(FindingKind::LiveCount) + count(FindingKind::UsedCount);
    if !agree {
        say(FindingKind::LiveCount, counts, format!("{counts} counts were corrected"));
        let references = count(FindingKind::Reference);
        say(
            FindingKind::Reference,
            references,
            format!("{references} segments in use are no longer taken for free or open"),
        );
    }
    say(
        FindingKind::RecordHeader,
        moved,
        format!("{moved} live blocks behind damaged record headers were moved"),
    );
    all
}
