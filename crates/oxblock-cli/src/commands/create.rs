//! `oxblock create`: a new volume on one or more devices.

use std::borrow::Cow;
use std::path::PathBuf;

use anyhow::Result;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use oxblock::csum::CsumKind;
use oxblock::format::layout::LABEL_SIZE;
use oxblock::volume::{CreateOptions, create};
use serde::Serialize;

use super::volume::single_device;
use crate::output::{Exit, Usage, note, print, print_json};
use crate::progress::Progress;
use crate::size::{self, human};

/// Create a volume
///
/// A device that does not exist is made as a sparse file, large enough for the volume. A device that holds something
/// else is named for what it is and left alone, unless --force is given.
#[derive(Args)]
pub struct Create {
    /// Files or block devices to create the volume on
    #[arg(required = true, value_name = "DEVICE")]
    devices: Vec<PathBuf>,

    /// Size of the volume, as its users see it [default: the most that the devices have room for]
    #[arg(long, value_parser = size::parse)]
    size: Option<u64>,

    /// How blocks are spread over the devices; this version makes 'single' only
    #[arg(long, value_enum, default_value = "single")]
    profile: Profile,

    /// Checksum of every block: crc32c is the fastest, blake3 and sha256 keep 128 bits
    #[arg(long, value_name = "TYPE", default_value = CsumKind::default().name(), value_parser = csum())]
    csum: CsumKind,

    /// A name of at most 64 bytes, shown by info
    #[arg(long, default_value = "", hide_default_value = true)]
    label: String,

    /// Engines that share the volume, one for each core that shall work on it; this version makes one
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=16))]
    lanes: Option<u16>,

    /// Overwrite what the devices hold
    #[arg(long)]
    force: bool,

    /// Write the devices' space once now, so that later writes never wait for the file system to find some
    #[arg(long)]
    preallocate: bool,

    /// Show no progress
    #[arg(long, short)]
    quiet: bool,

    /// Report as JSON
    #[arg(long)]
    json: bool,
}

/// The values of `--profile`.
#[derive(ValueEnum, Clone, Copy)]
#[value(rename_all = "lower")]
enum Profile {
    /// One copy
    Single,
    /// Two copies, also on the same device
    Dup,
    /// Spread over all devices, one copy
    Raid0,
    /// Two copies on two devices
    Raid1,
    /// Three copies on three devices
    Raid1c3,
    /// Two copies, spread over all devices
    Raid10,
    /// One block of parity: any one device may fail
    Raid5,
    /// Two blocks of parity: any two devices may fail
    Raid6,
}

fn csum() -> impl TypedValueParser<Value = CsumKind> {
    PossibleValuesParser::new(CsumKind::ALL.map(CsumKind::name))
        .try_map(|name| name.parse::<CsumKind>())
}

#[derive(Serialize)]
struct Report<'a> {
    uuid: String,
    label: &'a str,
    size: u64,
    device_size: u64,
    profile: &'static str,
    csum: &'static str,
    lanes: u16,
    devices: Vec<Cow<'a, str>>,
}

impl Create {
    pub fn run(self) -> Result<Exit> {
        if !matches!(self.profile, Profile::Single) {
            let name = self.profile.to_possible_value();
            let name = name.map(|value| value.get_name().to_owned()).unwrap_or_default();
            let message = format!("profile {name} is not there yet; this version makes 'single'");
            return Err(Usage(message).into());
        }
        single_device(&self.devices)?;
        if self.size == Some(0) {
            return Err(Usage("--size 0 makes no volume".into()).into());
        }
        // Before anything is made, so that a refusal leaves nothing behind.
        if self.label.len() > LABEL_SIZE {
            let text = format!("--label has {} bytes; at most {LABEL_SIZE} fit", self.label.len());
            return Err(Usage(text).into());
        }
        if let Some(lanes) = self.lanes.filter(|lanes| *lanes != 1) {
            let message = format!("{lanes} lanes are not there yet; this version makes one");
            return Err(Usage(message).into());
        }
        let options = CreateOptions {
            size: self.size,
            csum: self.csum,
            label: self.label.clone(),
            lanes: self.lanes.unwrap_or(1),
            force: self.force,
            preallocate: self.preallocate,
            ..CreateOptions::default()
        };
        let mut progress: Option<Progress> = None;
        let created = create(&self.devices, &options, &mut |done, total| {
            // How much there is to write is known only once the device is open.
            progress
                .get_or_insert_with(|| Progress::new("create", Some(total), self.quiet))
                .set(done);
        });
        if let Some(progress) = progress {
            progress.finish();
        }
        let created = created?;
        for notice in &created.notices {
            note(notice);
        }
        if self.json {
            print_json(&Report {
                uuid: created.volume.to_string(),
                label: &self.label,
                size: created.size,
                device_size: created.device_size,
                profile: "single",
                csum: self.csum.name(),
                lanes: options.lanes,
                devices: self.devices.iter().map(|path| path.to_string_lossy()).collect(),
            })?;
        } else {
            print(&format!(
                "created volume {} of {} on {} of device, checksum {}",
                created.volume,
                human(created.size),
                human(created.device_size),
                self.csum
            ))?;
        }
        Ok(Exit::Fine)
    }
}
