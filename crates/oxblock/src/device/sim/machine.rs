//! What the queues and the handle of one disk share: devices, operations in flight, the clock.
//!
//! Invariants:
//! - Time moves only here, and only by what the callers do: [`STEP`] per `submit` and `reap`, and
//!   `wait` to the next end. No real clock, no hash order, no address takes part.
//! - An operation takes effect when it is reaped, not before: "done" is what the engine has seen.
//!
//! Its `impl` goes on in `overlap.rs` (reads beside writes) and `power.rs` (cuts).

use std::collections::BTreeMap;
use std::io;

use rustix::io::Errno;

use super::cache::Cut;
use super::config::SimConfig;
use super::device::{Device, Stats, flip_one};
use super::digest::Digest;
use super::fault::{Fault, FaultPlan, OpKind};
use super::rng::Rng;
use super::store::small;
use crate::device::{Action, Done, Fua, Op};

/// Simulated nanoseconds that a `submit` or a `reap` takes, so that an engine that only polls
/// gets on.
const STEP: u64 = 200;

/// An operation in flight.
pub(super) struct Flight {
    pub(super) op: Op,
    pub(super) fault: Option<Fault>,
    /// The device's last done write when this was pushed: what a flush covers.
    pub(super) upto: u64,
    pub(super) sampling: Sampling,
}

/// When a read looks at the media; writes that end meanwhile are seen or not accordingly.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Sampling {
    Early,
    Late,
    /// By sector.
    Mixed,
}

/// One queue's share of the machine.
#[derive(Default)]
pub(super) struct Lane {
    /// By the time at which they end, then by number.
    pub(super) flights: BTreeMap<(u64, u64), Flight>,
    pub(super) ready: Vec<Done>,
    pub(super) dead: bool,
}

/// Which operations a budget counts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Counted {
    Operations,
    Changes,
}

/// The state behind a disk.
pub(super) struct Machine {
    pub(super) devices: Vec<Device>,
    pub(super) plan: FaultPlan,
    pub(super) frozen: bool,
    pub(super) lanes: BTreeMap<u64, Lane>,
    clock: u64,
    numbers: u64,
    pub(super) budget: Option<(Counted, u64)>,
    digest: Digest,
    pub(super) chance: Chance,
}

/// Generators by purpose, so that a draw for one does not shift another.
pub(super) struct Chance {
    pub(super) latency: Rng,
    pub(super) faults: Rng,
    pub(super) media: Rng,
    pub(super) cuts: Rng,
}

impl Chance {
    fn new(seed: u64) -> Self {
        let mut root = Rng::new(seed);
        Self { latency: root.fork(), faults: root.fork(), media: root.fork(), cuts: root.fork() }
    }
}

/// The error of everything on a dead queue.
pub(super) fn power_lost() -> io::Error {
    Errno::PIPE.into()
}

/// The end of `op`, with its buffers.
pub(super) fn ended(op: Op, result: io::Result<()>) -> Done {
    Done { tag: op.tag, device: Some(op.device), bufs: op.action.into_bufs(), work: None, result }
}

impl Machine {
    pub(super) fn new(configs: Vec<SimConfig>) -> Self {
        let seed =
            configs.iter().fold(0, |seed: u64, config| Rng::new(seed ^ config.seed).next_u64());
        Self {
            devices: configs.into_iter().map(Device::new).collect(),
            plan: FaultPlan::new(),
            frozen: false,
            lanes: BTreeMap::new(),
            clock: 0,
            numbers: 0,
            budget: None,
            digest: Digest::default(),
            chance: Chance::new(seed),
        }
    }

    /// Starts all chance anew from `seed`.
    pub(super) fn reseed(&mut self, seed: u64) {
        self.chance = Chance::new(seed);
    }

    pub(super) fn now(&self) -> u64 {
        self.clock
    }

    pub(super) fn digest(&self) -> u64 {
        self.digest.value()
    }

    pub(super) fn stats(&self) -> Stats {
        self.devices.iter().fold(Stats::default(), |sum, device| sum.plus(&device.stats))
    }

    /// Opens a queue; power that failed comes back first.
    pub(super) fn open(&mut self) -> u64 {
        if self.frozen {
            self.power_cut(Cut::Arbitrary);
        }
        self.numbers += 1;
        self.lanes.insert(self.numbers, Lane::default());
        self.numbers
    }

    /// Closes a queue after what it has in flight.
    pub(super) fn close(&mut self, id: u64) {
        while self.end_next(id, u64::MAX).is_some() {}
        self.lanes.remove(&id);
    }

    pub(super) fn in_flight(&self, id: u64) -> usize {
        self.lanes.get(&id).map_or(0, |lane| lane.flights.len() + lane.ready.len())
    }

    /// Passes a little time.
    pub(super) fn step(&mut self) {
        self.clock += STEP;
    }

    /// When a job that takes `cost` nanoseconds ends: sooner or later, as workers do.
    pub(super) fn job_due(&mut self, cost: u64) -> u64 {
        self.clock + self.chance.latency.range(0..cost.saturating_mul(4).max(4))
    }

    /// Passes time until something of this queue ends, a job at `job` included, or by `limit`.
    pub(super) fn wait(&mut self, id: u64, limit: Option<u64>, job: Option<u64>) {
        let Some(lane) = self.lanes.get(&id) else { return };
        if !lane.ready.is_empty() {
            return;
        }
        let flight = lane.flights.first_key_value().map(|(&(due, _), _)| due);
        let Some(due) = flight.into_iter().chain(job).min() else { return };
        let until = limit.map_or(due, |limit| due.min(self.clock.saturating_add(limit)));
        self.clock = self.clock.max(until);
    }

