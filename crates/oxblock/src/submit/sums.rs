//! Checksums of a record that workers compute.
//!
//! The record has its sequence number and its place by then; what it lacks are the checksums in its header. Its payload
//! is cut into pieces, each of which is a job that owns its blocks. When the last piece is back the header is encoded and
//! the record is sent. Records behind it go on meanwhile, and retirement puts them all in order again.

use std::any::Any;

use crate::csum::Csum;
use crate::device::{Buf, Bufs, Done, Job, Work};
use crate::format::layout::{BLOCK_BYTES, BLOCK_SIZE, MAX_RECORD_PAYLOAD};
use crate::format::pointer::identity;
use crate::format::record::Entry;
use crate::lane::{Class, Lane, tag};
use crate::submit::policy::{Layout, SubmitPolicy, WriteFacts, rule};

/// What one job should take, in nanoseconds: many times a hand-off, so that the hand-off hardly shows, and little enough
/// that several can share a record.
const PIECE_NS: u64 = 40_000;

/// Blocks that lie together in memory and in the volume.
struct Run {
    /// Place in the record's list of fragments.
    fragment: usize,
    /// First logical block.
    block: u64,
    buf: Buf,
}

/// The job: checksums of some runs of a record.
struct SumWork {
    csum: Csum,
    sequence: u64,
    runs: Vec<Run>,
    /// The checksums, run by run.
    sums: Vec<u128>,
}

impl Work for SumWork {
    fn run(&mut self) {
        for run in &self.runs {
            for (block, data) in (run.block..).zip(run.buf.chunks_exact(BLOCK_SIZE)) {
                self.sums.push(self.csum.of(identity::data(block), data));
            }
        }
    }
}

/// One piece of a payload: all of a part, or what was cut off it.
#[derive(Debug)]
struct Fragment {
    /// Its first entry in the record.
    entry: usize,
    /// It continues the one before.
    joins: bool,
    /// `None` while a job has it.
    buf: Option<Buf>,
}

/// The payload of a record whose checksums are under way.
#[derive(Debug)]
pub(crate) struct Summing {
    fragments: Vec<Fragment>,
    /// Jobs that are out.
    jobs: usize,
}

impl Summing {
    /// The payload again, one buffer for each part.
    pub fn into_payload(self) -> Bufs {
        let mut payload = Bufs::new();
        for fragment in self.fragments {
            let Some(buf) = fragment.buf else { unreachable!("a fragment is still out") };
            match payload.last_mut().filter(|_| fragment.joins) {
                Some(last) => assert!(last.join(buf).is_ok(), "fragments of a part do not join"),
                None => payload.push(buf),
            }
        }
        payload
    }
}

/// A share of a write in the record that is being gathered, for judging where its checksum goes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Share {
    /// Blocks.
    pub blocks: usize,
    /// It must be durable when it is acknowledged.
    pub fua: bool,
    /// It is a part of a larger request.
    pub cut: bool,
}

impl Lane {
    /// Computes the checksums of a gathered record, or leaves those that workers shall compute: their payload comes back in
    /// pieces.
    pub fn sum_record(
        &mut self,
        entries: &mut [Entry],
        shares: &[Share],
        payload: &mut Bufs,
    ) -> Option<Summing> {
        let offloads: Vec<bool> = match self.placement.submit() {
            SubmitPolicy::Inline => Vec::new(),
            SubmitPolicy::Offload => vec![true; shares.len()],
            SubmitPolicy::Rules => shares.iter().map(|share| self.rule_offloads(share)).collect(),
            SubmitPolicy::Auto => {
                if self.placement.is_worth(entries.len()) {
                    vec![true; shares.len()]
                } else {
                    Vec::new()
                }
            }
        };
        if !offloads.contains(&true) {
            self.counters.inline_sums += entries.len() as u64;
            self.sum_inline(entries, payload);
            return None;
        }
        let piece = (PIECE_NS / self.placement.cost(1)).clamp(1, MAX_RECORD_PAYLOAD as u64);
        let piece = usize::try_from(piece).unwrap_or(MAX_RECORD_PAYLOAD);
        let mut fragments = Vec::with_capacity(payload.len());
        let mut entry = 0;
        for (index, mut buf) in std::mem::take(payload).into_iter().enumerate() {
            let blocks = buf.len() / BLOCK_SIZE;
            if !offloads.get(index).copied().unwrap_or(false) {
                if let Some(entries) = entries.get_mut(entry..entry + blocks) {
                    sum_run(&self.geometry.csum, entries, &buf);
                }
                self.counters.inline_sums += blocks as u64;
                fragments.push((Fragment { entry, joins: false, buf: Some(buf) }, false));
                entry += blocks;
                continue;
            }
            self.counters.offloaded_sums += blocks as u64;
            let mut joins = false;
            while buf.len() > piece * BLOCK_SIZE {
                let rest = buf.split_off(piece * BLOCK_SIZE);
                fragments.push((Fragment { entry, joins, buf: Some(buf) }, true));
                (buf, joins, entry) = (rest, true, entry + piece);
            }
            let blocks = buf.len() / BLOCK_SIZE;
            fragments.push((Fragment { entry, joins, buf: Some(buf) }, true));
            entry += blocks;
        }
        Some(self.send_sums(fragments, entries, piece))
    }

