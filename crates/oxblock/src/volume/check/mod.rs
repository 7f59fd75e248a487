//! The offline check: everything that a volume's state rests on is read and verified, and nothing is changed.
//!
//! The steps, each of which goes on after damage as far as it can:
//!
//! 1. All superblock slots (`start`).
//! 2. The segment table, and the state that recovery builds from it (`start`).
//! 3. The log behind the checkpoint, replayed in memory by the engine's own code; what follows checks the result.
//! 4. Every map node and every data block (`walk`).
//! 5. The record headers of all segments that hold something live, since cleaning finds its way by them (`headers`).
//! 6. The counts: live blocks of each segment, used blocks of the volume (`counts`); and that nothing live is where the
//!    next records go (`counts`).
//!
//! Memory is bounded whatever the size of the volume: the map's cache, one counter a segment, and a window of blocks to
//! be read in physical order.

mod chain;
mod counts;
mod headers;
mod reads;
mod repair;
mod report;
mod start;
mod walk;

use std::collections::BTreeMap;
use std::path::PathBuf;

pub use repair::{RepairReport, Repaired, repair, repair_on};
pub use report::{CheckReport, FINDINGS_KEPT, Finding, FindingKind};

use crate::device::IoQueue;
use crate::error::Result;
use crate::format::layout::BLOCK_BYTES;
use crate::lane::Lane;
use crate::map::Miss;
use crate::volume::open::{OpenOptions, open_device};
use reads::Reads;

/// Told how far a check is: bytes of data verified, bytes of data in all.
pub type CheckProgress<'p> = dyn FnMut(u64, u64) + 'p;

/// Checks the volume on `devices`, which nobody may have open for writing.
///
/// # Errors
/// What keeps the check from beginning: no volume ([`NotAVolume`](crate::ErrorKind::NotAVolume)), one in use ([`Busy`](crate::ErrorKind::Busy)), one of a
/// newer version ([`Unsupported`](crate::ErrorKind::Unsupported)), a device that cannot be opened. Damage is not an error but a finding.
pub fn check(
    devices: &[PathBuf],
    options: &OpenOptions,
    progress: &mut CheckProgress<'_>,
) -> Result<CheckReport> {
    let (path, opened) = open_device(devices, options, true)?;
    let checked = check_on(opened.queue, options, progress);
    let mut report = checked.map_err(|error| error.context(path.display()))?;
    report.notes.splice(0..0, opened.notices);
    Ok(report)
}

/// Checks the volume behind a queue of devices.
///
/// # Errors
/// As for [`check`].
pub fn check_on(
    queue: Box<dyn IoQueue + Send>,
    options: &OpenOptions,
    progress: &mut CheckProgress<'_>,
) -> Result<CheckReport> {
    Ok(run(queue, options, progress)?.0)
}

/// What a check finds, and the queue, where there was something to go by.
fn run(
    queue: Box<dyn IoQueue + Send>,
    options: &OpenOptions,
    progress: &mut CheckProgress<'_>,
) -> Result<(CheckReport, Option<Box<dyn IoQueue + Send>>)> {
    let mut report = CheckReport::default();
    let Some(start) = start::start(queue, options, &mut report)? else { return Ok((report, None)) };
    let mut check = Check::new(start.lane, report, progress);
    check.walk();
    if start.table_is_sound {
        check.headers();
        check.counts(start.log_is_sound);
    }
    if start.log_is_sound {
        check.ends();
    }
    Ok((check.report, Some(check.lane.queue.into_inner())))
}

/// A check under way.
struct Check<'p, 'c> {
    lane: Lane,
    report: CheckReport,
    reads: Reads,
    /// Live data blocks and map nodes of each segment, as the map has them.
    live: Vec<u32>,
    /// Mapped blocks, as the map has them.
    mapped: u64,
    /// Map nodes that are lost, so that the counts cannot be known.
    lost: Vec<Miss>,
    /// Mapped blocks of which nobody knows what they held, and the run of them that was met last.
    gone: u64,
    gone_run: Option<(u64, u64)>,
    /// The device failed to read something that a decision could turn on.
    failed: bool,
    /// Live blocks that lie behind the end of what was written of their segment.
    beyond: BTreeMap<u32, u32>,
    progress: &'p mut CheckProgress<'c>,
}

impl<'p, 'c> Check<'p, 'c> {
    fn new(lane: Lane, report: CheckReport, progress: &'p mut CheckProgress<'c>) -> Self {
        let segments = lane.segments.count() as usize;
        Self {
            lane,
            report,
            reads: Reads::default(),
            live: vec![0; segments],
            mapped: 0,
            lost: Vec::new(),
            gone: 0,
            gone_run: None,
            failed: false,
            beyond: BTreeMap::new(),
            progress,
        }
    }

    /// Counts a live block.
    fn count(&mut self, addr: u64) {
        let segment = self.lane.segments.of(addr);
        if let Some(live) = self.live.get_mut(segment as usize) {
            *live = live.saturating_add(1);
            if self.lane.segments.offset(addr) >= self.lane.segments.at(segment).written {
                *self.beyond.entry(segment).or_default() += 1;
            }
        }
    }

    fn tell(&mut self) {
        let total = self.lane.map.mapped() * BLOCK_BYTES;
        (self.progress)((self.report.blocks * BLOCK_BYTES).min(total), total);
    }
}
