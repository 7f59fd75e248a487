//! `oxblock run`: a fio job file on a volume, or on the bare device.

mod progress;
mod trace;

use std::cell::RefCell;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use oxblock::device::{DeviceOptions, Sharing, open_devices};
use oxblock_fio::report::JobResult;
use oxblock_fio::{
    JobFile, Progress, RawTarget, Report, RunOptions, VolumeTarget, option_listing, parse, run,
};

use rustix::io::Errno;

use self::progress::JobsProgress;
use self::trace::{EngineReport, Tracing};
use super::volume::{OpenArgs, pass_on_notices, single_device};
use crate::interrupt;
use crate::output::{Exit, Usage, note, print};
use crate::report_file::ReportFile;
use crate::same::{is_same, metadata_of};
use crate::size::human;

/// The largest job file: more than anyone writes, and little enough to hold in memory.
const JOB_LIMIT: u64 = 16 << 20;

/// Run a fio job file on a volume
///
/// The job's file names and I/O engine are replaced by the target. An option that is unknown, or that cannot be
/// honoured, is refused by name and line. The report has the shape of fio's own. The exit status is 1 when a job had an
/// error or was interrupted, and 3 when what was read back is not what was written. Ctrl-C ends the jobs early, with a
/// report of what was done; pressed again, it ends the command.
#[derive(Args)]
#[command(after_long_help = option_listing())]
pub struct Run {
    /// The job file, in fio's language; '-' is standard input
    #[arg(value_name = "JOB.fio")]
    job: PathBuf,

    /// Devices of the volume; with --target raw, the file or block device to run on
    #[arg(required = true, value_name = "DEVICE")]
    devices: Vec<PathBuf>,

    /// What to run on; 'raw' overwrites the device as the job asks
    #[arg(long, value_enum, default_value = "volume")]
    target: Target,

    /// How to report
    #[arg(long, value_enum, default_value = "normal", value_name = "FORMAT")]
    output_format: Format,

    /// Report to this file, which is replaced once the run has ended [default: standard output]
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Write a trace of every request and bio to this file, for https://ui.perfetto.dev; implies --stages
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,

    /// Report what each stage of a request took in the engine, and the engine's counters
    #[arg(long)]
    stages: bool,

    /// Show no progress
    #[arg(long, short)]
    quiet: bool,

    #[command(flatten)]
    open: OpenArgs,
}

/// What a run came to.
struct Ran {
    report: Report,
    /// Blocks that failed verification meanwhile.
    damaged: u64,
    /// What `--stages` asks for.
    engine: Option<EngineReport>,
    /// How the file of the trace ended.
    traced: oxblock::Result<()>,
}

/// The values of `--target`.
#[derive(ValueEnum, Clone, Copy)]
enum Target {
    /// The volume on the devices
    Volume,
    /// The bare device, without a volume: the baseline
    Raw,
}

/// The values of `--output-format`.
#[derive(ValueEnum, Clone, Copy)]
enum Format {
    /// As fio prints it
    Normal,
    /// fio's JSON
    Json,
}

impl Run {
    pub fn run(self) -> Result<Exit> {
        let name = self.job.display().to_string();
        single_device(&self.devices)?;
        let text = self.job_text()?;
        let file = parse(&text, &name).map_err(|error| Usage(error.to_string()))?;
        let mut replaced = file.replaced.clone();
        if matches!(self.target, Target::Raw) {
            self.open.refuse_policy("the bare device has none")?;
            replaced.extend(file.policy.is_some().then_some("policy"));
        }
        if !replaced.is_empty() {
            note(&format!("replaced by the target: {}", replaced.join(", ")));
        }
        // The report has its place before an hour of work is done for it.
        let output = self.output.as_deref().map(|path| self.place(path, "--output")).transpose()?;
        let trace = self.trace_file()?;
        let stop = interrupt::flag().context("watch for Ctrl-C")?;
        let ran = match self.target {
            Target::Volume => self.on_volume(&file, trace, &stop)?,
            Target::Raw => {
                self.open.refuse_rollback("the bare device has no log")?;
                Ran { report: self.on_raw(&file, &stop)?, damaged: 0, engine: None, traced: Ok(()) }
            }
        };
        let report = ran.report;
        // fio's JSON has no place for notes.
        if matches!(self.output_format, Format::Json) {
            report.notes.iter().for_each(|text| note(text));
        }
        let text = match self.output_format {
            Format::Normal => {
                report.normal() + &ran.engine.as_ref().map(EngineReport::text).unwrap_or_default()
            }
            Format::Json => {
                let mut json = report.json();
                if let (Some(engine), Some(json)) = (&ran.engine, json.as_object_mut()) {
                    json.insert("oxblock".to_owned(), engine.json());
                }
                serde_json::to_string_pretty(&json)?
            }
        };
        match output {
            None => print(text.trim_end())?,
            Some(output) => output.write(text.trim_end())?,
        }
        let mut exit = judge(&report, ran.damaged);
        if let Err(error) = ran.traced {
            note(&error.to_string());
            exit = if exit == Exit::Fine { Exit::Failed } else { exit };
        }
        if stop.load(Ordering::Relaxed) {
            note("interrupted: the report is of what was done until then");
            // What was asked for was not done; damage is worse than that.
            return Ok(if exit == Exit::Damage { exit } else { Exit::Failed });
        }
        Ok(exit)
    }

