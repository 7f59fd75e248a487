//! Lives: open, verify, work, end, in all the ways in which a life can end.

use oxblock::Error;
use oxblock::device::sim::Cut;

use crate::mask::{COURSE, END, OPENING};
use crate::model::Violation;
use crate::trouble::Trouble;
use crate::world::World;

/// The first turn of what is done between two cuts of an opening; the turns of the life proper come before.
const TURNS: u64 = 100_000;

/// How a life goes on after it was ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// The next can begin.
    On,
    /// Damage beyond what a single device survives: the run is over.
    Over,
}

impl World {
    fn draw_cut(&mut self) -> Cut {
        match self.rng.below(6) {
            0 => Cut::KeepNone,
            1 => Cut::KeepAll,
            _ => Cut::Arbitrary,
        }
    }

    /// The power fails now, unless it has failed already, and comes back: a few times with outcomes that are only looked
    /// at, then with the one that stays.
    ///
    /// # Errors
    /// An outcome that no prefix explains.
    pub fn cut(&mut self) -> Result<(), Violation> {
        self.coverage.cuts_busy += u64::from(!self.pending.is_empty());
        self.coverage.cuts_in_checkpoint += u64::from(self.in_checkpoint());
        self.log(|| format!("power cut, {} under way", self.pending.len()));
        self.disk.power_off();
        self.drop_volume();
        self.trouble_ends();
        if self.disk.is_gone(0) {
            self.come_back();
            return self.returns();
        }
        let others = self.rng.below(self.plan.outcomes + 1);
        if others > 0 {
            let moment = self.disk.snapshot();
            for _ in 0..others {
                self.disk.restore(&moment);
                self.come_back();
                self.coverage.outcomes += 1;
                self.look()?;
            }
            self.disk.restore(&moment);
        }
        self.come_back();
        Ok(())
    }

    /// The power comes back with some outcome.
    fn come_back(&mut self) {
        self.coverage.cuts += 1;
        let how = self.draw_cut();
        self.log(|| format!("power back, {how:?}"));
        self.disk.reseed(self.rng.next_u64());
        self.disk.power_cut_with(how);
    }

    /// Opens the volume and verifies it, and lets go of it again.
    fn look(&mut self) -> Result<(), Violation> {
        match self.open(false, false) {
            Ok(()) => {
                self.verify_opening(false, false)?;
                self.drop_volume();
                Ok(())
            }
            Err(error) => self.refused(&error),
        }
    }

    /// Opens the volume, cutting the power meanwhile now and then.
    ///
    /// # Errors
    /// The engine refuses a sound device.
    pub fn reopen(&mut self) -> Result<Fate, Violation> {
        self.draw_from(OPENING);
        if self.disk.is_gone(0) || self.disk.has_abandoned(0) {
            // It was closed, or killed, before it noticed. Whoever opened it after a flush that failed unheard would take for
            // durable what is not.
            self.cut()?;
        }
        self.disk.reseed(self.rng.next_u64());
        let faults = self.draw_faults();
        let troubled = self.plan.trouble.lasts() && self.rng.below(2) == 0;
        match troubled {
            true => self.trouble_lasts(faults.clone()),
            false => self.trouble_ends(),
        }
        if self.plan.trouble.is_sound() && self.rng.below(12) == 0 {
            self.check()?;
        }
        if self.rng.below(10) == 0 {
            self.coverage.read_only += 1;
            match self.open(true, false) {
                Ok(()) => {
                    self.verify_opening(false, false)?;
                    self.drop_volume();
                }
                Err(error) => self.refused(&error)?,
            }
        }
        let mut tries = 0;
        while self.rng.below(5) == 0 && tries < 4 {
            tries += 1;
            match self.rng.below(3) {
                0 => self.disk.cut_after_ops(self.rng.below(40)),
                _ => self.disk.cut_after_changes(self.rng.below(12)),
            }
            let opened = self.open(false, false);
            if opened.is_ok() && !self.disk.is_off() && self.rng.below(2) == 0 {
                // It came up before the power failed, and lives on until it does.
                self.coverage.lives += 1;
                self.verify()?;
                let rng = self.rng.clone();
                self.work(TURNS * (1 + tries), 8, u64::MAX)?;
                self.rng = rng;
            }
            self.coverage.cuts_in_recovery += 1;
            self.cut()?;
            if troubled {
                self.trouble_lasts(faults.clone());
            }
        }
        let mut rollback = false;
        for attempt in 0..20 {
            match self.open(false, rollback) {
                Ok(()) => {
                    self.coverage.lives += 1;
                    let failing = troubled && self.plan.trouble == Trouble::Errors;
                    self.coverage.recoveries_failing += u64::from(failing && self.has_replayed());
                    self.coverage.cheap_reads += u64::from(self.plan.cheap_reads);
                    self.coverage.works_beside += u64::from(self.plan.works_beside);
                    self.verify()?;
                    self.disk.set_faults(faults);
                    self.trouble_begins();
                    return Ok(Fate::On);
                }
                Err(error) => {
                    self.refused(&error)?;
                    if self.plan.trouble != Trouble::Transient {
                        self.trouble_ends();
                    }
                    rollback = self.plan.trouble == Trouble::Silent;
                    if attempt == 1 && rollback {
                        return Ok(Fate::Over);
                    }
                }
            }
        }
        Err("twenty openings in a row failed".into())
    }

