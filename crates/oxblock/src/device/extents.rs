//! Where a sparse file has data.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use rustix::fs::{OFlags, SeekFrom};
use rustix::io::Errno;

use super::open::{is_block, open, refused};
use crate::error::Result;

/// The first stretch of data of `file` at or after `from`, cut at `size`; `None` when there is none.
///
/// # Errors
/// When the file system does not tell, which is no sign of a hole.
pub(super) fn next_data(
    file: BorrowedFd<'_>,
    from: u64,
    size: u64,
) -> io::Result<Option<Range<u64>>> {
    let start = match rustix::fs::seek(file, SeekFrom::Data(from)) {
        Ok(start) => start,
        Err(Errno::NXIO) => return Ok(None),
        Err(errno) => return Err(errno.into()),
    };
    let end = rustix::fs::seek(file, SeekFrom::Hole(start)).unwrap_or(size).min(size);
    Ok((start < end).then_some(start..end))
}

/// The data of a regular file, for those who look at it through a queue.
#[derive(Debug)]
pub(crate) struct Extents {
    file: File,
    size: u64,
}

impl Extents {
    /// Those of the file at `path`, up to `size`; `None` for a block device, where everything is data.
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub(crate) fn of(path: &Path, size: u64) -> Result<Option<Self>> {
        let failed = |error| refused(path, error, false);
        // Not blocking: should the path have become a pipe meanwhile, it is refused below.
        let file = open(path, false, OFlags::NONBLOCK).map_err(failed)?;
        let block = is_block(path, &file.metadata().map_err(failed)?)?;
        Ok((!block).then_some(Self { file, size }))
    }

    /// The first stretch of data at or after `from`. Where the file system does not tell, all is data.
    pub(crate) fn next(&self, from: u64) -> Option<Range<u64>> {
        next_data(self.file.as_fd(), from, self.size)
            .unwrap_or_else(|_| (from < self.size).then_some(from..self.size))
    }
}
