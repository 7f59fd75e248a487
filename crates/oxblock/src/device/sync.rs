//! Operations by plain system calls, run to the end in the caller's context.
//!
//! Shared by the inline queue and the thread pool. Short transfers are continued, interruptions repeated; a transfer
//! that stops making progress is an error, never success. A single buffer costs one call and no allocation, and so do
//! gathers of up to [`ON_STACK`] buffers.
#![expect(unsafe_code, reason = "one ioctl has no safe wrapper; argued there")]

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::FallocateFlags;
use rustix::io::{Errno, ReadWriteFlags};
use smallvec::SmallVec;

use super::target::{Target, Targets};
use super::{Action, Buf, Bufs, Done, Op};

/// Buffers whose I/O vector stays on the stack: a record of sixteen blocks and its header, four times over.
const ON_STACK: usize = 64;

/// The most I/O vectors that one call takes (`IOV_MAX`).
pub(super) const VECTORS_MAX: usize = 1024;

/// How often one transfer may answer "try again" before that counts as an error.
const AGAIN_MAX: u32 = 1000;

/// Runs one operation to its end.
pub(super) fn run(targets: &Targets, op: Op) -> Done {
    let Op { tag, device, offset, mut action } = op;
    let result = targets
        .check(device, offset, &action)
        .and_then(|_| perform(targets.get(device)?, offset, &mut action));
    Done { tag, device: Some(device), bufs: action.into_bufs(), work: None, result }
}

fn perform(target: &Target, offset: u64, action: &mut Action) -> io::Result<()> {
    match action {
        Action::Read(bufs) => match bufs.as_mut_slice() {
            [buf] => read_one(target.file.as_fd(), buf, offset),
            _ => read_many(target.file.as_fd(), bufs, offset),
        },
        Action::Write { bufs, durable } => match (bufs.as_slice(), *durable) {
            ([buf], false) => write_one(target.file.as_fd(), buf, offset),
            (bufs, durable) => write_many(target.file.as_fd(), bufs, offset, durable),
        },
        Action::Flush => flush(target),
        Action::Discard { len } => discard(target, offset, *len),
    }
}

/// Judges one failed call: `Ok` to repeat it, or the error.
#[cold]
pub(super) fn again(errno: Errno, tries: &mut u32) -> io::Result<()> {
    match errno {
        // Nobody cancels operations here. The kernel does it when the thread that submitted one exits before a
        // kernel worker has started on it; the operation itself is as good as before.
        Errno::INTR | Errno::CANCELED => Ok(()),
        Errno::AGAIN if *tries < AGAIN_MAX => {
            *tries += 1;
            std::thread::yield_now();
            Ok(())
        }
        errno => Err(errno.into()),
    }
}

/// The error for a read that meets the end of the device.
#[cold]
pub(super) fn read_ended() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the device ended in the middle of a read")
}

/// The error for a write of which the system takes nothing.
#[cold]
pub(super) fn write_stuck() -> io::Error {
    io::Error::new(io::ErrorKind::WriteZero, "the device took no byte of a write")
}

fn read_one(file: BorrowedFd<'_>, buf: &mut Buf, mut offset: u64) -> io::Result<()> {
    let mut rest: &mut [u8] = buf;
    let mut tries = 0;
    while !rest.is_empty() {
        match rustix::io::pread(file, &mut *rest, offset) {
            Ok(0) => return Err(read_ended()),
            Ok(n) => {
                offset += n as u64;
                rest = rest.get_mut(n..).unwrap_or_default();
            }
            Err(errno) => again(errno, &mut tries)?,
        }
    }
    Ok(())
}

