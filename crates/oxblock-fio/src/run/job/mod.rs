//! One running job as a state machine: what it wants next, and what its completions mean.
//!
//! Stages: delay → run → end flush → read back → (next loop: run) → finished. A job leaves a stage
//! only with nothing in flight. The job knows no target; [`super::engine`] carries its wishes out.

mod results;
mod stages;

use oxblock::device::Buf;
use oxblock::error::Error;

use crate::jobfile::BlockSizes;
use crate::num;
use crate::run::bitmap::Bitmap;
use crate::run::pace::Pace;
use crate::run::plan::Planned;
use crate::run::random::Random;
use crate::run::stats::{JobStats, Wanted};
use crate::run::stream::{Io, Stream};
use crate::run::usage::{Reading, Usage};
use crate::run::verify::{Ledger, Mismatch, Stamp};

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
    /// Every write gets new content, which takes time.
    pub(super) fills: bool,
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
    /// When it finished.
    pub(super) ended: u64,
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
    /// Nanoseconds of a stretch over which completed bytes are counted; 0 for none.
    window: u64,
}

impl<'f> Job<'f> {
    pub(super) fn new(plan: Planned<'f>, now: u64, window: u64) -> Self {
        let spec = plan.spec;
        let depth = spec.depth.max.max(1);
        let or_depth = |value: u32| if value == 0 || value > depth { depth } else { value };
        let stamp = plan.stamp();
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
            fills: stamp.is_some() || spec.refill_buffers,
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
            ended: 0,
            buffers: Vec::new(),
            random: Random::new(plan.seed ^ 1),
            stream: Stream::new(spec, range, plan.limit, plan.seed),
            pace: Pace::new(spec),
            stamp,
            ledger,
            busy,
            stage: Stage::Delay,
            stage_start: now.saturating_add(spec.startdelay),
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
            window,
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

    /// Marks the blocks of an I/O as in flight or not.
    pub(super) fn mark_busy(&mut self, offset: u64, len: u32, value: bool) {
        if let Some(busy) = &mut self.busy {
            let (first, count) = busy.units(offset, len);
            busy.map.set(first, count, value);
        }
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
