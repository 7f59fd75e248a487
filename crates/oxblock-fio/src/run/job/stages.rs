//! The stages of a job: what it wants next, and what follows when there is nothing more.

use super::{Job, Next, Stage, Wanted};
use crate::run::stats::JobStats;
use crate::run::stream::Direction;
use crate::run::usage::Reading;

impl Job<'_> {
    /// What the job wants at `now`, given that it may have one more I/O in flight.
    pub(in crate::run) fn next(&mut self, now: u64) -> Next {
        match self.stage {
            Stage::Run => self.next_of_run(now),
            Stage::Delay if now < self.stage_start && !self.stopping => {
                Next::Wait(self.stage_start)
            }
            Stage::Delay | Stage::Finished => Next::End,
            Stage::EndFlush if self.flush_sent => Next::End,
            Stage::EndFlush => {
                self.flush_sent = true;
                Next::Flush
            }
            Stage::ReadBack if self.fatal || self.stopping => Next::End,
            Stage::ReadBack => {
                let max = self.read_back_max;
                let range = self.ledger.as_mut().and_then(|ledger| ledger.next_range(max));
                range.map_or(Next::End, |(offset, len)| Next::ReadBack(offset, len))
            }
        }
    }

    fn next_of_run(&mut self, now: u64) -> Next {
        if now >= self.deadline || self.fatal || self.stopping {
            return Next::End;
        }
        if let Some(until) = self.pace.pause(now, self.in_flight) {
            return if until == 0 { Next::Held } else { Next::Wait(until.min(self.deadline)) };
        }
        let Some(io) = self.pending.take().or_else(|| self.stream.next()) else {
            return Next::End;
        };
        if self.flush_due {
            (self.flush_due, self.pending) = (false, Some(io));
            return Next::Flush;
        }
        if self.read_back_due > 0 {
            if let Some((offset, len)) = self.next_of_backlog() {
                self.pending = Some(io);
                return Next::ReadBack(offset, len);
            }
            self.read_back_due = 0;
        }
        let due = self.pace.due(io.direction);
        if due > now {
            self.pending = Some(io);
            return Next::Wait(due.min(self.deadline));
        }
        if let Some(busy) = &self.busy {
            let (first, count) = busy.units(io.offset, io.len);
            if busy.map.any(first, count) {
                self.pending = Some(io);
                return Next::Held;
            }
        }
        Next::Io(io)
    }

    /// The oldest write that is to be read back, unless its blocks are being rewritten: then the
    /// rewrite will be read back instead.
    fn next_of_backlog(&mut self) -> Option<(u64, u32)> {
        let ledger = self.ledger.as_mut()?;
        while self.read_back_due > 0 {
            self.read_back_due -= 1;
            let (offset, len) = ledger.next_of_backlog()?;
            let in_flight = self.busy.as_ref().is_some_and(|busy| {
                let (first, count) = busy.units(offset, len);
                busy.map.any(first, count)
            });
            if !in_flight {
                return Some((offset, len));
            }
        }
        None
    }

    /// Leaves a stage that is over, with nothing in flight. False when the job is finished.
    pub(in crate::run) fn advance(&mut self, now: u64) -> bool {
        let spec = self.plan.spec;
        match self.stage {
            Stage::Finished => return false,
            Stage::Delay if spec.verify_only => {
                self.pretend_writes();
                self.usage_start = Reading::take();
                self.enter_read_back(now);
            }
            Stage::Delay => {
                self.usage_start = Reading::take();
                let start = now.saturating_add(spec.ramp_time);
                self.deadline = match spec.runtime {
                    0 => u64::MAX,
                    runtime => start.saturating_add(runtime),
                };
                self.ramp_end = if spec.ramp_time > 0 { start } else { 0 };
                self.begin_run(now);
            }
            Stage::Run if spec.end_fsync && self.writes > 0 && !self.fatal => {
                (self.stage, self.flush_sent) = (Stage::EndFlush, false);
            }
            Stage::Run | Stage::EndFlush => {
                self.run_time += now.saturating_sub(self.stage_start);
                let wanted = spec.do_verify && self.ledger.is_some() && self.writes > 0;
                if wanted && !self.fatal && !self.stopping {
                    self.enter_read_back(now);
                } else {
                    self.next_loop(now);
                }
            }
            Stage::ReadBack => {
                self.read_back_time += now.saturating_sub(self.stage_start);
                self.next_loop(now);
            }
        }
        self.stage != Stage::Finished
    }

    fn begin_run(&mut self, now: u64) {
        (self.stage, self.stage_start) = (Stage::Run, now);
        self.pace.begin(now);
        self.stats.windows.begin(self.window, now);
        self.sample_start = now;
        self.sample_at = now.saturating_add(self.plan.spec.sample_time);
        self.event_at = if self.ramp_end > 0 { self.ramp_end } else { self.sample_at };
    }

    fn enter_read_back(&mut self, now: u64) {
        (self.stage, self.stage_start) = (Stage::ReadBack, now);
        if let Some(ledger) = &mut self.ledger {
            ledger.rewind();
        }
    }

    fn next_loop(&mut self, now: u64) {
        self.loops_done += 1;
        let more = self.loops_done < self.plan.spec.loops && !self.plan.spec.verify_only;
        if more && !self.fatal && !self.stopping && now < self.deadline {
            self.stream.restart();
            self.begin_run(now);
            return;
        }
        (self.stage, self.ended) = (Stage::Finished, now);
        self.event_at = u64::MAX;
        self.finish();
    }

    /// `verify_only`: the writes of a former run, as they must have been.
    fn pretend_writes(&mut self) {
        let Some(ledger) = &mut self.ledger else { return };
        for _ in 0..self.plan.spec.loops {
            while let Some(io) = self.stream.next() {
                match io.direction {
                    Direction::Read => {}
                    Direction::Trim => ledger.wrote(io.offset, io.len, 0),
                    Direction::Write => {
                        self.writes += 1;
                        ledger.wrote(io.offset, io.len, self.writes);
                    }
                }
            }
            self.stream.restart();
        }
    }

    fn finish(&mut self) {
        for (number, direction) in self.stats.directions.iter_mut().enumerate() {
            let in_run = direction.ios > 0 && (number > 0 || self.plan.spec.rw.read);
            direction.runtime = if in_run { self.run_time } else { 0 };
            if number == 0 && self.read_backs {
                direction.runtime += self.read_back_time;
                // Read back during the run, beside the writes.
                if direction.runtime == 0 || self.plan.spec.verify_backlog > 0 {
                    direction.runtime = self.run_time + self.read_back_time;
                }
            }
        }
        self.stats.runtime = self.run_time + self.read_back_time;
        self.stats.windows.stop();
        self.usage = Reading::take().since(&self.usage_start);
    }

    /// Ends the ramp, or takes a bandwidth sample.
    pub(in crate::run) fn tick(&mut self, now: u64) {
        if self.ramp_end > 0 && now >= self.ramp_end {
            let spec = self.plan.spec;
            let wanted = Wanted { slat: spec.slat_percentiles, lat: spec.lat_percentiles };
            self.stats = JobStats::new(wanted);
            self.stream.forget();
            self.usage_start = Reading::take();
            self.ramp_end = 0;
            self.run_time = 0;
            self.begin_run(now);
        } else if now >= self.sample_at {
            self.stats.sample(now.saturating_sub(self.sample_start));
            self.sample_start = now;
            self.sample_at = now.saturating_add(self.plan.spec.sample_time);
            self.event_at = self.sample_at;
        }
    }
}
