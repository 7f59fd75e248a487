//! `oxblock run`: a fio job file on a volume, or on the bare device.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};

use super::OpenArgs;
use crate::output::Exit;

/// Run a fio job file on a volume
///
/// The job's file names and I/O engine are replaced by the target. An option that is unknown, or that cannot be
/// honoured, is refused by name and line. The report has the shape of fio's own.
#[derive(Args)]
pub struct Run {
    /// The job file, in fio's language
    #[arg(value_name = "JOB.fio")]
    job: PathBuf,

    /// Devices of the volume; with --target raw, the file or block device to run on
    #[arg(required = true, value_name = "DEVICE")]
    devices: Vec<PathBuf>,

    /// What to run on; 'raw' overwrites the device as the job asks
    #[arg(long, value_enum, default_value = "volume")]
    target: Target,

    /// How to report
    #[arg(long, value_enum, default_value = "normal", value_name = "FORMAT")]
    output_format: Format,

    /// Report to this file [default: standard output]
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,

    #[command(flatten)]
    open: OpenArgs,
}

/// The values of `--target`.
#[derive(ValueEnum, Clone, Copy)]
enum Target {
    /// The volume on the devices
    Volume,
    /// The bare device, without a volume: the baseline
    Raw,
}

/// The values of `--output-format`.
#[derive(ValueEnum, Clone, Copy)]
enum Format {
    /// As fio prints it
    Normal,
    /// fio's JSON
    Json,
}

impl Run {
    pub fn run(self) -> Result<Exit> {
        let on = match self.target {
            Target::Volume => {
                self.open.open(&self.devices, false)?.close()?;
                "a volume"
            }
            Target::Raw => "a bare device",
        };
        let format = match self.output_format {
            Format::Normal => "normal",
            Format::Json => "json",
        };
        let to = self.output.as_deref().unwrap_or(std::path::Path::new("-"));
        bail!(
            "this build cannot run {} on {on} yet ({format} report to {})",
            self.job.display(),
            to.display()
        )
    }
}
