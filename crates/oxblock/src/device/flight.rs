//! What is in flight on a ring: the table that owns operations and buffers until their terminal completion.
//!
//! Invariants:
//! - `user_data` of every submission is the key of its flight; nothing else is ever submitted but polls of watched
//!   descriptors, whose numbers are out of the table's range (`uring.rs`).
//! - A flight has at most one submission in the kernel, so its memory (buffers, I/O vectors) is free to be changed or
//!   handed back exactly when that submission's completion has been seen.
//! - A flight leaves the table only through [`Table::conclude`] or when it never reached the kernel.

use std::collections::VecDeque;
use std::io;

use io_uring::squeue::Entry;
use io_uring::{opcode, types};
use rustix::fs::FallocateFlags;
use rustix::io::{Errno, ReadWriteFlags};
use slab::Slab;

use super::sync::{self, VECTORS_MAX};
use super::target::Targets;
use super::{Action, Bufs, Done, Op};

/// The most bytes in one single-buffer submission: a length that every kernel takes in one piece.
const SINGLE_MAX: usize = 1 << 30;

/// One I/O vector, as the kernel reads it (`struct iovec`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Piece {
    base: *mut u8,
    len: usize,
}

/// An operation between `push` and its completion.
#[derive(Debug)]
struct Flight {
    op: Op,
    /// Bytes in all.
    total: u64,
    /// Bytes transferred so far.
    done: u64,
    /// Consecutive "try again" answers.
    tries: u32,
    /// What is left of a transfer of several buffers; empty for a single one.
    pieces: Vec<Piece>,
}

/// All flights, and the order in which they wait for room on the ring.
#[derive(Debug, Default)]
pub(super) struct Table {
    flights: Slab<Flight>,
    /// Keys of flights that are not on the ring.
    pub(super) backlog: VecDeque<usize>,
    /// Emptied vectors for reuse, so that gathers do not allocate.
    spare: Vec<Vec<Piece>>,
    /// The kernel does not take discards of block devices by the ring (before 6.12).
    no_ring_discard: bool,
}

#[expect(unsafe_code, reason = "raw pieces cross threads with the flight that owns their buffers")]
// SAFETY: a `Piece` points into a `Buf` that the same `Flight` owns, and is only handed to the kernel; `Buf` is `Send`.
unsafe impl Send for Table {}

impl Table {
    pub(super) fn len(&self) -> usize {
        self.flights.len()
    }

    /// Takes the operation in and queues it, or ends it at once when it needs no device.
    pub(super) fn accept(&mut self, targets: &Targets, op: Op) -> Option<Done> {
        let total = match targets.check(op.device, op.offset, &op.action) {
            Ok(0) if !matches!(op.action, Action::Flush) => Ok(None),
            Ok(total) => Ok(Some(total)),
            Err(error) => Err(error),
        };
        let total = match total {
            Ok(Some(total)) => total,
            Ok(None) => return Some(finish(op, Ok(()))),
            Err(error) => return Some(finish(op, Err(error))),
        };
        let mut flight = Flight { op, total, done: 0, tries: 0, pieces: Vec::new() };
        if let Action::Read(bufs) | Action::Write { bufs, .. } = &mut flight.op.action
            && bufs.len() != 1
        {
            flight.pieces = self.spare.pop().unwrap_or_default();
            fill(&mut flight.pieces, bufs);
        }
        let key = self.flights.insert(flight);
        self.backlog.push_back(key);
        None
    }

    /// The submission for what is left of a flight. `None` when the ring has none: then the caller runs it itself.
    pub(super) fn entry(&mut self, targets: &Targets, key: usize) -> Option<Entry> {
        let flight = self.flights.get_mut(key)?;
        let file = types::Fixed(u32::from(flight.op.device));
        // Both are bounded by the device's size, checked on entry.
        let offset = flight.op.offset + flight.done;
        // The window is cut to the system's limits; what does not fit follows like the rest of a short transfer.
        let (pieces, count) = window(&flight.pieces);
        let entry = match &mut flight.op.action {
            Action::Read(bufs) if bufs.len() == 1 => {
                let (base, len) = single(bufs, flight.done)?;
                opcode::Read::new(file, base, len).offset(offset).build()
            }
            Action::Read(_) => {
                opcode::Readv::new(file, pieces.cast(), count).offset(offset).build()
            }
            Action::Write { bufs, durable } => {
                let flags = if *durable { ReadWriteFlags::DSYNC.bits().cast_signed() } else { 0 };
                if bufs.len() == 1 {
                    let (base, len) = single(bufs, flight.done)?;
                    opcode::Write::new(file, base, len).offset(offset).rw_flags(flags).build()
                } else {
                    opcode::Writev::new(file, pieces.cast(), count)
                        .offset(offset)
                        .rw_flags(flags)
                        .build()
                }
            }
            Action::Flush => opcode::Fsync::new(file).flags(types::FsyncFlags::DATASYNC).build(),
            Action::Discard { len } if targets.get(flight.op.device).is_ok_and(|t| t.block) => {
                if self.no_ring_discard {
                    return None;
                }
                block_discard(file, offset, *len)
            }
            Action::Discard { len } => {
                let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                let mode = mode.bits().cast_signed();
                opcode::Fallocate::new(file, *len).offset(offset).mode(mode).build()
            }
        };
        Some(entry.user_data(key as u64))
    }

