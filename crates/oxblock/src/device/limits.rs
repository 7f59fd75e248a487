//! Queue limits, asked from the system.
//!
//! A block device answers through sysfs and two ioctls. For a file the file system says how direct I/O must be aligned
//! (`statx`, since Linux 6.1), and the block device under it, where there is one, what is dear there. What nobody
//! answers gets the careful value: 4096 for an alignment, "volatile" for a cache.
#![expect(unsafe_code, reason = "two ioctls have no safe wrapper; argued there")]

use std::fs::File;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, StatxFlags, major, minor};

use super::pace::in_memory;
use super::{Fua, QueueLimits};
use crate::error::{Error, ErrorKind, Result};
use crate::format::layout::BLOCK_BYTES;

/// The alignment that everything here keeps anyway; the careful answer to questions left open.
const BLOCK: u32 = 4096;

/// The largest operation worth sending where the device names no limit, in bytes: beyond it nothing gains.
const BIO_MAX: u32 = 1 << 20;

/// The attributes of a block device's queue.
#[derive(Debug)]
struct Queue(PathBuf);

impl Queue {
    /// The queue of device number `dev`, that of the whole device for a partition.
    fn of(dev: u64) -> Option<Self> {
        let base = Path::new("/sys/dev/block").join(format!("{}:{}", major(dev), minor(dev)));
        // Resolved first: in sysfs `..` of a link would be the folder of links.
        let base = base.canonicalize().ok()?;
        [base.join("queue"), base.join("../queue")].into_iter().find(|path| path.is_dir()).map(Self)
    }

    fn text(&self, name: &str) -> Option<String> {
        let text = std::fs::read_to_string(self.0.join(name)).ok()?;
        Some(text.trim().to_owned())
    }

    fn number(&self, name: &str) -> Option<u32> {
        // Saturated: some devices name absurdly large values.
        let number: u64 = self.text(name)?.parse().ok()?;
        Some(u32::try_from(number).unwrap_or(u32::MAX))
    }

    fn bio_max_bytes(&self) -> u32 {
        match self.number("max_sectors_kb") {
            Some(kib) if kib > 0 => kib.saturating_mul(1024).max(BLOCK) & !(BLOCK - 1),
            _ => BIO_MAX,
        }
    }

    fn flag(&self, name: &str) -> bool {
        self.number(name).is_some_and(|number| number != 0)
    }

    fn fua(&self) -> Fua {
        if self.flag("fua") { Fua::Native } else { Fua::Emulated }
    }
}

/// The limits of an open block device.
///
/// # Errors
/// When the device does not tell its size, or its blocks are larger than 4096 bytes.
pub(super) fn of_block_device(file: &File, path: &Path, direct: bool) -> Result<QueueLimits> {
    const BLKGETSIZE64: rustix::ioctl::Opcode = rustix::ioctl::opcode::read::<usize>(0x12, 114);
    let failed = |errno: rustix::io::Errno| {
        Error::io(format!("{}: the device does not tell its size", path.display()), errno.into())
    };
    // SAFETY: BLKGETSIZE64 (linux/fs.h) writes one u64, despite the `size_t` in its number.
    let bytes: u64 = unsafe {
        let getter = rustix::ioctl::Getter::<BLKGETSIZE64, u64>::new();
        rustix::ioctl::ioctl(file, getter)
    }
    .map_err(failed)?;
    let sector = rustix::fs::ioctl_blksszget(file).map_err(failed)?;
    let stat = rustix::fs::fstat(file).map_err(failed)?;
    let queue = Queue::of(stat.st_rdev);
    let queue = queue.as_ref();
    let write_cache = queue
        .and_then(|queue| queue.text("write_cache"))
        .is_none_or(|text| text != "write through");
    let limits = QueueLimits {
        size: whole_blocks(bytes),
        block_size: sector,
        // sysfs shows a mask.
        dma_alignment: queue
            .and_then(|queue| queue.number("dma_alignment"))
            .map_or(sector, |mask| mask.saturating_add(1)),
        io_opt: queue.and_then(|queue| queue.number("optimal_io_size")).unwrap_or(0),
        bio_max_bytes: queue.map_or(BIO_MAX, Queue::bio_max_bytes),
        // Buffered writes are volatile whatever the device does.
        write_cache: write_cache || !direct,
        fua: match (write_cache, direct) {
            (_, false) => Fua::Emulated,
            (false, true) => Fua::NotNeeded,
            (true, true) => queue.map_or(Fua::Emulated, Queue::fua),
        },
        discard: queue
            .is_some_and(|queue| queue.text("discard_max_bytes").is_some_and(|t| t != "0")),
        zoned: queue.and_then(|queue| queue.text("zoned")).is_some_and(|text| text != "none"),
        rotational: queue.is_some_and(|queue| queue.flag("rotational")),
        direct,
    };
    checked(limits, path)
}

