//! Faults, as a typed plan: rules that hit chosen operations, and rates that hit any.
//!
//! A fault is decided when the operation is pushed, so "the third write" means the third that the
//! engine pushed, in whatever order they end. Decisions draw from their own generator: a plan does
//! not shift the latencies or the choices of a power cut.

use std::ops::Range;

use rustix::io::Errno;

use super::rng::Rng;
use crate::device::{Action, DeviceIndex, Op};

/// What a device reports when it failed.
pub const EIO: i32 = Errno::IO.raw_os_error();
/// What a device reports when there is no room.
pub const ENOSPC: i32 = Errno::NOSPC.raw_os_error();

/// The kind of an operation, to select it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OpKind {
    /// `Action::Read`.
    Read,
    /// `Action::Write`, durable or not.
    Write,
    /// `Action::Flush`.
    Flush,
    /// `Action::Discard`.
    Discard,
}

impl OpKind {
    /// The kind of `action`.
    pub fn of(action: &Action) -> Self {
        match action {
            Action::Read(_) => Self::Read,
            Action::Write { .. } => Self::Write,
            Action::Flush => Self::Flush,
            Action::Discard { .. } => Self::Discard,
        }
    }
}

/// What goes wrong with an operation. A fault that makes no sense for its kind (a lost read) is
/// no fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// Ends with this errno and has no effect; a failed flush also abandons what it covered: no
    /// later flush makes that durable.
    Fail(i32),
    /// A write or discard ends with this errno after an arbitrary part of its sectors was stored.
    Torn(i32),
    /// A write that ends with this errno although all of it was stored.
    Stored(i32),
    /// A write, flush or discard that says done and did nothing.
    Lost,
    /// A write that says done and was stored at another offset in bytes; `None` lets the seed
    /// choose, preferably a page that holds something.
    Misdirected(Option<u64>),
    /// One bit flips on the way: a read returns it flipped, a write stores it flipped.
    BitFlip,
    /// Takes this many simulated nanoseconds longer.
    Stall(u64),
}

/// Which operations a [`Fault`] hits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FaultRule {
    kind: OpKind,
    fault: Fault,
    device: Option<DeviceIndex>,
    range: Option<Range<u64>>,
    skip: u64,
    times: u64,
    until_written: bool,
}

impl FaultRule {
    /// Hits the next operation of this kind on any device, once.
    pub fn new(kind: OpKind, fault: Fault) -> Self {
        Self { kind, fault, device: None, range: None, skip: 0, times: 1, until_written: false }
    }

    /// Only on this device.
    #[must_use]
    pub fn on(mut self, device: DeviceIndex) -> Self {
        self.device = Some(device);
        self
    }

    /// Only operations that touch this range of bytes. Flushes have no range and never match.
    #[must_use]
    pub fn within(mut self, range: Range<u64>) -> Self {
        self.range = Some(range);
        self
    }

    /// Lets this many matching operations pass first: `skip(n - 1)` hits the nth.
    #[must_use]
    pub fn skip(mut self, operations: u64) -> Self {
        self.skip = operations;
        self
    }

    /// Hits this many operations, then no more.
    #[must_use]
    pub fn times(mut self, operations: u64) -> Self {
        self.times = operations;
        self
    }

    /// Latched: hits every matching operation from the first one on.
    #[must_use]
    pub fn forever(self) -> Self {
        self.times(u64::MAX)
    }

    /// Latched until a write touches the range, as a bad sector is: a rewrite remaps it. Only for
    /// reads, and only with [`within`](Self::within).
    #[must_use]
    pub fn until_written(mut self) -> Self {
        self.until_written = true;
        self.forever()
    }

    fn touches(&self, device: DeviceIndex, range: &Range<u64>) -> bool {
        self.device.is_none_or(|wanted| wanted == device)
            && self
                .range
                .as_ref()
                .is_none_or(|wanted| wanted.start < range.end && range.start < wanted.end)
    }
}

