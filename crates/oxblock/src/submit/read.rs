//! Reads: look up, merge what is adjacent, read, verify every block against its pointer, hand over.
//!
//! A read's buffer is cut into pieces as the lookup goes along; a piece leaves as soon as it is known where it lies, and
//! when all have come back they are joined again. A block that does not verify is read once more by itself; if it still
//! does not, it is zeroed and listed, and the request fails for exactly the blocks that are listed.

use std::ops::Range;

use slab::Slab;
use smallvec::{SmallVec, smallvec};

use crate::complete::policy::EndFacts;
use crate::complete::verify::Mismatch;
use crate::device::{Buf, Bufs};
use crate::error::{BadBlock, Error, ErrorKind, Result};
use crate::format::layout::{BLOCK_BYTES, BLOCK_SIZE};
use crate::format::pointer::Pointer;
use crate::lane::Lane;
use crate::map::Miss;
use crate::profile;
use crate::submit::bio::{Bio, Growing, Run};
use crate::submit::queue::outer_blocks;
use crate::submit::write::lost_node;
use crate::trace::Ticket;

/// Who gets what was read.
#[derive(Debug)]
pub(crate) enum ReadOwner {
    /// A request.
    Request(Ticket),
    /// A request whose range or buffer is not aligned: its buffer, and where it begins within the first block.
    Unaligned { ticket: Ticket, buf: Buf, start: usize },
    /// A read-modify-write that needs one of its edge blocks.
    Rmw(usize),
}

/// A read under way.
#[derive(Debug)]
pub(crate) struct Read {
    owner: ReadOwner,
    /// First block.
    block: u64,
    /// The next block to look up.
    pub at: u64,
    pub end: u64,
    /// The buffer from `at` on.
    rest: Option<Buf>,
    /// The buffer before `at`, in order; `None` for a piece in flight.
    pieces: SmallVec<[Option<Buf>; 1]>,
    pub flying: u32,
    bad: Vec<BadBlock>,
    error: Option<Error>,
    /// Its client would verify it: the engine only fetches.
    client: bool,
    /// A map node had to be read for it.
    missed: bool,
    /// What the client has to verify: first byte in the buffer, first block, checksums.
    claims: Vec<(usize, u64, SmallVec<[u128; 1]>)>,
}

/// The tables of reads and of their bios.
#[derive(Debug, Default)]
pub(crate) struct Reads {
    /// Queued and not begun.
    queued: Vec<usize>,
    table: Slab<Read>,
    pub bios: Slab<Bio>,
    /// Scratch for lookups.
    pointers: Vec<Pointer>,
    /// The bio that is being put together.
    pub growing: Option<Growing>,
}

impl Reads {
    /// Reads that are not completed.
    pub fn open(&self) -> usize {
        self.table.len()
    }

    /// Who gets what a read reads.
    pub fn owner(&self, id: usize) -> Option<&ReadOwner> {
        self.table.get(id).map(|read| &read.owner)
    }

    fn look(&self, id: usize) -> &Read {
        match self.table.get(id) {
            Some(read) => read,
            None => unreachable!("read {id} is not open"),
        }
    }

    pub fn get(&mut self, id: usize) -> &mut Read {
        match self.table.get_mut(id) {
            Some(read) => read,
            None => unreachable!("read {id} is not open"),
        }
    }
}

impl Lane {
    /// Begins a read of any alignment; `aligned` judges whether the buffer can be read into.
    pub fn start_read(
        &mut self,
        ticket: Ticket,
        offset: u64,
        buf: Buf,
        client: bool,
        aligned: impl Fn(u64, &Buf) -> bool,
    ) {
        let blocks = outer_blocks(offset, buf.len() as u64);
        if aligned(offset, &buf) {
            self.begin_read(ReadOwner::Request(ticket), blocks, buf, client);
            return;
        }
        let start = usize::try_from(offset % BLOCK_BYTES).unwrap_or(0);
        let whole = Buf::new((start + buf.len()).next_multiple_of(BLOCK_SIZE));
        self.begin_read(ReadOwner::Unaligned { ticket, buf, start }, blocks, whole, false);
    }

    /// Begins a read of one block into a buffer of its own.
    pub fn start_block_read(&mut self, owner: ReadOwner, block: u64) {
        self.begin_read(owner, block..block + 1, Buf::new(BLOCK_SIZE), false);
    }

    fn begin_read(&mut self, owner: ReadOwner, blocks: Range<u64>, buf: Buf, client: bool) {
        self.counters.read_blocks += blocks.end - blocks.start;
        let id = self.reads.table.insert(Read {
            owner,
            block: blocks.start,
            at: blocks.start,
            end: blocks.end,
            rest: Some(buf),
            pieces: SmallVec::new(),
            flying: 0,
            bad: Vec::new(),
            error: None,
            client,
            missed: false,
            claims: Vec::new(),
        });
        self.reads.queued.push(id);
    }