fn read_many(file: BorrowedFd<'_>, bufs: &mut Bufs, mut offset: u64) -> io::Result<()> {
    let mut vectors: SmallVec<[IoSliceMut<'_>; ON_STACK]> =
        bufs.iter_mut().filter(|buf| !buf.is_empty()).map(|buf| IoSliceMut::new(buf)).collect();
    let mut rest = vectors.as_mut_slice();
    let mut tries = 0;
    while !rest.is_empty() {
        let count = rest.len().min(VECTORS_MAX);
        let (window, _) = rest.split_at_mut(count);
        match rustix::io::preadv2(file, window, offset, ReadWriteFlags::empty()) {
            Ok(0) => return Err(read_ended()),
            Ok(n) => {
                offset += n as u64;
                IoSliceMut::advance_slices(&mut rest, n);
            }
            Err(errno) => again(errno, &mut tries)?,
        }
    }
    Ok(())
}

fn write_one(file: BorrowedFd<'_>, buf: &Buf, mut offset: u64) -> io::Result<()> {
    let mut rest: &[u8] = buf;
    let mut tries = 0;
    while !rest.is_empty() {
        match rustix::io::pwrite(file, rest, offset) {
            Ok(0) => return Err(write_stuck()),
            Ok(n) => {
                offset += n as u64;
                rest = rest.get(n..).unwrap_or_default();
            }
            Err(errno) => again(errno, &mut tries)?,
        }
    }
    Ok(())
}

fn write_many(
    file: BorrowedFd<'_>,
    bufs: &[Buf],
    mut offset: u64,
    durable: bool,
) -> io::Result<()> {
    let flags = if durable { ReadWriteFlags::DSYNC } else { ReadWriteFlags::empty() };
    let mut vectors: SmallVec<[IoSlice<'_>; ON_STACK]> =
        bufs.iter().filter(|buf| !buf.is_empty()).map(|buf| IoSlice::new(buf)).collect();
    let mut rest = vectors.as_mut_slice();
    let mut tries = 0;
    while !rest.is_empty() {
        let (window, _) = rest.split_at(rest.len().min(VECTORS_MAX));
        match rustix::io::pwritev2(file, window, offset, flags) {
            Ok(0) => return Err(write_stuck()),
            Ok(n) => {
                offset += n as u64;
                IoSlice::advance_slices(&mut rest, n);
            }
            Err(errno) => again(errno, &mut tries)?,
        }
    }
    Ok(())
}

fn flush(target: &Target) -> io::Result<()> {
    let mut tries = 0;
    loop {
        match rustix::fs::fdatasync(&target.file) {
            Ok(()) => return Ok(()),
            Err(errno) => again(errno, &mut tries)?,
        }
    }
}

/// Gives up a range. "Not supported" is success: a discard is best effort.
pub(super) fn discard(target: &Target, offset: u64, len: u64) -> io::Result<()> {
    if len == 0 {
        return Ok(());
    }
    let mut tries = 0;
    loop {
        let result = if target.block {
            block_discard(target, offset, len)
        } else {
            let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            rustix::fs::fallocate(&target.file, mode, offset, len)
        };
        match result {
            Ok(()) => return Ok(()),
            Err(errno) if is_unsupported(errno) => return Ok(()),
            Err(errno) => again(errno, &mut tries)?,
        }
    }
}

/// The device or the file system does not know the operation.
pub(super) fn is_unsupported(errno: Errno) -> bool {
    matches!(errno, Errno::OPNOTSUPP | Errno::NOSYS | Errno::NOTTY)
}

fn block_discard(target: &Target, offset: u64, len: u64) -> rustix::io::Result<()> {
    const BLKDISCARD: rustix::ioctl::Opcode = rustix::ioctl::opcode::none(0x12, 119);
    // SAFETY: BLKDISCARD (linux/fs.h) reads two u64, start and length in bytes, and writes nothing; the range was
    // checked against the device and is the caller's to give up.
    unsafe {
        let range = rustix::ioctl::Setter::<BLKDISCARD, [u64; 2]>::new([offset, len]);
        rustix::ioctl::ioctl(&target.file, range)
    }
}
