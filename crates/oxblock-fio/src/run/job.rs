//! One running job as a state machine: what it wants next, and what its completions mean.
//!
//! Stages: delay → run → end flush → read back → (next loop: run) → finished. A job leaves a stage
//! only with nothing in flight. The job knows no target; [`super::engine`] carries its wishes out.

use oxblock::device::Buf;
use oxblock::error::Error;

use super::bitmap::Bitmap;
use super::pace::Pace;
use super::plan::Planned;
use super::random::Random;
use super::stats::{JobStats, Wanted};
use super::stream::{Direction, Io, Stream};
use super::usage::{Reading, Usage};
use super::verify::{Ledger, Mismatch, Reason, Stamp};
use crate::jobfile::BlockSizes;
use crate::num;

/// At most so many mismatches are kept; all are counted.
pub(super) const MISMATCHES_KEPT: usize = 1000;
/// `EILSEQ`, which fio reports when verification fails.
const EILSEQ: i32 = 84;

/// What a job wants.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    Io(Io),
    /// Read `len` bytes at `offset` back and judge them.
    ReadBack(u64, u32),
    Flush,
    /// Nothing before this time.
    Wait(u64),
    /// Nothing before one of its own I/Os is back.
    Held,
    /// The stage is over.
    End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Delay,
    Run,
    EndFlush,
    ReadBack,
    Finished,
}

/// Which blocks have I/O in flight, for jobs whose I/Os must not overlap.
#[derive(Debug)]
struct Busy {
    map: Bitmap,
    start: u64,
    unit: u64,
}

impl Busy {
    fn units(&self, offset: u64, len: u32) -> (u64, u64) {
        ((offset - self.start) / self.unit, u64::from(len).div_ceil(self.unit))
    }
}

/// A job's buffers and depth rules are public to the engine; the rest is its own business.
#[derive(Debug)]
pub(super) struct Job<'f> {
    pub(super) plan: Planned<'f>,
    pub(super) stats: JobStats,
    /// I/Os at most in flight; submit at `batch`; refill at `low`; reap `reap_min` or poll.
    pub(super) depth: u32,
    pub(super) batch: u32,
    pub(super) low: u32,
    pub(super) reap_min: u32,
    pub(super) polls: bool,
    pub(super) in_flight: u32,
    /// Queued and not submitted.
    pub(super) queued: u32,
    /// The job was full and waits for `need` completions and for `low`.
    pub(super) reaping: bool,
    pub(super) need: u32,
    pub(super) reaped: u32,
    /// Completions in the current poll batch.
    pub(super) batch_reaped: u32,
    /// When [`Job::tick`] is due.
    pub(super) event_at: u64,
    pub(super) stopping: bool,
    /// Writes issued, which is the number of the last one.
    pub(super) writes: u64,
    pub(super) mismatches: Vec<Mismatch>,
    pub(super) mismatch_count: u64,
    pub(super) error: Option<Error>,
    pub(super) usage: Usage,
    buffers: Vec<Buf>,
    random: Random,
    stream: Stream,
    pace: Pace,
    stamp: Option<Stamp>,
    ledger: Option<Ledger>,
    busy: Option<Busy>,
    stage: Stage,
    stage_start: u64,
    flush_sent: bool,
    pending: Option<Io>,
    since_flush: u64,
    flush_due: bool,
    read_back_due: u64,
    read_back_max: u32,
    loops_done: u32,
    fatal: bool,
    deadline: u64,
    ramp_end: u64,
    sample_at: u64,
    sample_start: u64,
    run_time: u64,
    read_back_time: u64,
    read_backs: bool,
    usage_start: Reading,
}

