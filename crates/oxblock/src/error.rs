//! One error type for the whole library: a small stable kind to match on, a sentence that says what, where and what to
//! do next, and the cause underneath.
//!
//! Front-ends translate with [`Error::errno`] and nothing else, so that a given fault is the same number everywhere.

use std::fmt;
use std::sync::Arc;

/// The result of every fallible call in this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, coarsely. New kinds may be added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// An argument makes no sense (`EINVAL`).
    InvalidInput,
    /// The request reaches beyond the end of the volume (`EINVAL`; `ENOSPC` for writes is the front-end's choice).
    OutOfRange,
    /// The device holds no oxblock volume (`EINVAL`).
    NotAVolume,
    /// The device holds something else that must not be overwritten unasked (`EEXIST`).
    Foreign,
    /// Another process has the device open (`EBUSY`).
    Busy,
    /// The format asks for a feature that this version does not know (`ENOTSUP`).
    Unsupported,
    /// A structure on the media contradicts itself or another (`EUCLEAN`).
    Corrupt,
    /// A block does not match the checksum in its parent (`EIO`).
    Checksum,
    /// The device failed an operation (the device's own errno).
    Io,
    /// There is no room (`ENOSPC`).
    NoSpace,
    /// The volume or the device is read-only (`EROFS`).
    ReadOnly,
    /// The system refused access (`EACCES`).
    PermissionDenied,
    /// The file does not exist (`ENOENT`).
    NotFound,
    /// A write or a flush failed earlier, so durability can no longer be promised (`EIO`). Requests that were under way
    /// then fail with the cause itself.
    Latched,
    /// The volume is being closed (`ESHUTDOWN`).
    Closed,
}

/// A block that could not be read back as it was written.
///
/// When the map node that holds its pointer cannot be had, nobody knows where the block is: then place and checksum are
/// those of the node, and the kind of the error is not [`Checksum`](ErrorKind::Checksum) but what happened to the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadBlock {
    /// The logical block (4096-byte units from the start of the volume).
    pub block: u64,
    /// The device that was read, by its index in the volume.
    pub device: u16,
    /// Where on that device, in bytes.
    pub offset: u64,
    /// The checksum that the parent holds.
    pub expected: u128,
    /// The checksum of what was read, or `None` when the device failed the read or the block was not looked for.
    pub got: Option<u128>,
}

impl fmt::Display for BadBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "block {} at device {} offset {}: ", self.block, self.device, self.offset)?;
        match self.got {
            Some(got) => write!(f, "expected checksum {:x}, got {got:x}", self.expected),
            None => write!(f, "read error"),
        }
    }
}

/// An error: kind, sentence, cause.
#[derive(Debug, Clone)]
pub struct Error(Box<Inner>);

#[derive(Debug, Clone)]
struct Inner {
    kind: ErrorKind,
    message: String,
    bad: Vec<BadBlock>,
    source: Option<Arc<std::io::Error>>,
}

impl Error {
    /// An error of `kind` with a sentence for the user.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner { kind, message: message.into(), bad: Vec::new(), source: None }))
    }

    /// An error caused by the operating system; the kind follows from its errno.
    pub fn io(message: impl Into<String>, source: std::io::Error) -> Self {
        use std::io::ErrorKind as K;
        let kind = match source.kind() {
            K::NotFound => ErrorKind::NotFound,
            K::PermissionDenied => ErrorKind::PermissionDenied,
            K::ReadOnlyFilesystem => ErrorKind::ReadOnly,
            K::StorageFull | K::QuotaExceeded | K::FileTooLarge => ErrorKind::NoSpace,
            K::ResourceBusy => ErrorKind::Busy,
            K::InvalidInput => ErrorKind::InvalidInput,
            K::Unsupported => ErrorKind::Unsupported,
            _ => ErrorKind::Io,
        };
        let mut error = Self::new(kind, message);
        error.0.source = Some(Arc::new(source));
        error
    }

    /// A read of which exactly `bad` could not be verified.
    pub fn bad_blocks(bad: Vec<BadBlock>) -> Self {
        let shown: Vec<String> = bad.iter().take(3).map(ToString::to_string).collect();
        let more = bad.len().saturating_sub(3);
        let tail = if more > 0 { format!("; and {more} more") } else { String::new() };
        let mut error = Self::new(ErrorKind::Checksum, format!("{}{tail}", shown.join("; ")));
        error.0.bad = bad;
        error
    }

    /// The same error with the blocks that the read could not give.
    pub(crate) fn listing(mut self, bad: Vec<BadBlock>) -> Self {
        self.0.bad = bad;
        self
    }

    /// The kind, to match on.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The blocks that a failed read could not give, all of them; empty for every other error.
    pub fn blocks(&self) -> &[BadBlock] {
        &self.0.bad
    }

    /// The same error with `context` before its sentence.
    #[must_use]
    pub fn context(mut self, context: impl fmt::Display) -> Self {
        self.0.message = format!("{context}: {}", self.0.message);
        self
    }

    /// The errno that stands for this error; the one mapping that every front-end uses.
    pub fn errno(&self) -> i32 {
        use rustix::io::Errno;
        if let Some(code) = self.0.source.as_ref().and_then(|source| source.raw_os_error()) {
            return code;
        }
        let errno = match self.0.kind {
            ErrorKind::InvalidInput | ErrorKind::OutOfRange | ErrorKind::NotAVolume => Errno::INVAL,
            ErrorKind::Foreign => Errno::EXIST,
            ErrorKind::Busy => Errno::BUSY,
            ErrorKind::Unsupported => Errno::NOTSUP,
            ErrorKind::Corrupt => Errno::UCLEAN,
            ErrorKind::Checksum | ErrorKind::Io | ErrorKind::Latched => Errno::IO,
            ErrorKind::NoSpace => Errno::NOSPC,
            ErrorKind::ReadOnly => Errno::ROFS,
            ErrorKind::PermissionDenied => Errno::ACCESS,
            ErrorKind::NotFound => Errno::NOENT,
            ErrorKind::Closed => Errno::SHUTDOWN,
        };
        errno.raw_os_error()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        match &self.0.source {
            Some(source) => write!(f, ": {source}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        // The cause is already in the sentence; its own causes follow.
        self.0.source.as_ref().and_then(|source| std::error::Error::source(source.as_ref()))
    }
}
