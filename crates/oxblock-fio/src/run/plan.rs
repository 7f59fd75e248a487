//! From a job file and a target to jobs with places: ranges, seeds, groups, phases.
//!
//! Everything that can be wrong between a job and this target is found here, before any I/O.

use super::random::mix;
use super::stream::{Range, unit_of};
use super::verify::{MIN_UNIT, Stamp};
use crate::jobfile::{JobError, JobFile, JobOptions, VerifyKind};
use crate::num;
use crate::target::Target;

/// One clone of a job, ready to run.
#[derive(Debug, Clone)]
pub(crate) struct Planned<'f> {
    pub(crate) spec: &'f JobOptions,
    /// Position among all clones of the file.
    pub(crate) index: usize,
    /// Position among the clones of its job.
    pub(crate) clone: u64,
    /// Where it works.
    pub(crate) range: Range,
    /// Bytes per loop.
    pub(crate) limit: u64,
    /// Of its random sequences and its verify headers.
    pub(crate) seed: u64,
    /// What blocks are laid on, bytes.
    pub(crate) unit: u32,
    /// Bytes per verify header.
    pub(crate) verify_unit: u32,
    /// Reporting group.
    pub(crate) group: u32,
    /// Jobs of one phase run together; a stonewall starts the next one.
    pub(crate) phase: u32,
}

impl Planned<'_> {
    /// How its blocks are stamped and judged; `None` when they are not verified.
    pub(crate) fn stamp(&self) -> Option<Stamp> {
        let kind = self.spec.verify?;
        let pattern = self.spec.verify_pattern.clone().filter(|_| kind == VerifyKind::Pattern);
        Some(Stamp { kind, pattern, unit: self.verify_unit, seed: self.seed })
    }
}

/// The clones in order, and remarks about what was adapted to the target.
pub(crate) fn plan<'f>(
    file: &'f JobFile,
    target: &dyn Target,
) -> Result<(Vec<Planned<'f>>, Vec<String>), JobError> {
    let (size, block_size) = (target.size(), target.block_size());
    let (mut clones, mut notes) = (Vec::new(), Vec::new());
    let (mut group, mut phase) = (0, 0);
    // Without randrepeat every run is different, and its clones are different from each other.
    let entropy = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0u8);
    for (number, spec) in (0u64..).zip(&file.jobs) {
        let first = clones.is_empty();
        group += u32::from((spec.stonewall || spec.new_group) && !first);
        phase += u32::from(spec.stonewall && !first);
        let base = if spec.randrepeat { spec.randseed } else { spec.randseed ^ entropy };
        for clone in 0..u64::from(spec.numjobs) {
            let range = range(file, spec, clone, size, block_size, &mut notes)?;
            let unit = unit_of(spec);
            let limit = match (spec.time_based, spec.io_size) {
                (true, _) => u64::MAX,
                (false, Some(amount)) => amount.resolve(range.len),
                (false, None) => range.len,
            };
            let verify_unit = match spec.verify_interval {
                0 => unit,
                interval => interval,
            };
            let seed = mix(base ^ mix(number + 1) ^ mix(clone << 32));
            let index = clones.len();
            let planned =
                Planned { spec, index, clone, range, limit, seed, unit, verify_unit, group, phase };
            check_verify(file, &planned)?;
            clones.push(planned);
        }
    }
    check_memory(file, &clones)?;
    check_overlaps(file, &clones)?;
    notes.dedup();
    Ok((clones, notes))
}

fn refuse(file: &JobFile, spec: &JobOptions, option: &str, message: String) -> JobError {
    let message = format!("job '{}': {message}", spec.name);
    JobError::new(&file.name, Some(spec.line_of(option)), message)
}

