//! Reading a whole volume after an opening and comparing it with the model.

use std::collections::BTreeSet;

use oxblock::{Buf, Completion, Request, RequestKind};

use crate::content::{BLOCK, BLOCK_LEN, small};
use crate::model::{Seen, Violation};
use crate::trouble::Trouble;
use crate::world::World;

/// Blocks of one read.
const CHUNK: u64 = 128;
/// Volumes up to this many blocks are read from end to end after every opening.
const TINY: u64 = 128;
/// Volumes up to this many blocks are read from end to end now and then; larger ones where something may be.
const WHOLE: u64 = 32 << 8;
/// Blocks that were not written to lately and are looked at all the same.
const SAMPLES: u64 = 6;

/// Runs of blocks out of blocks in order, each as long as one read at the most.
pub(crate) fn runs(blocks: impl Iterator<Item = u64>) -> Vec<(u64, u64)> {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for at in blocks {
        match runs.last_mut() {
            Some((from, end)) if *end == at && *end - *from < CHUNK => *end += 1,
            _ => runs.push((at, at + 1)),
        }
    }
    runs
}

impl World {
    /// Reads what may have changed and a sample of the rest, in some lives everything, and judges it; from then on it is
    /// the base.
    ///
    /// # Errors
    /// A state that no prefix explains.
    pub fn verify(&mut self) -> Result<(), Violation> {
        let all = self.rng.below(8) == 0;
        self.verify_opening(true, all)
    }

    /// The blocks to look at after an opening.
    fn choose_ranges(&mut self, all: bool) -> Vec<(u64, u64)> {
        let end = self.plan.size.div_ceil(BLOCK);
        if end <= TINY || all && end <= WHOLE {
            return runs(0..end);
        }
        let mut blocks: BTreeSet<u64> = match all {
            true => self.model.touched().collect(),
            false => self.model.recent().collect(),
        };
        for _ in 0..SAMPLES {
            let at = self.rng.below(end);
            blocks.insert(at);
            blocks.extend(self.model.touched_from(at));
        }
        runs(blocks.into_iter())
    }

    /// As [`verify`](Self::verify) after an opening that made what it found durable, or, as read-only ones, did not: what
    /// an engine that was killed has left in the device's cache may still get lost.
    ///
    /// # Errors
    /// A state that no prefix explains.
    pub fn verify_opening(&mut self, durable: bool, all: bool) -> Result<(), Violation> {
        self.coverage.full_checks += u64::from(all);
        let mut bufs: Vec<(u64, Buf, Vec<u64>)> = Vec::new();
        for (from, to) in self.choose_ranges(all) {
            match self.read_now(from, to)? {
                Some(found) => bufs.push(found),
                None => return Ok(()),
            }
        }
        let seen: Vec<(u64, Seen<'_>)> = bufs
            .iter()
            .flat_map(|(first, buf, bad)| {
                (*first..).zip(buf.chunks_exact(BLOCK_LEN)).map(|(at, bytes)| {
                    (at, if bad.contains(&at) { Seen::Failed } else { Seen::Bytes(bytes) })
                })
            })
            .collect();
        self.model.check_opening(&seen, durable)
    }

    /// Reads blocks at once; `None` when the power failed meanwhile.
    fn read_now(&mut self, from: u64, to: u64) -> Result<Option<(u64, Buf, Vec<u64>)>, Violation> {
        let mut tries = 0;
        let (found, error) = loop {
            let Some(done) = self.read_once(from, to)? else { return Ok(None) };
            let found = done.buf.unwrap_or_else(|| Buf::new(0));
            let Err(error) = done.result else { return Ok(Some((from, found, Vec::new()))) };
            match self.plan.trouble {
                trouble if trouble.is_sound() => {
                    return Err(format!("verify: {:?}: {error}", error.kind()));
                }
                // A transient fault may hit a block twice in a row, hardly ten times.
                Trouble::Transient if tries < 9 => tries += 1,
                Trouble::Silent => break (found, error),
                _ => {
                    // A node that came damaged three times in a row is given up until the next opening.
                    self.trouble_ends();
                    self.drop_volume();
                    match self.open(false, false) {
                        Ok(_) => tries = 0,
                        Err(_) if self.disk.is_off() => return Ok(None),
                        Err(error) => return Err(format!("open again: {error}")),
                    }
                }
            }
        };
        self.coverage.damaged_reads += 1;
        // Blocks that fail one by one and those under a lost node alike.
        let bad: Vec<u64> = error.blocks().iter().map(|bad| bad.block).collect();
        if bad.is_empty() || bad.iter().any(|block| !(from..to).contains(block)) {
            return Err(format!("a read of blocks {from} to {to} fails for {bad:?}: {error}"));
        }
        Ok(Some((from, found, bad)))
    }

    /// One read, alone; `None` when no volume is open, or the power failed meanwhile.
    fn read_once(&mut self, from: u64, to: u64) -> Result<Option<Completion>, Violation> {
        let Some(volume) = &mut self.volume else { return Ok(None) };
        let buf = Buf::new(small(to - from) * BLOCK_LEN);
        let kind = RequestKind::Read { offset: from * BLOCK, buf };
        volume.queue(Request { tag: u64::MAX, kind });
        let mut done = Vec::new();
        for _ in 0..100_000 {
            volume.submit();
            volume.poll(&mut done);
            if let Some(done) = done.pop() {
                return Ok(Some(done).filter(|_| !self.disk.is_off()));
            }
            volume.wait(None);
        }
        Err("a read never completes".into())
    }
}
