//! Where a report goes that has a file: the file appears, or is replaced, only when the report is complete.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use oxblock::format::layout::SUPERBLOCK_MAGIC;
use rustix::fs::{major, minor};

use crate::same::{is_same, metadata_of};

/// Where the copies of a superblock can be that a volume is known by.
const SUPERBLOCKS: [u64; 2] = [0, 16384];

/// The place of a report. Dropped unwritten, it leaves everything as it was.
pub struct ReportFile {
    /// As the user named it.
    name: PathBuf,
    file: File,
    /// The temporary file, and what it shall be called; none for what cannot be replaced, such as a pipe.
    rename: Option<(PathBuf, PathBuf)>,
}

impl ReportFile {
    /// A place for `name`, which must be none of `inputs`, no volume, and no device but `/dev/null` or the terminal.
    pub fn new(name: &Path, inputs: &[PathBuf]) -> Result<Self> {
        let shown = name.display();
        let metadata = match std::fs::metadata(name) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if name.is_symlink() {
                    bail!("{shown} is a link to something that does not exist");
                }
                return Self::beside(name, name.to_owned());
            }
            Err(error) => return Err(error).with_context(|| shown.to_string()),
        };
        if let Some(input) = inputs.iter().find(|input| is_same(input, &metadata)) {
            bail!("{shown} is no place for the report: it is {}", role(input, inputs));
        }
        let kind = metadata.file_type();
        if kind.is_dir() {
            bail!("{shown} is a directory; --output takes the name of a file");
        }
        if kind.is_block_device() {
            bail!("{shown} is a block device; --output takes the name of a file");
        }
        let ours = [metadata_of(io::stdout()), metadata_of(io::stderr())];
        let ours = ours.iter().flatten();
        let terminal = || {
            ours.clone()
                .any(|ours| ours.file_type().is_char_device() && ours.rdev() == metadata.rdev())
        };
        let null = (major(metadata.rdev()), minor(metadata.rdev())) == (1, 3);
        if kind.is_char_device() && !null && !terminal() {
            bail!("{shown} is a device; --output takes the name of a file");
        }
        if !kind.is_file() {
            let file = OpenOptions::new().write(true).open(name);
            let file = file.with_context(|| format!("open {shown}"))?;
            return Ok(Self { name: name.to_owned(), file, rename: None });
        }
        // To be replaced only by who may write to it.
        let file = OpenOptions::new().read(true).write(true).open(name);
        let file = file.with_context(|| format!("open {shown}"))?;
        if SUPERBLOCKS.iter().any(|at| holds_magic(&file, *at)) {
            bail!("{shown} is an oxblock volume; --output does not overwrite one");
        }
        let real = std::fs::canonicalize(name).with_context(|| shown.to_string())?;
        let made = Self::beside(name, real)?;
        made.file.set_permissions(metadata.permissions()).with_context(|| shown.to_string())?;
        Ok(made)
    }

    /// A temporary file in the folder of `real`.
    fn beside(name: &Path, real: PathBuf) -> Result<Self> {
        let mut temporary = real.clone().into_os_string();
        temporary.push(format!(".{}.tmp", std::process::id()));
        let temporary = PathBuf::from(temporary);
        let file = OpenOptions::new().write(true).create_new(true).open(&temporary);
        let file = file.with_context(|| format!("create {}", temporary.display()))?;
        Ok(Self { name: name.to_owned(), file, rename: Some((temporary, real)) })
    }

    /// Writes the report and puts it in its place.
    pub fn write(mut self, text: &str) -> Result<()> {
        let written = writeln!(self.file, "{text}");
        written.with_context(|| format!("write {}", self.name.display()))?;
        if let Some((temporary, real)) = &self.rename {
            let renamed = std::fs::rename(temporary, real);
            renamed.with_context(|| format!("create {}", self.name.display()))?;
            self.rename = None;
        }
        Ok(())
    }
}

impl Drop for ReportFile {
    fn drop(&mut self) {
        if let Some((temporary, _)) = &self.rename {
            // The command has failed already, and says so.
            std::fs::remove_file(temporary).ok();
        }
    }
}

/// What `input` is: the job file comes first, the devices follow.
fn role(input: &Path, inputs: &[PathBuf]) -> String {
    match inputs.first().is_some_and(|first| first == input) {
        true => "the job file".to_owned(),
        false => format!("{}, which the job runs on", input.display()),
    }
}

fn holds_magic(file: &File, at: u64) -> bool {
    let mut magic = [0; SUPERBLOCK_MAGIC.len()];
    file.read_exact_at(&mut magic, at).is_ok() && magic == SUPERBLOCK_MAGIC
}
