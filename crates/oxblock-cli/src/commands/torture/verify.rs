//! After a kill: check, open, read everything, compare.

use std::path::{Path, PathBuf};

use anyhow::Result;
use oxblock::ErrorKind;
use oxblock::device::sim::Rng;
use oxblock::volume::{FindingKind, OpenOptions, Volume, check};
use oxblock_sim::replay::examine::{ranges, read, seen};
use oxblock_sim::replay::ledger::Ledger;

/// What was found.
pub enum Verdict {
    /// The volume is what it must be.
    Sound {
        /// Records that recovery replayed.
        replayed: u64,
        /// Copies of the superblock whose last write was cut off.
        torn_copies: u64,
    },
    /// It is not.
    Damaged(String),
}

/// Verifies the volume on `device` against the history in `ledger`, which goes on from what is there.
pub fn verify(device: &Path, ledger: &mut Ledger, rng: &mut Rng) -> Result<Verdict> {
    match judge(device, ledger, rng) {
        Err(error) => match error.downcast_ref::<oxblock::Error>().map(oxblock::Error::kind) {
            // A scratch volume is there for certain.
            Some(ErrorKind::Checksum | ErrorKind::Corrupt | ErrorKind::NotAVolume) => {
                Ok(Verdict::Damaged(format!("{error:#}")))
            }
            _ => Err(error),
        },
        judged => judged,
    }
}

fn judge(device: &Path, ledger: &mut Ledger, rng: &mut Rng) -> Result<Verdict> {
    let devices: [PathBuf; 1] = [device.to_owned()];
    let looking = OpenOptions { read_only: true, ..OpenOptions::default() };
    let report = check(&devices, &looking, &mut |_, _| {})?;
    // A kill may cut off the write of one copy; the others are there for that. Whether they do is seen next.
    let is_copy = |kind| kind == FindingKind::Superblock;
    let torn_copies = report.findings.iter().filter(|finding| is_copy(finding.kind)).count() as u64;
    if report.total_findings > torn_copies {
        let finding = report.findings.iter().find(|finding| !is_copy(finding.kind));
        let first = finding.map(|finding| finding.line(&device.display())).unwrap_or_default();
        let text = format!("check has {} findings, such as: {first}", report.total_findings);
        return Ok(Verdict::Damaged(text));
    }
    let mut volume = Volume::open(&devices, &OpenOptions::default())?;
    let replayed = volume.replayed().records;
    let ranges = ranges(ledger, volume.size(), rng);
    let pieces = read(&mut volume, &ranges)?;
    ledger.killed();
    if let Err(what) = ledger.judge(&seen(&pieces), true) {
        return Ok(Verdict::Damaged(what));
    }
    // Every other one is let go of as it is.
    if rng.below(2) == 0 {
        volume.close()?;
    }
    Ok(Verdict::Sound { replayed, torn_copies })
}
