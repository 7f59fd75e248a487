//! What the mount shows: one file, alone or in a folder; and the place where every request is judged.
//!
//! Nothing here does I/O. A request becomes a reply, or work for the volume that is sure to be within its bounds.

use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use crate::proto::{
    Agreed, Attr, Dirents, FileType, Op, ROOT, Reply, Request, SetAttr, TRANSFER_MAX, negotiate,
};

/// The node of the file, where the root is a folder.
const IN_FOLDER: u64 = 2;

/// `SEEK_DATA` and `SEEK_HOLE`.
const SEEK_DATA: u32 = 3;
const SEEK_HOLE: u32 = 4;

/// The longest name that a file can have (`NAME_MAX`).
const NAME_MAX: usize = 255;

/// A block of a volume, in bytes.
const BLOCK: u64 = 4096;

/// The root of the mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Root {
    /// The file itself.
    File,
    /// A folder with the file under this name.
    Folder(String),
}

/// The file, and who may use it.
#[derive(Debug, Clone)]
pub struct Tree {
    root: Root,
    size: u64,
    read_only: bool,
    /// Permission bits, owner and group of the file. They can be changed, and are forgotten with the mount.
    mode: u32,
    owner: (u32, u32),
    /// Those of the folder.
    folder_mode: u32,
    folder_owner: (u32, u32),
    /// When the file was last written, and the folder made; since 1970.
    changed: (u64, u32),
    made: (u64, u32),
    /// The kernel has said which version it speaks.
    begun: bool,
}

/// What becomes of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Nothing: the kernel does not wait for a reply.
    Nothing,
    /// It is answered.
    Reply(Reply),
    /// The session cannot go on; the reply says so to the kernel, the text to the user.
    Refuse(Reply, String),
    /// The volume has to do something first.
    Work(Work),
}

/// Something for the volume. Ranges are within it, and not empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// Read.
    Read {
        /// First byte.
        offset: u64,
        /// Bytes, at most [`TRANSFER_MAX`].
        len: u32,
        /// A caller gets what is good before a block that is not; the page cache would take that for the end of the file.
        partial: bool,
    },
    /// Write the first `len` bytes of the payload.
    Write {
        /// First byte.
        offset: u64,
        /// Bytes, no more than there are.
        len: u32,
        /// Durable when it is answered.
        durable: bool,
    },
    /// Make everything durable.
    Flush,
    /// Give up whole blocks.
    Discard {
        /// First byte, a multiple of 4096.
        offset: u64,
        /// Bytes, a multiple of 4096.
        len: u64,
    },
    /// Make the range zero.
    Zero {
        /// First byte.
        offset: u64,
        /// Bytes.
        len: u64,
    },
    /// Find data, or a hole.
    Seek {
        /// From here on.
        offset: u64,
        /// A hole, not data.
        hole: bool,
    },
}

impl Tree {
    /// A file of `size` bytes that belongs to `owner` (user and group); `now` is the time since 1970.
    pub fn new(root: Root, size: u64, read_only: bool, owner: (u32, u32), now: (u64, u32)) -> Self {
        Self {
            root,
            size,
            read_only,
            mode: if read_only { 0o400 } else { 0o600 },
            owner,
            folder_mode: 0o755,
            folder_owner: owner,
            changed: now,
            made: now,
            begun: false,
        }
    }

    /// Notes that the file was written.
    pub fn touch(&mut self, now: (u64, u32)) {
        self.changed = now;
    }

    /// Judges a request. `used` is how many bytes of the volume are in use.
    pub fn answer(&mut self, request: &Request, used: u64) -> Answer {
        match self.judge(request, used) {
            Ok(answer) => answer,
            Err(errno) => Answer::Reply(Reply::error(request.unique, errno)),
        }
    }