    pub(super) fn push(&mut self, id: u64, mut op: Op) {
        let Some(lane) = self.lanes.get_mut(&id) else { return };
        let device = self.devices.get_mut(usize::from(op.device));
        let refused = match &device {
            _ if lane.dead => Err(power_lost()),
            None => Err(Errno::NODEV.into()),
            Some(device) => device.validate(&op),
        };
        let (Some(device), Ok(())) = (device, &refused) else {
            lane.ready.push(ended(op, refused));
            return;
        };
        let fault = self.plan.decide(&op, op.action.bytes(), &mut self.chance.faults);
        let mut takes = match &op.action {
            Action::Flush => self.chance.latency.range(device.config.flush_latency.clone()),
            _ => self.chance.latency.range(device.config.latency.clone()),
        };
        let mut sampling = Sampling::Late;
        match &op.action {
            Action::Write { durable, .. } => {
                device.writes_in_flight += 1;
                if *durable && device.config.is_volatile() && device.config.fua == Fua::Emulated {
                    takes += self.chance.latency.range(device.config.flush_latency.clone());
                }
            }
            Action::Read(_) => {
                sampling = match self.chance.media.below(4) {
                    0 => Sampling::Early,
                    1 => Sampling::Mixed,
                    _ => Sampling::Late,
                };
            }
            Action::Flush | Action::Discard { .. } => {}
        }
        if let Some(Fault::Stall(more)) = fault {
            takes += more;
        }
        let mut due = self.clock + takes;
        if !device.config.reorder {
            due = due.max(device.last_due);
            device.last_due = due;
        }
        let upto = device.media.last_write();
        if sampling != Sampling::Late {
            self.sample(&mut op, 1);
        }
        self.numbers += 1;
        let flight = Flight { op, fault, upto, sampling };
        if let Some(lane) = self.lanes.get_mut(&id) {
            lane.flights.insert((due, self.numbers), flight);
        }
    }

    /// Moves what has ended to `done`.
    pub(super) fn reap(&mut self, id: u64, done: &mut Vec<Done>) -> usize {
        let before = done.len();
        while let Some(end) = self.end_next(id, self.clock) {
            done.push(end);
        }
        if let Some(lane) = self.lanes.get_mut(&id) {
            done.append(&mut lane.ready);
        }
        done.len() - before
    }

    /// Ends this queue's next operation if that is due by `until`.
    fn end_next(&mut self, id: u64, until: u64) -> Option<Done> {
        let lane = self.lanes.get_mut(&id)?;
        let first = lane.flights.first_entry().filter(|entry| entry.key().0 <= until)?;
        let (due, _) = *first.key();
        let Flight { mut op, fault, upto, sampling } = first.remove();
        self.clock = self.clock.max(due);
        let changed = self.devices.get(usize::from(op.device))?.media.last_write() != upto;
        if sampling == Sampling::Late {
            self.sample(&mut op, 1);
        } else if sampling == Sampling::Mixed && changed {
            self.sample(&mut op, 2);
        }
        let device = self.devices.get_mut(usize::from(op.device))?;
        let result = device.apply(&mut op, fault.as_ref(), upto, &mut self.chance.media);
        let len = op.action.bytes();
        match &mut op.action {
            Action::Read(bufs) => {
                device.stats.reads += 1;
                device.stats.read_bytes += len;
                if fault == Some(Fault::BitFlip) && !bufs.is_empty() {
                    let which = self.chance.faults.below(bufs.len() as u64);
                    if let Some(buf) = bufs.get_mut(small(which)) {
                        flip_one(buf, &mut self.chance.faults);
                    }
                }
            }
            Action::Write { durable, .. } => {
                device.stats.writes += 1;
                device.stats.durable_writes += u64::from(*durable);
                device.stats.written_bytes += len;
                device.writes_in_flight -= 1;
            }
            Action::Flush => device.stats.flushes += 1,
            Action::Discard { .. } => device.stats.discards += 1,
        }
        device.count(OpKind::of(&op.action), fault.as_ref(), &result);
        if self.plan.rots(op.device, &mut self.chance.faults) {
            device.stats.hits.rot += 1;
            device.rot(&mut self.chance.faults);
        }
        self.record(due, &op, len, &result);
        let counted = OpKind::of(&op.action) != OpKind::Read;
        let done = ended(op, result);
        self.spend(counted);
        Some(done)
    }

    /// Takes an operation's end into the digest.
    fn record(&mut self, due: u64, op: &Op, len: u64, result: &io::Result<()>) {
        let kind = match &op.action {
            Action::Read(_) => 1,
            Action::Write { durable: false, .. } => 2,
            Action::Write { durable: true, .. } => 3,
            Action::Flush => 4,
            Action::Discard { .. } => 5,
        };
        let code = match result {
            Ok(()) => 0,
            Err(error) => u64::from(error.raw_os_error().map_or(u32::MAX, i32::unsigned_abs)),
        };
        let place = u64::from(op.device) << 8 | kind;
        for word in [due, op.tag, place, op.offset, len, code] {
            self.digest.word(word);
        }
        match (&op.action, result) {
            (Action::Write { bufs, .. }, Ok(())) => {
                bufs.iter().for_each(|buf| self.digest.bytes(buf));
            }
            // What was written is in it, so a word of each sector tells what was read.
            (Action::Read(bufs), Ok(())) => {
                bufs.iter().for_each(|buf| self.digest.sectors(buf));
            }
            _ => {}
        }
    }
}
