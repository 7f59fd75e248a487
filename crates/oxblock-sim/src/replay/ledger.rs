//! The model, fed with events: what a volume may hold after the caller's side of a history.

use std::collections::HashMap;

use super::event::Event;
use crate::history::{Moment, What};
use crate::model::{Model, Seen, Violation};

/// The model of one volume and the requests that are open in it. It looks at nothing that the engine or the device did.
#[derive(Debug, Default)]
pub struct Ledger {
    model: Model,
    /// Open writes: number to place in the model.
    open: HashMap<u64, usize>,
    /// Open flushes: number to when they were handed over.
    flushes: HashMap<u64, Moment>,
    begun: u64,
}

impl Ledger {
    /// That of a new volume.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes an event into account; those of the device are none of its business.
    ///
    /// # Errors
    /// A history that cannot be: it is damaged, or not this volume's.
    pub fn apply(&mut self, event: Event) -> Result<(), Violation> {
        match event {
            Event::Begin { id, zeroes, from, to, atomic, fua } => {
                let what = if zeroes { What::Zeroes } else { What::Data };
                let (place, own) = self.model.begin(what, from, to, atomic, fua);
                self.begun = own;
                if own != id {
                    return Err(format!("the history has write {id} where {own} must come"));
                }
                self.open.insert(id, place);
            }
            Event::Acked { id } => {
                let Some(place) = self.open.remove(&id) else {
                    return Err(format!("write {id} is acknowledged, and was not open"));
                };
                self.model.acked(place);
            }
            Event::FlushBegin { number } => {
                let now = self.model.tick();
                self.flushes.insert(number, now);
            }
            Event::FlushAcked { number } => {
                let Some(submitted) = self.flushes.remove(&number) else {
                    return Err(format!("flush {number} is acknowledged, and was not open"));
                };
                self.model.flushed(submitted, Moment::MAX);
            }
            Event::Closed => {
                for place in std::mem::take(&mut self.open).into_values() {
                    self.model.acked(place);
                }
                self.model.closed(false);
                self.flushes.clear();
            }
            Event::Opened => {
                // What was open when the engine was let go of is never acknowledged, and may be there nevertheless.
                self.open.clear();
                self.flushes.clear();
            }
            Event::Start { .. }
            | Event::Write { .. }
            | Event::Flush
            | Event::Discard { .. }
            | Event::Done { .. }
            | Event::Settled => {}
        }
        Ok(())
    }

    /// The caller was killed, and the power was not cut: what was acknowledged had left the engine, and the device keeps it.
    pub fn killed(&mut self) {
        self.model.closed(false);
    }

    /// Judges what was read after an opening. With `settled` it is all that there is from now on: what was open stays as
    /// it was found.
    ///
    /// # Errors
    /// A state that no prefix of the history explains.
    pub fn judge(&mut self, seen: &[(u64, Seen<'_>)], settled: bool) -> Result<(), Violation> {
        self.model.check_opening(seen, settled)?;
        if settled {
            self.open.clear();
            self.flushes.clear();
        }
        Ok(())
    }

    /// The blocks that are, or may be, anything but zero, in order.
    pub fn touched(&self) -> impl Iterator<Item = u64> {
        self.model.touched()
    }

    /// The number of the last write that was begun.
    pub fn begun(&self) -> u64 {
        self.begun
    }

    /// Acknowledged writes that were not seen again, as may be: lost, or written over.
    pub fn lost(&self) -> u64 {
        self.model.lost
    }

    /// Blocks judged.
    pub fn checked(&self) -> u64 {
        self.model.checked
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::BLOCK_LEN;

    #[test]
    fn a_kill_must_not_lose_what_was_acknowledged_and_a_power_cut_may() {
        let mut ledger = Ledger::new();
        let write =
            Event::Begin { id: 1, zeroes: false, from: 0, to: 4096, atomic: true, fua: false };
        for event in [write, Event::Acked { id: 1 }, Event::Opened] {
            ledger.apply(event).unwrap();
        }
        let nothing = vec![0; BLOCK_LEN];
        let seen = || [(0, Seen::Bytes(&nothing[..]))];
        ledger.judge(&seen(), false).unwrap();
        ledger.killed();
        let violation = ledger.judge(&seen(), true).unwrap_err();
        assert!(violation.contains("must be there"), "{violation}");
    }
}
