//! What a run measured, and fio's two ways of saying it.
//!
//! `normal` prints fio's text, `json` builds fio's JSON; both follow fio 3.33 in shape, names and
//! units, so that tools which read fio's output read this one. The figures themselves are public:
//! [`Report::entries`] has one entry per job, or per group under `group_reporting`.

mod date;
mod header;
mod json;
mod normal;
mod units;

use std::time::SystemTime;

use crate::jobfile::{Given, JobFile, JobOptions};
use crate::num;
use crate::run::Direction;
use crate::run::plan::Planned;
use crate::run::stats::{DirectionStats, JobStats};
use crate::run::usage::Usage;
use crate::run::verify::Mismatch;

/// The version of fio whose output this is the shape of.
pub const FIO_VERSION: &str = "fio-3.33";

/// The outcome of one job, or of the jobs of a group taken together.
#[derive(Debug, Clone)]
pub struct JobResult {
    /// The job's name; of a group, that of its first job.
    pub name: String,
    /// `description`.
    pub description: Option<String>,
    /// Reporting group, from 0.
    pub group: u32,
    /// How many jobs these are.
    pub members: u32,
    /// 0, or the errno of the first failed I/O, or `EILSEQ` (84) when verification failed.
    pub errno: i32,
    /// What went wrong, in words.
    pub error: Option<String>,
    /// The job's own options, as written.
    pub options: Vec<Given>,
    /// What was counted.
    pub stats: JobStats,
    /// CPU time and the like. Jobs that ran together are charged equal parts.
    pub usage: Usage,
    /// Blocks that failed verification, at most 1000 per job.
    pub mismatches: Vec<Mismatch>,
    /// How many blocks failed verification.
    pub mismatch_count: u64,
    /// From the start of the run to the end of the job, ns.
    pub elapsed: u64,
    percentiles: Vec<f64>,
    shows: Shows,
    depth: u32,
    grouped: bool,
}

/// Which latencies are shown with percentiles.
#[derive(Debug, Clone, Copy)]
struct Shows {
    slat: bool,
    clat: bool,
    lat: bool,
}

impl JobResult {
    /// A job of which nothing is known yet but what it was asked for.
    pub(crate) fn new(spec: &JobOptions, group: u32) -> Self {
        Self {
            name: spec.name.clone(),
            description: spec.description.clone(),
            group,
            members: 1,
            errno: 0,
            error: None,
            options: spec.given.clone(),
            stats: JobStats::default(),
            usage: Usage::default(),
            mismatches: Vec::new(),
            mismatch_count: 0,
            elapsed: 0,
            percentiles: spec.percentiles.clone(),
            shows: Shows {
                slat: spec.slat_percentiles,
                clat: spec.clat_percentiles,
                lat: spec.lat_percentiles,
            },
            depth: spec.depth.max,
            grouped: spec.group_reporting,
        }
    }

    fn merge(&mut self, other: &Self) {
        self.members += other.members;
        if self.errno == 0 {
            (self.errno, self.error) = (other.errno, other.error.clone());
        }
        self.stats.merge(&other.stats);
        self.usage.merge(&other.usage);
        self.mismatches.extend_from_slice(&other.mismatches);
        self.mismatch_count += other.mismatch_count;
        self.elapsed = self.elapsed.max(other.elapsed);
    }

    /// Reads, read-backs included.
    pub fn read(&self) -> &DirectionStats {
        self.stats.direction(Direction::Read)
    }

    /// Writes.
    pub fn write(&self) -> &DirectionStats {
        self.stats.direction(Direction::Write)
    }

    /// Trims.
    pub fn trim(&self) -> &DirectionStats {
        self.stats.direction(Direction::Trim)
    }

    /// I/Os a second: the sum over the directions, each over its own time.
    pub fn iops(&self) -> f64 {
        self.stats.directions.iter().map(DirectionStats::iops).sum()
    }