/// How often each fault hits one device by chance, in parts per million of the operations that it
/// can hit. All zero by default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FaultRates {
    /// Reads that end in `EIO`.
    pub read_fail: u32,
    /// Reads with one bit flipped in transfer; the media is sound.
    pub read_flip: u32,
    /// Writes that end in `EIO` with nothing stored.
    pub write_fail: u32,
    /// Writes that end in `EIO` with an arbitrary part stored.
    pub write_torn: u32,
    /// Writes that end in `EIO` with everything stored.
    pub write_stored: u32,
    /// Writes that are done but never stored.
    pub write_lost: u32,
    /// Writes that are done but land elsewhere.
    pub write_misdirected: u32,
    /// Writes stored with one bit flipped.
    pub write_flip: u32,
    /// Flushes that end in `EIO`.
    pub flush_fail: u32,
    /// Flushes that say done and did nothing.
    pub flush_lost: u32,
    /// Discards that end in `EIO`.
    pub discard_fail: u32,
    /// Operations that take longer.
    pub stall: u32,
    /// Simulated nanoseconds of such a stall.
    pub stall_ns: u64,
    /// Operations at which one bit of some page of the device rots.
    pub rot: u32,
}

impl FaultRates {
    fn draw(&self, kind: OpKind, rng: &mut Rng) -> Option<Fault> {
        let table: &[(u32, Fault)] = match kind {
            OpKind::Read => &[(self.read_fail, Fault::Fail(EIO)), (self.read_flip, Fault::BitFlip)],
            OpKind::Write => &[
                (self.write_fail, Fault::Fail(EIO)),
                (self.write_torn, Fault::Torn(EIO)),
                (self.write_stored, Fault::Stored(EIO)),
                (self.write_lost, Fault::Lost),
                (self.write_misdirected, Fault::Misdirected(None)),
                (self.write_flip, Fault::BitFlip),
            ],
            OpKind::Flush => &[(self.flush_fail, Fault::Fail(EIO)), (self.flush_lost, Fault::Lost)],
            OpKind::Discard => &[(self.discard_fail, Fault::Fail(EIO))],
        };
        let hit = table.iter().find(|(ppm, _)| rng.chance(*ppm)).map(|(_, fault)| fault.clone());
        hit.or_else(|| rng.chance(self.stall).then_some(Fault::Stall(self.stall_ns)))
    }
}

/// Everything that is to go wrong. The first rule that matches wins; rates apply where none does.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FaultPlan {
    rules: Vec<FaultRule>,
    rates: Vec<FaultRates>,
}

impl FaultPlan {
    /// Nothing goes wrong.
    pub fn new() -> Self {
        Self::default()
    }

    /// The plan with `rule` after its other rules.
    #[must_use]
    pub fn rule(mut self, rule: FaultRule) -> Self {
        self.rules.push(rule);
        self
    }

    /// The plan with these rates for one device.
    #[must_use]
    pub fn rates(mut self, device: DeviceIndex, rates: FaultRates) -> Self {
        let index = usize::from(device);
        if self.rates.len() <= index {
            self.rates.resize(index + 1, FaultRates::default());
        }
        if let Some(slot) = self.rates.get_mut(index) {
            *slot = rates;
        }
        self
    }

    /// Decides the fate of an operation that touches `len` bytes.
    pub(super) fn decide(&mut self, op: &Op, len: u64, rng: &mut Rng) -> Option<Fault> {
        if self.rules.is_empty() && self.rates.is_empty() {
            return None;
        }
        let kind = OpKind::of(&op.action);
        let range = op.offset..op.offset.saturating_add(len);
        if kind == OpKind::Write {
            let remapped = |rule: &FaultRule| rule.until_written && rule.kind == OpKind::Read;
            self.rules.retain(|rule| !(remapped(rule) && rule.touches(op.device, &range)));
        }
        for rule in &mut self.rules {
            let ranged = rule.range.is_none() || kind != OpKind::Flush;
            if rule.kind != kind || !ranged || !rule.touches(op.device, &range) {
                continue;
            }
            if rule.skip > 0 {
                rule.skip -= 1;
            } else if rule.times > 0 {
                rule.times = if rule.times == u64::MAX { u64::MAX } else { rule.times - 1 };
                let fault = rule.fault.clone();
                self.rules.retain(|rule| rule.times > 0);
                return Some(fault);
            }
        }
        self.rates.get(usize::from(op.device)).and_then(|rates| rates.draw(kind, rng))
    }

    /// Whether a bit of the device rots now.
    pub(super) fn rots(&self, device: DeviceIndex, rng: &mut Rng) -> bool {
        self.rates.get(usize::from(device)).is_some_and(|rates| rng.chance(rates.rot))
    }
}
