//! The job-file language: text in, jobs or a refusal with file and line out.
//!
//! Invariants: no input panics, or takes more memory than its own size and the number of jobs justify; an option is either honoured exactly, noted as replaced by the
//! target, or refused by name; a later option overrides an earlier one, and a section overrides
//! `[global]`.

mod blocksize;
mod error;
mod lex;
mod listing;
mod options;
mod pattern;
mod setters;
mod suggest;
mod table;
#[cfg(test)]
mod tests;
mod value;

pub use blocksize::BlockSizes;
pub(crate) use blocksize::gcd;
pub use error::JobError;
pub use listing::option_listing;
pub use options::{Depth, Distribution, Given, JobOptions, VerifyKind, Workload};
pub use pattern::Pattern;
pub use value::Amount;

use lex::RawOption;
use oxblock::Policy;
use table::Kind;

/// The most jobs, clones included.
const MAX_JOBS: usize = 4096;
/// The most bytes of a name or a value: each job has its own of those that `[global]` sets.
const MAX_TEXT: usize = 4096;

/// A parsed job file.
#[derive(Debug, Clone, PartialEq)]
pub struct JobFile {
    /// The file's name, for messages.
    pub name: String,
    /// The options of `[global]`, as written.
    pub globals: Vec<Given>,
    /// The jobs, in order.
    pub jobs: Vec<JobOptions>,
    /// Options that are accepted and replaced by the target, each once, in order of appearance.
    pub replaced: Vec<&'static str>,
    /// The policy that the volume is to be opened with, when a job names one.
    pub policy: Option<Policy>,
}

/// Parses the text of a job file; `name` is the file's name for messages.
///
/// # Errors
/// What is not a job file, an unknown option, a value that does not fit its option, an option that
/// cannot be honoured: each with its line.
pub fn parse(text: &str, name: &str) -> Result<JobFile, JobError> {
    let mut file = JobFile {
        name: name.to_owned(),
        globals: Vec::new(),
        jobs: Vec::new(),
        replaced: vec![],
        policy: None,
    };
    let mut defaults = JobOptions::default();
    for section in lex::lex(text, name)? {
        let global = section.name == "global";
        let mut job = defaults.clone();
        if !global {
            job.name = section.name;
            job.line = section.line;
            job.given.clear();
        }
        for option in &section.options {
            apply(&mut job, option, &mut file)?;
        }
        if global {
            // A later one overrides, so that however many sections there are, each option is there once.
            file.globals.retain(|old| job.given.iter().all(|new| new.name != old.name));
            file.globals.append(&mut job.given);
            job.inherited = file.globals.as_slice().into();
            defaults = job;
        } else {
            if file.jobs.len() == MAX_JOBS {
                return Err(too_many(MAX_JOBS as u64 + 1, name));
            }
            check(&job, name)?;
            agree(&mut file.policy, &job, name)?;
            file.jobs.push(job);
        }
    }
    if file.jobs.is_empty() {
        return Err(JobError::new(name, None, "the file has no job section"));
    }
    let clones: u64 = file.jobs.iter().map(|job| u64::from(job.numjobs)).sum();
    if clones > MAX_JOBS as u64 {
        return Err(too_many(clones, name));
    }
    Ok(file)
}

fn too_many(jobs: u64, file: &str) -> JobError {
    JobError::new(file, None, format!("{jobs} jobs are more than the {MAX_JOBS} that can run"))
}

/// Sets one option on `job`.
fn apply(job: &mut JobOptions, option: &RawOption, file: &mut JobFile) -> Result<(), JobError> {
    let refuse = |message: String| JobError::new(&file.name, Some(option.line), message);
    if option.name.len() > MAX_TEXT {
        return Err(refuse(format!("an option's name has at most {MAX_TEXT} bytes")));
    }
    let Some(def) = table::find(&option.name) else {
        let mut message = format!("unknown option '{}'", option.name);
        if let Some(name) = suggest::closest(&option.name, table::usable_names()) {
            message.push_str(&format!("; did you mean '{name}'?"));
        }
        return Err(refuse(message));
    };
    let value = option.value.as_deref();
    if value.is_some_and(|text| text.len() > MAX_TEXT) {
        return Err(refuse(format!("{}: a value has at most {MAX_TEXT} bytes", option.name)));
    }
    let needed = || value.filter(|text| !text.is_empty()).ok_or("a value is missing".to_owned());
    let outcome = match def.kind {
        Kind::Flag(set) => value::flag(value).map(|flag| set(job, flag)),
        Kind::Int { min, max, set } => needed().and_then(value::integer).and_then(|number| {
            if !(min..=max).contains(&number) {
                return Err(format!("{number} is not within {min} to {max}"));
            }
            set(job, number);
            Ok(())
        }),
        Kind::Size { max, set } => needed().and_then(value::size).and_then(|bytes| {
            if bytes > max {
                return Err(format!("{bytes} is above {max}"));
            }
            set(job, bytes);
            Ok(())
        }),
        Kind::Amount(set) => needed().and_then(value::amount).map(|amount| set(job, amount)),
        Kind::Time { unit, set } => {
            needed().and_then(|text| value::time(text, unit)).map(|nanos| set(job, nanos))
        }
        Kind::Text { set, .. } => needed().and_then(|text| set(job, text)),
        Kind::Replaced => {
            if !file.replaced.contains(&def.name) {
                file.replaced.push(def.name);
            }
            Ok(())
        }
        Kind::Refused(reason) => {
            let message = format!("option '{}' is not honoured here: {reason}", option.name);
            return Err(refuse(message));
        }
    };
    outcome.map_err(|message| refuse(format!("{}: {message}", option.name)))?;
    job.given.retain(|given| given.name != def.name);
    job.given.push(Given { name: def.name, value: option.value.clone(), line: option.line });
    Ok(())
}

/// The volume is opened once, for all jobs: those that name a policy for it must name the same.
fn agree(policy: &mut Option<Policy>, job: &JobOptions, file: &str) -> Result<(), JobError> {
    let Some(wanted) = job.policy else { return Ok(()) };
    let agreed = *policy.get_or_insert(wanted);
    if wanted == agreed {
        return Ok(());
    }
    let message = format!(
        "policy: all jobs share one volume, and an earlier one asks for '{agreed}', not '{wanted}'"
    );
    Err(JobError::new(file, Some(job.line_of("policy")), message))
}

/// What no single option can see.
fn check(job: &JobOptions, file: &str) -> Result<(), JobError> {
    let refuse = |option: &str, message: &str| {
        Err(JobError::new(file, Some(job.line_of(option)), format!("{option}: {message}")))
    };
    if job.time_based && job.runtime == 0 {
        return refuse("time_based", "needs a runtime");
    }
    if job.verify == Some(VerifyKind::Pattern) && job.verify_pattern.is_none() {
        return refuse("verify", "pattern needs a verify_pattern");
    }
    if job.thinktime_spin > job.thinktime {
        return refuse("thinktime_spin", "is longer than thinktime");
    }
    if job.verify_only && (job.verify.is_none() || !job.rw.write) {
        return refuse("verify_only", "needs verify= and a pattern that writes");
    }
    if job.verify_only && job.time_based {
        return refuse("verify_only", "cannot tell how far a time_based job came");
    }
    if job.verify_only && !job.randrepeat {
        return refuse("verify_only", "needs randrepeat=1 to know what was written");
    }
    Ok(())
}
