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
use oxblock::device::{Lock, sync_folder};
use oxblock::error::Error;
use oxblock::format::foreign;
use rustix::fs::{OFlags, SeekFrom, seek};

use super::zero::{is_zero, runs};
use super::{CHUNK, bytes};
use crate::same::{is_same, metadata_of};
use crate::size::both;

/// A destination, open for writing.
pub struct Dest {
    file: File,
    kind: Kind,
    position: u64,
    /// The file's name, when it is new.
    new: Option<PathBuf>,
    #[expect(dead_code, reason = "held for its drop")]
    lock: Option<Lock>,
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
            return Ok(Self::stream(File::from(stdout)));
        }
        let name = path.display();
        let metadata = match std::fs::metadata(path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let file = OpenOptions::new().write(true).create_new(true).open(path);
                let file = file.with_context(|| format!("create {name}"))?;
                let new = Some(path.to_owned());
                return Ok(Self { new, ..Self::locked(file, path, Kind::File)? });
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
            return Ok(Self::stream(file.with_context(|| format!("open {name}"))?));
        }
        if !force {
            bail!("{name} exists already; --force overwrites it");
        }
        let file = OpenOptions::new().write(true).open(path);
        let file = file.with_context(|| format!("open {name}"))?;
        let dest = Self::locked(file, path, Kind::File)?;
        // What was opened is what counts, should the name have changed hands meanwhile.
        let metadata = dest.file.metadata().with_context(|| name.to_string())?;
        if devices.iter().any(|device| is_same(device, &metadata)) {
            bail!("{name} is a device of the volume that is exported");
        }
        dest.file.set_len(0).with_context(|| format!("truncate {name}"))?;
        Ok(dest)
    }

    fn open_device(path: &Path, len: u64, force: bool) -> Result<Self> {
        let name = path.display();
        // Without O_CREAT this claims a block device: mounts and the kernel's own users have theirs claimed as well.
        let claim = OFlags::EXCL.bits().cast_signed();
        let file = OpenOptions::new().read(true).write(true).custom_flags(claim).open(path);
        let file = file.map_err(|error| match error.kind() {
            io::ErrorKind::ResourceBusy => anyhow::anyhow!(
                "{name} is in use: it is mounted, part of another device, or open elsewhere (lsblk shows which)"
            ),
            _ => anyhow::Error::from(error).context(format!("open {name}")),
        })?;
        let dest = Self::locked(file, path, Kind::Device)?;
        let file = &dest.file;
        let size = seek(file, SeekFrom::End(0)).with_context(|| name.to_string())?;
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
        Ok(dest)
    }

    fn stream(file: File) -> Self {
        Self { file, kind: Kind::Stream, position: 0, new: None, lock: None }
    }

    /// A file or a device that others are kept off for as long as it is open.
    fn locked(file: File, path: &Path, kind: Kind) -> Result<Self> {
        let lock = Some(Lock::take(file.try_clone()?, path, true)?);
        Ok(Self { file, kind, position: 0, new: None, lock })
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
        self.file.sync_all()?;
        self.new.as_deref().map_or(Ok(()), sync_folder)
    }
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
        user.lock_shared().unwrap();
        assert!(error(true, &[]).contains("is in use by pid"));
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
