//! Keeps two users off one device.
//!
//! A writer holds the device alone, readers share it. The lock is a `flock` on an open file description of its own:
//! the kernel releases it when its last descriptor is closed, also on `kill -9`; a second open in the same process
//! conflicts like any other; and `/proc/locks` tells who holds it, which it does not for `fcntl` locks of open file
//! descriptions. The description is not the one used for I/O, because a ring holds on to its files for some time after
//! it was closed.
//!
//! Just that makes a second lock ([`wait_for_stragglers`]) useful, on the description that is used for I/O: after
//! `kill -9` it stays until the last write that was in flight is done. Whoever opens the device next waits for it, so
//! that no write of a dead process lands on top of a live one's. A writer of a block device also claims it by `O_EXCL`, which mounts and the kernel's own users heed.

#![expect(unsafe_code, reason = "one call that rustix does not wrap; argued there")]

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FlockOperation, Stat};
use rustix::io::Errno;

use crate::error::{Error, ErrorKind, Result};

/// How often a lock on a block device is tried again: udev takes one for a moment when a device changes.
const BLOCK_TRIES: u32 = 10;
/// How long the operations of a dead process may take to end.
const STRAGGLER_LIMIT: Duration = Duration::from_secs(10);
/// The time between two tries.
const BLOCK_PAUSE: Duration = Duration::from_millis(20);

/// A held lock on a file or a block device, which keeps others that take it off; dropping it releases it.
#[derive(Debug)]
pub struct Lock {
    #[expect(dead_code, reason = "held for its drop")]
    file: File,
}

impl Lock {
    /// Locks the open file description of `file`: alone for a writer, together with other readers otherwise. No ring may do
    /// I/O on that description, since it would hold on to the lock. `path` is for messages.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] naming the holder.
    pub fn take(file: File, path: &Path, writable: bool) -> Result<Self> {
        let operation = if writable {
            FlockOperation::NonBlockingLockExclusive
        } else {
            FlockOperation::NonBlockingLockShared
        };
        let stat = rustix::fs::fstat(&file).map_err(|errno| {
            Error::io(format!("{}: cannot be examined", path.display()), errno.into())
        })?;
        let block = rustix::fs::FileType::from_raw_mode(stat.st_mode).is_block_device();
        let mut tries = if block { BLOCK_TRIES } else { 0 };
        loop {
            match rustix::fs::flock(&file, operation) {
                Ok(()) => return Ok(Self { file }),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) if tries > 0 => {
                    tries -= 1;
                    std::thread::sleep(BLOCK_PAUSE);
                }
                Err(Errno::AGAIN) => return Err(busy(path, &stat)),
                Err(errno) => {
                    let message =
                        format!("{}: cannot be locked against use by others", path.display());
                    return Err(Error::io(message, errno.into()));
                }
            }
        }
    }
}

/// Locks the description that is used for I/O, for as long as any operation on it lives, once those of an earlier
/// process, which can no longer be stopped, have ended.
///
/// # Errors
/// [`ErrorKind::Busy`] when they do not end within [`STRAGGLER_LIMIT`].
pub(super) fn wait_for_stragglers(file: &File, path: &Path) -> Result<()> {
    let begin = std::time::Instant::now();
    loop {
        match lock_description(file) {
            Ok(()) => return Ok(()),
            Err(Errno::AGAIN | Errno::ACCESS) if begin.elapsed() < STRAGGLER_LIMIT => {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(Errno::AGAIN | Errno::ACCESS) => {
                let path = path.display();
                let message = format!(
                    "{path} still has writes in flight of a process that is gone; try again later"
                );
                return Err(Error::new(ErrorKind::Busy, message));
            }
            Err(Errno::INTR) => {}
            // A file system without such locks: there is nothing to wait by.
            Err(_) => return Ok(()),
        }
    }
}

/// Takes a lock on the whole file that belongs to the open file description (`F_OFD_SETLK`).
#[expect(
    clippy::cast_possible_truncation,
    reason = "the kernel's constants fit the kernel's fields"
)]
fn lock_description(file: &File) -> std::result::Result<(), Errno> {
    let lock = libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    };
    // SAFETY: the descriptor is open for the call, and the call only reads the structure.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) };
    if result == 0 {
        return Ok(());
    }
    Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO))
}

/// The error for a device that someone else uses.
pub(super) fn busy(path: &Path, stat: &Stat) -> Error {
    let path = path.display();
    let message = match std::fs::read_to_string("/proc/locks").ok().and_then(|l| holder(&l, stat)) {
        Some(pid) if pid == std::process::id() => {
            format!("{path} is in use by pid {pid}, which is this process")
        }
        Some(pid) => format!("{path} is in use by pid {pid}"),
        None if rustix::fs::FileType::from_raw_mode(stat.st_mode).is_block_device() => format!(
            "{path} is in use: it is mounted, part of another device, or open elsewhere (lsblk shows which)"
        ),
        None => format!("{path} is in use by another process"),
    };
    Error::new(ErrorKind::Busy, message)
}

/// The process that holds a `flock` on the file, from the text of `/proc/locks`:
/// `1: FLOCK  ADVISORY  WRITE 1234 fe:00:5678 0 EOF`.
fn holder(locks: &str, stat: &Stat) -> Option<u32> {
    let (major, minor) = (rustix::fs::major(stat.st_dev), rustix::fs::minor(stat.st_dev));
    let exact = format!("{major:02x}:{minor:02x}:{}", stat.st_ino);
    let inode = format!(":{}", stat.st_ino);
    let held: Vec<(u32, &str)> = locks
        .lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace().skip(1);
            if words.next() != Some("FLOCK") {
                // Another kind, or a waiter ("->").
                return None;
            }
            let pid = words.nth(2)?.parse().ok().filter(|pid| *pid > 0)?;
            Some((pid, words.next()?))
        })
        .collect();
    let found = held.iter().find(|(_, file)| *file == exact);
    // Some file systems (btrfs, overlayfs) show another device number there than `stat` does.
    found.or_else(|| held.iter().find(|(_, file)| file.ends_with(&inode))).map(|(pid, _)| *pid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_is_found_by_device_and_inode() {
        let file = tempfile::tempfile().unwrap();
        let mut stat = rustix::fs::fstat(&file).unwrap();
        stat.st_dev = rustix::fs::makedev(0xfe, 0);
        stat.st_ino = 77;
        let locks = "1: POSIX  ADVISORY  WRITE 5 fe:00:77 0 EOF\n\
                     2: FLOCK  ADVISORY  WRITE 6 fe:00:177 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 9 fe:00:77 0 EOF\n\
                     3: FLOCK  ADVISORY  READ 8 fe:00:77 0 EOF\n";
        assert_eq!(holder(locks, &stat), Some(8));
        stat.st_dev = rustix::fs::makedev(0, 31);
        assert_eq!(holder(locks, &stat), Some(8));
        stat.st_ino = 78;
        assert_eq!(holder(locks, &stat), None);
    }
}
