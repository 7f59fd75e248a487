//! `oxblock export`: a volume into a file, a block device or a stream.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;

use super::volume::VolumeArgs;
use crate::output::{Exit, Usage, nanoseconds, note, print, print_json};
use crate::progress::{Progress, rate};
use crate::size::{self, human};
use crate::transfer::dest::Dest;
use crate::transfer::export::{Exported, export, image_length};

/// Copy a volume into a file, a block device or standard output
///
/// A file is made sparse: blocks that are zero take no room. Blocks that cannot be verified are listed on standard
/// error with their address, are zero in the destination, and make the exit status 3; all others are copied.
#[derive(Args)]
pub struct Export {
    #[command(flatten)]
    volume: VolumeArgs,

    /// Where to; '-' is standard output
    #[arg(required = true)]
    dest: PathBuf,

    /// Copy only so much, such as the size of the image that was imported [default: the volume's size]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    length: Option<u64>,

    /// Overwrite DEST when it exists
    #[arg(long)]
    force: bool,

    /// Show no progress
    #[arg(long, short)]
    quiet: bool,

    /// Report as JSON; not together with '-'
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report<'a> {
    dest: Cow<'a, str>,
    #[serde(flatten)]
    exported: &'a Exported,
    nanoseconds: u64,
}

impl Export {
    pub fn run(self) -> Result<Exit> {
        let to_stdout = self.dest == Path::new("-");
        if to_stdout && self.json {
            let text = "--json reports on standard output, which the image takes already";
            return Err(Usage(text.into()).into());
        }
        let mut volume = self.volume.open(true)?;
        let len = image_length(self.length, volume.size())?;
        let mut dest = Dest::open(&self.dest, len, self.force, self.volume.paths())?;
        let mut progress = Progress::new("export", Some(len), self.quiet);
        let result = export(&mut volume, len, &mut dest, &mut progress);
        let result = result.and_then(|exported| {
            dest.finish().context("make the destination durable")?;
            Ok(exported)
        });
        let elapsed = progress.finish();
        let exported = result.with_context(|| match to_stdout {
            true => "the export is incomplete".to_owned(),
            false => format!("{} is incomplete", self.dest.display()),
        })?;
        volume.close()?;
        let summary = format!(
            "exported {} at {}/s",
            human(exported.bytes),
            human(rate(exported.bytes, elapsed))
        );
        if self.json {
            print_json(&Report {
                dest: self.dest.to_string_lossy(),
                exported: &exported,
                nanoseconds: nanoseconds(elapsed),
            })?;
        } else if to_stdout {
            note(&summary);
        } else {
            print(&summary)?;
        }
        let missing = exported.missing_blocks;
        if missing == 0 {
            return Ok(Exit::Fine);
        }
        let listed = if exported.is_cut() { "; not all of them are listed" } else { "" };
        note(&format!(
            "{missing} blocks could not be read and are zero in the destination{listed}"
        ));
        Ok(Exit::Damage)
    }
}
