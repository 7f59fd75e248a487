//! `oxblock check`: every pointer, every block, the segment table against the map.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use oxblock::volume::{CheckReport, check};
use serde::Serialize;

use super::volume::VolumeArgs;
use crate::output::{Exit, nanoseconds, note, print, print_json};
use crate::progress::Progress;
use crate::size::human;

/// Verify a volume that nobody uses: every pointer, every block, the segment table against the map
///
/// Nothing is changed. Each damaged place is listed on standard error with its logical block, device, address and both
/// checksums. The exit status is 3 when there is any.
#[derive(Args)]
pub struct Check {
    #[command(flatten)]
    volume: VolumeArgs,

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
        let options = self.volume.to_inspect("check")?;
        let start = std::time::Instant::now();
        let mut progress: Option<Progress> = None;
        let report = check(self.volume.paths(), &options, &mut |done, total| {
            // The work is known only once the volume is open.
            progress
                .get_or_insert_with(|| Progress::new("check", Some(total), self.quiet))
                .set(done);
        });
        if let Some(progress) = progress {
            progress.finish();
        }
        let report = report?;
        for text in &report.notes {
            note(text);
        }
        for finding in &report.findings {
            note(&finding.line(&self.device(finding.device).display()));
        }
        let kept = report.findings.len() as u64;
        if report.total_findings > kept {
            note(&format!("and {} more", report.total_findings - kept));
        }
        if self.json {
            print_json(&self.report(&report, nanoseconds(start.elapsed())))?;
        } else {
            let found = match report.total_findings {
                0 => "no damage".to_owned(),
                1 => "1 damaged place".to_owned(),
                many => format!("{many} damaged places"),
            };
            print(&format!(
                "checked {} blocks and {} map nodes, {} read: {found}",
                report.blocks,
                report.nodes,
                human(report.bytes)
            ))?;
        }
        Ok(if report.is_sound() { Exit::Fine } else { Exit::Damage })
    }

    fn device(&self, index: u16) -> &Path {
        self.volume
            .paths()
            .get(usize::from(index))
            .map_or(Path::new("unknown device"), PathBuf::as_path)
    }

    fn report<'a>(&'a self, report: &'a CheckReport, nanoseconds: u64) -> Report<'a> {
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
        Report {
            sound: report.is_sound(),
            blocks: report.blocks,
            nodes: report.nodes,
            headers: report.headers,
            bytes: report.bytes,
            nanoseconds,
            total_findings: report.total_findings,
            findings: findings.collect(),
            notes: &report.notes,
        }
    }
}
