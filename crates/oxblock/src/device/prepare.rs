//! Preparing files before they are devices: creating them sparse, and filling them with zeroes.
//!
//! Rules: nothing with content is ever resized, and only [`preallocate`] destroys, through a queue that is open and so
//! holds the device's lock.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

use super::{Action, Buf, Done, IoQueue, Op};
use crate::error::{Error, Result};

/// Makes a new sparse file of `bytes` bytes, durable with its name; leaves nothing behind when that fails.
pub(super) fn create(path: &Path, bytes: u64) -> Result<()> {
    let failed = |error| Error::io(format!("{} cannot be created", path.display()), error);
    // What a volume holds is nobody else's business.
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(failed)?;
    let result = grow(path, bytes).and_then(|()| sync_folder(path).map_err(failed));
    if result.is_err() {
        // The first error is the one to tell; an empty file left behind harms nobody.
        std::fs::remove_file(path).ok();
    }
    result
}

/// Makes the name of `path` durable: that it was created, or renamed to. Its content is the caller's business.
///
/// # Errors
/// What the system says of the folder that the name is in.
pub fn sync_folder(path: &Path) -> io::Result<()> {
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    File::open(parent)?.sync_all()
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

/// Writes zeroes over all of device 0 of `queue`, which is open at `path`, **destroying what is there**, so that later
/// writes are pure overwrites of initialised blocks; durable afterwards. The queue holds the device's lock all the while.
/// `progress` is told the bytes written so far and the bytes in all.
///
/// # Errors
/// [`ErrorKind::NoSpace`](crate::error::ErrorKind::NoSpace) when the file system has no room, before anything is written
/// where it can tell; what the device says of the writes.
pub fn preallocate(
    path: &Path,
    queue: &mut dyn IoQueue,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<()> {
    let bytes = queue.limits().first().map_or(0, |limits| limits.size);
    reserve(path, bytes).and_then(|()| fill(queue, bytes, progress)).map_err(|error| {
        Error::io(format!("{} cannot be filled with zeroes", path.display()), error)
    })
}

/// Reserves the space of a file. A file system that cannot shows by the writes whether it has it.
fn reserve(path: &Path, bytes: u64) -> io::Result<()> {
    if !std::fs::metadata(path)?.is_file() {
        return Ok(());
    }
    // A description of its own, which nobody does I/O on: the queue keeps its to itself.
    let file = OpenOptions::new().write(true).open(path)?;
    match fallocate(&file, FallocateFlags::KEEP_SIZE, 0, bytes.max(1)) {
        Err(errno @ (Errno::NOSPC | Errno::FBIG)) => Err(errno.into()),
        _ => Ok(()),
    }
}

/// Writes `bytes` zero bytes, several pieces at a time, and flushes.
fn fill(queue: &mut dyn IoQueue, bytes: u64, progress: &mut dyn FnMut(u64, u64)) -> io::Result<()> {
    const PIECE: usize = 1 << 20;
    const DEPTH: usize = 8;
    let mut free: Vec<Buf> = (0..DEPTH).map(|_| Buf::new(PIECE)).collect();
    let mut done = Vec::new();
    let (mut next, mut written) = (0, 0);
    let mut result = Ok(());
    loop {
        while result.is_ok() && next < bytes {
            let Some(mut buf) = free.pop() else { break };
            // Only the last piece is shorter, so that a buffer that was cut is not needed again.
            buf.truncate(usize::try_from(bytes - next).map_or(PIECE, |rest| rest.min(PIECE)));
            let (offset, len) = (next, buf.len() as u64);
            let action = Action::Write { bufs: smallvec::smallvec![buf], durable: false };
            queue.push(Op { tag: offset, device: 0, offset, action });
            next += len;
        }
        if queue.in_flight() == 0 {
            break;
        }
        run(queue, &mut done);
        for done in done.drain(..) {
            written += done.bufs.iter().map(|buf| buf.len() as u64).sum::<u64>();
            free.extend(done.bufs);
            // The first error is the one to tell, once nothing is in flight any more.
            result = result.and(done.result);
        }
        progress(written, bytes);
    }
    result?;
    queue.push(Op { tag: 0, device: 0, offset: 0, action: Action::Flush });
    while done.is_empty() {
        run(queue, &mut done);
    }
    done.drain(..).try_for_each(|done| done.result)
}

/// Starts what was pushed and waits for something to be done.
fn run(queue: &mut dyn IoQueue, done: &mut Vec<Done>) {
    queue.submit();
    if queue.reap(done) == 0 {
        queue.wait(None);
        queue.reap(done);
    }
}