    /// Begins the reads that were queued; true when there were any.
    pub fn start_reads(&mut self) -> bool {
        if self.reads.queued.is_empty() {
            return false;
        }
        let mut queued = std::mem::take(&mut self.reads.queued);
        if queued.len() > 1 {
            // All look-ups first: those that miss the processor's caches overlap, and nodes that are not cached are
            // fetched together.
            for id in &queued {
                let block = self.reads.get(*id).block;
                if let Err(miss) = std::hint::black_box(self.map.get(block))
                    && !self.fetches.is_lost(miss.key)
                {
                    self.fetch(miss, None);
                }
            }
        }
        for id in queued.drain(..) {
            self.advance_read(id);
        }
        if self.reads.queued.is_empty() {
            self.reads.queued = queued;
        }
        true
    }

    /// Looks up and sends as far as the nodes at hand allow.
    pub fn advance_read(&mut self, id: usize) {
        self.trace_look_up(id);
        let mut pointers = std::mem::take(&mut self.reads.pointers);
        loop {
            let read = self.reads.get(id);
            let (at, end) = (read.at, read.end);
            if at >= end {
                break;
            }
            pointers.clear();
            match self.map.get_run(at, end - at, &mut pointers) {
                Ok(_) => self.add_runs(id, &pointers),
                Err(miss) if self.fetches.is_lost(miss.key) => self.skip_lost(id, miss),
                Err(miss) => {
                    self.fetch(miss, Some(id));
                    self.reads.get(id).missed = true;
                    break;
                }
            }
        }
        self.send_grown();
        self.reads.pointers = pointers;
        self.finish_read(id);
    }

    /// Adds the blocks that `pointers` point to, from the read's position on: adjacent ones together.
    fn add_runs(&mut self, id: usize, pointers: &[Pointer]) {
        let mut left = pointers;
        while let Some(first) = left.first() {
            let mut len = 1;
            if !first.leads_somewhere() {
                len = left.iter().take_while(|pointer| *pointer == first).count();
            } else {
                let limit = usize::try_from(self.placement.bio.blocks).unwrap_or(usize::MAX);
                let segment = self.segments.of(first.addr);
                while let Some(next) = left.get(len)
                    && len < limit
                    && next.addr == first.addr + len as u64
                    && self.segments.of(next.addr) == segment
                {
                    len += 1;
                }
            }
            let (run, rest) = left.split_at(len);
            left = rest;
            if first.is_lost() {
                self.add_lost(id, run.len());
            } else {
                self.add_run(id, run);
            }
        }
    }

    fn add_run(&mut self, id: usize, run: &[Pointer]) {
        let read = self.reads.get(id);
        let block = read.at;
        read.at += run.len() as u64;
        let piece = read.pieces.len();
        let Some(mut buf) = read.rest.take() else { unreachable!("read {id} ran out of buffer") };
        if read.at < read.end {
            read.rest = Some(buf.split_off(run.len() * BLOCK_SIZE));
        }
        let addr = run.first().map_or(0, |pointer| pointer.addr);
        if addr == 0 {
            buf.fill(0);
            read.pieces.push(Some(buf));
            return;
        }
        read.pieces.push(None);
        let expected = run.iter().map(|pointer| pointer.csum).collect();
        self.grow(id, Run { piece, block, addr, expected, gap: false }, buf);
    }

    /// The blocks under a lost node cannot be located: they are zeroed and listed, and the read fails.
    fn skip_lost(&mut self, id: usize, miss: Miss) {
        let end = self.map.end_of(miss.key);
        let why = self.fetches.why_lost(miss.key);
        let (device, offset) = profile::locate(&self.geometry.superblock, miss.pointer.addr);
        let read = self.reads.get(id);
        read.error.get_or_insert(lost_node(read.at, why));
        let blocks = read.at..end.min(read.end);
        let count = usize::try_from(blocks.end - blocks.start).unwrap_or(0);
        let expected = miss.pointer.csum;
        read.bad.extend(blocks.map(|block| BadBlock {
            block,
            device,
            offset,
            expected,
            got: None,
        }));
        self.add_run(id, &vec![Pointer::NULL; count]);
    }

    /// Blocks of which nobody knows what they held: they are zeroed and listed, and the read fails.
    fn add_lost(&mut self, id: usize, count: usize) {
        let read = self.reads.get(id);
        let first = read.at;
        read.error.get_or_insert_with(|| lost_block(first));
        let blocks = first..first + count as u64;
        read.bad.extend(blocks.map(|block| BadBlock {
            block,
            device: 0,
            offset: 0,
            expected: 0,
            got: None,
        }));
        self.add_run(id, &vec![Pointer::NULL; count]);
    }

    /// What completing a bio involves, to the rule.
    pub fn read_facts(&self, bio: &Bio, failed: bool) -> EndFacts {
        let read = self.reads.look(bio.read);
        let partial = !matches!(read.owner, ReadOwner::Request(_));
        EndFacts { node_missing: read.missed, partial, failed, ..EndFacts::default() }
    }

