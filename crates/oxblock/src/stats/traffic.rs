//! What requests and devices have done: how many, how much, how long.
//!
//! A request lasts from the moment in which it was queued to the one in which its completion was ready to be polled. Moments
//! are read from the clock once for all requests that are queued, or are done, together.

use super::latency::Latency;
use crate::device::{Action, Done, Op};
use crate::trace::Kind;

/// Significant digits of the histograms: percentiles are within 1 %.
const DIGITS: u8 = 2;

/// The requests of one kind, since the volume was opened.
#[derive(Debug, Clone)]
pub struct Flow {
    /// Bytes of those that went well.
    pub bytes: u64,
    /// How many failed.
    pub errors: u64,
    /// How many are under way.
    pub in_flight: u64,
    /// How long they took, those that failed too.
    pub latency: Latency,
}

impl Default for Flow {
    fn default() -> Self {
        Self { bytes: 0, errors: 0, in_flight: 0, latency: Latency::new(DIGITS) }
    }
}

/// All requests of a volume, by kind.
#[derive(Debug, Clone, Default)]
pub struct Traffic {
    read: Flow,
    write: Flow,
    flush: Flow,
    discard: Flow,
    write_zeroes: Flow,
}

impl Traffic {
    /// Those of one kind.
    pub fn of(&self, kind: Kind) -> &Flow {
        match kind {
            Kind::Read => &self.read,
            Kind::Write => &self.write,
            Kind::Flush => &self.flush,
            Kind::Discard => &self.discard,
            Kind::WriteZeroes => &self.write_zeroes,
        }
    }

    /// All kinds, in the order of reports.
    pub fn all(&self) -> impl Iterator<Item = (Kind, &Flow)> {
        Kind::ALL.into_iter().map(|kind| (kind, self.of(kind)))
    }

    fn of_mut(&mut self, kind: Kind) -> &mut Flow {
        match kind {
            Kind::Read => &mut self.read,
            Kind::Write => &mut self.write,
            Kind::Flush => &mut self.flush,
            Kind::Discard => &mut self.discard,
            Kind::WriteZeroes => &mut self.write_zeroes,
        }
    }

    pub(crate) fn begun(&mut self, kind: Kind) {
        self.of_mut(kind).in_flight += 1;
    }

    /// A request about `bytes` bytes has ended, which took `time` ns.
    pub(crate) fn ended(&mut self, kind: Kind, bytes: u64, time: u64, well: bool) {
        let flow = self.of_mut(kind);
        flow.in_flight -= 1;
        flow.latency.record(time);
        if well {
            flow.bytes += bytes;
        } else {
            flow.errors += 1;
        }
    }
}

/// The operations of one device, since the volume was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeviceTraffic {
    /// Reads begun.
    pub reads: u64,
    /// Bytes that they ask for.
    pub read_bytes: u64,
    /// Writes begun.
    pub writes: u64,
    /// Bytes that they carry.
    pub written_bytes: u64,
    /// Flushes begun; a durable write is none.
    pub flushes: u64,
    /// Discards begun.
    pub discards: u64,
    /// Operations that failed.
    pub errors: u64,
    /// Operations under way.
    pub in_flight: u64,
}

impl DeviceTraffic {
    pub(crate) fn begun(&mut self, op: &Op) {
        let bytes = |bufs: &[crate::Buf]| bufs.iter().map(|buf| buf.len() as u64).sum::<u64>();
        self.in_flight += 1;
        match &op.action {
            Action::Read(bufs) => {
                self.reads += 1;
                self.read_bytes += bytes(bufs);
            }
            Action::Write { bufs, .. } => {
                self.writes += 1;
                self.written_bytes += bytes(bufs);
            }
            Action::Flush => self.flushes += 1,
            Action::Discard { .. } => self.discards += 1,
        }
    }

    pub(crate) fn ended(&mut self, done: &Done) {
        // What was under way before anything was counted may end here.
        self.in_flight = self.in_flight.saturating_sub(1);
        self.errors += u64::from(done.result.is_err());
    }
}