/// The block device is write-protected; opening one for writing succeeds nevertheless, and only the writes fail.
pub(super) fn is_write_protected(file: &File) -> bool {
    const BLKROGET: rustix::ioctl::Opcode = rustix::ioctl::opcode::none(0x12, 94);
    // SAFETY: BLKROGET (linux/fs.h) writes one C int.
    let answer = unsafe {
        let getter = rustix::ioctl::Getter::<BLKROGET, std::ffi::c_int>::new();
        rustix::ioctl::ioctl(file, getter)
    };
    // Who does not answer is found out by the first write.
    answer.is_ok_and(|flag| flag != 0)
}

/// The limits of an open regular file.
///
/// # Errors
/// When the file cannot be examined, or its file system wants direct I/O in units larger than 4096 bytes.
pub(super) fn of_file(file: &File, path: &Path, direct: bool) -> Result<QueueLimits> {
    let failed = |errno: rustix::io::Errno| {
        Error::io(format!("{}: cannot be examined", path.display()), errno.into())
    };
    let stat = rustix::fs::fstat(file).map_err(failed)?;
    let queue = Queue::of(stat.st_dev);
    let queue = queue.as_ref();
    let memory = in_memory(file.as_fd());
    let (dma_alignment, block_size) = if direct { alignment(file) } else { (1, 512) };
    let limits = QueueLimits {
        size: whole_blocks(u64::try_from(stat.st_size).unwrap_or(0)),
        block_size,
        dma_alignment,
        io_opt: queue.and_then(|queue| queue.number("optimal_io_size")).unwrap_or(0),
        bio_max_bytes: queue.map_or(BIO_MAX, Queue::bio_max_bytes),
        // A file's allocation is volatile until a flush, even where the disk's cache is not. Memory has no cache, and
        // its file systems' flush does nothing.
        write_cache: !memory,
        fua: match (memory, direct) {
            (true, _) => Fua::NotNeeded,
            (false, true) => queue.map_or(Fua::Emulated, Queue::fua),
            (false, false) => Fua::Emulated,
        },
        // A hole can be punched on nearly every file system; where not, the discard counts as done.
        discard: true,
        zoned: false,
        rotational: queue.is_some_and(|queue| queue.flag("rotational")),
        direct,
    };
    checked(limits, path)
}

/// What direct I/O on a file must be aligned to, as (memory, offset and length).
fn alignment(file: &File) -> (u32, u32) {
    match rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN) {
        Ok(statx)
            if statx.stx_mask & StatxFlags::DIOALIGN.bits() != 0
                && statx.stx_dio_offset_align != 0 =>
        {
            (statx.stx_dio_mem_align.max(1), statx.stx_dio_offset_align)
        }
        _ => (BLOCK, BLOCK),
    }
}

fn whole_blocks(bytes: u64) -> u64 {
    bytes / BLOCK_BYTES * BLOCK_BYTES
}

fn checked(limits: QueueLimits, path: &Path) -> Result<QueueLimits> {
    if limits.zoned {
        return Err(Error::new(
            ErrorKind::Unsupported,
            format!(
                "{} is a zoned device, whose zones must be written in order; use a device without zones, or a file on a \
                 file system for zoned devices",
                path.display()
            ),
        ));
    }
    if limits.block_size > BLOCK || limits.dma_alignment > BLOCK {
        return Err(Error::new(
            ErrorKind::Unsupported,
            format!(
                "{} takes I/O only in units of {} bytes (memory aligned to {}); at most 4096 is supported",
                path.display(),
                limits.block_size,
                limits.dma_alignment
            ),
        ));
    }
    Ok(limits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_whole_blocks_and_a_volatile_cache() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(10_000).unwrap();
        let limits = of_file(&file, Path::new("x"), false).unwrap();
        assert_eq!(limits.size, 8192);
        assert!(limits.block_size <= 4096 && limits.bio_max_bytes >= 4096);
        assert_eq!(limits.write_cache, limits.fua != Fua::NotNeeded);
    }

    #[test]
    fn larger_units_than_a_block_are_refused() {
        let file = tempfile::tempfile().unwrap();
        let mut limits = of_file(&file, Path::new("x"), false).unwrap();
        limits.block_size = 8192;
        assert_eq!(checked(limits, Path::new("x")).unwrap_err().kind(), ErrorKind::Unsupported);
    }

    #[test]
    fn zoned_devices_are_refused() {
        let file = tempfile::tempfile().unwrap();
        let mut limits = of_file(&file, Path::new("x"), false).unwrap();
        limits.zoned = true;
        let error = checked(limits, Path::new("x")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().starts_with("x is a zoned device"), "{error}");
    }
}