    /// Judges the completion of a flight's submission: done, or back to the queue for the rest.
    pub(super) fn conclude(&mut self, targets: &Targets, key: usize, result: i32) -> Option<Done> {
        let flight = self.flights.get_mut(key)?;
        let outcome = match u32::try_from(result) {
            Ok(bytes) => flight.progress(u64::from(bytes)),
            Err(_) => {
                let errno = Errno::from_raw_os_error(result.saturating_neg());
                match &flight.op.action {
                    Action::Discard { .. }
                        if matches!(errno, Errno::INVAL) || sync::is_unsupported(errno) =>
                    {
                        // Not by the ring: once more by a plain call, whose answer counts.
                        self.no_ring_discard |=
                            targets.get(flight.op.device).is_ok_and(|target| target.block);
                        return self.run(targets, key);
                    }
                    _ => sync::again(errno, &mut flight.tries).map(|()| false),
                }
            }
        };
        match outcome {
            Ok(true) => self.remove(key, Ok(())),
            Ok(false) => {
                self.backlog.push_back(key);
                None
            }
            Err(error) => self.remove(key, Err(error)),
        }
    }

    /// Runs a flight that is not on the ring by plain calls.
    pub(super) fn run(&mut self, targets: &Targets, key: usize) -> Option<Done> {
        self.flights.contains(key).then(|| sync::run(targets, self.flights.remove(key).op))
    }

    /// Ends a flight that is not on the ring.
    pub(super) fn remove(&mut self, key: usize, result: io::Result<()>) -> Option<Done> {
        let Flight { op, mut pieces, .. } = self.flights.try_remove(key)?;
        if pieces.capacity() > 0 {
            pieces.clear();
            self.spare.push(pieces);
        }
        Some(finish(op, result))
    }

    /// Gives up all flights without freeing their memory, which the kernel may still use.
    pub(super) fn leak(&mut self) {
        std::mem::forget(std::mem::take(&mut self.flights));
    }
}

impl Flight {
    /// Notes `bytes` more; `Ok(true)` when that was all.
    fn progress(&mut self, bytes: u64) -> io::Result<bool> {
        match &self.op.action {
            Action::Flush | Action::Discard { .. } => return Ok(true),
            Action::Read(_) if bytes == 0 => return Err(sync::read_ended()),
            Action::Write { .. } if bytes == 0 => return Err(sync::write_stuck()),
            Action::Read(_) | Action::Write { .. } => {}
        }
        self.tries = 0;
        self.done += bytes;
        if self.done < self.total && !self.pieces.is_empty() {
            trim(&mut self.pieces, bytes);
        }
        Ok(self.done >= self.total)
    }
}

fn finish(op: Op, result: io::Result<()>) -> Done {
    Done { tag: op.tag, device: Some(op.device), bufs: op.action.into_bufs(), work: None, result }
}

fn fill(pieces: &mut Vec<Piece>, bufs: &mut Bufs) {
    pieces.extend(
        bufs.iter_mut()
            .filter(|buf| !buf.is_empty())
            .map(|buf| Piece { base: buf.as_mut_ptr(), len: buf.len() }),
    );
}

/// What the kernel takes at once.
fn window(pieces: &[Piece]) -> (*const Piece, u32) {
    let count = pieces.len().min(VECTORS_MAX);
    // VECTORS_MAX is far below `u32::MAX`.
    (pieces.as_ptr(), u32::try_from(count).unwrap_or(0))
}

/// The rest of a single buffer.
fn single(bufs: &mut Bufs, done: u64) -> Option<(*mut u8, u32)> {
    let rest = bufs.first_mut()?.get_mut(usize::try_from(done).ok()?..)?;
    let len = u32::try_from(rest.len().min(SINGLE_MAX)).ok()?;
    Some((rest.as_mut_ptr(), len))
}

/// Drops the first `bytes` from the front.
fn trim(pieces: &mut Vec<Piece>, bytes: u64) {
    let Ok(mut bytes) = usize::try_from(bytes) else { return pieces.clear() };
    let mut whole = 0;
    for piece in pieces.iter_mut() {
        if bytes < piece.len {
            piece.base = piece.base.wrapping_add(bytes);
            piece.len -= bytes;
            break;
        }
        bytes -= piece.len;
        whole += 1;
    }
    pieces.drain(..whole);
}

/// `BLOCK_URING_CMD_DISCARD` (linux/blkdev.h): start in `addr`, length in `addr3`, which is where the command data of a
/// plain submission begins.
fn block_discard(file: types::Fixed, offset: u64, len: u64) -> Entry {
    const BLOCK_URING_CMD_DISCARD: u32 = 0x12 << 8;
    let mut data = [0; 16];
    let (front, _) = data.split_at_mut(8);
    #[expect(clippy::host_endian_bytes, reason = "a field of a kernel structure, in memory only")]
    front.copy_from_slice(&len.to_ne_bytes());
    opcode::UringCmd16::new(file, BLOCK_URING_CMD_DISCARD).addr(Some(offset)).cmd(data).build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trimming_drops_whole_pieces_and_cuts_the_next() {
        let mut memory = [0u8; 30];
        let base = memory.as_mut_ptr();
        let mut pieces: Vec<Piece> =
            (0..3).map(|i| Piece { base: base.wrapping_add(i * 10), len: 10 }).collect();
        trim(&mut pieces, 0);
        assert_eq!(pieces.len(), 3);
        trim(&mut pieces, 10);
        assert_eq!((pieces.len(), pieces[0].len), (2, 10));
        trim(&mut pieces, 13);
        assert_eq!((pieces.len(), pieces[0].len), (1, 7));
        assert_eq!(pieces[0].base, base.wrapping_add(23));
        trim(&mut pieces, 7);
        assert!(pieces.is_empty());
    }
}
