//! Reading everything back, without any memory of the run: for after a crash.
//!
//! The headers say which write each unit holds; the job's stream, replayed, says which write it
//! should hold at least. So the only thing that must survive the crash outside the target is a
//! number per job: how many of its writes were known to be durable ([`super::Durable`]).

use std::collections::HashMap;

use oxblock::device::Buf;

use super::plan::{Planned, plan};
use super::stream::{Direction, Stream};
use super::verify::{Mismatch, Reason, Stamp};
use crate::jobfile::{JobError, JobFile};
use crate::num;
use crate::target::{Completion, Request, RequestKind, Target};

/// What one clone's range holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobCheck {
    /// The job.
    pub job: String,
    /// Units with a good header and payload.
    pub good: u64,
    /// Units of zeroes that need not hold anything.
    pub blank: u64,
    /// Units that are wrong.
    pub bad: u64,
    /// The highest write number found; 0 for none.
    pub newest: u64,
}

/// The outcome of [`verify_only`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VerifyReport {
    /// One entry per clone of a verifying write job, in the file's order.
    pub jobs: Vec<JobCheck>,
    /// What is wrong, at most 1000 entries.
    pub mismatches: Vec<Mismatch>,
    /// How many units are wrong.
    pub mismatch_count: u64,
}

/// Reads the range of every verifying write job and judges each unit.
///
/// `durable` has, per clone of the file, the number of its writes that must be there; missing
/// entries mean none. A unit may be blank, or hold any write of its job that is not older than the
/// last durable one that went there.
///
/// # Errors
/// A job that does not fit the target, or whose stream cannot be replayed (`randrepeat=0`,
/// `ramp_time`).
pub fn verify_only(
    file: &JobFile,
    target: &mut dyn Target,
    durable: &[u64],
) -> Result<VerifyReport, JobError> {
    let (plans, _) = plan(file, target)?;
    let mut report = VerifyReport::default();
    for plan in plans.iter().filter(|plan| plan.spec.rw.write) {
        let Some(stamp) = plan.stamp() else { continue };
        let writes = durable.get(plan.index).copied().unwrap_or(0);
        if writes > 0 && (!plan.spec.randrepeat || plan.spec.ramp_time > 0) {
            let message = format!(
                "job '{}': its writes cannot be replayed with randrepeat=0 or a ramp_time",
                plan.spec.name
            );
            return Err(JobError::new(&file.name, Some(plan.spec.line), message));
        }
        check(plan, &stamp, &replay(plan, writes), target, &mut report);
    }
    Ok(report)
}

/// The number of the last of the first `writes` writes that went to each unit.
fn replay(plan: &Planned<'_>, writes: u64) -> HashMap<u64, u64> {
    let mut last = HashMap::new();
    let mut stream = Stream::new(plan.spec, plan.range, plan.limit, plan.seed);
    let (mut number, mut loops) = (0, 0);
    while number < writes {
        let Some(io) = stream.next() else {
            loops += 1;
            if loops >= plan.spec.loops {
                break;
            }
            stream.restart();
            continue;
        };
        let units = (io.offset..io.offset + u64::from(io.len)).step_by(plan.verify_unit as usize);
        match io.direction {
            Direction::Read => {}
            // A trim after the write may or may not have happened: nothing is due there any more.
            Direction::Trim => units.for_each(|unit| {
                last.remove(&unit);
            }),
            Direction::Write => {
                number += 1;
                units.for_each(|unit| {
                    last.insert(unit, number);
                });
            }
        }
    }
    last
}

fn check(
    plan: &Planned<'_>,
    stamp: &Stamp,
    due: &HashMap<u64, u64>,
    target: &mut dyn Target,
    report: &mut VerifyReport,
) {
    let job = plan.spec.name.clone();
    let mut seen = JobCheck { job, good: 0, blank: 0, bad: 0, newest: 0 };
    let unit = plan.verify_unit as usize;
    let chunk = (256 * 1024 / unit).max(1) * unit;
    let end = plan.range.start + plan.range.len;
    let mut offset = plan.range.start;
    // Below this offset, read unit by unit: one of them is unreadable, the others need not be.
    let mut careful = 0;
    while offset < end {
        let len = if offset < careful { unit } else { chunk.min(num::index(end - offset)) };
        let (buf, error) = read(target, offset, Buf::new(len));
        if error.is_some() && len > unit {
            careful = offset + len as u64;
            continue;
        }
        for (bytes, at) in buf.chunks(unit).zip((offset..).step_by(unit)) {
            let expected = due.get(&at).copied().unwrap_or(0);
            let judged = match &error {
                Some(errno) => Err(Reason::Unreadable(*errno)),
                None => stamp.judge(bytes, at),
            };
            let reason = match judged {
                Ok(Some(header)) if header.seed != stamp.seed => Reason::Foreign(header.seed),
                Ok(Some(header)) if header.number < expected => Reason::WrongWrite(header.number),
                Ok(header) => {
                    seen.good += 1;
                    seen.newest = seen.newest.max(header.map_or(0, |header| header.number));
                    continue;
                }
                Err(Reason::Blank) if expected == 0 => {
                    seen.blank += 1;
                    continue;
                }
                Err(Reason::Pattern(_)) if expected == 0 && bytes.iter().all(|b| *b == 0) => {
                    seen.blank += 1;
                    continue;
                }
                Err(reason) => reason,
            };
            seen.bad += 1;
            report.mismatch_count += 1;
            if report.mismatches.len() < super::job::MISMATCHES_KEPT {
                let (job, len) = (seen.job.clone(), num::narrow(bytes.len() as u64));
                report.mismatches.push(Mismatch { job, offset: at, len, expected, reason });
            }
        }
        offset += buf.len() as u64;
    }
    report.jobs.push(seen);
}

/// One read, alone; the errno of what went wrong.
fn read(target: &mut dyn Target, offset: u64, buf: Buf) -> (Buf, Option<i32>) {
    let len = buf.len();
    target.queue(Request { tag: 0, kind: RequestKind::Read { offset, buf } });
    target.submit();
    let mut done: Vec<Completion> = Vec::new();
    while target.poll(&mut done) == 0 {
        target.wait(None);
    }
    let error = done.first().and_then(|end| end.result.as_ref().err().map(|e| e.errno()));
    let buf = done.pop().and_then(|end| end.buf).unwrap_or_else(|| Buf::new(len));
    (buf, error)
}
