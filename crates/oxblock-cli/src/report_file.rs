//! Where a report goes that has a file: the file appears, or is replaced, only when the report is complete.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use oxblock::device::sync_folder;
use oxblock::format::layout::{SUPERBLOCK_MAGIC, SUPERBLOCK_SIZE};
use rustix::fs::{major, minor};

use crate::same::{is_same, metadata_of};

/// Where the copies of a superblock can be that a volume is known by: the slots of the first lane.
const SUPERBLOCKS: [u64; 2] = [0, SUPERBLOCK_SIZE as u64];

/// The place of a report. Until it is written, nothing is there that was not there before.
pub struct ReportFile {
    /// As the user named it.
    name: PathBuf,
    place: Place,
}

enum Place {
    /// What cannot be replaced, such as a pipe.
    Open(File),
    /// A file by its real name, and the permissions of the one that is there.
    File { real: PathBuf, permissions: Option<Permissions> },
}

impl ReportFile {
    /// A place for `name`, which must be none of `inputs`, no volume, and no device but `/dev/null` or the terminal. Errors
    /// name the command's `option`.
    pub fn new(name: &Path, inputs: &[PathBuf], option: &'static str) -> Result<Self> {
        let shown = name.display();
        let metadata = match std::fs::metadata(name) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if name.is_symlink() {
                    bail!("{shown} is a link to something that does not exist");
                }
                try_beside(name)?;
                return Ok(Self::file(name, name.to_owned(), None));
            }
            Err(error) => return Err(error).with_context(|| shown.to_string()),
        };
        if let Some(input) = inputs.iter().find(|input| is_same(input, &metadata)) {
            bail!("{shown} is no place for the report: it is {}", role(input, inputs));
        }
        let kind = metadata.file_type();
        if kind.is_dir() {
            bail!("{shown} is a directory; {option} takes the name of a file");
        }
        if kind.is_block_device() {
            bail!("{shown} is a block device; {option} takes the name of a file");
        }
        let ours = [metadata_of(io::stdout()), metadata_of(io::stderr())];
        let ours = ours.iter().flatten();
        let terminal = || {
            ours.clone()
                .any(|ours| ours.file_type().is_char_device() && ours.rdev() == metadata.rdev())
        };
        let null = (major(metadata.rdev()), minor(metadata.rdev())) == (1, 3);
        if kind.is_char_device() && !null && !terminal() {
            bail!("{shown} is a device; {option} takes the name of a file");
        }
        if !kind.is_file() {
            let file = OpenOptions::new().write(true).open(name);
            let file = file.with_context(|| format!("open {shown}"))?;
            return Ok(Self { name: name.to_owned(), place: Place::Open(file) });
        }
        // To be replaced only by who may write to it.
        let file = OpenOptions::new().read(true).write(true).open(name);
        let file = file.with_context(|| format!("open {shown}"))?;
        if SUPERBLOCKS.iter().any(|at| holds_magic(&file, *at)) {
            bail!("{shown} is an oxblock volume; {option} does not overwrite one");
        }
        let real = std::fs::canonicalize(name).with_context(|| shown.to_string())?;
        try_beside(&real)?;
        Ok(Self::file(name, real, Some(metadata.permissions())))
    }

    fn file(name: &Path, real: PathBuf, permissions: Option<Permissions>) -> Self {
        Self { name: name.to_owned(), place: Place::File { real, permissions } }
    }

    /// The place itself, empty, for what is written as it comes instead of being put there when it is complete.
    pub fn stream(self) -> Result<File> {
        match self.place {
            Place::Open(file) => Ok(file),
            Place::File { real, .. } => {
                File::create(&real).with_context(|| format!("create {}", self.name.display()))
            }
        }
    }

    /// Writes the report and puts it in its place.
    pub fn write(self, text: &str) -> Result<()> {
        let written = match self.place {
            Place::Open(mut file) => writeln!(file, "{text}"),
            Place::File { real, permissions } => replace(&real, permissions, text),
        };
        written.with_context(|| format!("write {}", self.name.display()))
    }
}

/// The name under which a report is written before it takes the place of `real`.
fn temporary(real: &Path) -> PathBuf {
    let mut name = real.to_owned().into_os_string();
    name.push(format!(".{}.tmp", std::process::id()));
    PathBuf::from(name)
}

fn create(temporary: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).open(temporary)
}

/// Proves, before the work for the report is done, that its folder takes a file.
fn try_beside(real: &Path) -> Result<()> {
    let temporary = temporary(real);
    let name = || format!("create {}", temporary.display());
    create(&temporary).with_context(name)?;
    std::fs::remove_file(&temporary).with_context(|| format!("remove {}", temporary.display()))
}

/// Puts a file with `text` in the place of `real`, durably, or leaves everything as it was.
fn replace(real: &Path, permissions: Option<Permissions>, text: &str) -> io::Result<()> {
    let temporary = temporary(real);
    let mut file = create(&temporary)?;
    let fill = || {
        permissions.map_or(Ok(()), |permissions| file.set_permissions(permissions))?;
        writeln!(file, "{text}")?;
        file.sync_all()?;
        std::fs::rename(&temporary, real)
    };
    if let Err(error) = fill() {
        // The first error is the one to tell.
        std::fs::remove_file(&temporary).ok();
        return Err(error);
    }
    sync_folder(real)
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
