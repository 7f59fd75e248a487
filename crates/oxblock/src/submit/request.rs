//! What a caller asks of a volume, and the answer.

use crate::device::Buf;
use crate::error::{Error, Result};

/// One request to a volume. Offsets and lengths are in bytes, of any alignment; `offset + length` must not exceed the
/// volume's size. The buffer belongs to the volume until the request's [`Completion`] hands it back.
#[derive(Debug)]
pub struct Request {
    /// Given back in the completion; the volume does not look at it.
    pub tag: u64,
    /// What to do.
    pub kind: RequestKind,
}

/// The kinds of [`Request`].
#[derive(Debug)]
pub enum RequestKind {
    /// Fill `buf` from `offset`. Every block is verified; blocks never written read as zeroes.
    Read {
        /// First byte.
        offset: u64,
        /// Filled in place.
        buf: Buf,
    },
    /// Write `buf` at `offset`. Up to 1 MiB is atomic: after a crash all of it is there or none.
    Write {
        /// First byte.
        offset: u64,
        /// What to write.
        buf: Buf,
        /// Durable when acknowledged (force unit access).
        fua: bool,
    },
    /// Make every write acknowledged before this request durable.
    Flush,
    /// Give up the whole blocks inside the range; they read as zeroes afterwards. Bytes of partly covered blocks stay.
    Discard {
        /// First byte.
        offset: u64,
        /// Bytes.
        len: u64,
    },
    /// Make the range read as zeroes, every byte of it.
    WriteZeroes {
        /// First byte.
        offset: u64,
        /// Bytes.
        len: u64,
        /// Durable when acknowledged.
        fua: bool,
    },
}

/// The end of a [`Request`].
#[derive(Debug)]
pub struct Completion {
    /// The request's tag.
    pub tag: u64,
    /// The request's buffer, for reads and writes. After a failed read, blocks that could not be verified are zeroed
    /// and listed in [`Error::blocks`]; all others hold good data.
    pub buf: Option<Buf>,
    /// How it went.
    pub result: Result<()>,
}

/// A failed blocking or asynchronous call: the error, and the buffer that was moved in.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct Failed {
    /// What went wrong.
    pub error: Error,
    /// The caller's buffer, under the rules of [`Completion::buf`].
    pub buf: Buf,
}

impl From<Failed> for Error {
    fn from(failed: Failed) -> Self {
        failed.error
    }
}

impl RequestKind {
    /// The first byte of a read; of no meaning for others.
    pub(crate) fn read_offset(&self) -> u64 {
        match self {
            Self::Read { offset, .. } => *offset,
            _ => 0,
        }
    }

    /// The buffer of a request that will not be made.
    pub(crate) fn into_buf(self) -> Option<Buf> {
        match self {
            Self::Read { buf, .. } | Self::Write { buf, .. } => Some(buf),
            Self::Flush | Self::Discard { .. } | Self::WriteZeroes { .. } => None,
        }
    }
}
