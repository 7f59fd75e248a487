//! What fio's text says before the jobs start: one line for each job of the file, also for those
//! that a stop kept from starting.

use super::FIO_VERSION;
use super::normal::line;
use super::units::short;
use crate::jobfile::BlockSizes;
use crate::num;
use crate::run::plan::Planned;

/// One job of the file, its clones taken together.
#[derive(Debug, Clone)]
pub(super) struct Job {
    name: String,
    group: u32,
    pattern: &'static str,
    /// The smallest and the largest block of reads, writes and trims, bytes.
    blocks: [(u32, u32); 3],
    depth: u32,
    clones: u32,
}

/// The jobs of a plan, in the file's order.
pub(super) fn jobs(plans: &[Planned<'_>]) -> Vec<Job> {
    let first = |plan: &&Planned<'_>| plan.clone == 0;
    let job = |plan: &Planned<'_>| Job {
        name: plan.spec.name.clone(),
        group: plan.group,
        pattern: plan.spec.rw.name(),
        blocks: plan.spec.bs.each_ref().map(|sizes| (sizes.min(), largest(sizes))),
        depth: plan.spec.depth.max,
        clones: plan.spec.numjobs,
    };
    plans.iter().filter(first).map(job).collect()
}

/// The largest block as the job file has it.
fn largest(sizes: &BlockSizes) -> u32 {
    match sizes {
        BlockSizes::Range { max, .. } => *max,
        sizes => sizes.max(),
    }
}

/// fio's lines.
pub(super) fn text(out: &mut String, jobs: &[Job]) {
    for job in jobs {
        let size = |bytes: u32| short(num::float(bytes.into()), 4, true, "B");
        let [read, write, trim] =
            job.blocks.map(|(min, max)| format!("{}-{}", size(min), size(max)));
        line(
            out,
            format_args!(
                "{}: (g={}): rw={}, bs=(R) {read}, (W) {write}, (T) {trim}, ioengine=oxblock, iodepth={}",
                job.name, job.group, job.pattern, job.depth
            ),
        );
        if job.clones > 1 {
            line(out, format_args!("..."));
        }
    }
    line(out, format_args!("{FIO_VERSION}"));
    let all: u64 = jobs.iter().map(|job| u64::from(job.clones)).sum();
    line(out, format_args!("Starting {all} process{}", if all == 1 { "" } else { "es" }));
}
