//! A repair of a changed volume, on the side: the volume is put back afterwards.
//!
//! What must hold, beside what holds for every volume: what is read was written if nothing was made good after a change;
//! another check finds what the repair said is left, and nothing else; another repair changes nothing; and a volume that
//! was repaired opens.

use oxblock::device::sim::SimDisk;
use oxblock::volume::{CheckReport, FindingKind, RepairReport, repair_on};

use super::base::{Base, options};
use super::exercise::{Rules, name, open, read_all};
use crate::shape::Shape;

/// Repairs the volume on `disk`, looks at what came of it, and undoes it.
///
/// # Errors
/// What did not hold.
pub fn repaired(
    base: &Base,
    disk: &SimDisk,
    rules: Rules,
    shape: &mut Shape,
) -> Result<(), String> {
    let before = disk.snapshot();
    let result = look(base, disk, rules, shape);
    disk.restore(&before);
    result
}

fn look(base: &Base, disk: &SimDisk, rules: Rules, shape: &mut Shape) -> Result<(), String> {
    let done = match repair(disk) {
        Ok(done) => done,
        Err(error) => {
            shape.text("repair fails");
            shape.text(name(error.kind()));
            return Ok(());
        }
    };
    done.repaired.iter().for_each(|one| shape.text(one.kind.name()));
    shape.text(done.refused.as_deref().map_or("repaired", |_| "refused"));
    if done.repaired.is_empty() {
        return Ok(());
    }
    let again = repair(disk).map_err(|error| format!("a second repair fails: {error}"))?;
    if told(&again.found) != told(&done.left) {
        return Err(format!(
            "a repair left {:?}, and a check finds {:?}",
            told(&done.left),
            told(&again.found)
        ));
    }
    let harmless = [FindingKind::Data, FindingKind::Lost, FindingKind::RecordHeader];
    let opens = done.left.findings.iter().all(|finding| harmless.contains(&finding.kind));
    match open(disk, true) {
        Ok(mut volume) => {
            read_all(&mut volume, &base.model, Rules { sound: false, ..rules }, shape)
        }
        Err(error) if opens => Err(format!("a repaired volume does not open: {error}")),
        Err(_) => Ok(()),
    }
}

fn repair(disk: &SimDisk) -> oxblock::Result<RepairReport> {
    repair_on(Box::new(disk.queue()), &options(false), &mut |_, _| {})
}

/// The findings of a report, without where they are: a repair moves things. In order, since reads end in any.
fn told(report: &CheckReport) -> Vec<(FindingKind, Option<(u64, u64)>)> {
    let mut told: Vec<_> =
        report.findings.iter().map(|finding| (finding.kind, finding.blocks)).collect();
    told.sort_unstable_by_key(|(kind, blocks)| (kind.name(), *blocks));
    told
}