impl<'f> Job<'f> {
    pub(super) fn new(plan: Planned<'f>, now: u64) -> Self {
        let spec = plan.spec;
        let depth = spec.depth.max.max(1);
        let or_depth = |value: u32| if value == 0 || value > depth { depth } else { value };
        let stamp = spec.verify.map(|kind| Stamp {
            kind,
            pattern: spec
                .verify_pattern
                .clone()
                .filter(|_| kind == crate::jobfile::VerifyKind::Pattern),
            unit: plan.verify_unit,
            seed: plan.seed,
        });
        let range = plan.range;
        let keeps = stamp.is_some() && (spec.rw.write || spec.rw.trim);
        let backlog = spec.verify_backlog > 0;
        let ledger = keeps.then(|| Ledger::new(range.start, range.len, plan.verify_unit, backlog));
        let unit = u64::from(plan.unit);
        let busy = (keeps || spec.serialize_overlap).then(|| Busy {
            map: Bitmap::new(range.len / unit),
            start: range.start,
            unit,
        });
        let wanted = Wanted { slat: spec.slat_percentiles, lat: spec.lat_percentiles };
        let mut job = Self {
            stats: JobStats::new(wanted),
            depth,
            batch: or_depth(spec.depth.batch),
            low: or_depth(spec.depth.low),
            reap_min: spec.depth.reap_min,
            polls: spec.depth.reap_min == 0 && spec.depth.reap_max == 0,
            in_flight: 0,
            queued: 0,
            reaping: false,
            need: 0,
            reaped: 0,
            batch_reaped: 0,
            event_at: u64::MAX,
            stopping: false,
            writes: 0,
            mismatches: Vec::new(),
            mismatch_count: 0,
            error: None,
            usage: Usage::default(),
            buffers: Vec::new(),
            random: Random::new(plan.seed ^ 1),
            stream: Stream::new(spec, range, plan.limit, plan.seed),
            pace: Pace::new(spec),
            stamp,
            ledger,
            busy,
            stage: Stage::Delay,
            stage_start: now + spec.startdelay,
            flush_sent: false,
            pending: None,
            since_flush: 0,
            flush_due: false,
            read_back_due: 0,
            read_back_max: spec.bs.get(1).map_or(4096, BlockSizes::max),
            loops_done: 0,
            fatal: false,
            deadline: u64::MAX,
            ramp_end: 0,
            sample_at: u64::MAX,
            sample_start: 0,
            run_time: 0,
            read_back_time: 0,
            read_backs: false,
            usage_start: Reading::default(),
            plan,
        };
        job.make_buffers();
        job
    }

    /// All buffers that the job will ever use, with the bytes it will write.
    fn make_buffers(&mut self) {
        let spec = self.plan.spec;
        let [read, write, _] = &spec.bs;
        let mut len = 0;
        if spec.rw.read {
            len = len.max(read.max());
        }
        if spec.rw.write {
            len = len.max(write.max());
        }
        for _ in 0..if len > 0 { self.depth } else { 0 } {
            let mut buf = Buf::new(len as usize);
            match &spec.buffer_pattern {
                _ if !spec.rw.write || spec.zero_buffers => {}
                Some(pattern) => pattern.fill(&mut buf, 0),
                None => self.random.fill(&mut buf),
            }
            self.buffers.push(buf);
        }
    }

    /// What the job wants at `now`, given that it may have one more I/O in flight.
    pub(super) fn next(&mut self, now: u64) -> Next {
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
    pub(super) fn advance(&mut self, now: u64) -> bool {
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
                let start = now + spec.ramp_time;
                self.deadline = if spec.runtime > 0 { start + spec.runtime } else { u64::MAX };
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
        self.sample_start = now;
        self.sample_at = now + self.plan.spec.sample_time;
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
        self.stage = Stage::Finished;
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
        self.usage = Reading::take().since(&self.usage_start);
    }

    /// Ends the ramp, or takes a bandwidth sample.
    pub(super) fn tick(&mut self, now: u64) {
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
            self.sample_at = now + self.plan.spec.sample_time;
            self.event_at = self.sample_at;
        }
    }

    /// A buffer of `len` bytes, and the rest of the window that it was cut from.
    pub(super) fn take_buffer(&mut self, len: u32) -> (Buf, Option<Buf>) {
        let len = len as usize;
        let mut buf = self.buffers.pop().unwrap_or_else(|| Buf::new(len));
        if buf.len() < len {
            buf = Buf::new(len);
        }
        let tail = (buf.len() > len).then(|| buf.split_off(len));
        (buf, tail)
    }

    /// The other way.
    pub(super) fn give_buffer(&mut self, mut buf: Buf, tail: Option<Buf>) {
        if let Some(tail) = tail {
            // A target that hands back another buffer than it was given costs the pool its rest.
            buf.join(tail).ok();
        }
        self.buffers.push(buf);
    }

    /// Notes that `io` is issued, and fills `buf` if it is a write; returns the write's number.
    pub(super) fn issued(&mut self, io: &Io, buf: Option<&mut Buf>) -> u64 {
        self.pace.issued(io.direction, io.len);
        self.mark_busy(io.offset, io.len, true);
        let (Direction::Write, Some(buf)) = (io.direction, buf) else { return 0 };
        self.writes += 1;
        let spec = self.plan.spec;
        if spec.flush_every > 0 {
            self.since_flush += 1;
            if self.since_flush >= spec.flush_every {
                (self.since_flush, self.flush_due) = (0, true);
            }
        }
        if let Some(stamp) = &self.stamp {
            stamp.stamp(buf, io.offset, self.writes);
        } else if spec.refill_buffers {
            self.random.fill(buf);
        } else if spec.scramble_buffers && !spec.zero_buffers && spec.buffer_pattern.is_none() {
            scramble(buf, io.offset, self.writes);
        }
        self.writes
    }

