//! Which faults have hit, one counter each.

use super::fault::{Fault, OpKind};

/// How often each fault has hit an operation that was done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Hits {
    /// Reads that failed.
    pub read_fail: u64,
    /// Reads with a flipped bit.
    pub read_flip: u64,
    /// Writes that failed with nothing stored.
    pub write_fail: u64,
    /// Writes that failed with a part stored.
    pub write_torn: u64,
    /// Writes that failed with everything stored.
    pub write_stored: u64,
    /// Writes that were never stored.
    pub write_lost: u64,
    /// Writes that were stored elsewhere.
    pub write_misdirected: u64,
    /// Writes that were stored with a flipped bit.
    pub write_flip: u64,
    /// Flushes that failed.
    pub flush_fail: u64,
    /// Flushes that did nothing.
    pub flush_lost: u64,
    /// Discards that failed.
    pub discard_fail: u64,
    /// Operations that took longer.
    pub stall: u64,
    /// Bits that rotted.
    pub rot: u64,
    /// Operations on a device that is gone.
    pub gone: u64,
    /// Writes that found no room.
    pub full: u64,
}

impl Hits {
    /// Counts a fault of an operation of this kind. What makes no sense for the kind is no fault.
    pub(super) fn count(&mut self, kind: OpKind, fault: &Fault) {
        let counter = match (kind, fault) {
            (_, Fault::Stall(_)) => &mut self.stall,
            (OpKind::Read, Fault::Fail(_)) => &mut self.read_fail,
            (OpKind::Read, Fault::BitFlip) => &mut self.read_flip,
            (OpKind::Write, Fault::Fail(_)) => &mut self.write_fail,
            (OpKind::Write, Fault::Torn(_)) => &mut self.write_torn,
            (OpKind::Write, Fault::Stored(_)) => &mut self.write_stored,
            (OpKind::Write, Fault::Lost) => &mut self.write_lost,
            (OpKind::Write, Fault::Misdirected(_)) => &mut self.write_misdirected,
            (OpKind::Write, Fault::BitFlip) => &mut self.write_flip,
            (OpKind::Flush, Fault::Fail(_)) => &mut self.flush_fail,
            (OpKind::Flush, Fault::Lost) => &mut self.flush_lost,
            (OpKind::Discard, Fault::Fail(_) | Fault::Torn(_)) => &mut self.discard_fail,
            _ => return,
        };
        *counter += 1;
    }

    /// Sums over devices.
    #[must_use]
    pub(super) fn plus(self, other: &Self) -> Self {
        Self {
            read_fail: self.read_fail + other.read_fail,
            read_flip: self.read_flip + other.read_flip,
            write_fail: self.write_fail + other.write_fail,
            write_torn: self.write_torn + other.write_torn,
            write_stored: self.write_stored + other.write_stored,
            write_lost: self.write_lost + other.write_lost,
            write_misdirected: self.write_misdirected + other.write_misdirected,
            write_flip: self.write_flip + other.write_flip,
            flush_fail: self.flush_fail + other.flush_fail,
            flush_lost: self.flush_lost + other.flush_lost,
            discard_fail: self.discard_fail + other.discard_fail,
            stall: self.stall + other.stall,
            rot: self.rot + other.rot,
            gone: self.gone + other.gone,
            full: self.full + other.full,
        }
    }
}
