//! Replies: from what is found to bytes.

use rustix::io::Errno;
use smallvec::SmallVec;
use zerocopy::{Immutable, IntoBytes};

use super::wire::{
    AttrOut, AttrWire, DirentHead, EntryOut, InitOut, LseekOut, OpenOut, OutHeader, StatfsOut,
    WriteOut,
};

/// How long the kernel may keep attributes and names, in seconds. Nobody else changes them, and it knows what it changes.
const VALID: u64 = 3600;

/// What is opened is for direct I/O (`FOPEN_DIRECT_IO`), writes may overlap (`FOPEN_PARALLEL_DIRECT_WRITES`), and nothing is
/// done when it is closed (`FOPEN_NOFLUSH`).
const OPEN_FLAGS: u32 = 1 << 0 | 1 << 6 | 1 << 5;

/// The error that the kernel makes of one that it does not know: numbers from 512 on are its own.
const ERRNO_LIMIT: i32 = 512;

/// A reply. What a read returns is not in it, but follows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// Those of reads and writes need no allocation.
    bytes: SmallVec<[u8; 32]>,
}

/// What a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileType {
    /// A file (`S_IFREG`).
    Regular,
    /// A folder (`S_IFDIR`).
    Folder,
}

impl FileType {
    /// Its bits in a mode.
    pub fn bits(self) -> u32 {
        match self {
            Self::Regular => 0o100_000,
            Self::Folder => 0o40_000,
        }
    }
}

/// Attributes of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attr {
    /// Its number.
    pub node: u64,
    /// What it is.
    pub kind: FileType,
    /// Permission bits.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Bytes.
    pub size: u64,
    /// Bytes that are in use.
    pub used: u64,
    /// When it was last changed, in seconds and nanoseconds since 1970.
    pub changed: (u64, u32),
}

impl Attr {
    fn wire(&self) -> AttrWire {
        let (seconds, nanos) = self.changed;
        AttrWire {
            ino: self.node,
            size: self.size,
            blocks: self.used / 512,
            atime: seconds,
            mtime: seconds,
            ctime: seconds,
            atimensec: nanos,
            mtimensec: nanos,
            ctimensec: nanos,
            mode: self.kind.bits() | self.mode & 0o7777,
            nlink: if self.kind == FileType::Folder { 2 } else { 1 },
            uid: self.uid,
            gid: self.gid,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }
}

impl Reply {
    /// A reply with nothing in it: done.
    pub fn done(unique: u64) -> Self {
        Self::of(unique, &[])
    }

    /// An error.
    pub fn error(unique: u64, errno: Errno) -> Self {
        let code = errno.raw_os_error();
        let code = if (1..ERRNO_LIMIT).contains(&code) { code } else { Errno::IO.raw_os_error() };
        Self::headed(OutHeader { len: 0, error: -code, unique }, &[])
    }

    /// The header of a reply to a read, which `size` bytes follow.
    pub fn read(unique: u64, size: u32) -> Self {
        let mut reply = Self::done(unique);
        reply.set_len(size);
        reply
    }

    /// So many bytes were written.
    pub fn written(unique: u64, size: u32) -> Self {
        Self::body(unique, &WriteOut { size, padding: 0 })
    }

    /// The answer to the first message.
    pub fn init(unique: u64, out: &InitOut) -> Self {
        Self::body(unique, out)
    }

    /// Attributes.
    pub fn attr(unique: u64, attr: &Attr) -> Self {
        let out = AttrOut { attr_valid: VALID, attr_valid_nsec: 0, dummy: 0, attr: attr.wire() };
        Self::body(unique, &out)
    }

    /// A name was found.
    pub fn entry(unique: u64, attr: &Attr) -> Self {
        let out = EntryOut {
            nodeid: attr.node,
            generation: 0,
            entry_valid: VALID,
            attr_valid: VALID,
            entry_valid_nsec: 0,
            attr_valid_nsec: 0,
            attr: attr.wire(),
        };
        Self::body(unique, &out)
    }

    /// A file was opened, for direct I/O.
    pub fn opened(unique: u64) -> Self {
        Self::body(unique, &OpenOut { fh: 0, open_flags: OPEN_FLAGS, padding: 0 })
    }

    /// A folder was opened.
    pub fn opened_folder(unique: u64) -> Self {
        Self::body(unique, &OpenOut::default())
    }

    /// A volume of `size` bytes, of which `used` are in use.
    pub fn space(unique: u64, size: u64, used: u64) -> Self {
        let free = size.saturating_sub(used) / 4096;
        let out = StatfsOut {
            blocks: size / 4096,
            bfree: free,
            bavail: free,
            files: 1,
            bsize: 4096,
            namelen: 255,
            frsize: 4096,
            ..StatfsOut::default()
        };
        Self::body(unique, &out)
    }

    /// A place in a file.
    pub fn place(unique: u64, offset: u64) -> Self {
        Self::body(unique, &LseekOut { offset })
    }

    /// Entries of a folder.
    pub fn entries(unique: u64, entries: &Dirents) -> Self {
        Self::of(unique, &entries.bytes)
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whom it is for.
    pub fn unique(&self) -> u64 {
        self.header().unique
    }

    /// Whether it is an error.
    pub fn is_error(&self) -> bool {
        self.header().error != 0
    }

    fn header(&self) -> OutHeader {
        use zerocopy::FromBytes;
        OutHeader::read_from_prefix(&self.bytes).map_or(OutHeader::default(), |(header, _)| header)
    }

    fn body<T: IntoBytes + Immutable>(unique: u64, body: &T) -> Self {
        Self::of(unique, body.as_bytes())
    }

    fn of(unique: u64, body: &[u8]) -> Self {
        Self::headed(OutHeader { len: 0, error: 0, unique }, body)
    }

    fn headed(header: OutHeader, body: &[u8]) -> Self {
        let mut reply = Self { bytes: SmallVec::from_slice(header.as_bytes()) };
        reply.bytes.extend_from_slice(body);
        reply.set_len(0);
        reply
    }

    /// Notes how long it is, with `more` that follows.
    fn set_len(&mut self, more: u32) {
        let len = u32::try_from(self.bytes.len()).unwrap_or(u32::MAX).saturating_add(more);
        for (to, from) in self.bytes.iter_mut().zip(len.as_bytes()) {
            *to = *from;
        }
    }
}

/// The entries of a folder that fit where the kernel wants them.
#[derive(Debug)]
pub struct Dirents {
    bytes: Vec<u8>,
    room: usize,
    full: bool,
}

impl Dirents {
    /// No entries, with room for `room` bytes of them.
    pub fn new(room: usize) -> Self {
        Self { bytes: Vec::new(), room, full: false }
    }

    /// Adds an entry if it still fits; `next` is where reading goes on behind it.
    pub fn push(&mut self, node: u64, next: u64, kind: FileType, name: &[u8]) {
        let namelen = u32::try_from(name.len()).unwrap_or(u32::MAX);
        let len = (size_of::<DirentHead>() + name.len()).next_multiple_of(8);
        // Nor does a later one that is shorter: it would be skipped over.
        self.full |= self.bytes.len() + len > self.room;
        if self.full {
            return;
        }
        let end = self.bytes.len() + len;
        // The kernel wants the type as it is in a mode, without the bits below.
        let head = DirentHead { ino: node, off: next, namelen, kind: kind.bits() >> 12 };
        self.bytes.extend_from_slice(head.as_bytes());
        self.bytes.extend_from_slice(name);
        self.bytes.resize(end, 0);
    }
}