    /// Sends the fragments that are marked as jobs of about `piece` blocks.
    fn send_sums(
        &mut self,
        fragments: Vec<(Fragment, bool)>,
        entries: &[Entry],
        piece: usize,
    ) -> Summing {
        let mut summing = Summing { fragments: Vec::with_capacity(fragments.len()), jobs: 0 };
        let mut runs = Vec::new();
        let mut blocks = 0;
        for (mut fragment, out) in fragments {
            if out && let Some(buf) = fragment.buf.take() {
                let count = buf.len() / BLOCK_SIZE;
                if blocks > 0 && blocks + count > piece {
                    self.send_sum(std::mem::take(&mut runs), &mut summing);
                    blocks = 0;
                }
                blocks += count;
                let block = entries.get(fragment.entry).map_or(0, |entry| entry.id);
                runs.push(Run { fragment: summing.fragments.len(), block, buf });
            }
            summing.fragments.push(fragment);
        }
        self.send_sum(runs, &mut summing);
        summing
    }

    fn send_sum(&mut self, runs: Vec<Run>, summing: &mut Summing) {
        let bytes: usize = runs.iter().map(|run| run.buf.len()).sum();
        if bytes == 0 {
            return;
        }
        summing.jobs += 1;
        let blocks = bytes / BLOCK_SIZE;
        let (csum, sequence) = (self.geometry.csum, self.log.next);
        let work = SumWork { csum, sequence, runs, sums: Vec::with_capacity(blocks) };
        let handed_over = self.placement.submit() != SubmitPolicy::Auto;
        self.run_job(Class::Sum, Box::new(work), self.placement.cost(blocks), handed_over);
    }

    /// Gives a job to the workers.
    pub fn run_job(&mut self, class: Class, work: Box<dyn Work>, cost: u64, handed_over: bool) {
        self.jobs_sent += 1;
        self.queue.run(Job { tag: tag(class, self.jobs_sent), work, cost, handed_over });
    }

    fn rule_offloads(&self, share: &Share) -> bool {
        rule(&WriteFacts {
            fast: self.placement.force.costs.is_fast(),
            sync: share.fua,
            metadata: false,
            zoned: self.geometry.limits.zoned,
            layout: Layout::Single,
            bytes: share.blocks as u64 * BLOCK_BYTES,
            split: share.cut,
        })
        .offloads()
    }

    fn sum_inline(&self, entries: &mut [Entry], payload: &Bufs) {
        let mut rest = entries;
        for buf in payload {
            let (these, later) = rest.split_at_mut((buf.len() / BLOCK_SIZE).min(rest.len()));
            sum_run(&self.geometry.csum, these, buf);
            rest = later;
        }
    }

    /// A job has come back: its checksums go into their record, and the record goes out with the last of them.
    pub fn summed(&mut self, done: Done) {
        let work: Option<Box<dyn Any>> = done.work.map(|work| work as _);
        let Some(work) = work.and_then(|work| work.downcast::<SumWork>().ok()) else {
            unreachable!("a job came back as another")
        };
        let SumWork { sequence, runs, sums, .. } = *work;
        let Some(record) = self.log.record_mut(sequence) else {
            unreachable!("record {sequence} is not in the log")
        };
        let Some(summing) = record.summing.as_mut() else {
            unreachable!("record {sequence} waits for no checksums")
        };
        let mut sums = sums.into_iter();
        for run in runs {
            let Some(fragment) = summing.fragments.get_mut(run.fragment) else {
                unreachable!("a fragment that was never cut")
            };
            let entries = record.entries.get_mut(fragment.entry..).unwrap_or_default();
            let blocks = run.buf.len() / BLOCK_SIZE;
            for (entry, sum) in entries.iter_mut().take(blocks).zip(&mut sums) {
                entry.csum = sum;
            }
            fragment.buf = Some(run.buf);
        }
        summing.jobs -= 1;
        if summing.jobs == 0
            && let Some(summing) = record.summing.take()
        {
            self.log.summing -= 1;
            self.send_record(sequence, summing.into_payload());
        }
    }
}

fn sum_run(csum: &Csum, entries: &mut [Entry], data: &[u8]) {
    for (entry, data) in entries.iter_mut().zip(data.chunks_exact(BLOCK_SIZE)) {
        entry.csum = csum.of(identity::data(entry.id), data);
    }
}
