//! Requests: from bytes to what is asked for.

use zerocopy::FromBytes;

use super::opcode::Opcode;
use super::wire::{
    FallocateIn, InHeader, InitIn, InitInMore, LseekIn, OpenIn, ReadIn, SetAttrIn, WriteIn,
};

/// The most bytes of a message that are looked at, payloads of writes aside: more than any of them that means something here.
const LOOKED_AT: usize = 8192;

/// `FATTR_MODE`, `FATTR_UID` and so on: which fields of `fuse_setattr_in` count.
pub(super) mod valid {
    pub(in crate::proto) const MODE: u32 = 1 << 0;
    pub(in crate::proto) const UID: u32 = 1 << 1;
    pub(in crate::proto) const GID: u32 = 1 << 2;
    pub(in crate::proto) const SIZE: u32 = 1 << 3;
    pub(in crate::proto) const FH: u32 = 1 << 6;
}

/// `FUSE_READ_LOCKOWNER`: the kernel says who reads. It does so for direct I/O, and not when it fills its page cache.
const READ_LOCKOWNER: u32 = 1 << 1;

/// `O_DSYNC`, which is also set in `O_SYNC`.
const DSYNC: u32 = 0o10000;

/// `O_ACCMODE`, of which anything but zero writes.
const ACCESS_MODE: u32 = 0o3;

/// A request that is whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Its number, for the reply.
    pub unique: u64,
    /// The node that it is about.
    pub node: u64,
    /// What it asks for.
    pub op: Op,
}

/// What a request asks for. What nobody here looks at is left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// The first message.
    Init(InitIn, Option<InitInMore>),
    /// The last one, if the kernel sends any.
    Destroy,
    /// A name in a folder.
    Lookup(Vec<u8>),
    /// The kernel drops nodes; gets no reply.
    Forget,
    /// Attributes.
    Getattr,
    /// Changes of attributes.
    Setattr(SetAttr),
    /// Opens a file.
    Open {
        /// For writing too.
        write: bool,
    },
    /// Opens a folder.
    Opendir,
    /// Reads a file.
    Read {
        /// First byte.
        offset: u64,
        /// Bytes.
        size: u32,
        /// For a caller's own memory, who may get less, and not for the page cache, where less means the end of the file.
        direct: bool,
    },
    /// Reads a folder.
    Readdir {
        /// Entries that were read before.
        offset: u64,
        /// Bytes of room.
        size: u32,
    },
    /// Writes a file. The payload is what follows the first [`WRITE_HEAD`](super::WRITE_HEAD) bytes, and is of this size.
    Write {
        /// First byte.
        offset: u64,
        /// Bytes.
        size: u32,
        /// Durable when it is answered: the file was opened with `O_DSYNC`, or the call asked for it.
        durable: bool,
    },
    /// What was written becomes durable.
    Fsync,
    /// The same for a folder.
    Fsyncdir,
    /// A descriptor is closed.
    Flush,
    /// The last descriptor of an open file is closed.
    Release,
    /// The same for a folder.
    Releasedir,
    /// Space.
    Statfs,
    /// Space of a file.
    Fallocate {
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u64,
        /// `FALLOC_FL_...`
        mode: u32,
    },
    /// Where data or a hole is.
    Lseek {
        /// From here on.
        offset: u64,
        /// `SEEK_DATA` or `SEEK_HOLE`.
        whence: u32,
    },
    /// A caller was interrupted.
    Interrupt,
    /// A device control.
    Ioctl,
    /// Would change what is in a folder.
    Change,
    /// Something that this server does not do.
    Other(u32),
}

/// Changes of attributes. Times are left out: nobody keeps them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SetAttr {
    /// Permission bits.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Bytes.
    pub size: Option<u64>,
    /// By an open file: then not by `open` with `O_TRUNC`.
    pub by_handle: bool,
}

/// A message that is not whole, or contradicts itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed {
    /// Whom to tell, if the kernel waits for a reply.
    pub unique: Option<u64>,
    /// What is wrong with it.
    pub why: &'static str,
}