    fn judge(&mut self, request: &Request, used: u64) -> Result<Answer, Errno> {
        let unique = request.unique;
        let reply = |reply| Ok(Answer::Reply(reply));
        match &request.op {
            Op::Init(offer, more) => return Ok(self.init(unique, negotiate(offer, more.as_ref()))),
            // About no node, or about one that may be gone.
            Op::Forget => return Ok(Answer::Nothing),
            Op::Release | Op::Releasedir | Op::Destroy => return reply(Reply::done(unique)),
            // What is under way ends soon, and whoever was interrupted waits for that.
            Op::Interrupt | Op::Flush | Op::Other(_) => return Err(Errno::NOSYS),
            Op::Ioctl => return Err(Errno::NOTTY),
            Op::Change => return Err(if self.read_only { Errno::ROFS } else { Errno::PERM }),
            Op::Statfs => return reply(Reply::space(unique, self.size, used)),
            _ if !self.begun => return Err(Errno::IO),
            _ => {}
        }
        let kind = self.kind(request.node).ok_or(Errno::STALE)?;
        match (&request.op, kind) {
            (Op::Getattr, kind) => reply(Reply::attr(unique, &self.attr(kind, used))),
            (Op::Setattr(change), kind) => {
                self.change(kind, change)?;
                reply(Reply::attr(unique, &self.attr(kind, used)))
            }
            (Op::Lookup(name), FileType::Folder) if name.len() > NAME_MAX => {
                Err(Errno::NAMETOOLONG)
            }
            (Op::Lookup(name), FileType::Folder) => match &self.root {
                Root::Folder(file) if file.as_bytes() == name => {
                    reply(Reply::entry(unique, &self.attr(FileType::Regular, used)))
                }
                _ => Err(Errno::NOENT),
            },
            (Op::Opendir, FileType::Folder) => reply(Reply::opened_folder(unique)),
            (Op::Readdir { offset, size }, FileType::Folder) => {
                let room = usize::try_from(*size).unwrap_or(0);
                reply(Reply::entries(unique, &self.entries(*offset, room)))
            }
            (Op::Fsyncdir, FileType::Folder) => reply(Reply::done(unique)),
            (Op::Lookup(_) | Op::Opendir | Op::Readdir { .. } | Op::Fsyncdir, _) => {
                Err(Errno::NOTDIR)
            }
            (_, FileType::Folder) => Err(Errno::ISDIR),
            (Op::Open { write: true }, _) if self.read_only => Err(Errno::ROFS),
            (Op::Open { .. }, _) => reply(Reply::opened(unique)),
            (Op::Read { offset, size, direct }, _) => self.read(unique, *offset, *size, *direct),
            (Op::Write { offset, size, durable }, _) => {
                self.write(unique, *offset, *size, *durable)
            }
            (Op::Fsync, _) => Ok(Answer::Work(Work::Flush)),
            (Op::Fallocate { offset, length, mode }, _) => {
                self.allocate(unique, *offset, *length, *mode)
            }
            (Op::Lseek { offset, whence }, _) => self.seek(*offset, *whence),
            _ => Err(Errno::NOSYS),
        }
    }

    fn init(&mut self, unique: u64, agreed: Result<Agreed, crate::proto::Refused>) -> Answer {
        match agreed {
            Ok(Agreed::Version(out)) => {
                self.begun = true;
                Answer::Reply(Reply::init(unique, &out))
            }
            Ok(Agreed::Again(out)) => Answer::Reply(Reply::init(unique, &out)),
            Err(old) => Answer::Refuse(
                Reply::error(unique, Errno::PROTO),
                format!(
                    "the kernel speaks FUSE {}.{}; 7.31 (Linux 5.4) or later is needed",
                    old.major, old.minor
                ),
            ),
        }
    }

    /// What a node is, if it is one.
    fn kind(&self, node: u64) -> Option<FileType> {
        match (&self.root, node) {
            (Root::File, ROOT) | (Root::Folder(_), IN_FOLDER) => Some(FileType::Regular),
            (Root::Folder(_), ROOT) => Some(FileType::Folder),
            _ => None,
        }
    }

    fn attr(&self, kind: FileType, used: u64) -> Attr {
        match kind {
            FileType::Folder => Attr {
                node: ROOT,
                kind,
                mode: self.folder_mode,
                uid: self.folder_owner.0,
                gid: self.folder_owner.1,
                size: 0,
                used: 0,
                changed: self.made,
            },
            FileType::Regular => Attr {
                node: if self.root == Root::File { ROOT } else { IN_FOLDER },
                kind,
                mode: self.mode,
                uid: self.owner.0,
                gid: self.owner.1,
                size: self.size,
                used,
                changed: self.changed,
            },
        }
    }

