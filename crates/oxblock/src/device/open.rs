//! Opening devices: which files and block devices are taken, how they are locked, and what queue serves them.
//!
//! Rules: nothing is created or changed unless the options say so; every refusal names the path and what to do about
//! it; a step down (no direct I/O, no io_uring) is taken by itself and told in [`Opened::notices`], once per device.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::OFlags;

use super::inline::InlineQueue;
use super::lock::{Lock, busy, wait_for_stragglers};
use super::pace::Pace;
use super::prepare::{create, grow};
use super::share::ShareQueue;
use super::split::SplitQueue;
use super::target::{Target, Targets};
use super::threads::ThreadQueue;
use super::uring::{ENTRIES, UringQueue};
use super::{Buf, IoQueue, QueueLimits, limits};
use crate::error::{Error, ErrorKind, Result};
use crate::format::layout::BLOCK_SIZE;

/// How operations are to reach the devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DeviceCall {
    /// Measured per device: inline where it is memory-like, io_uring elsewhere, threads where io_uring is forbidden.
    #[default]
    Auto,
    /// io_uring for every device; opening fails where there is none.
    Ring,
    /// Plain system calls in the issuer's context, for every device.
    Inline,
    /// The pool of threads for every device.
    Threads,
}

/// Who drives the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sharing {
    /// Several threads, one at a time, as under a mutex.
    #[default]
    Shared,
    /// One thread, the one that submits first. Cheaper. The queue may move to another thread only while nothing is in
    /// flight; dropping it elsewhere with operations in flight leaks their buffers.
    Exclusive,
}

/// How to open devices. `Default` is read-only, locked, everything else by itself.
#[derive(Debug, Clone)]
pub struct DeviceOptions {
    /// For writing as well.
    pub writable: bool,
    /// Create a missing file, sparse, with this many bytes, or grow an empty one to it. Needs `writable`.
    pub create_size: Option<u64>,
    /// Keep others out: a writer has the device alone, readers share it. Without it nothing is locked.
    pub exclusive: bool,
    /// How operations reach the devices.
    pub call: DeviceCall,
    /// Who drives the queue.
    pub sharing: Sharing,
}

impl Default for DeviceOptions {
    fn default() -> Self {
        Self {
            writable: false,
            create_size: None,
            exclusive: true,
            call: DeviceCall::Auto,
            sharing: Sharing::Shared,
        }
    }
}

/// Open devices behind one queue.
pub struct Opened {
    /// The queue; the devices have the indices of their paths. Dropping it closes and unlocks them.
    pub queue: Box<dyn IoQueue + Send>,
    /// What the user should know, one sentence each.
    pub notices: Vec<String>,
    /// The files that were created.
    pub made: Vec<Made>,
}

/// A file that opening has created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Made {
    path: PathBuf,
    /// Device and inode.
    identity: (u64, u64),
}

impl Made {
    /// Removes the file, unless another has taken its place. Best done while it is still locked.
    pub fn remove(&self) {
        let same = std::fs::symlink_metadata(&self.path)
            .is_ok_and(|found| (found.dev(), found.ino()) == self.identity);
        if same {
            // An empty volume file that stays behind harms nobody.
            std::fs::remove_file(&self.path).ok();
        }
    }
}

impl std::fmt::Debug for Opened {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let queue = self.queue.describe();
        f.debug_struct("Opened").field("queue", &queue).field("notices", &self.notices).finish()
    }
}

/// Opens files and block devices behind one queue.
///
/// # Errors
/// [`ErrorKind::Busy`] when a device is in use, naming by whom; [`ErrorKind::NotFound`],
/// [`ErrorKind::PermissionDenied`], [`ErrorKind::ReadOnly`]; [`ErrorKind::InvalidInput`] for what is no file or block
/// device, and for a device named twice; [`ErrorKind::Unsupported`] for blocks larger than 4096 bytes, for zoned
/// devices, and where io_uring was asked for and is not to be had; [`ErrorKind::NoSpace`] when a file cannot be created
/// at its size. Files that were created are removed again.
pub fn open_devices(paths: &[PathBuf], options: &DeviceOptions) -> Result<Opened> {
    if paths.len() > usize::from(u16::MAX) {
        return Err(Error::new(ErrorKind::InvalidInput, "more than 65535 devices"));
    }
    let mut notices = Vec::new();
    let mut targets = Targets::default();
    let mut seen: Vec<((u64, u64), &Path)> = Vec::new();
    let mut made = Vec::new();
    let mut open_all = || {
        for path in paths {
            let (target, limits, identity) =
                open_one(path, options, &seen, &mut notices, &mut made)?;
            seen.push((identity, path));
            targets.list.push(Arc::new(target));
            targets.limits.push(limits);
        }
        // A copy, so that the locks outlive a failure here.
        choose(targets.clone(), options, UringQueue::new, &mut notices)
    };
    match open_all() {
        Ok(queue) => Ok(Opened { queue, notices, made }),
        Err(error) => {
            made.iter().for_each(Made::remove);
            Err(error)
        }
    }
}

