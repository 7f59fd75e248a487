//! `oxblock bench`: a volume beside the raw device, in turn, in one run.

mod quick;
mod scratch;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueEnum};

use crate::output::{Exit, Usage};
use crate::size;

/// Measure this machine: a scratch volume beside the raw device, in turn, in one run
///
/// Both are files that have no name any more once they are open, so that nothing is left behind however the command
/// ends. This version has --quick only; the named experiments are not there yet.
#[derive(Args)]
pub struct Bench {
    /// One experiment; not there yet
    #[arg(value_enum)]
    name: Option<Experiment>,

    /// Short runs: under a minute in all, for a first look
    #[arg(long)]
    quick: bool,

    /// Folder for the scratch files, on the storage to be measured [default: 'target/oxblock-bench']
    #[arg(long, value_name = "FOLDER")]
    dir: Option<PathBuf>,

    /// Bytes that the jobs work on; the scratch volume has twice as many
    #[arg(long, value_name = "SIZE", value_parser = size::parse, default_value = "512M")]
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
        if self.size == 0 {
            return Err(Usage("--size 0 leaves nothing to measure".into()).into());
        }
        let text = match (self.name, self.quick) {
            (None, true) => return quick::run_quick(self.dir.as_deref(), self.size, self.json),
            (None, false) => {
                "the experiments are not there yet; 'oxblock bench --quick' compares".to_owned()
            }
            (Some(name), _) => {
                let name = format!("{name:?}").to_lowercase();
                format!("experiment '{name}' is not there yet; 'oxblock bench --quick' compares")
            }
        };
        Err(Usage(text).into())
    }
}