    /// Leaves a bio to the client of its read, if there is one that wants it; the client verifies it then.
    pub fn leave_to_client(&mut self, bio: &Bio) -> bool {
        let read = self.reads.get(bio.read);
        // A second read is the engine's, and finds out what is wrong.
        if !read.client || bio.again.is_some() {
            return false;
        }
        let first = read.block;
        read.claims.extend(bio.runs.iter().map(|run| {
            let blocks = usize::try_from(run.block - first).unwrap_or(usize::MAX);
            (blocks * BLOCK_SIZE, run.block, run.expected.clone())
        }));
        true
    }

    /// A bio is done and verified: `bad` does not fit its pointers, or all of it `failed`.
    pub fn bio_done(&mut self, bio: Bio, bufs: Bufs, failed: bool, bad: &[Mismatch]) {
        if !bad.is_empty() {
            self.count_cleared(&EndFacts { failed: true, ..EndFacts::default() });
        }
        self.trace_verified(&bio);
        self.reads.get(bio.read).flying -= 1;
        let mut bufs = bufs.into_iter();
        let mut bad = bad.iter().peekable();
        let mut index = 0;
        for run in &bio.runs {
            if run.gap {
                bufs.next();
            }
            let Some(mut buf) = bufs.next() else { unreachable!("a read without a buffer") };
            let mut retries: SmallVec<[usize; 4]> = SmallVec::new();
            for (at, (data, expected)) in
                buf.chunks_exact_mut(BLOCK_SIZE).zip(&run.expected).enumerate()
            {
                let got = bad.next_if(|(bad, _)| *bad == index).map(|(_, got)| *got);
                index += 1;
                if !failed && got.is_none() {
                    continue;
                }
                data.fill(0);
                if bio.again.is_none() {
                    self.counters.second_reads += 1;
                    retries.push(at);
                    continue;
                }
                self.counters.checksum_errors += u64::from(!failed);
                let (block, addr) = (run.block + at as u64, run.addr + at as u64);
                let (device, offset) = profile::locate(&self.geometry.superblock, addr);
                let bad = BadBlock { block, device, offset, expected: *expected, got };
                self.reads.get(bio.read).bad.push(bad);
            }
            self.place_run(&bio, run, buf);
            for at in retries {
                self.read_again(bio.read, run, at);
            }
        }
        self.finish_read(bio.read);
    }

    /// Puts what was read where it belongs.
    fn place_run(&mut self, bio: &Bio, run: &Run, buf: Buf) {
        let Some(piece) = self.reads.get(bio.read).pieces.get_mut(run.piece) else { return };
        let Some(at) = bio.again else {
            *piece = Some(buf);
            return;
        };
        let at = at * BLOCK_SIZE;
        if let Some(target) = piece.as_mut().and_then(|piece| piece.get_mut(at..at + BLOCK_SIZE)) {
            target.copy_from_slice(&buf);
        }
    }

    /// Reads block `at` of a run once more, by itself.
    fn read_again(&mut self, read: usize, run: &Run, at: usize) {
        self.reads.get(read).flying += 1;
        let expected = run.expected.get(at).copied().unwrap_or_default();
        let run = Run {
            piece: run.piece,
            block: run.block + at as u64,
            addr: run.addr + at as u64,
            expected: smallvec![expected],
            gap: false,
        };
        let again = Bio { read, runs: smallvec![run], again: Some(at), part: 0 };
        self.send_bio(again, smallvec![Buf::new(BLOCK_SIZE)]);
    }

    /// Completes the read if everything has come back.
    fn finish_read(&mut self, id: usize) {
        let read = self.reads.get(id);
        if read.at < read.end || read.flying > 0 {
            return;
        }
        let read = self.reads.table.remove(id);
        let mut pieces = read.pieces.into_iter().flatten();
        let Some(mut whole) = pieces.next() else { unreachable!("a read without pieces") };
        for piece in pieces {
            assert!(whole.join(piece).is_ok(), "pieces of a read came back out of order");
        }
        let mut bad = read.bad;
        bad.sort_unstable_by_key(|bad| bad.block);
        let result = match read.error {
            Some(error) => Err(error.listing(bad)),
            None if !bad.is_empty() => Err(Error::bad_blocks(bad)),
            None => Ok(()),
        };
        if let ReadOwner::Request(ticket) = read.owner
            && !read.claims.is_empty()
            && result.is_ok()
        {
            let claim = self.claim(read.claims);
            self.claims.push_back((ticket.tag, claim));
        }
        self.deliver(read.owner, read.block, whole, result);
    }

    fn deliver(&mut self, owner: ReadOwner, block: u64, whole: Buf, result: Result<()>) {
        match owner {
            ReadOwner::Request(ticket) => self.complete(ticket, Some(whole), result),
            ReadOwner::Unaligned { ticket, mut buf, start } => {
                let len = buf.len();
                if let Some(from) = whole.get(start..start + len) {
                    buf.copy_from_slice(from);
                }
                self.complete(ticket, Some(buf), result);
            }
            ReadOwner::Rmw(id) => self.rmw_read(id, block, &whole, result),
        }
    }
}

fn lost_block(block: u64) -> Error {
    let message = format!(
        "block {block} was lost: its map node was damaged and no record proves its content; write or trim it to use it again"
    );
    Error::new(ErrorKind::Corrupt, message)
}
