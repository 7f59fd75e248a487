//! `oxblock check`: every pointer, every block, the segment table against the map; with `--repair`, and what can be made
//! anew is.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use oxblock::volume::{CheckReport, OpenOptions, RepairReport, check, repair};
use serde::Serialize;

use super::volume::VolumeArgs;
use crate::output::{Exit, nanoseconds, note, print, print_json};
use crate::progress::Progress;
use crate::size::human;

/// Verify a volume that nobody uses: every pointer, every block, the segment table against the map
///
/// Nothing is changed without --repair. Each damaged place is listed on standard error with its logical block, device,
/// address and both checksums. The exit status is 3 when there is any, or with --repair when any is left.
#[derive(Args)]
pub struct Check {
    #[command(flatten)]
    volume: VolumeArgs,

    /// Make anew what records of the log prove, and say what is left: superblock copies, segment table, map, counts. Data is
    /// never guessed: a block whose content nobody knows fails until it is written or trimmed. With --rollback a damaged end
    /// of the log is given up too
    #[arg(long)]
    repair: bool,

    /// Show no progress
    #[arg(long, short)]
    quiet: bool,

    /// Report as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report<'a> {
    sound: bool,
    blocks: u64,
    nodes: u64,
    headers: u64,
    bytes: u64,
    nanoseconds: u64,
    total_findings: u64,
    findings: Vec<Finding<'a>>,
    notes: &'a [String],
    #[serde(flatten)]
    repair: Option<Repair<'a>>,
}

/// What a repair has done.
#[derive(Serialize)]
struct Repair<'a> {
    repaired: Vec<Repaired<'a>>,
    refused: Option<&'a str>,
    total_left: u64,
    left: Vec<Finding<'a>>,
}

/// One thing that was repaired.
#[derive(Serialize)]
struct Repaired<'a> {
    kind: &'static str,
    count: u64,
    meaning: &'a str,
}

/// One damaged place.
#[derive(Serialize)]
struct Finding<'a> {
    kind: &'static str,
    first_block: Option<u64>,
    /// How many.
    blocks: Option<u64>,
    device: Cow<'a, str>,
    offset: Option<u64>,
    /// Hexadecimal for a checksum, decimal for a count.
    expected: Option<String>,
    got: Option<String>,
    meaning: &'a str,
}

impl Check {
    pub fn run(self) -> Result<Exit> {
        let options = match self.repair {
            true => self.volume.options(false)?,
            false => self.volume.to_inspect("check")?,
        };
        let start = std::time::Instant::now();
        if self.repair {
            let done = self.with_progress("repair", &options, repair)?;
            return self.say_repaired(&done, nanoseconds(start.elapsed()));
        }
        let report = self.with_progress("check", &options, check)?;
        self.say_found(&report, "");
        if self.json {
            print_json(&self.report(&report, None, nanoseconds(start.elapsed())))?;
        } else {
            print(&summary(&report, &places(report.total_findings)))?;
        }
        Ok(if report.is_sound() { Exit::Fine } else { Exit::Damage })
    }

    /// Does the work with a bar.
    fn with_progress<T>(
        &self,
        name: &'static str,
        options: &OpenOptions,
        work: impl FnOnce(&[PathBuf], &OpenOptions, &mut dyn FnMut(u64, u64)) -> oxblock::Result<T>,
    ) -> Result<T> {
        let mut progress: Option<Progress> = None;
        let done = work(self.volume.paths(), options, &mut |done, total| {
            // The work is known only once the volume is open.
            progress.get_or_insert_with(|| Progress::new(name, Some(total), self.quiet)).set(done);
        });
        if let Some(progress) = progress {
            progress.finish();
        }
        Ok(done?)
    }

    /// One line for each thing that is worth knowing, and for each damaged place.
    fn say_found(&self, report: &CheckReport, before: &str) {
        for text in &report.notes {
            note(text);
        }
        for finding in &report.findings {
            note(&format!("{before}{}", finding.line(&self.device(finding.device).display())));
        }
        let kept = report.findings.len() as u64;
        if report.total_findings > kept {
            note(&format!("and {} more", report.total_findings - kept));
        }
    }

    fn say_repaired(&self, done: &RepairReport, nanoseconds: u64) -> Result<Exit> {
        self.say_found(&done.found, "");
        for repaired in &done.repaired {
            note(&format!("repaired: {}", repaired.meaning));
        }
        if let Some(why) = &done.refused {
            note(&format!("nothing is repaired: {why}"));
        }
        if !done.repaired.is_empty() {
            self.say_found(&done.left, "left: ");
        }
        if self.json {
            print_json(&self.report(&done.found, Some(done), nanoseconds))?;
        } else {
            let found = places(done.found.total_findings);
            let left = match (done.found.is_sound(), done.left.total_findings) {
                (true, _) => found,
                (false, 0) => format!("{found}, all repaired"),
                (false, left) if done.repaired.is_empty() => {
                    format!("{found}, {left} left, nothing changed")
                }
                (false, left) => format!("{found}, {left} left"),
            };
            print(&summary(&done.found, &left))?;
        }
        Ok(if done.is_sound() { Exit::Fine } else { Exit::Damage })
    }

    fn device(&self, index: u16) -> &Path {
        self.volume
            .paths()
            .get(usize::from(index))
            .map_or(Path::new("unknown device"), PathBuf::as_path)
    }

    fn findings<'a>(&'a self, report: &'a CheckReport) -> Vec<Finding<'a>> {
        let findings = report.findings.iter().map(|finding| Finding {
            kind: finding.kind.name(),
            first_block: finding.blocks.map(|(first, _)| first),
            blocks: finding.blocks.map(|(first, end)| end.saturating_sub(first)),
            device: self.device(finding.device).to_string_lossy(),
            offset: finding.offset,
            expected: finding.expected.map(|value| finding.kind.value_text(value)),
            got: finding.got.map(|value| finding.kind.value_text(value)),
            meaning: &finding.meaning,
        });
        findings.collect()
    }

    fn report<'a>(
        &'a self,
        report: &'a CheckReport,
        repaired: Option<&'a RepairReport>,
        nanoseconds: u64,
    ) -> Report<'a> {
        Report {
            sound: repaired.map_or(report.is_sound(), RepairReport::is_sound),
            blocks: report.blocks,
            nodes: report.nodes,
            headers: report.headers,
            bytes: report.bytes,
            nanoseconds,
            total_findings: report.total_findings,
            findings: self.findings(report),
            notes: &report.notes,
            repair: repaired.map(|done| Repair {
                repaired: done
                    .repaired
                    .iter()
                    .map(|one| Repaired {
                        kind: one.kind.name(),
                        count: one.count,
                        meaning: &one.meaning,
                    })
                    .collect(),
                refused: done.refused.as_deref(),
                total_left: done.left.total_findings,
                left: self.findings(&done.left),
            }),
        }
    }
}

fn places(count: u64) -> String {
    match count {
        0 => "no damage".to_owned(),
        1 => "1 damaged place".to_owned(),
        many => format!("{many} damaged places"),
    }
}

fn summary(report: &CheckReport, found: &str) -> String {
    format!(
        "checked {} blocks and {} map nodes, {} read: {found}",
        report.blocks,
        report.nodes,
        human(report.bytes)
    )
}
