//! One run's state: the device, the volume on it, the model beside it, and what is under way.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use oxblock::device::sim::{Rng, SimDisk};
use oxblock::volume::{FindingKind, check_on, create_on};
use oxblock::{Completion, CreateOptions, ErrorKind, OpenOptions, Request, RequestKind, Volume};

use crate::content::{BLOCK, small};
use crate::coverage::Coverage;
use crate::history::Moment;
use crate::mask::{Mask, chance};
use crate::model::{Model, Violation};
use crate::plan::Plan;
use crate::probe::{Failures, Probe};
use crate::sabotage::Sabotage;
use crate::trouble::{Past, Trouble};

/// A request under way.
#[derive(Debug, Clone, Copy)]
pub enum Pending {
    /// A read from byte `from` on.
    Read {
        /// First byte.
        from: u64,
        /// When it was handed over.
        submitted: Moment,
    },
    /// A write, trim or zeroing, by its place in the model.
    Write(usize),
    /// A flush.
    Flush(Moment),
}

/// See the module.
pub struct World {
    /// What the seed stands for.
    pub plan: Plan,
    /// The device.
    pub disk: SimDisk,
    /// The volume, while it is open.
    pub volume: Option<Volume>,
    /// What it may hold.
    pub model: Model,
    /// Chance.
    pub rng: Rng,
    /// Requests under way, by tag.
    pub pending: BTreeMap<u64, Pending>,
    /// What was reached.
    pub coverage: Coverage,
    /// The lie told to the engine.
    pub sabotage: Sabotage,
    /// A device error has stopped writes.
    pub latched: bool,
    /// What writes have failed since the volume was opened.
    pub failures: Arc<Mutex<Failures>>,
    /// Hash over everything that happened.
    pub digest: u64,
    /// Steps so far, for reports.
    pub step: u64,
    /// Flushes acknowledged in this life.
    pub flushes: u64,
    /// What of the plan is played.
    pub mask: Mask,
    /// The number of the life.
    pub life: u64,
    /// The turn at which the device disappears.
    pub leaves: u64,
    /// What a stale device would come back as.
    pub past: Option<Past>,
    /// The turns that were played, with their lives.
    pub played: Vec<(u64, u64)>,
    /// What happened, if that was asked for.
    pub story: Option<RefCell<Vec<String>>>,
    loud: bool,
    tags: u64,
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World").field("plan", &self.plan).field("step", &self.step).finish()
    }
}

impl World {
    /// A fresh volume for `plan`.
    ///
    /// # Errors
    /// The engine refuses to make it.
    pub fn new(plan: Plan, sabotage: Sabotage) -> Result<Self, Violation> {
        Self::masked(plan, sabotage, Mask::default())
    }

    /// As [`new`](Self::new), of which only what `mask` leaves is played.
    ///
    /// # Errors
    /// The engine refuses to make it.
    pub fn masked(mut plan: Plan, sabotage: Sabotage, mask: Mask) -> Result<Self, Violation> {
        mask.plain.iter().for_each(|plain| plain.apply(&mut plan));
        let disk = SimDisk::single(plan.device.clone());
        let options =
            CreateOptions { size: Some(plan.size), csum: plan.csum, ..CreateOptions::default() };
        create_on(&mut disk.queue(), &options, "sim")
            .map_err(|error| format!("create: {error}"))?;
        let mut rng = Rng::new(plan.seed);
        let model = Model::new(plan.trouble == Trouble::Silent);
        disk.reseed(rng.next_u64());
        Ok(Self {
            plan,
            disk,
            volume: None,
            model,
            rng,
            pending: BTreeMap::new(),
            coverage: Coverage { runs: 1, ..Coverage::default() },
            sabotage,
            latched: false,
            failures: Arc::default(),
            digest: 0,
            step: 0,
            flushes: 0,
            mask,
            life: 0,
            leaves: u64::MAX,
            past: None,
            played: Vec::new(),
            story: None,
            loud: std::env::var_os("OXBLOCK_SIM_LOG").is_some(),
            tags: 0,
        })
    }

    /// Says what happens, when asked to by `OXBLOCK_SIM_LOG`, and keeps it for the [`story`](Self::story).
    pub fn log(&self, what: impl FnOnce() -> String) {
        if !self.loud && self.story.is_none() {
            return;
        }
        let line = format!("[{} ns, request {}] {}", self.disk.now(), self.step, what());
        if self.loud {
            eprintln!("{line}");
        }
        if let Some(story) = &self.story {
            story.borrow_mut().push(line);
        }
    }

    /// From here on chance is that of a turn of this life.
    pub fn draw_from(&mut self, turn: u64) {
        self.rng = chance(self.plan.seed, self.life, turn);
    }

