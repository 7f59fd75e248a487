//! Where an export goes: a new file, an existing one by permission, a block device, or a stream such as standard
//! output.
//!
//! Bytes come front to back. A new file is sparse: what is zero is skipped, and the length is set at the end. A block
//! device or a stream gets every byte.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use oxblock::error::Error;
use oxblock::format::foreign;
use rustix::fs::{FlockOperation, OFlags, SeekFrom, flock, seek};
use rustix::io::Errno;

use super::zero::{is_zero, runs};
use super::{CHUNK, bytes};
use crate::same::{is_same, metadata_of};
use crate::size::both;

/// A destination, open for writing.
pub struct Dest {
    file: File,
    kind: Kind,
    position: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Sparse.
    File,
    Device,
    Stream,
}

impl Dest {
    /// Opens `path` for `len` bytes; `-` is standard output. Nothing that exists is overwritten without `force`, and
    /// none of `devices` ever.
    pub fn open(path: &Path, len: u64, force: bool, devices: &[PathBuf]) -> Result<Self> {
        if path == Path::new("-") {
            let metadata = metadata_of(io::stdout()).context("standard output")?;
            if devices.iter().any(|device| is_same(device, &metadata)) {
                bail!("standard output is a device of the volume that is exported");
            }
            let stdout = io::stdout().as_fd().try_clone_to_owned().context("standard output")?;
            return Ok(Self::new(File::from(stdout), Kind::Stream));
        }
        let name = path.display();
        let metadata = match std::fs::metadata(path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let file = OpenOptions::new().write(true).create_new(true).open(path);
                let file = file.with_context(|| format!("create {name}"))?;
                lock(&file, path)?;
                return Ok(Self::new(file, Kind::File));
            }
            Err(error) => return Err(error).with_context(|| name.to_string()),
        };
        if devices.iter().any(|device| is_same(device, &metadata)) {
            bail!("{name} is a device of the volume that is exported");
        }
        let kind = metadata.file_type();
        if kind.is_dir() {
            bail!("{name} is a directory; export takes the name of a file, a block device or '-'");
        }
        if kind.is_block_device() {
            return Self::open_device(path, len, force);
        }
        if !kind.is_file() {
            // A pipe, or the like: opening it harms nobody.
            let file = OpenOptions::new().write(true).open(path);
            return Ok(Self::new(file.with_context(|| format!("open {name}"))?, Kind::Stream));
        }
        if !force {
            bail!("{name} exists already; --force overwrites it");
        }
        let file = OpenOptions::new().write(true).open(path);
        let file = file.with_context(|| format!("open {name}"))?;
        lock(&file, path)?;
        // What was opened is what counts, should the name have changed hands meanwhile.
        let metadata = file.metadata().with_context(|| name.to_string())?;
        if devices.iter().any(|device| is_same(device, &metadata)) {
            bail!("{name} is a device of the volume that is exported");
        }
        file.set_len(0).with_context(|| format!("truncate {name}"))?;
        Ok(Self::new(file, Kind::File))
    }

    fn open_device(path: &Path, len: u64, force: bool) -> Result<Self> {
        let name = path.display();
        // Without O_CREAT this claims a block device: mounts and the kernel's own users have theirs claimed as well.
        let claim = OFlags::EXCL.bits().cast_signed();
        let file = OpenOptions::new().read(true).write(true).custom_flags(claim).open(path);
        let file = file.map_err(|error| match error.kind() {
            io::ErrorKind::ResourceBusy => in_use(path),
            _ => anyhow::Error::from(error).context(format!("open {name}")),
        })?;
        lock(&file, path)?;
        let size = seek(&file, SeekFrom::End(0)).with_context(|| name.to_string())?;
        if size < len {
            bail!("{name} has {}, the image {}; nothing was written", both(size), both(len));
        }
        if !force {
            let mut read = |offset: u64, len: usize| {
                let mut bytes = vec![0; len];
                let read = file.read_exact_at(&mut bytes, offset);
                read.map_err(|error| Error::io("read", error)).map(|()| bytes)
            };
            let found = foreign::identify(&mut read, size).with_context(|| name.to_string())?;
            if let Some(found) = found {
                bail!("{name} holds {found}; --force overwrites it");
            }
        }
        Ok(Self::new(file, Kind::Device))
    }

    fn new(file: File, kind: Kind) -> Self {
        Self { file, kind, position: 0 }
    }

    /// Appends `data`, whose start is at a block boundary of the volume.
    pub fn append(&mut self, data: &[u8]) -> io::Result<()> {
        match self.kind {
            Kind::Stream => self.file.write_all(data)?,
            Kind::Device => self.file.write_all_at(data, self.position)?,
            Kind::File => self.append_sparse(data)?,
        }
        self.position += bytes(data.len());
        Ok(())
    }

    /// Appends `len` zero bytes.
    pub fn skip(&mut self, len: u64) -> io::Result<()> {
        if self.kind == Kind::File {
            self.position += len;
            return Ok(());
        }
        let zeroes = vec![0; CHUNK];
        let mut left = len;
        while left > 0 {
            let take = usize::try_from(left).unwrap_or(CHUNK).min(CHUNK);
            self.append(zeroes.get(..take).unwrap_or(&zeroes))?;
            left -= bytes(take);
        }
        Ok(())
    }

    fn append_sparse(&self, data: &[u8]) -> io::Result<()> {
        if is_zero(data) {
            return Ok(());
        }
        for run in runs(data).into_iter().filter(|run| !run.zero) {
            let at = self.position + bytes(run.range.start);
            if let Some(piece) = data.get(run.range) {
                self.file.write_all_at(piece, at)?;
            }
        }
        Ok(())
    }

    /// Makes what was appended durable. A stream has nothing to make durable: its reader sees to that.
    pub fn finish(self) -> io::Result<()> {
        match self.kind {
            Kind::Stream => return Ok(()),
            Kind::File => self.file.set_len(self.position)?,
            Kind::Device => {}
        }
        self.file.sync_all()
    }
}

