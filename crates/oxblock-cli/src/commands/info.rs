//! `oxblock info`: geometry, profile, usage, health, counters.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use super::OpenArgs;
use crate::engine::VolumeInfo;
use crate::output::{Exit, print_json, print_table};
use crate::size::{both, human};

/// Show a volume's geometry, usage, health, counters and policies
///
/// The volume is opened read-only and not changed.
#[derive(Args)]
pub struct Info {
    /// Devices of the volume
    #[arg(required = true, value_name = "DEVICE")]
    devices: Vec<PathBuf>,

    /// Report as JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    open: OpenArgs,
}

impl Info {
    pub fn run(self) -> Result<Exit> {
        let volume = self.open.open(&self.devices, true)?;
        let info = volume.info();
        volume.close()?;
        if self.json {
            print_json(&info)?;
        } else {
            print_info(&info)?;
        }
        Ok(Exit::Fine)
    }
}

/// Prints `info` for people.
pub fn print_info(info: &VolumeInfo) -> Result<()> {
    let percent = (u128::from(info.used) * 100).checked_div(u128::from(info.size)).unwrap_or(0);
    let mut rows = vec![
        ("volume", info.uuid.clone()),
        ("label", info.label.clone()),
        ("size", both(info.size)),
        ("used", format!("{} ({percent} %)", human(info.used))),
        ("profile", info.profile.clone()),
        ("checksum", info.csum.clone()),
        ("lanes", info.lanes.to_string()),
        ("segment size", human(info.segment_size)),
        ("generation", info.generation.to_string()),
    ];
    rows.retain(|(_, value)| !value.is_empty());
    for device in &info.devices {
        let text = format!(
            "{}, {}, {}, {} errors",
            device.path.display(),
            human(device.size),
            device.state,
            device.errors
        );
        rows.push(("device", text));
    }
    rows.extend(info.policies.iter().map(|policy| ("policy", policy.clone())));
    rows.extend(info.counters.iter().map(|(name, value)| (name.as_str(), value.to_string())));
    print_table(&rows)
}
