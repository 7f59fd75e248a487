//! Reads in flight during a check: data blocks in physical order, joined into large device reads.

use slab::Slab;

use super::Check;
use super::report::{Finding, FindingKind};
use crate::device::{Action, Buf, Done, Op};
use crate::format::layout::{BLOCK_BYTES, BLOCK_SIZE};
use crate::format::pointer::identity;
use crate::profile;

/// Blocks that are collected before they are read in physical order (8 MiB of memory).
const WINDOW: usize = 1 << 18;
/// The largest read, in blocks.
const BIO_BLOCKS: u64 = 256;
/// Blocks between two wanted ones that are read along rather than skipped: a second read costs more.
const GAP: u64 = 16;
/// Reads in flight, and what they may take in all.
const DEPTH: usize = 32;
const BYTES_IN_FLIGHT: usize = 8 << 20;
/// The tag of the one read that somebody waits for.
const SINGLE: u64 = u64::MAX;

/// A block that must be what its pointer says.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    pub addr: u64,
    pub block: u64,
    pub csum: u128,
}

/// One device read.
#[derive(Debug)]
struct Bio {
    first: u64,
    wanted: Vec<Wanted>,
    /// Of one block, the second time.
    again: bool,
}

/// What is collected and what is in flight.
#[derive(Debug, Default)]
pub(super) struct Reads {
    window: Vec<Wanted>,
    flying: Slab<Bio>,
    bytes: usize,
    single: Option<Done>,
    done: Vec<Done>,
    spare: Vec<Buf>,
}

impl Check<'_, '_> {
    /// Has a data block verified, sooner or later.
    pub(super) fn want(&mut self, wanted: Wanted) {
        self.reads.window.push(wanted);
        if self.reads.window.len() >= WINDOW {
            self.flush_window();
        }
    }

    /// Reads what was collected.
    fn flush_window(&mut self) {
        let mut window = std::mem::take(&mut self.reads.window);
        window.sort_unstable_by_key(|wanted| wanted.addr);
        let limit = self.lane.placement.bio.blocks.min(BIO_BLOCKS);
        let mut left = window.as_slice();
        while let Some(first) = left.first() {
            let segment = self.lane.segments.of(first.addr);
            let mut last = first.addr;
            let joined = left.iter().take_while(|wanted| {
                let fits = wanted.addr <= last + 1 + GAP
                    && wanted.addr < first.addr + limit
                    && self.lane.segments.of(wanted.addr) == segment;
                last = last.max(wanted.addr);
                fits
            });
            let (now, later) = left.split_at(joined.count().max(1));
            left = later;
            self.send(Bio { first: first.addr, wanted: now.to_vec(), again: false });
        }
        window.clear();
        self.reads.window = window;
    }

    /// Waits until every read is back.
    pub(super) fn drain(&mut self) {
        self.flush_window();
        while !self.reads.flying.is_empty() {
            self.pump();
        }
        self.tell();
    }

    fn send(&mut self, bio: Bio) {
        let last = bio.wanted.last().map_or(bio.first, |wanted| wanted.addr);
        let len = usize::try_from(last - bio.first + 1).unwrap_or(1) * BLOCK_SIZE;
        while self.reads.flying.len() >= DEPTH
            || (self.reads.bytes + len > BYTES_IN_FLIGHT && !self.reads.flying.is_empty())
        {
            self.pump();
        }
        self.start(bio, len);
    }

    fn start(&mut self, bio: Bio, len: usize) {
        let spare = self.reads.spare.iter().position(|buf| buf.len() == len);
        let buf = spare.map_or_else(|| Buf::new(len), |at| self.reads.spare.swap_remove(at));
        let (device, offset) = profile::locate(&self.lane.geometry.superblock, bio.first);
        let tag = self.reads.flying.insert(bio) as u64;
        self.reads.bytes += len;
        self.report.bytes += len as u64;
        let action = Action::Read(smallvec::smallvec![buf]);
        self.lane.queue.push(Op { tag, device, offset, action });
        self.lane.queue.submit();
    }

    /// Takes in what has come back; blocks until something has.
    fn pump(&mut self) {
        let mut done = std::mem::take(&mut self.reads.done);
        if self.lane.queue.reap(&mut done) == 0 {
            self.lane.queue.wait(None);
            self.lane.queue.reap(&mut done);
        }
        for done in done.drain(..) {
            if done.tag == SINGLE {
                self.reads.single = Some(done);
            } else {
                self.verify(done);
            }
        }
        self.reads.done = done;
    }

    fn verify(&mut self, mut done: Done) {
        let bio = self.reads.flying.remove(usize::try_from(done.tag).unwrap_or(usize::MAX));
        let Some(buf) = done.bufs.pop() else { unreachable!("a read without its buffer") };
        self.reads.bytes = self.reads.bytes.saturating_sub(buf.len());
        let failed = done.result.is_err();
        let csum = self.lane.geometry.csum;
        let mut again: Vec<Wanted> = Vec::new();
        for wanted in &bio.wanted {
            let at = usize::try_from(wanted.addr - bio.first).unwrap_or(0) * BLOCK_SIZE;
            let data = buf.get(at..at + BLOCK_SIZE).unwrap_or(&[]);
            let got = (!failed).then(|| csum.of(identity::data(wanted.block), data));
            if got == Some(wanted.csum) {
                self.report.blocks += 1;
            } else if bio.again {
                self.report.blocks += 1;
                let offset = profile::locate(&self.lane.geometry.superblock, wanted.addr).1;
                self.report.add(
                    Finding::new(FindingKind::Data, "its content is lost; reads of it fail")
                        .of_blocks(wanted.block, wanted.block + 1)
                        .at(offset)
                        .values(wanted.csum, got),
                );
            } else {
                again.push(*wanted);
            }
        }
        if self.reads.spare.len() < DEPTH {
            self.reads.spare.push(buf);
        }
        for wanted in again {
            // Beside the limit: it was in flight a moment ago.
            self.start(Bio { first: wanted.addr, wanted: vec![wanted], again: true }, BLOCK_SIZE);
        }
        self.tell();
    }

    /// Reads one stretch of the log space and waits for it, while the reads of data go on. `None` when it cannot be read.
    pub(super) fn read_now(&mut self, addr: u64, blocks: usize) -> Option<Buf> {
        let limit = self.lane.geometry.superblock.log_blocks();
        if addr.saturating_add(blocks as u64) > limit {
            return None;
        }
        let (device, offset) = profile::locate(&self.lane.geometry.superblock, addr);
        let action = Action::Read(smallvec::smallvec![Buf::new(blocks * BLOCK_SIZE)]);
        self.report.bytes += blocks as u64 * BLOCK_BYTES;
        self.lane.queue.push(Op { tag: SINGLE, device, offset, action });
        self.lane.queue.submit();
        loop {
            self.pump();
            if let Some(mut done) = self.reads.single.take() {
                return done.result.ok().and_then(|()| done.bufs.pop());
            }
        }
    }
}
