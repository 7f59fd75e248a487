//! What becomes of a job's I/O: counting, stamping, judging, failing.

use oxblock::device::Buf;
use oxblock::error::Error;

use super::{Job, MISMATCHES_KEPT};
use crate::num;
use crate::run::stream::{Direction, Io};
use crate::run::verify::{Mismatch, Reason};

impl Job<'_> {
    /// Notes that `io` is issued, and fills `buf` if it is a write; returns the write's number.
    pub(in crate::run) fn issued(&mut self, io: &Io, buf: Option<&mut Buf>) -> u64 {
        self.pace.issued(io.direction, io.len);
        self.mark_busy(io.offset, io.len, true);
        let (Direction::Write, Some(buf)) = (io.direction, buf) else { return 0 };
        self.writes += 1;
        let spec = self.plan.spec;
        let flush_every = spec.flush_every();
        if flush_every > 0 {
            self.since_flush += 1;
            if self.since_flush >= flush_every {
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

    /// Notes a completed I/O of the stream.
    pub(in crate::run) fn completed(&mut self, io: &Io, number: u64, buf: Option<&Buf>) {
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
    pub(in crate::run) fn read_back(&mut self, offset: u64, len: u32, buf: &Buf) {
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
            if expected == 0 && self.ledger.is_some() {
                // Trimmed since: anything may be there.
                continue;
            }
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
    pub(in crate::run) fn failed(&mut self, offset: u64, len: u32, read_back: bool, error: Error) {
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
}

/// Makes each 512 bytes of a reused buffer differ from what it was written with before.
fn scramble(buf: &mut [u8], offset: u64, number: u64) {
    for sector in buf.chunks_exact_mut(512) {
        if let Some(words) = sector.first_chunk_mut::<16>() {
            *words = (u128::from(offset) << 64 | u128::from(number)).to_le_bytes();
        }
    }
}
