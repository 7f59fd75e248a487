//! Carrying a job file out.
//!
//! Jobs between two stonewalls form a phase and run together in one thread and one loop
//! (`engine`); each clone of a job is a state machine (`job`) with its own stream of I/Os
//! (`stream`), pace (`pace`) and counters (`stats`). The target does the I/O, so several jobs on
//! one volume meet in the target's queue, as several clients of it would.

mod bitmap;
mod check;
mod engine;
pub mod histogram;
mod job;
mod pace;
pub(crate) mod plan;
mod random;
pub mod stats;
mod stream;
#[cfg(test)]
mod tests;
pub mod usage;
pub mod verify;

use std::sync::atomic::AtomicBool;
use std::time::SystemTime;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

pub use check::{JobCheck, VerifyReport, verify_only};
pub use stream::Direction;

use crate::jobfile::{JobError, JobFile};
use crate::report::{JobResult, Report};
use crate::target::Target;
use job::Job;

/// How the jobs are, once in a while.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// Jobs of this phase that are not finished.
    pub running: usize,
    /// How far the phase is, 0 to 1.
    pub fraction: f64,
    /// Completed I/Os of this phase.
    pub ios: u64,
    /// Completed bytes of this phase.
    pub bytes: u64,
    /// The target's clock, ns.
    pub nanos: u64,
}

/// A promise that a job's first writes are on stable media.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Durable {
    /// The clone, counted over the whole file from 0.
    pub job: usize,
    /// Its writes 1 to this number, in order of issue, survive a crash from now on.
    pub writes: u64,
}

/// How to run. The default runs to the end in silence.
#[derive(Clone, Copy, Default)]
pub struct RunOptions<'o> {
    /// Called about every [`progress_interval`](Self::progress_interval).
    pub progress: Option<&'o dyn Fn(&Progress)>,
    /// Nanoseconds; 0 is a quarter of a second.
    pub progress_interval: u64,
    /// Called when a flush, or a write of a `sync=1` job, is acknowledged: for crash tests.
    pub durable: Option<&'o dyn Fn(&Durable)>,
    /// Count completed bytes over stretches of this many nanoseconds ([`stats::Windows`]); 0 does not.
    pub window: u64,
    /// Looked at as often as progress is told: once true, jobs stop and what was done is reported.
    pub stop: Option<&'o AtomicBool>,
}

impl std::fmt::Debug for RunOptions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunOptions").field("progress_interval", &self.progress_interval).finish()
    }
}

/// Runs all jobs of `file` on `target`.
///
/// Failed I/O and failed verification are results ([`Report::errno`]), not errors.
///
/// # Errors
/// A job that does not fit the target, with its line; CPUs that cannot be used.
pub fn run(
    file: &JobFile,
    target: &mut dyn Target,
    options: &RunOptions<'_>,
) -> Result<Report, JobError> {
    let started = SystemTime::now();
    let (plans, mut notes) = plan::plan(file, target)?;
    let mut results: Vec<JobResult> = Vec::new();
    let phases = plans.last().map_or(0, |plan| plan.phase + 1);
    let begin = target.now();
    for phase in 0..phases {
        let members = plans.iter().filter(|plan| plan.phase == phase);
        let pinned = Pin::new(file, members.clone().map(|plan| plan.spec), &mut notes)?;
        let mut jobs: Vec<Job<'_>> =
            members.map(|plan| Job::new(plan.clone(), target.now(), options.window)).collect();
        let outcome = engine::run_phase(&mut jobs, target, options);
        drop(pinned);
        outcome.map_err(|message| JobError::new(&file.name, None, message))?;
        let parts = jobs.len() as u64;
        results.extend(jobs.into_iter().map(|job| result_of(job, parts, begin)));
        if options.stop.is_some_and(|stop| stop.load(std::sync::atomic::Ordering::Relaxed)) {
            break;
        }
    }
    Ok(Report::new(file, &plans, results, notes, started))
}

/// What a finished job leaves for the report of a run that started at `begin`. The `parts` jobs of a phase share the loop,
/// so each is charged an equal part of its CPU time.
fn result_of(job: Job<'_>, parts: u64, begin: u64) -> JobResult {
    let mut result = JobResult::new(job.plan.spec, job.plan.group);
    result.errno = job.errno();
    result.error = job.error.as_ref().map(ToString::to_string);
    result.elapsed = job.ended.saturating_sub(begin);
    result.usage = job.usage.share(parts);
    result.stats = job.stats;
    result.mismatches = job.mismatches;
    result.mismatch_count = job.mismatch_count;
    result
}

/// Keeps this thread on the CPUs of `cpus_allowed` until it is dropped.
struct Pin(Option<CpuSet>);

impl Pin {
    fn new<'f>(
        file: &JobFile,
        jobs: impl Iterator<Item = &'f crate::jobfile::JobOptions>,
        notes: &mut Vec<String>,
    ) -> Result<Self, JobError> {
        let mut cpus: Vec<usize> = Vec::new();
        let mut first: Option<&crate::jobfile::JobOptions> = None;
        for job in jobs {
            match first {
                None => (first, cpus) = (Some(job), job.cpus.clone()),
                Some(first) if first.cpus != job.cpus => {
                    notes.push(format!(
                        "jobs '{}' and '{}' share one loop, which runs on the CPUs of both",
                        first.name, job.name
                    ));
                    cpus.extend(&job.cpus);
                }
                Some(_) => {}
            }
        }
        if cpus.is_empty() {
            return Ok(Self(None));
        }
        let line = first.map(|job| job.line_of("cpus_allowed"));
        let refuse = |error| {
            JobError::new(&file.name, line, format!("cpus_allowed: cannot run there: {error}"))
        };
        let before = sched_getaffinity(None).map_err(refuse)?;
        let mut set = CpuSet::new();
        cpus.iter().filter(|cpu| **cpu < CpuSet::MAX_CPU).for_each(|cpu| set.set(*cpu));
        sched_setaffinity(None, &set).map_err(refuse)?;
        Ok(Self(Some(before)))
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            // It was in force before, so it can only fail when a CPU went away: nothing to do then.
            sched_setaffinity(None, before).ok();
        }
    }
}
