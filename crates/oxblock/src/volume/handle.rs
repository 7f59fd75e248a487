//! The blocking handle.

use std::path::PathBuf;
use std::sync::Arc;

use crate::device::Buf;
use crate::error::Result;
use crate::stats::Counters;
use crate::submit::request::{Completion, Failed, RequestKind};
use crate::volume::core::Core;
use crate::volume::open::OpenOptions;
use crate::volume::poll::Volume;
use crate::volume::tasks::AsyncHandle;

/// A volume shared between threads: blocking calls, each run in its caller's own context.
///
/// Buffers move in and come back, with the result or with the error ([`Failed`]). Clones share the volume.
///
/// ```no_run
/// use oxblock::{Buf, OpenOptions, volume::Handle};
///
/// # fn main() -> oxblock::Result<()> {
/// let volume = Handle::open(&["disk.ox".into()], &OpenOptions::default())?;
/// let buf = volume.write_at(8192, Buf::copy_of(b"hello"))?;
/// volume.flush()?;
/// let buf = volume.read_at(8192, buf)?;
/// assert_eq!(&*buf, b"hello");
/// volume.close()
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Handle {
    pub(super) core: Arc<Core>,
}

impl Handle {
    /// Opens the volume on `devices` for sharing, whatever `options.shared` says.
    ///
    /// # Errors
    /// As [`Volume::open`].
    pub fn open(devices: &[PathBuf], options: &OpenOptions) -> Result<Self> {
        let options = OpenOptions { shared: true, ..options.clone() };
        Ok(Self { core: Arc::new(Core::new(Volume::open(devices, &options)?)) })
    }

    /// The same volume for tasks.
    pub fn tasks(&self) -> AsyncHandle {
        AsyncHandle { core: Arc::clone(&self.core) }
    }

    /// Bytes, a multiple of 4096.
    pub fn size(&self) -> u64 {
        self.core.size
    }

    /// Fills `buf` from byte `offset`. Every block is verified; blocks never written read as zeroes.
    ///
    /// # Errors
    /// [`Checksum`](crate::ErrorKind::Checksum) when blocks cannot be verified: they are listed in [`Error::blocks`](crate::Error::blocks) and zeroed in the
    /// buffer, which holds good data everywhere else; [`OutOfRange`](crate::ErrorKind::OutOfRange); [`Closed`](crate::ErrorKind::Closed).
    pub fn read_at(&self, offset: u64, buf: impl Into<Buf>) -> Result<Buf, Failed> {
        buffer(self.core.call(RequestKind::Read { offset, buf: buf.into() }))
    }

    /// Writes `buf` at byte `offset`; up to 1 MiB is atomic. Durable after the next [`flush`](Self::flush).
    ///
    /// # Errors
    /// [`ReadOnly`](crate::ErrorKind::ReadOnly), [`Latched`](crate::ErrorKind::Latched) or the device's error; [`OutOfRange`](crate::ErrorKind::OutOfRange);
    /// [`Closed`](crate::ErrorKind::Closed).
    pub fn write_at(&self, offset: u64, buf: impl Into<Buf>) -> Result<Buf, Failed> {
        buffer(self.core.call(RequestKind::Write { offset, buf: buf.into(), fua: false }))
    }

    /// Writes `buf` at byte `offset`, durable when it returns (force unit access).
    ///
    /// # Errors
    /// As [`write_at`](Self::write_at).
    pub fn write_durable_at(&self, offset: u64, buf: impl Into<Buf>) -> Result<Buf, Failed> {
        buffer(self.core.call(RequestKind::Write { offset, buf: buf.into(), fua: true }))
    }

    /// Makes every write that has returned durable.
    ///
    /// # Errors
    /// The device's error; the volume takes no more writes then.
    pub fn flush(&self) -> Result<()> {
        self.core.call(RequestKind::Flush).result
    }

    /// Gives up the whole blocks in `len` bytes from `offset`; they read as zeroes.
    ///
    /// # Errors
    /// As [`write_at`](Self::write_at).
    pub fn discard(&self, offset: u64, len: u64) -> Result<()> {
        self.core.call(RequestKind::Discard { offset, len }).result
    }

    /// Makes `len` bytes from `offset` read as zeroes.
    ///
    /// # Errors
    /// As [`write_at`](Self::write_at).
    pub fn write_zeroes(&self, offset: u64, len: u64) -> Result<()> {
        self.core.call(RequestKind::WriteZeroes { offset, len, fua: false }).result
    }

    /// What the volume has done since it was opened.
    ///
    /// # Errors
    /// [`Closed`](crate::ErrorKind::Closed).
    pub fn counters(&self) -> Result<Counters> {
        self.core.with(|volume| volume.counters())
    }

    /// Finishes the calls under way, makes everything durable, and closes the volume for all clones.
    ///
    /// # Errors
    /// What kept it from becoming durable; [`Closed`](crate::ErrorKind::Closed) when it was closed before.
    pub fn close(&self) -> Result<()> {
        self.core.close()
    }
}

/// The buffer of a completed read or write.
pub(super) fn buffer(completion: Completion) -> Result<Buf, Failed> {
    let Some(buf) = completion.buf else {
        unreachable!("a read or write completes with its buffer")
    };
    match completion.result {
        Ok(()) => Ok(buf),
        Err(error) => Err(Failed { error, buf }),
    }
}
