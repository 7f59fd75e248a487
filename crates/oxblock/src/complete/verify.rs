//! Finished operations at workers: reads are verified there, and writes pass through.
//!
//! Under the policy `worker` every operation that ended well goes to a worker before the engine deals with it: a read is
//! verified there, and a record is only handed over and back, which is what such a policy costs. Under `auto` a read goes
//! there when verifying it takes much longer than the hand-off. What failed stays with the engine, since it needs more
//! I/O.

use std::any::Any;

use smallvec::SmallVec;

#[cfg(feature = "canary")]
use crate::canary::{self, Canary};
use crate::complete::policy::{Cleared, CompletePolicy, EndFacts, cleared};
use crate::csum::Csum;
use crate::device::{Bufs, Done, Work};
use crate::format::layout::BLOCK_SIZE;
use crate::format::pointer::identity;
use crate::lane::{Class, Lane};
use crate::submit::bio::Bio;

/// A block that does not verify: its place among the blocks of its bio, and its checksum.
pub(crate) type Mismatch = (usize, u128);

/// The blocks of `bufs`, as `bio` lays them out, that do not fit their pointers.
pub(crate) fn verify(csum: &Csum, bio: &Bio, bufs: &Bufs) -> Vec<Mismatch> {
    let mut bad = Vec::new();
    #[cfg(feature = "canary")]
    if canary::is(Canary::ReadUnverified) {
        return bad;
    }
    let mut index = 0;
    for (run, buf) in bio.runs_of(bufs) {
        for ((block, data), expected) in
            (run.block..).zip(buf.chunks_exact(BLOCK_SIZE)).zip(&run.expected)
        {
            let got = csum.of(identity::data(block), data);
            if got != *expected {
                bad.push((index, got));
            }
            index += 1;
        }
    }
    bad
}

/// What a client thread has to verify of its read: the policy `issuer`, with several client threads on one volume.
#[derive(Debug)]
pub(crate) struct Claim {
    csum: Csum,
    /// First byte in the buffer, first block, and the checksums from there on.
    runs: Vec<(usize, u64, SmallVec<[u128; 1]>)>,
}

impl Claim {
    /// Whether every block of `data` is what its pointer says. If not, the read must be made once more, by the engine.
    pub fn holds(&self, data: &[u8]) -> bool {
        self.runs.iter().all(|(start, block, expected)| {
            let data = data.get(*start..).unwrap_or_default();
            data.len() >= expected.len() * BLOCK_SIZE
                && (*block..)
                    .zip(data.chunks_exact(BLOCK_SIZE))
                    .zip(expected)
                    .all(|((block, data), sum)| self.csum.of(identity::data(block), data) == *sum)
        })
    }
}

/// The job.
enum EndWork {
    Read { csum: Csum, bio: Box<Bio>, bufs: Bufs, bad: Vec<Mismatch> },
    Record { sequence: u64, bufs: Bufs },
}

impl Work for EndWork {
    fn run(&mut self) {
        match self {
            Self::Read { csum, bio, bufs, bad } => *bad = verify(csum, bio, bufs),
            Self::Record { .. } => {}
        }
    }
}

impl Lane {
    /// Why an operation is completed by the engine as a continuation of its I/O, if it is; counted.
    pub fn count_cleared(&mut self, end: &EndFacts) -> Option<Cleared> {
        let why = cleared(end)?;
        *match why {
            Cleared::Node => &mut self.counters.cleared_node,
            Cleared::Partial => &mut self.counters.cleared_partial,
            Cleared::Flush => &mut self.counters.cleared_flush,
            Cleared::Retry => &mut self.counters.cleared_retry,
        } += 1;
        Some(why)
    }

    /// A device read has ended.
    pub fn bio_ended(&mut self, id: u64, done: Done) {
        let bio = self.take_bio(id);
        let failed = done.result.is_err();
        let cleared = self.count_cleared(&self.read_facts(&bio, failed)).is_some();
        let policy = self.placement.complete();
        if policy != CompletePolicy::Worker && !cleared && self.leave_to_client(&bio) {
            self.counters.client_ends += 1;
            self.bio_done(bio, done.bufs, false, &[]);
            return;
        }
        let to_worker = match policy {
            CompletePolicy::Issuer => false,
            CompletePolicy::Worker => true,
            CompletePolicy::Auto => self.placement.is_worth(bio.blocks()),
        };
        if to_worker && !failed {
            self.counters.worker_ends += 1;
            let cost = self.placement.cost(bio.blocks());
            let (csum, bio) = (self.geometry.csum, Box::new(bio));
            let work = EndWork::Read { csum, bio, bufs: done.bufs, bad: Vec::new() };
            let handed_over = policy == CompletePolicy::Worker;
            self.run_job(Class::End, Box::new(work), cost, handed_over);
            return;
        }
        self.counters.issuer_ends += 1;
        let bad = if failed { Vec::new() } else { verify(&self.geometry.csum, &bio, &done.bufs) };
        self.bio_done(bio, done.bufs, failed, &bad);
    }

    /// The claim on the blocks of a read, for its client.
    pub fn claim(&self, runs: Vec<(usize, u64, SmallVec<[u128; 1]>)>) -> Claim {
        Claim { csum: self.geometry.csum, runs }
    }

    /// The device write of a record has ended.
    pub fn record_ended(&mut self, sequence: u64, done: Done) {
        if done.result.is_ok() && self.placement.complete() == CompletePolicy::Worker {
            self.counters.worker_ends += 1;
            let work = EndWork::Record { sequence, bufs: done.bufs };
            self.run_job(Class::End, Box::new(work), 0, true);
            return;
        }
        self.counters.issuer_ends += 1;
        self.record_written(sequence, done.bufs, done.result);
    }

    /// A finished operation comes back from a worker.
    pub fn end_returned(&mut self, done: Done) {
        let work: Option<Box<dyn Any>> = done.work.map(|work| work as _);
        let Some(work) = work.and_then(|work| work.downcast::<EndWork>().ok()) else {
            unreachable!("a job came back as another")
        };
        match *work {
            EndWork::Read { bio, bufs, bad, .. } => self.bio_done(*bio, bufs, false, &bad),
            EndWork::Record { sequence, bufs } => self.record_written(sequence, bufs, Ok(())),
        }
    }
}