/// Keeps other users off `file` for as long as it is open.
fn lock(file: &File, path: &Path) -> Result<()> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(()),
        Err(Errno::AGAIN) => Err(in_use(path)),
        Err(errno) => {
            Err(io::Error::from(errno)).with_context(|| format!("lock {}", path.display()))
        }
    }
}

fn in_use(path: &Path) -> anyhow::Error {
    anyhow::anyhow!("{} is in use by another process", path.display())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn a_new_file_is_sparse_and_has_its_whole_length() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let mut dest = Dest::open(&path, 3 << 20, false, &[]).unwrap();
        dest.append(&vec![0; 1 << 20]).unwrap();
        let mut mixed = vec![0; 1 << 20];
        mixed[8192] = 5;
        dest.append(&mixed).unwrap();
        dest.append(&vec![0; 1000]).unwrap();
        dest.finish().unwrap();
        let read = std::fs::read(&path).unwrap();
        assert_eq!(read.len(), (2 << 20) + 1000);
        assert_eq!(read.iter().position(|byte| *byte != 0), Some((1 << 20) + 8192));
        assert!(std::fs::metadata(&path).unwrap().blocks() * 512 < 1 << 20);
    }

    #[test]
    fn existing_files_need_force_and_devices_of_the_volume_are_never_taken() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("there");
        std::fs::write(&path, vec![1; 10_000]).unwrap();
        let error = |force, devices: &[PathBuf]| {
            Dest::open(&path, 4096, force, devices).err().unwrap().to_string()
        };
        assert!(error(false, &[]).contains("--force"));
        let link = folder.path().join("link");
        std::fs::hard_link(&path, &link).unwrap();
        assert!(error(true, &[link]).contains("is a device of the volume"));
        assert_eq!(std::fs::read(&path).unwrap(), vec![1; 10_000]);
        let user = File::open(&path).unwrap();
        flock(&user, FlockOperation::LockShared).unwrap();
        assert!(error(true, &[]).contains("is in use by another process"));
        assert_eq!(std::fs::read(&path).unwrap(), vec![1; 10_000]);
        drop(user);
        let mut dest = Dest::open(&path, 4096, true, &[]).unwrap();
        dest.append(&[2; 100]).unwrap();
        dest.finish().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), [2; 100]);
        let error = Dest::open(folder.path(), 1, true, &[]).err().unwrap().to_string();
        assert!(error.contains("is a directory"), "{error}");
    }
}
