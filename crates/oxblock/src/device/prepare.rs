//! Preparing files before they are devices: creating them sparse, and filling them with zeroes.
//!
//! Rules: nothing with content is ever resized, and only [`preallocate`] destroys, which holds the device's lock while it
//! does.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

use super::Buf;
use super::lock::Lock;
use super::open::{claim_error, is_block, open, open_for_io, refused};
use crate::error::{Error, Result};
use crate::format::layout::{BLOCK_BYTES, BLOCK_SIZE};

/// Makes a new sparse file of `bytes` bytes, durable with its name; leaves nothing behind when that fails.
pub(super) fn create(path: &Path, bytes: u64) -> Result<()> {
    let failed = |error| Error::io(format!("{} cannot be created", path.display()), error);
    // What a volume holds is nobody else's business.
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(failed)?;
    let result = grow(path, bytes).and_then(|()| {
        let parent = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        File::open(parent).and_then(|folder| folder.sync_all()).map_err(failed)
    });
    if result.is_err() {
        // The first error is the one to tell; an empty file left behind harms nobody.
        std::fs::remove_file(path).ok();
    }
    result
}

/// Sets the size of an empty file, durably.
pub(super) fn grow(path: &Path, bytes: u64) -> Result<()> {
    let result = OpenOptions::new().write(true).open(path).and_then(|file| {
        file.set_len(bytes)?;
        file.sync_all()
    });
    let message = |error: &io::Error| {
        let what = format!("{} cannot be made {bytes} bytes large", path.display());
        match error.kind() {
            io::ErrorKind::FileTooLarge => {
                format!(
                    "{what}: its file system does not take files of that size; use another or a block device"
                )
            }
            _ => what,
        }
    };
    result.map_err(|error| Error::io(message(&error), error))
}

/// Writes zeroes over the first `bytes` bytes of a file or block device, **destroying what is there**, so that later
/// writes are pure overwrites of initialised blocks. The device must not be open elsewhere, and is durable afterwards.
/// `progress` is told the bytes written so far, after each MiB.
///
/// # Errors
/// As [`open_devices`](super::open_devices); [`ErrorKind::NoSpace`](crate::error::ErrorKind::NoSpace) when the file
/// system has no room, before anything is written where it can tell.
pub fn preallocate(path: &Path, bytes: u64, progress: &mut dyn FnMut(u64)) -> Result<()> {
    const PIECE: usize = 1 << 20;
    let failed =
        |error| Error::io(format!("{} cannot be filled with zeroes", path.display()), error);
    let metadata = std::fs::metadata(path).map_err(|error| refused(path, error, true))?;
    let block = is_block(path, &metadata)?;
    let claim = if block { OFlags::EXCL } else { OFlags::empty() };
    let holder = open(path, true, claim).map_err(|error| claim_error(path, error, true))?;
    let _lock = Lock::take(holder, path, true)?;
    // Buffered I/O, where it must be, does no harm here.
    let (file, _) = open_for_io(path, true, &mut Vec::new())?;
    if !block {
        use rustix::fs::{FallocateFlags, fallocate};
        // A file system that cannot reserve space shows by the writes whether it has it.
        if let Err(errno @ (rustix::io::Errno::NOSPC | rustix::io::Errno::FBIG)) =
            fallocate(&file, FallocateFlags::KEEP_SIZE, 0, bytes.max(1))
        {
            return Err(failed(errno.into()));
        }
    }
    let zeroes = Buf::new(PIECE);
    let mut written = 0;
    while written < bytes {
        let piece = usize::try_from(bytes - written).map_or(PIECE, |rest| rest.min(PIECE));
        // The tail of a size that is no multiple of a block is the last block's business.
        let piece = piece / BLOCK_SIZE * BLOCK_SIZE;
        let Some(data) = zeroes.get(..piece).filter(|data| !data.is_empty()) else { break };
        match rustix::io::pwrite(&file, data, written) {
            Ok(0) => return Err(failed(io::ErrorKind::WriteZero.into())),
            // A short write may end inside a block; go on from the last whole one.
            Ok(n) => written = (written + n as u64) / BLOCK_BYTES * BLOCK_BYTES,
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(failed(errno.into())),
        }
        progress(written);
    }
    file.sync_all().map_err(failed)
}