    /// Marks the blocks of an I/O as in flight or not.
    pub(super) fn mark_busy(&mut self, offset: u64, len: u32, value: bool) {
        if let Some(busy) = &mut self.busy {
            let (first, count) = busy.units(offset, len);
            busy.map.set(first, count, value);
        }
    }

    /// Notes a completed I/O of the stream.
    pub(super) fn completed(&mut self, io: &Io, number: u64, buf: Option<&Buf>) {
        self.pace.completed();
        self.mark_busy(io.offset, io.len, false);
        match (&mut self.ledger, io.direction) {
            (Some(ledger), Direction::Write | Direction::Trim) => {
                ledger.wrote(io.offset, io.len, number);
                let backlog = self.plan.spec.verify_backlog;
                if backlog > 0 && ledger.waiting() >= backlog && self.read_back_due == 0 {
                    let batch = self.plan.spec.verify_backlog_batch;
                    self.read_back_due = if batch == 0 { backlog } else { batch };
                }
            }
            (None, Direction::Read) if self.stamp.is_some() => {
                if let Some(buf) = buf {
                    self.judge(io.offset, buf);
                }
            }
            _ => {}
        }
    }

    /// Notes what was read back.
    pub(super) fn read_back(&mut self, offset: u64, len: u32, buf: &Buf) {
        self.read_backs = true;
        self.mark_busy(offset, len, false);
        self.judge(offset, buf);
        if let Some(ledger) = &mut self.ledger {
            ledger.verified(offset, len);
        }
    }

    fn judge(&mut self, offset: u64, buf: &Buf) {
        let Some(stamp) = self.stamp.clone() else { return };
        let step = stamp.unit as usize;
        for (unit, at) in buf.chunks(step).zip((offset..).step_by(step)) {
            let expected = self.ledger.as_ref().map_or(0, |ledger| ledger.number(at));
            if let Err(reason) = stamp.expect(unit, at, expected) {
                self.mismatch(at, num::narrow(unit.len() as u64), expected, reason);
            }
        }
    }

    fn mismatch(&mut self, offset: u64, len: u32, expected: u64, reason: Reason) {
        self.mismatch_count += 1;
        self.fatal |= self.plan.spec.verify_fatal;
        if self.mismatches.len() < MISMATCHES_KEPT {
            let job = self.plan.spec.name.clone();
            self.mismatches.push(Mismatch { job, offset, len, expected, reason });
        }
    }

    /// Notes a failed I/O. The first one stops the job; a failed read-back is a mismatch.
    pub(super) fn failed(&mut self, offset: u64, len: u32, read_back: bool, error: Error) {
        self.mark_busy(offset, len, false);
        if read_back {
            self.read_backs = true;
            let reason = Reason::Unreadable(error.errno());
            self.mismatch(offset, len, 0, reason);
        } else {
            self.fatal = true;
        }
        self.error.get_or_insert(error);
    }

    /// fio's error number: the first I/O error, or that of failed verification, or 0.
    pub(super) fn errno(&self) -> i32 {
        match &self.error {
            Some(error) => error.errno(),
            None if self.mismatch_count > 0 => EILSEQ,
            None => 0,
        }
    }

    /// Is a pause spent spinning?
    pub(super) fn spins(&self, now: u64) -> bool {
        self.pace.spins(now)
    }

    pub(super) fn finished(&self) -> bool {
        self.stage == Stage::Finished
    }

    /// How far the job is, 0 to 1.
    pub(super) fn fraction(&self, now: u64) -> f64 {
        let spec = self.plan.spec;
        let (bytes, limit) = self.stream.progress();
        let by_bytes = num::percent(bytes, limit) / 100.0;
        let loops = f64::from(spec.loops);
        let by_bytes = (f64::from(self.loops_done) + by_bytes) / loops;
        let left = num::float(self.deadline.saturating_sub(now));
        let by_time = match spec.runtime {
            0 => 0.0,
            runtime => 1.0 - (left / num::float(runtime)).min(1.0),
        };
        if self.finished() { 1.0 } else { by_bytes.max(by_time).min(1.0) }
    }
}

/// Makes each 512 bytes of a reused buffer differ from what it was written with before.
fn scramble(buf: &mut [u8], offset: u64, number: u64) {
    for sector in buf.chunks_exact_mut(512) {
        if let Some(words) = sector.first_chunk_mut::<16>() {
            *words = (u128::from(offset) << 64 | u128::from(number)).to_le_bytes();
        }
    }
}
