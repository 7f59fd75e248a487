//! `oxblock bench`: the experiments, side by side with the raw device.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};

use crate::output::Exit;
use crate::size;

/// Measure this machine: a scratch volume beside the raw device, in turn, in one run
///
/// The scratch files are removed afterwards. Without a name every experiment is run.
#[derive(Args)]
pub struct Bench {
    /// One experiment [default: all]
    #[arg(value_enum)]
    name: Option<Experiment>,

    /// Short runs: under a minute in all, for a first look
    #[arg(long)]
    quick: bool,

    /// Folder for the scratch files, on the storage to be measured [default: 'target', or the working directory]
    #[arg(long, value_name = "FOLDER")]
    dir: Option<PathBuf>,

    /// Size of the scratch volume
    #[arg(long, value_name = "SIZE", value_parser = size::parse, default_value = "1G")]
    size: u64,

    /// Report as JSON
    #[arg(long)]
    json: bool,
}

/// The experiments of `bench`.
#[derive(ValueEnum, Clone, Copy, Debug)]
#[value(rename_all = "lower")]
enum Experiment {
    /// Checksum inline or on workers, by size and profile
    Submit,
    /// Finish in the issuer's context or on a worker
    Complete,
    /// How large one device I/O may grow
    Split,
    /// Never defer when the checksum is fast
    Crc,
}

impl Bench {
    pub fn run(self) -> Result<Exit> {
        let name = match self.name {
            Some(name) => format!("{name:?}").to_lowercase(),
            None => "every experiment".to_owned(),
        };
        let folder = self.dir.unwrap_or_else(|| {
            let target = PathBuf::from("target");
            if target.is_dir() { target } else { PathBuf::from(".") }
        });
        let pace = if self.quick { "quickly" } else { "in full" };
        let report = if self.json { "JSON" } else { "a table" };
        bail!(
            "this build cannot run {name} {pace} on {} in {} yet (to report {report})",
            size::human(self.size),
            folder.display()
        )
    }
}