    fn refused(&mut self, error: &Error) -> Result<(), Violation> {
        self.coverage.refused += 1;
        self.drop_volume();
        let failing = self.plan.trouble == Trouble::Errors && self.is_excused(error);
        match failing || self.plan.trouble.excuses(error) {
            true => Ok(()),
            false => Err(format!("open failed ({:?}): {error}", error.kind())),
        }
    }

    /// One life after the volume was opened and verified.
    ///
    /// # Errors
    /// What the model refuses.
    pub fn live(&mut self) -> Result<(), Violation> {
        self.draw_from(COURSE);
        self.disk.reseed(self.rng.next_u64());
        if self.plan.wear > 0 && self.rng.below(16) == 0 {
            let rounds = 1 + self.rng.below(12);
            self.wear(rounds)?;
        }
        let requests = 1 + self.rng.below(self.plan.requests);
        let mut flushes = u64::MAX;
        match self.rng.below(8) {
            0 | 1 => self.disk.cut_after_ops(self.rng.below(requests * 3) + 1),
            2..5 => self.disk.cut_after_changes(self.rng.below(requests * 2) + 1),
            5 => flushes = 1 + self.rng.below(4),
            _ => {}
        }
        self.work(0, requests, flushes)?;
        self.draw_from(END);
        match self.disk.is_off() {
            true => self.cut(),
            false => self.end(),
        }
    }

    /// Ends a life that still has power.
    fn end(&mut self) -> Result<(), Violation> {
        self.disk.cut_after_ops(u64::MAX);
        if self.latched {
            return self.end_latched();
        }
        match self.rng.below(8) {
            0 => {
                self.drain(0)?;
                self.close()
            }
            // With requests under way.
            1 => self.close(),
            2 => {
                let changes = self.rng.below(20);
                self.disk.cut_after_changes(changes);
                self.close_into_cut()
            }
            3 => {
                self.kill();
                Ok(())
            }
            4 => {
                // At the very moment in which a flush is acknowledged.
                self.flush();
                self.drain(0)?;
                self.cut()
            }
            _ => {
                for _ in 0..self.rng.below(20) {
                    self.pump()?;
                    if self.rng.below(2) == 0
                        && let Some(volume) = &mut self.volume
                    {
                        volume.wait(None);
                    }
                }
                self.cut()
            }
        }
    }

    /// The engine dies; what it had handed to the device goes on.
    fn kill(&mut self) {
        self.coverage.kills += 1;
        self.log(|| format!("killed, {} under way", self.pending.len()));
        self.drop_volume();
    }

    /// Closes the volume, with whatever is under way.
    ///
    /// # Errors
    /// It cannot be closed, and the device is sound.
    pub fn close(&mut self) -> Result<(), Violation> {
        let Some(closed) = self.close_volume() else { return Ok(()) };
        match closed {
            Ok(()) => {
                self.coverage.closes += 1;
                // What is under way may fail for itself where reads do.
                self.model.closed(!self.plan.trouble.fails_reads());
                Ok(())
            }
            Err(error) if self.is_excused(&error) => {
                self.coverage.latches += 1;
                self.end_latched()
            }
            Err(_) if self.plan.trouble == Trouble::Silent || self.disk.is_off() => Ok(()),
            Err(error) => Err(format!("close failed ({:?}): {error}", error.kind())),
        }
    }

    /// Closes the volume and says how that went; `None` when none is open.
    fn close_volume(&mut self) -> Option<oxblock::Result<()>> {
        self.gather_counters();
        self.pending.clear();
        let closed = self.volume.take()?.close();
        self.log(|| format!("close: {closed:?}, off {}", self.disk.is_off()));
        Some(closed)
    }

    fn close_into_cut(&mut self) -> Result<(), Violation> {
        let busy = !self.pending.is_empty();
        let Some(closed) = self.close_volume() else { return Ok(()) };
        if closed.is_ok() && !self.disk.is_off() {
            self.coverage.closes += 1;
            self.model.closed(!self.plan.trouble.fails_reads());
            self.disk.power_cut_keep_none();
            return Ok(());
        }
        if closed.is_ok() {
            self.model.closed(false);
        }
        self.coverage.cuts_in_close += 1;
        self.coverage.cuts_busy += u64::from(busy);
        self.cut()
    }

    /// Writes have stopped: what was read before is read still, then the power goes.
    ///
    /// The power, because of flushes: after one has failed, nothing that it covered is durable whatever later flushes
    /// say, and only losing the cache shows it.
    fn end_latched(&mut self) -> Result<(), Violation> {
        if self.volume.is_some() {
            for _ in 0..4 {
                let from = self.rng.below(self.plan.size);
                let to = (from + 100_000).min(self.plan.size);
                self.read(from, to);
            }
            self.drain(0)?;
        }
        self.cut()
    }
}