/// Builds the ring queue; a parameter so that a test can forbid it.
type MakeRing = fn(Targets, u32, Sharing) -> io::Result<UringQueue>;

/// The queue that serves `targets` best.
fn choose(
    targets: Targets,
    options: &DeviceOptions,
    make_ring: MakeRing,
    notices: &mut Vec<String>,
) -> Result<Box<dyn IoQueue + Send>> {
    let threads = |targets| {
        ThreadQueue::new(targets, options.sharing)
            .map_err(|error| Error::io("no thread can be started for I/O", error))
    };
    match options.call {
        DeviceCall::Inline => return Ok(Box::new(InlineQueue::new(targets))),
        DeviceCall::Threads => return Ok(Box::new(threads(targets)?)),
        DeviceCall::Ring => {
            return match make_ring(targets, ENTRIES, options.sharing) {
                Ok(queue) => Ok(Box::new(queue)),
                Err(error) => {
                    let message = format!("io_uring is not available here: {error}");
                    Err(Error::new(ErrorKind::Unsupported, message))
                }
            };
        }
        DeviceCall::Auto => {}
    }
    let is_inline: Vec<bool> = targets.list.iter().map(|target| target.pace.inline).collect();
    if is_inline.iter().all(|inline| *inline) {
        let queue = ShareQueue::new(targets, options.sharing)
            .map_err(|error| Error::io("no event descriptor is to be had", error))?;
        return Ok(Box::new(queue));
    }
    let other: Box<dyn IoQueue + Send> = match make_ring(targets.clone(), ENTRIES, options.sharing)
    {
        Ok(queue) => Box::new(queue),
        Err(error) => {
            notices
                .push(format!("io_uring is not available here ({error}); using a pool of threads"));
            Box::new(threads(targets.clone())?)
        }
    };
    if is_inline.contains(&true) {
        return Ok(Box::new(SplitQueue::new(targets, other, is_inline)));
    }
    Ok(other)
}

fn open_one(
    path: &Path,
    options: &DeviceOptions,
    seen: &[((u64, u64), &Path)],
    notices: &mut Vec<String>,
    made: &mut Vec<Made>,
) -> Result<(Target, QueueLimits, (u64, u64))> {
    let mut is_new = false;
    let block = match std::fs::metadata(path) {
        Ok(metadata) => is_block(path, &metadata)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => match options.create_size {
            Some(bytes) if options.writable => {
                create(path, bytes)?;
                is_new = true;
                false
            }
            _ => return Err(refused(path, error, options.writable)),
        },
        Err(error) => return Err(refused(path, error, options.writable)),
    };
    let writable = options.writable;
    // The claim of a block device belongs to the description with the lock, see there.
    let claim = if block && writable { OFlags::EXCL } else { OFlags::empty() };
    let claim = if options.exclusive { claim } else { OFlags::empty() };
    let holder = open(path, writable, claim).map_err(|error| claim_error(path, error, writable))?;
    let metadata = holder.metadata().map_err(|error| refused(path, error, writable))?;
    // Once more: the path may have changed its meaning since.
    let block = block && is_block(path, &metadata)?;
    if block && writable && limits::is_write_protected(&holder) {
        let error = io::Error::from(io::ErrorKind::ReadOnlyFilesystem);
        return Err(refused(path, error, writable));
    }
    let identity =
        if block { (u64::MAX, metadata.rdev()) } else { (metadata.dev(), metadata.ino()) };
    if let Some((_, first)) = seen.iter().find(|(other, _)| *other == identity) {
        let (path, first) = (path.display(), first.display());
        let message = format!("{path} is the same device as {first}; name each device once");
        return Err(Error::new(ErrorKind::InvalidInput, message));
    }
    let lock = options.exclusive.then(|| Lock::take(holder, path, writable)).transpose()?;
    // Only now: had another got hold of it first, it would be theirs.
    if is_new {
        made.push(Made { path: path.to_owned(), identity });
    }
    if let Some(bytes) = options.create_size.filter(|_| writable && !block && metadata.len() == 0) {
        grow(path, bytes)?;
    }

    let (file, direct) = open_for_io(path, writable, notices)?;
    let again = file.metadata().map_err(|error| refused(path, error, writable))?;
    if (again.dev(), again.ino()) != (metadata.dev(), metadata.ino()) {
        let message =
            format!("{} was replaced while it was being opened; try again", path.display());
        return Err(Error::new(ErrorKind::Busy, message));
    }
    if writable && lock.is_some() {
        wait_for_stragglers(&file, path)?;
    }
    let limits = if block {
        limits::of_block_device(&file, path, direct)?
    } else {
        limits::of_file(&file, path, direct)?
    };
    let file = std::os::fd::OwnedFd::from(file);
    let pace = Pace::measure(std::os::fd::AsFd::as_fd(&file), limits.size, block, direct);
    let target = Target { file, path: path.to_owned(), block, size: limits.size, pace, lock };
    Ok((target, limits, identity))
}