/// Decodes a message that was received in two parts: its first [`WRITE_HEAD`](super::WRITE_HEAD) bytes, or all of it where it
/// is shorter, and what follows.
///
/// # Errors
/// What is not a whole message.
pub fn decode(first: &[u8], rest: &[u8]) -> Result<Request, Malformed> {
    let Ok((header, body)) = InHeader::read_from_prefix(first) else {
        return Err(Malformed { unique: None, why: "shorter than a header" });
    };
    let opcode = Opcode::from_number(header.opcode);
    let answered = opcode.is_none_or(Opcode::is_answered);
    let malformed = |why| Malformed { unique: answered.then_some(header.unique), why };
    if u64::from(header.len) != first.len() as u64 + rest.len() as u64 {
        return Err(malformed("its length is not what arrived"));
    }
    let op = match opcode {
        // Its payload is not to be moved.
        Some(Opcode::Write) => write(body, rest),
        Some(opcode) if rest.is_empty() => decode_op(opcode, body),
        Some(opcode) => {
            let more = rest.get(..LOOKED_AT).unwrap_or(rest);
            decode_op(opcode, &[body, more].concat())
        }
        None => Ok(Op::Other(header.opcode)),
    };
    let op = op.map_err(malformed)?;
    Ok(Request { unique: header.unique, node: header.nodeid, op })
}

/// The structure at the start of a body.
fn take<T: FromBytes>(body: &[u8]) -> Result<T, &'static str> {
    T::read_from_prefix(body)
        .map(|(value, _)| value)
        .map_err(|_| "shorter than its operation has it")
}

fn write(body: &[u8], payload: &[u8]) -> Result<Op, &'static str> {
    let WriteIn { offset, size, flags, .. } = take(body)?;
    if u64::from(size) != payload.len() as u64 {
        return Err("a write of another size than its payload");
    }
    Ok(Op::Write { offset, size, durable: flags & DSYNC != 0 })
}

fn decode_op(opcode: Opcode, body: &[u8]) -> Result<Op, &'static str> {
    Ok(match opcode {
        Opcode::Init => {
            let more = body.get(size_of::<InitIn>()..).and_then(|more| take(more).ok());
            Op::Init(take(body)?, more)
        }
        Opcode::Destroy => Op::Destroy,
        Opcode::Lookup => Op::Lookup(name(body)?),
        Opcode::Forget | Opcode::BatchForget => Op::Forget,
        Opcode::Getattr => Op::Getattr,
        Opcode::Setattr => Op::Setattr(setattr(&take(body)?)),
        Opcode::Open => {
            let OpenIn { flags, .. } = take(body)?;
            Op::Open { write: flags & ACCESS_MODE != 0 }
        }
        Opcode::Opendir => Op::Opendir,
        Opcode::Read => {
            let ReadIn { offset, size, read_flags, .. } = take(body)?;
            Op::Read { offset, size, direct: read_flags & READ_LOCKOWNER != 0 }
        }
        Opcode::Readdir => {
            let ReadIn { offset, size, .. } = take(body)?;
            Op::Readdir { offset, size }
        }
        Opcode::Write => return Err("a write without a payload"),
        Opcode::Fsync => Op::Fsync,
        Opcode::Fsyncdir => Op::Fsyncdir,
        Opcode::Flush => Op::Flush,
        Opcode::Release => Op::Release,
        Opcode::Releasedir => Op::Releasedir,
        Opcode::Statfs => Op::Statfs,
        Opcode::Fallocate => {
            let FallocateIn { offset, length, mode, .. } = take(body)?;
            Op::Fallocate { offset, length, mode }
        }
        Opcode::Lseek => {
            let LseekIn { offset, whence, .. } = take(body)?;
            Op::Lseek { offset, whence }
        }
        Opcode::Interrupt => Op::Interrupt,
        Opcode::Ioctl => Op::Ioctl,
        Opcode::Symlink
        | Opcode::Mknod
        | Opcode::Mkdir
        | Opcode::Unlink
        | Opcode::Rmdir
        | Opcode::Rename
        | Opcode::Rename2
        | Opcode::Link
        | Opcode::Create
        | Opcode::Tmpfile => Op::Change,
        Opcode::Readlink
        | Opcode::Setxattr
        | Opcode::Getxattr
        | Opcode::Listxattr
        | Opcode::Removexattr
        | Opcode::Access => Op::Other(opcode.number()),
    })
}

/// A name up to its zero byte.
fn name(body: &[u8]) -> Result<Vec<u8>, &'static str> {
    match body.iter().position(|byte| *byte == 0) {
        Some(0) => Err("an empty name"),
        Some(len) => Ok(body.iter().take(len).copied().collect()),
        None => Err("a name without an end"),
    }
}

fn setattr(change: &SetAttrIn) -> SetAttr {
    let given = |bit| change.valid & bit != 0;
    SetAttr {
        mode: given(valid::MODE).then_some(change.mode),
        uid: given(valid::UID).then_some(change.uid),
        gid: given(valid::GID).then_some(change.gid),
        size: given(valid::SIZE).then_some(change.size),
        by_handle: given(valid::FH),
    }
}