    /// Changes what can be changed.
    fn change(&mut self, kind: FileType, change: &SetAttr) -> Result<(), Errno> {
        if let Some(size) = change.size {
            // Opening with O_TRUNC comes as size zero, without an open file. It leaves the volume as it is, as it would a
            // block device: so that `dd of=` and `cp` need no options.
            let by_open = size == 0 && !change.by_handle;
            match kind {
                FileType::Folder => return Err(Errno::ISDIR),
                _ if self.read_only => return Err(Errno::ROFS),
                _ if size != self.size && !by_open => return Err(Errno::PERM),
                _ => {}
            }
        }
        let (mode, (uid, gid)) = match kind {
            FileType::Folder => (&mut self.folder_mode, &mut self.folder_owner),
            FileType::Regular => (&mut self.mode, &mut self.owner),
        };
        // Nothing here is a program.
        *mode = change.mode.map_or(*mode, |mode| mode & 0o777);
        *uid = change.uid.unwrap_or(*uid);
        *gid = change.gid.unwrap_or(*gid);
        Ok(())
    }

    /// The entries of the folder from the `offset`th on.
    fn entries(&self, offset: u64, room: usize) -> Dirents {
        let mut found = Dirents::new(room.min(TRANSFER_MAX as usize));
        let Root::Folder(name) = &self.root else { return found };
        let all = [
            (ROOT, FileType::Folder, "."),
            (ROOT, FileType::Folder, ".."),
            (IN_FOLDER, FileType::Regular, name.as_str()),
        ];
        for ((node, kind, name), next) in all.into_iter().zip(1..) {
            if next > offset {
                found.push(node, next, kind, name.as_bytes());
            }
        }
        found
    }

    /// Behind the end there is nothing to read, and before it there may be less than was asked for.
    fn read(&self, unique: u64, offset: u64, size: u32, direct: bool) -> Result<Answer, Errno> {
        if size > TRANSFER_MAX {
            return Err(Errno::INVAL);
        }
        Ok(match self.until_end(offset, u64::from(size)) {
            0 => Answer::Reply(Reply::read(unique, 0)),
            len => Answer::Work(Work::Read { offset, len, partial: direct }),
        })
    }

    /// A write over the end is cut, and one behind it fails, as on a block device.
    fn write(&self, unique: u64, offset: u64, size: u32, durable: bool) -> Result<Answer, Errno> {
        if self.read_only {
            return Err(Errno::ROFS);
        }
        if size > TRANSFER_MAX {
            return Err(Errno::INVAL);
        }
        match self.until_end(offset, u64::from(size)) {
            0 if size == 0 => Ok(Answer::Reply(Reply::written(unique, 0))),
            0 => Err(Errno::NOSPC),
            len => Ok(Answer::Work(Work::Write { offset, len, durable })),
        }
    }

    /// Of `size` bytes, at most [`TRANSFER_MAX`], those before the end of the file.
    fn until_end(&self, offset: u64, size: u64) -> u32 {
        u32::try_from(size.min(self.size.saturating_sub(offset))).unwrap_or(0)
    }

    /// Holes and zeroes within the file. Room for all of it is promised anyway, and it does not grow.
    fn allocate(&self, unique: u64, offset: u64, length: u64, mode: u32) -> Result<Answer, Errno> {
        let mode = FallocateFlags::from_bits_retain(mode);
        let keep = FallocateFlags::KEEP_SIZE;
        let punch = mode == FallocateFlags::PUNCH_HOLE | keep;
        let zero = mode == FallocateFlags::ZERO_RANGE || mode == FallocateFlags::ZERO_RANGE | keep;
        if !(punch || zero) {
            return Err(Errno::OPNOTSUPP);
        }
        if self.read_only {
            return Err(Errno::ROFS);
        }
        let end = offset.checked_add(length).ok_or(Errno::FBIG)?;
        if length == 0 {
            return Err(Errno::INVAL);
        }
        if end > self.size && !mode.contains(keep) {
            return Err(Errno::FBIG);
        }
        let len = end.min(self.size).saturating_sub(offset);
        Ok(match len {
            0 => Answer::Reply(Reply::done(unique)),
            // Bytes of a block that is only touched have to read as zeroes as well.
            len if punch && offset.is_multiple_of(BLOCK) && len.is_multiple_of(BLOCK) => {
                Answer::Work(Work::Discard { offset, len })
            }
            len => Answer::Work(Work::Zero { offset, len }),
        })
    }

    fn seek(&self, offset: u64, whence: u32) -> Result<Answer, Errno> {
        let hole = match whence {
            SEEK_DATA => false,
            SEEK_HOLE => true,
            _ => return Err(Errno::INVAL),
        };
        if offset >= self.size {
            return Err(Errno::NXIO);
        }
        Ok(Answer::Work(Work::Seek { offset, hole }))
    }
}

#[cfg(test)]
mod tests;