    /// Bytes a second: the sum over the directions, each over its own time.
    pub fn bandwidth(&self) -> f64 {
        self.stats.directions.iter().map(DirectionStats::bandwidth_bytes).sum()
    }
}

/// Everything that a run measured.
#[derive(Debug, Clone)]
pub struct Report {
    /// One result per clone, in the file's order.
    pub jobs: Vec<JobResult>,
    /// What was adapted to the target, in sentences.
    pub notes: Vec<String>,
    planned: Vec<header::Job>,
    globals: Vec<Given>,
    finished: SystemTime,
}

impl Report {
    pub(crate) fn new(
        file: &JobFile,
        plans: &[Planned<'_>],
        jobs: Vec<JobResult>,
        notes: Vec<String>,
        started: SystemTime,
    ) -> Self {
        let finished = SystemTime::now().max(started);
        let planned = header::jobs(plans);
        Self { jobs, notes, planned, globals: file.globals.clone(), finished }
    }

    /// One result per job, or per group for jobs with `group_reporting`, in order.
    pub fn entries(&self) -> Vec<JobResult> {
        let mut entries: Vec<JobResult> = Vec::new();
        for job in &self.jobs {
            match entries.last_mut() {
                Some(last) if last.grouped && job.grouped && last.group == job.group => {
                    last.merge(job);
                }
                _ => entries.push(job.clone()),
            }
        }
        entries
    }

    /// 0, or the errno of the first job that failed.
    pub fn errno(&self) -> i32 {
        self.jobs.iter().map(|job| job.errno).find(|errno| *errno != 0).unwrap_or(0)
    }

    /// Blocks that failed verification, over all jobs.
    pub fn mismatch_count(&self) -> u64 {
        self.jobs.iter().map(|job| job.mismatch_count).sum()
    }

    /// fio's text.
    pub fn normal(&self) -> String {
        normal::text(self)
    }

    /// fio's JSON.
    pub fn json(&self) -> serde_json::Value {
        json::document(self)
    }

    /// The jobs of each group and direction, where anything was done.
    fn groups(&self) -> Vec<(u32, Direction, GroupStats)> {
        let mut out: Vec<(u32, Direction, GroupStats)> = Vec::new();
        let last = self.jobs.last().map_or(0, |job| job.group);
        for group in 0..=last {
            for direction in Direction::ALL {
                let members = self.jobs.iter().filter(|job| job.group == group);
                let stats = members.map(|job| job.stats.direction(direction));
                if let Some(sum) = GroupStats::of(stats.filter(|stats| stats.ios > 0)) {
                    out.push((group, direction, sum));
                }
            }
        }
        out
    }
}

/// A direction over the jobs of a group.
#[derive(Debug, Clone, Copy)]
struct GroupStats {
    bytes: u64,
    /// Bytes a second: all bytes over the longest run time, as fio has it.
    total: f64,
    slowest: f64,
    fastest: f64,
    /// Milliseconds.
    shortest: u64,
    longest: u64,
}

impl GroupStats {
    fn of<'a>(jobs: impl Iterator<Item = &'a DirectionStats>) -> Option<Self> {
        let mut sum: Option<Self> = None;
        let mut nanos = 0;
        for job in jobs {
            let (rate, ms) = (job.bandwidth_bytes(), job.runtime_ms());
            let sum = sum.get_or_insert(Self {
                bytes: 0,
                total: 0.0,
                slowest: f64::INFINITY,
                fastest: 0.0,
                shortest: u64::MAX,
                longest: 0,
            });
            nanos = nanos.max(job.runtime).max(1);
            sum.bytes += job.bytes;
            sum.total = num::float(sum.bytes) * 1e9 / num::float(nanos);
            sum.slowest = sum.slowest.min(rate);
            sum.fastest = sum.fastest.max(rate);
            sum.shortest = sum.shortest.min(ms);
            sum.longest = sum.longest.max(ms);
        }
        sum
    }
}
