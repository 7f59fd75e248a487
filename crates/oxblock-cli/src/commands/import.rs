//! `oxblock import`: a raw image, a block device or a stream into a volume.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::Args;
use serde::Serialize;

use super::volume::{VolumeArgs, pass_on_notices};
use crate::output::{Exit, nanoseconds, note, print, print_json};
use crate::progress::{Progress, rate};
use crate::same::{is_same, metadata_of};
use crate::size::human;
use crate::transfer::import::{Imported, import};
use crate::transfer::source::Source;

/// Copy a raw image, a file, a block device or standard input into a volume
///
/// The source becomes the first bytes of the volume; what the volume holds behind them stays. Holes and zero blocks of
/// the source take no room. When the source's size is not a multiple of 4096 bytes, the rest of its last block is zero;
/// 'export --length' gives the original size back. A source that is larger than the volume is refused before anything
/// is written, when its size is known.
#[derive(Args)]
pub struct Import {
    /// What to copy; '-' is standard input
    source: PathBuf,

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
    source: Cow<'a, str>,
    #[serde(flatten)]
    imported: &'a Imported,
    nanoseconds: u64,
}

impl Import {
    pub fn run(self) -> Result<Exit> {
        let metadata = match self.source == Path::new("-") {
            true => metadata_of(std::io::stdin()),
            false => std::fs::metadata(&self.source),
        };
        let is_source =
            |device: &&PathBuf| metadata.as_ref().is_ok_and(|metadata| is_same(device, metadata));
        if let Some(device) = self.volume.paths().iter().find(is_source) {
            bail!("{} cannot be the source and a device of the volume", device.display());
        }
        let mut source = Source::open(&self.source)?;
        let mut volume = self.volume.open(false)?;
        let said = volume.notices().len();
        let mut progress = Progress::new("import", source.len(), self.quiet);
        let result = import(&mut source, &mut volume, &mut progress);
        let elapsed = progress.finish();
        pass_on_notices(&volume, said);
        // The volume is closed in good order even when the import failed half-way; the first error is the one to tell.
        let closed = volume.close();
        let imported = result?;
        closed?;
        if self.json {
            print_json(&Report {
                source: self.source.to_string_lossy(),
                imported: &imported,
                nanoseconds: nanoseconds(elapsed),
            })?;
            return Ok(Exit::Fine);
        }
        if imported.padding > 0 {
            note(&format!(
                "the source ends inside a block: {} zero bytes follow it; export --length {} gives its size back",
                imported.padding, imported.bytes
            ));
        }
        print(&format!(
            "imported {}: {} written, {} zero, {}/s",
            human(imported.bytes),
            human(imported.written),
            human(imported.zero),
            human(rate(imported.bytes, elapsed))
        ))?;
        Ok(Exit::Fine)
    }
}