/// Whether it is a block device; refuses what is neither that nor a regular file.
pub(super) fn is_block(path: &Path, metadata: &std::fs::Metadata) -> Result<bool> {
    let kind = metadata.file_type();
    let what = if kind.is_file() {
        return Ok(false);
    } else if kind.is_block_device() {
        return Ok(true);
    } else if kind.is_dir() {
        "a directory"
    } else if kind.is_char_device() {
        "a character device"
    } else if kind.is_fifo() {
        "a named pipe"
    } else {
        "a socket"
    };
    let message = format!("{} is {what}; a file or a block device is needed", path.display());
    Err(Error::new(ErrorKind::InvalidInput, message))
}

pub(super) fn open(path: &Path, writable: bool, flags: OFlags) -> io::Result<File> {
    let flags = flags.bits().cast_signed();
    OpenOptions::new().read(true).write(writable).custom_flags(flags).open(path)
}

/// Opens for I/O, direct where the device takes it, and says whether it does.
fn open_for_io(path: &Path, writable: bool, notices: &mut Vec<String>) -> Result<(File, bool)> {
    let reason = match open(path, writable, OFlags::DIRECT) {
        // Some file systems take the flag and refuse the I/O.
        Ok(file) => match rustix::io::pread(&file, &mut *Buf::new(BLOCK_SIZE), 0) {
            Err(errno @ rustix::io::Errno::INVAL) => io::Error::from(errno),
            // Other errors are the device's business and come back when it is used.
            _ => return Ok((file, true)),
        },
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => error,
        Err(error) => return Err(refused(path, error, writable)),
    };
    let file =
        open(path, writable, OFlags::empty()).map_err(|error| refused(path, error, writable))?;
    notices.push(format!(
        "{} does not take direct I/O ({reason}); using buffered I/O with fdatasync",
        path.display()
    ));
    Ok((file, false))
}

/// The error of an open that may have failed because someone else has claimed the device.
fn claim_error(path: &Path, error: io::Error, writable: bool) -> Error {
    match (error.kind(), rustix::fs::stat(path)) {
        (io::ErrorKind::ResourceBusy, Ok(stat)) => busy(path, &stat),
        _ => refused(path, error, writable),
    }
}

/// A failed open, with what to do about it.
pub(super) fn refused(path: &Path, error: io::Error, writable: bool) -> Error {
    let path = path.display();
    let purpose = if writable { "reading and writing" } else { "reading" };
    let message = match error.kind() {
        io::ErrorKind::NotFound => {
            format!("{path} does not exist; check the path, or create it first")
        }
        io::ErrorKind::PermissionDenied => format!(
            "{path} cannot be opened for {purpose}; check its owner and mode, and that it is not write-protected"
        ),
        io::ErrorKind::ReadOnlyFilesystem => {
            format!(
                "{path} is read-only, by its device or its file system; open it for reading only"
            )
        }
        io::ErrorKind::ResourceBusy => format!("{path} is in use"),
        _ => format!("{path} cannot be opened for {purpose}"),
    };
    Error::io(message, error)
}

#[cfg(test)]
mod tests;
