//! `oxblock check`: every pointer, every block, the segment table against the map.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use super::OpenArgs;
use crate::engine::check;
use crate::output::{Exit, note, print, print_json};
use crate::progress::Progress;
use crate::size::human;

/// Verify a volume that nobody uses: every pointer, every block, the segment table against the map
///
/// Nothing is changed. Each damaged place is listed on standard error with its logical block, device, address and both
/// checksums. The exit status is 3 when there is any.
#[derive(Args)]
pub struct Check {
    /// Devices of the volume
    #[arg(required = true, value_name = "DEVICE")]
    devices: Vec<PathBuf>,

    /// Show no progress
    #[arg(long, short)]
    quiet: bool,

    /// Report as JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    open: OpenArgs,
}

impl Check {
    pub fn run(self) -> Result<Exit> {
        let mut progress: Option<Progress> = None;
        let report = check(&self.devices, &self.open.options(true), &mut |done, total| {
            // The work is known only once the volume is open.
            progress
                .get_or_insert_with(|| Progress::new("check", Some(total), self.quiet))
                .set(done);
        })?;
        if let Some(progress) = progress {
            progress.finish();
        }
        for damage in &report.damage {
            note(&damage.to_string());
        }
        if self.json {
            print_json(&report)?;
        } else {
            let found = match report.damage.len() {
                0 => "no damage".to_owned(),
                1 => "1 damaged place".to_owned(),
                many => format!("{many} damaged places"),
            };
            print(&format!("checked {} blocks, {}: {found}", report.blocks, human(report.bytes)))?;
        }
        Ok(if report.damage.is_empty() { Exit::Fine } else { Exit::Damage })
    }
}
