//! Power: when it fails, what that does to queues and operations in flight, and its return.
//!
//! All writes in flight become volatile versions in arbitrary order, so one rule
//! ([`Media::cut`](super::cache::Media::cut)) decides what is left of everything.

use super::cache::{Cut, Durability};
use super::device::Device;
use super::fault::Fault;
use super::machine::{Counted, Flight, Machine, ended, power_lost};
use super::rng::Rng;
use super::store::PAGE_BYTES;
use crate::device::{Action, Op};

impl Machine {
    /// Cuts the power once `left` more operations are done.
    pub(super) fn cut_after(&mut self, counted: Counted, left: u64) {
        self.budget = Some((counted, left));
        if left == 0 {
            self.freeze();
        }
    }

    /// Counts one operation that is done against the budget.
    pub(super) fn spend(&mut self, is_change: bool) {
        let Some((counted, left)) = &mut self.budget else { return };
        if *counted == Counted::Changes && !is_change {
            return;
        }
        *left = left.saturating_sub(1);
        if *left == 0 {
            self.freeze();
        }
    }

    /// The power fails: every queue is dead, everything in flight ends with an error, and what it
    /// wrote is volatile.
    pub(super) fn freeze(&mut self) {
        self.budget = None;
        self.frozen = true;
        let mut flights = Vec::new();
        for (id, lane) in &mut self.lanes {
            lane.dead = true;
            let taken = std::mem::take(&mut lane.flights);
            flights.extend(taken.into_values().map(|flight| (*id, flight)));
        }
        self.chance.cuts.shuffle(&mut flights);
        for (id, Flight { op, fault, .. }) in flights {
            if let Some(device) = self.devices.get_mut(usize::from(op.device)) {
                device.strand(&op, fault.as_ref(), &mut self.chance.cuts);
            }
            if let Some(lane) = self.lanes.get_mut(&id) {
                lane.ready.push(ended(op, Err(power_lost())));
            }
        }
    }

    /// The power fails, unless it already has, and comes back.
    pub(super) fn power_cut(&mut self, how: Cut) {
        self.freeze();
        for device in &mut self.devices {
            device.media.cut(how, &mut self.chance.cuts);
            device.last_due = 0;
        }
        self.frozen = false;
    }
}

impl Device {
    /// Turns an operation that the power cut stopped into volatile versions.
    fn strand(&mut self, op: &Op, fault: Option<&Fault>, rng: &mut Rng) {
        match &op.action {
            Action::Write { bufs, .. } => {
                self.writes_in_flight -= 1;
                if !self.gone {
                    // Its result reaches nobody; only what it stored matters.
                    self.write(op.offset, bufs, Durability::Volatile, fault, rng).ok();
                }
            }
            Action::Discard { len } if !self.gone && fault.is_none() => {
                let range = op.offset..op.offset + len / PAGE_BYTES * PAGE_BYTES;
                self.media.discard(range, self.config.discard, Durability::Volatile, rng);
            }
            Action::Read(_) | Action::Flush | Action::Discard { .. } => {}
        }
    }
}
