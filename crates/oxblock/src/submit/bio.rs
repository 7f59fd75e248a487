//! Bios of reads: what lies together on the device is read together, up to the limit.
//!
//! Runs of one read that are neighbours on the device, or have only headers of the log between them, grow into one bio. It
//! leaves when it is full, or when the next run lies elsewhere.

use smallvec::SmallVec;

use crate::device::{Action, Buf, Bufs, Op};
use crate::format::layout::BLOCK_SIZE;
use crate::lane::{Class, Lane, tag};
use crate::profile;

/// Reads in flight up to which each leaves by itself. On a virtual disk that gives 1.1 to 1.3 times the operations of
/// one batch at depths 4 and 16, and nothing at 64.
const EAGER_DEPTH: usize = 32;

/// Blocks of a read that lie together on the device.
#[derive(Debug)]
pub(crate) struct Run {
    /// Its place among the pieces of its read.
    pub piece: usize,
    pub block: u64,
    pub addr: u64,
    pub expected: SmallVec<[u128; 1]>,
    /// Blocks in front of it that are read with it and belong to nobody: headers of the log.
    pub gap: bool,
}

/// One device read of a read.
#[derive(Debug)]
pub(crate) struct Bio {
    pub read: usize,
    pub runs: SmallVec<[Run; 1]>,
    /// Where in its piece the block belongs that this bio reads a second time.
    pub again: Option<usize>,
    /// The part of its request that it is, to the trace.
    pub part: u32,
}

impl Bio {
    /// Blocks that were asked for.
    pub fn blocks(&self) -> usize {
        self.runs.iter().map(|run| run.expected.len()).sum()
    }

    /// Its runs with their buffers, out of all that it read.
    pub fn runs_of<'a>(&'a self, bufs: &'a Bufs) -> impl Iterator<Item = (&'a Run, &'a Buf)> {
        let mut bufs = bufs.iter();
        self.runs.iter().filter_map(move |run| {
            if run.gap {
                bufs.next();
            }
            Some((run, bufs.next()?))
        })
    }
}

/// The bio that is being put together: what has been found adjacent so far.
#[derive(Debug)]
pub(crate) struct Growing {
    bio: Bio,
    bufs: Bufs,
    /// First block behind it, and how many it covers.
    next: u64,
    blocks: u64,
}

/// The most blocks that are read and thrown away so that a bio can go on: the header of a full record.
const GAP_MAX: u64 = 3;

impl Lane {
    /// Lets the bio that is being put together grow by a run that lies behind it, or begins the next one.
    pub fn grow(&mut self, id: usize, mut run: Run, buf: Buf) {
        let len = run.expected.len() as u64;
        let segment = self.segments.of(run.addr);
        let limit = self.placement.bio.blocks;
        let gap = self.reads.growing.as_ref().and_then(|growing| {
            let gap = run.addr.checked_sub(growing.next)?;
            // A short bio is not made longer by what nobody wants.
            let worth = gap == 0 || (gap <= GAP_MAX && gap <= growing.blocks);
            let fits = growing.blocks + gap + len <= limit
                && self.segments.of(growing.next - 1) == segment;
            (worth && fits).then_some(gap)
        });
        if gap.is_none() {
            self.send_grown();
        }
        let growing = self.reads.growing.get_or_insert_with(|| Growing {
            bio: Bio { read: id, runs: SmallVec::new(), again: None, part: 0 },
            bufs: Bufs::new(),
            next: run.addr,
            blocks: 0,
        });
        if let Some(gap) = gap.filter(|gap| *gap > 0) {
            run.gap = true;
            growing.bufs.push(Buf::new(usize::try_from(gap).unwrap_or(0) * BLOCK_SIZE));
            growing.blocks += gap;
        }
        growing.next = run.addr + len;
        growing.blocks += len;
        growing.bio.runs.push(run);
        growing.bufs.push(buf);
        if growing.blocks >= limit {
            self.send_grown();
        }
    }

    /// Sends the bio that has been put together. With a limit it leaves at once, while the rest of its request is still
    /// being prepared.
    pub fn send_grown(&mut self) {
        let Some(Growing { bio, bufs, .. }) = self.reads.growing.take() else { return };
        let read = self.reads.get(bio.read);
        read.flying += 1;
        let more = read.at < read.end;
        self.send_bio(bio, bufs);
        // A worker beside has it already; to submit would be to do the next one here instead of preparing it.
        if self.placement.bio.early && more && !self.queue.works_beside() {
            self.queue.submit();
        }
    }

    pub fn send_bio(&mut self, mut bio: Bio, bufs: Bufs) {
        let addr = bio.runs.first().map_or(0, |run| run.addr);
        self.segments.pin(self.segments.of(addr));
        let (device, offset) = profile::locate(&self.geometry.superblock, addr);
        let id = self.reads.bios.vacant_key();
        bio.part = self.trace_bio(&bio, id);
        self.reads.bios.insert(bio);
        self.queue.push(Op {
            tag: tag(Class::Read, id as u64),
            device,
            offset,
            action: Action::Read(bufs),
        });
        // A device that works by itself begins at once; only a deep queue is worth a batch.
        if self.tuning.eager_reads
            && self.placement.bio.early
            && self.queue.in_flight() <= EAGER_DEPTH
        {
            self.queue.submit();
        }
    }

    /// Takes a bio out of the table: its device read has ended.
    pub fn take_bio(&mut self, id: u64) -> Bio {
        let bio = self.reads.bios.remove(usize::try_from(id).unwrap_or(usize::MAX));
        let addr = bio.runs.first().map_or(0, |run| run.addr);
        self.segments.unpin(self.segments.of(addr));
        bio
    }
}