fn range(
    file: &JobFile,
    spec: &JobOptions,
    clone: u64,
    size: u64,
    block_size: u32,
    notes: &mut Vec<String>,
) -> Result<Range, JobError> {
    let unit = u64::from(unit_of(spec));
    let align = u64::from(block_size.max(1));
    if !unit.is_multiple_of(align) {
        let message = format!("block sizes must be multiples of the target's {align} bytes");
        return Err(refuse(file, spec, "bs", message));
    }
    let skip = spec.offset_increment.resolve(size).saturating_mul(clone);
    let mut start = spec.offset.resolve(size).saturating_add(skip);
    if !start.is_multiple_of(align) {
        if matches!(spec.offset, crate::jobfile::Amount::Bytes(_)) {
            let message = format!("offset {start} is not a multiple of the target's {align} bytes");
            return Err(refuse(file, spec, "offset", message));
        }
        start -= start % align;
    }
    // Percentages land anywhere; blocks of a verify job must be found again by their offset.
    if spec.verify.is_some() {
        start -= start % unit;
    }
    let room = size.saturating_sub(start);
    let mut len = spec.size.map_or(room, |amount| amount.resolve(size));
    if len > room {
        notes.push(format!("job '{}': size {len} cut to the target's {room} bytes", spec.name));
        len = room;
    }
    len -= len % unit;
    let largest = spec.used_sizes().map(crate::jobfile::BlockSizes::max).max().unwrap_or(0);
    if len < u64::from(largest) {
        let message =
            format!("{room} bytes from offset {start} do not hold one block of {largest}");
        return Err(refuse(file, spec, "size", message));
    }
    if !spec.rw.random && !spec.rw_modifier.is_multiple_of(align) {
        let message = format!("skips must be multiples of the target's {align} bytes");
        return Err(refuse(file, spec, "rw", message));
    }
    Ok(Range { start, len })
}

fn check_verify(file: &JobFile, job: &Planned<'_>) -> Result<(), JobError> {
    let spec = job.spec;
    if spec.verify.is_none() && !spec.serialize_overlap {
        return Ok(());
    }
    if spec.verify.is_some() && job.verify_unit < MIN_UNIT {
        let message = format!("verify needs blocks of {MIN_UNIT} bytes or more");
        return Err(refuse(file, spec, "verify", message));
    }
    if job.unit.checked_rem(job.verify_unit) != Some(0) {
        let message = "verify_interval must divide the block sizes".to_owned();
        return Err(refuse(file, spec, "verify_interval", message));
    }
    if !spec.rw.random && spec.rw_modifier.checked_rem(u64::from(job.unit)) != Some(0) {
        let message = "with verify, skips must be multiples of the block size".to_owned();
        return Err(refuse(file, spec, "rw", message));
    }
    Ok(())
}

/// Buffers, verify ledgers and block maps of a phase must fit into three quarters of the memory: a
/// refusal with a line is better than an allocation that ends the process.
fn check_memory(file: &JobFile, clones: &[Planned<'_>]) -> Result<(), JobError> {
    let system = rustix::system::sysinfo();
    let memory = u128::from(system.totalram) * u128::from(system.mem_unit.max(1)) * 3 / 4;
    let mut phase = (0, 0u128);
    for job in clones {
        let spec = job.spec;
        let largest = spec.used_sizes().map(crate::jobfile::BlockSizes::max).max().unwrap_or(0);
        let buffers = u128::from(spec.depth.max) * u128::from(largest);
        let units = |unit: u32| u128::from(job.range.len / u64::from(unit.max(1)));
        let ledger = if spec.verify.is_some() { units(job.verify_unit) * 8 } else { 0 };
        let need = buffers + ledger + units(job.unit) / 8;
        phase = if phase.0 == job.phase { (job.phase, phase.1 + need) } else { (job.phase, need) };
        if phase.1 > memory {
            let message =
                format!("iodepth, block and verify tables need {} MiB of memory", phase.1 >> 20);
            return Err(refuse(file, spec, "iodepth", message));
        }
    }
    Ok(())
}

/// A block that two jobs write at the same time cannot be expected to hold what one of them wrote.
fn check_overlaps(file: &JobFile, clones: &[Planned<'_>]) -> Result<(), JobError> {
    let changes = |job: &Planned<'_>| job.spec.rw.write || job.spec.rw.trim;
    for (i, job) in clones.iter().enumerate() {
        if job.spec.verify.is_none() || !changes(job) {
            continue;
        }
        let end = |range: Range| range.start + range.len;
        let other = clones.iter().enumerate().find(|(j, other)| {
            *j != i
                && other.phase == job.phase
                && changes(other)
                && other.range.start < end(job.range)
                && job.range.start < end(other.range)
        });
        if let Some((_, other)) = other {
            let share = 100.0 / num::float(clones.len() as u64);
            let message = format!(
                "writes the same range as '{}' at the same time, so verify cannot know what to \
                 expect: set offset, or size={share:.0}% and offset_increment={share:.0}%",
                other.spec.name
            );
            return Err(refuse(file, job.spec, "verify", message));
        }
    }
    Ok(())
}
