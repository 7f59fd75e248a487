//! The fio job-file language, a runner for it, and fio's reports.
//!
//! A job file says what I/O to do; a [`Target`] is what it is done to: a volume, or a bare device
//! ([`RawTarget`]). The same loop drives both, so that their figures can be compared.
//!
//! - [`parse`] turns text into a [`JobFile`]. Options that name a file or an engine are accepted
//!   and noted as replaced by the target; an option that is unknown, or that this runner cannot
//!   honour, is refused by name and line. No input makes it panic.
//! - [`run()`] carries the jobs out in one thread and one event loop. It is a benchmark loop: apart
//!   from the target's own, it makes no system calls, does not allocate per I/O, and reads the
//!   clock once per submitted and once per reaped batch.
//! - [`Report`] prints fio's normal text ([`Report::normal`]) and fio's JSON ([`Report::json`]).
//! - [`verify_only`] reads back what verifying write jobs wrote and says what is wrong, also after
//!   a crash.
#![forbid(unsafe_code)]

pub mod jobfile;
mod num;
pub mod report;
pub mod run;
pub mod target;

pub use jobfile::{JobError, JobFile, JobOptions, option_listing, parse};
pub use report::Report;
pub use run::verify::Mismatch;
pub use run::{Durable, Progress, RunOptions, VerifyReport, run, verify_only};
pub use target::{NullTarget, RawTarget, Target, VolumeTarget};