    /// The job file's text.
    fn job_text(&self) -> Result<String> {
        let name = self.job.display();
        let mut bytes = Vec::new();
        let read = if self.job == Path::new("-") {
            std::io::stdin().lock().take(JOB_LIMIT + 1).read_to_end(&mut bytes)
        } else {
            // Opening a pipe could wait for ever.
            let metadata = std::fs::metadata(&self.job);
            let metadata = metadata.with_context(|| format!("read {name}"))?;
            if self.devices.iter().any(|device| is_same(device, &metadata)) {
                bail!("{name} cannot be the job file and what the job runs on");
            }
            if !metadata.is_file() {
                bail!("{name} is not a file; a job file is one, or '-' for standard input");
            }
            std::fs::File::open(&self.job)
                .and_then(|file| file.take(JOB_LIMIT + 1).read_to_end(&mut bytes))
        };
        read.with_context(|| format!("read {name}"))?;
        if bytes.len() as u64 > JOB_LIMIT {
            bail!("{name} has more than {}, so it is not a job file", human(JOB_LIMIT));
        }
        String::from_utf8(bytes).ok().with_context(|| format!("{name} is not text in UTF-8"))
    }

    /// A place for the report that harms nothing the run needs.
    fn place(&self, path: &Path, option: &'static str) -> Result<ReportFile> {
        if self.job == Path::new("-")
            && metadata_of(std::io::stdin()).is_ok_and(|job| job.is_file() && is_same(path, &job))
        {
            bail!("{} is no place for the report: it is the job file", path.display());
        }
        let inputs: Vec<PathBuf> =
            std::iter::once(&self.job).chain(&self.devices).cloned().collect();
        ReportFile::new(path, &inputs, option)
    }

    /// The file of the trace, open, if there shall be one.
    fn trace_file(&self) -> Result<Option<File>> {
        if matches!(self.target, Target::Raw) && (self.stages || self.trace.is_some()) {
            let text = "--trace and --stages show what a volume does; --target raw has none";
            return Err(Usage(text.to_owned()).into());
        }
        let Some(path) = &self.trace else { return Ok(None) };
        if self.output.as_ref() == Some(path) {
            return Err(Usage("--trace and --output name the same file".to_owned()).into());
        }
        // Unlike the report it is written as it comes: a trace may be larger than memory.
        self.place(path, "--trace")?.stream().map(Some)
    }

    fn on_volume(&self, file: &JobFile, trace: Option<File>, stop: &AtomicBool) -> Result<Ran> {
        // The file speaks for the volume, and the command line goes before it.
        let policy = file.policy.unwrap_or_default();
        let mut volume = self.open.open_with(&self.devices, !writes(file), policy)?;
        let said = volume.notices().len();
        let trace = self.trace.as_deref().zip(trace);
        let wanted = self.stages || trace.is_some();
        let tracing = wanted.then(|| Tracing::start(&mut volume, trace));
        let mut target = VolumeTarget::new(volume);
        let result = self.jobs(file, &mut target, stop);
        let damaged = target.volume().info().counters.checksum_errors;
        let engine = tracing.as_ref().map(|tracing| tracing.report(target.volume()));
        pass_on_notices(target.volume(), said);
        // In good order even when the jobs failed; the first error is the one to tell.
        let closed = target.into_volume().close();
        let traced = tracing.map_or(Ok(()), Tracing::finish);
        let report = result?;
        closed?;
        Ok(Ran { report, damaged, engine, traced })
    }

    fn on_raw(&self, file: &JobFile, stop: &AtomicBool) -> Result<Report> {
        let opened = open_devices(
            &self.devices,
            &DeviceOptions {
                writable: writes(file),
                call: self.open.device_call(),
                sharing: Sharing::Exclusive,
                ..DeviceOptions::default()
            },
        )?;
        for notice in &opened.notices {
            note(notice);
        }
        self.jobs(file, &mut RawTarget::new(opened.queue), stop)
    }

    /// Runs the jobs, showing how far they are.
    fn jobs(
        &self,
        file: &JobFile,
        target: &mut dyn oxblock_fio::Target,
        stop: &AtomicBool,
    ) -> Result<Report> {
        let progress = RefCell::new(JobsProgress::new(self.quiet));
        let show = |now: &Progress| progress.borrow_mut().show(now);
        let options =
            RunOptions { progress: Some(&show), stop: Some(stop), ..RunOptions::default() };
        Ok(run(file, target, &options)?)
    }
}

/// Whether any job changes what the target holds.
fn writes(file: &JobFile) -> bool {
    file.jobs.iter().any(|job| job.rw.write || job.rw.trim)
}

/// How the command ends.
fn judge(report: &Report, damaged: u64) -> Exit {
    let mismatches = report.mismatch_count();
    if mismatches > 0 {
        let shown = report.jobs.iter().flat_map(|job| &job.mismatches).take(20);
        shown.for_each(|mismatch| note(&mismatch.to_string()));
        note(&format!("{mismatches} blocks are not what was written"));
        return Exit::Damage;
    }
    // Any job's: one before it may have failed for another reason.
    let unclean = |job: &JobResult| job.errno == Errno::UCLEAN.raw_os_error();
    if damaged > 0 || report.jobs.iter().any(unclean) {
        note("the volume is damaged; run 'oxblock check'");
        return Exit::Damage;
    }
    match report.errno() {
        0 => Exit::Fine,
        _ => Exit::Failed,
    }
}