    /// Takes a word into the digest.
    pub fn note(&mut self, word: u64) {
        let n = (self.digest.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.digest = n ^ (n >> 29);
    }

    /// How the volume is opened.
    fn options(&self) -> OpenOptions {
        OpenOptions {
            map_cache_bytes: self.plan.map_cache,
            policy: self.plan.policy,
            costs: Some(self.plan.costs),
            ..OpenOptions::default()
        }
    }

    fn queue_to_device(&mut self) -> Box<Probe> {
        self.failures = Arc::default();
        let failures = Arc::clone(&self.failures);
        Box::new(Probe::new(self.disk.queue(), self.sabotage, &self.plan, failures))
    }

    /// Checks the volume, which is not open, without changing it.
    ///
    /// # Errors
    /// It finds anything; the device must be sound.
    pub fn check(&mut self) -> Result<(), Violation> {
        self.coverage.checks += 1;
        let (queue, options) = (self.queue_to_device(), self.options());
        let report = check_on(queue, &options, &mut |_, _| {})
            .map_err(|error| format!("check ({:?}): {error}", error.kind()))?;
        self.log(|| format!("checked: {} findings", report.total_findings));
        self.note(report.blocks);
        // A copy of the superblock that a cut has torn is to be told to users, and no harm.
        let harm = report.findings.iter().find(|found| found.kind != FindingKind::Superblock);
        match harm {
            None => Ok(()),
            Some(finding) => Err(format!("check finds: {}", finding.line(&"device"))),
        }
    }

    /// Opens the volume.
    ///
    /// # Errors
    /// What the engine says.
    pub fn open(&mut self, read_only: bool, rollback: bool) -> oxblock::Result<()> {
        let options = OpenOptions { read_only, rollback, ..self.options() };
        let opened = Volume::open_on(self.queue_to_device(), &options);
        self.log(|| match &opened {
            Ok(volume) => format!("open read_only={read_only}: {:?}", volume.replayed()),
            Err(error) => format!("open read_only={read_only} rollback={rollback}: {error}"),
        });
        let volume = opened?;
        let replayed = volume.replayed();
        self.coverage.recoveries += u64::from(replayed.records > 0);
        self.coverage.replayed += replayed.records;
        self.note(replayed.records);
        self.latched = false;
        self.flushes = 0;
        self.volume = Some(volume);
        Ok(())
    }

    /// Whether the volume replayed anything when it was opened.
    pub fn has_replayed(&self) -> bool {
        self.volume.as_ref().is_some_and(|volume| volume.replayed().records > 0)
    }

    /// Lets go of the volume, as it is.
    pub fn drop_volume(&mut self) {
        self.gather_counters();
        self.volume = None;
        self.pending.clear();
    }

    /// Adds the counters of the volume that is about to go.
    pub fn gather_counters(&mut self) {
        let Some(volume) = &self.volume else { return };
        let counters = volume.counters();
        let map = volume.map_stats();
        let sum = &mut self.coverage;
        sum.requests += counters.requests;
        sum.records += counters.records;
        sum.checkpoints += counters.checkpoints;
        sum.cleaned += counters.cleaned_segments;
        sum.relocated += counters.relocated_blocks;
        sum.relocations_lost += counters.relocations_lost;
        sum.groups += counters.atomic_groups;
        sum.rmws += counters.read_modify_writes;
        sum.deferred += counters.deferred;
        sum.stalls += counters.space_stalls;
        sum.torn += counters.torn_records;
        sum.resent_data += counters.resent_data;
        sum.resent_relocations += counters.resent_relocations;
        sum.resent_nodes += counters.resent_nodes;
        sum.aborted += counters.checkpoints_aborted;
        sum.redone += counters.checkpoints_aborted.min(counters.checkpoints);
        sum.single += counters.single_superblocks;
        sum.evicted += map.evicted;
        sum.fetched += map.fetched;
        let words = [counters.records, counters.log_blocks, counters.checkpoints, map.fetched];
        for word in words {
            self.note(word);
        }
    }

    /// True while a checkpoint is under way.
    pub fn in_checkpoint(&self) -> bool {
        self.volume.as_ref().is_some_and(|volume| {
            let counters = volume.counters();
            counters.checkpoints_begun > counters.checkpoints + counters.checkpoints_aborted
        })
    }

    /// Hands a request over.
    pub fn queue(&mut self, kind: RequestKind, pending: Pending) {
        self.tags += 1;
        self.log(|| format!("queue {} {pending:?} {}", self.tags, brief(&kind)));
        self.pending.insert(self.tags, pending);
        if let Some(volume) = &mut self.volume {
            volume.queue(Request { tag: self.tags, kind });
        }
    }

    /// When the oldest read under way was handed over.
    fn oldest_read(&self) -> Moment {
        let reads = self.pending.values().filter_map(|pending| match pending {
            Pending::Read { submitted, .. } => Some(*submitted),
            _ => None,
        });
        reads.min().unwrap_or(Moment::MAX)
    }

    /// Submits and polls once.
    ///
    /// # Errors
    /// A completion that the model refuses.
    pub fn pump(&mut self) -> Result<usize, Violation> {
        let mut done = Vec::new();
        if let Some(volume) = &mut self.volume {
            volume.submit();
            volume.poll(&mut done);
        }
        let count = done.len();
        for done in done {
            self.completed(done)?;
        }
        self.check_counters()?;
        Ok(count)
    }

    /// On a sound device nothing ever fails to verify, not even once.
    fn check_counters(&self) -> Result<(), Violation> {
        let sound = self.plan.trouble.is_sound();
        let Some(volume) = self.volume.as_ref().filter(|_| sound && !self.disk.is_off()) else {
            return Ok(());
        };
        let counters = volume.counters();
        match counters.second_reads + counters.damaged_segments {
            0 => Ok(()),
            _ => Err(format!(
                "{} blocks were read again and {} segments are given up on a sound device",
                counters.second_reads, counters.damaged_segments
            )),
        }
    }

    /// Runs until at most `left` requests are under way.
    ///
    /// # Errors
    /// As for [`pump`](Self::pump), or no progress.
    pub fn drain(&mut self, left: usize) -> Result<(), Violation> {
        let mut idle = 0u32;
        while self.pending.len() > left {
            if self.pump()? > 0 {
                idle = 0;
                continue;
            }
            idle += 1;
            if idle > 100_000 {
                return Err(format!("no request completes any more: {:?}", self.pending));
            }
            if let Some(volume) = &mut self.volume {
                volume.wait(None);
            }
        }
        Ok(())
    }

    fn completed(&mut self, done: Completion) -> Result<(), Violation> {
        let Some(pending) = self.pending.remove(&done.tag) else {
            return Err(format!("request {} completed twice", done.tag));
        };
        self.log(|| match &done.result {
            Ok(()) => format!("done {} {pending:?}", done.tag),
            Err(error) => format!("failed {} {pending:?}: {error}", done.tag),
        });
        self.note(done.tag << 1 | u64::from(done.result.is_ok()));
        self.note(self.disk.now());
        match (pending, &done.result) {
            (Pending::Read { from, submitted }, _) => self.completed_read(&done, from, submitted),
            (Pending::Write(place), Ok(())) => {
                self.model.acked(place);
                Ok(())
            }
            (Pending::Flush(submitted), Ok(())) => {
                let oldest = self.oldest_read();
                self.model.flushed(submitted, oldest);
                self.coverage.flushes += 1;
                self.flushes += 1;
                Ok(())
            }
            (pending, Err(error)) => {
                if let Pending::Write(place) = pending {
                    self.model.failed(place);
                }
                let excused = self.is_excused(error);
                if !self.disk.is_off() && !self.latched && excused {
                    self.latched = true;
                    self.coverage.latches += 1;
                    let here_and_there = self.plan.trouble == Trouble::Errors;
                    self.coverage.latches_in_the_end += u64::from(here_and_there);
                }
                // A device that only fails writes is latched; one that damages blocks fails what reads them first.
                let expected = excused || self.plan.trouble.fails_writes();
                self.tolerate(error, expected).map_err(|why| format!("write {why}"))
            }
        }
    }

    fn completed_read(
        &mut self,
        done: &Completion,
        from: u64,
        submitted: Moment,
    ) -> Result<(), Violation> {
        let mut bad: Vec<u64> = Vec::new();
        if let Err(error) = &done.result {
            self.tolerate(error, self.plan.trouble.fails_reads())
                .map_err(|why| format!("read {why}"))?;
            self.coverage.damaged_reads += u64::from(!self.disk.is_off());
            if error.blocks().is_empty() {
                return Ok(());
            }
            bad.extend(error.blocks().iter().map(|bad| bad.block));
        }
        let mut at = from;
        let mut rest = done.buf.as_deref().unwrap_or(&[]);
        while !rest.is_empty() {
            let take = small(BLOCK - at % BLOCK).min(rest.len());
            let (now, later) = rest.split_at(take);
            if !bad.contains(&(at / BLOCK)) {
                self.model
                    .check_read(at / BLOCK, at, now, submitted)
                    .map_err(|why| format!("read at {from}: {why}"))?;
            }
            at += take as u64;
            rest = later;
        }
        Ok(())
    }

    /// Lets an error pass that the device explains: any while the power is off, else, where the device is `expected` to
    /// make trouble, one that speaks of it.
    fn tolerate(&self, error: &oxblock::Error, expected: bool) -> Result<(), Violation> {
        let of_device = match error.kind() {
            ErrorKind::Checksum | ErrorKind::Corrupt | ErrorKind::Io | ErrorKind::Latched => true,
            ErrorKind::NoSpace => self.plan.trouble == Trouble::Full,
            _ => false,
        };
        match self.disk.is_off() || (expected && of_device) {
            true => Ok(()),
            false => Err(format!("failed ({:?}): {error}", error.kind())),
        }
    }
}

fn brief(kind: &RequestKind) -> String {
    match kind {
        RequestKind::Read { offset, buf } => format!("read {offset} +{}", buf.len()),
        RequestKind::Write { offset, buf, fua } => {
            format!("write {offset} +{}{}", buf.len(), if *fua { " FUA" } else { "" })
        }
        RequestKind::Flush => "flush".into(),
        RequestKind::Discard { offset, len } => format!("trim {offset} +{len}"),
        RequestKind::WriteZeroes { offset, len, .. } => format!("zero {offset} +{len}"),
    }
}
