//! `oxblock bench`: the experiments, and a quick comparison, on a scratch volume and on the bare device in turn.

mod comparison;
mod experiments;
mod lab;
mod machine;
mod model;
mod num;
mod quick;
mod render;
mod scratch;
mod stage;
mod ticker;
mod trace;

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};

use self::experiments::Runner;
use self::lab::Lab;
use self::model::Experiment;
use self::render::Report;
use self::stage::Stage;
use self::ticker::Ticker;
use self::trace::Tracing;
use crate::output::{Exit, Usage, json, note, print};
use crate::report_file::ReportFile;
use crate::same::is_same;
use crate::size;

/// The least that jobs work on: less does not hold the requests of one.
const SIZE_MIN: u64 = 8 << 20;
/// Rounds and milliseconds of a run, unless given; in a first look, the second of each.
const ROUNDS: [u16; 2] = [5, 3];
const MILLIS: [u64; 2] = [1000, 50];

/// Measure this machine: the four experiments, on a scratch volume and on the bare device in turn
///
/// Every side runs the same job in every round, in turn; medians are shown, with the smallest and the largest figure, and
/// with what the authors of the original work measured then. Scratch files have no name any more once they are open, so
/// that nothing is left behind however the command ends. Without a name all experiments are run.
#[derive(Args)]
pub struct Bench {
    /// One experiment, or all of them
    #[arg(value_enum, default_value = "all")]
    name: Name,

    /// A first look, all of it in about a minute: a comparison with the bare file, every block verified, then the
    /// experiments with short runs and fewer points
    #[arg(long)]
    quick: bool,

    /// Folder for the scratch files, on the storage to be measured [default: 'target/oxblock-bench']
    #[arg(long, value_name = "FOLDER", conflicts_with = "device")]
    dir: Option<PathBuf>,

    /// A file or block device to measure on, which is OVERWRITTEN
    #[arg(long, value_name = "PATH")]
    device: Option<PathBuf>,

    /// Overwrite what the device holds
    #[arg(long, requires = "device")]
    force: bool,

    /// Bytes that the jobs work on; the scratch volume has twice as many
    #[arg(long, value_name = "SIZE", value_parser = size::parse, default_value = "512M")]
    size: u64,

    /// How often each side runs each job [default: 5, with --quick 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: Option<u16>,

    /// Seconds of one run [default: 1, with --quick 0.05]
    #[arg(long, value_name = "S", value_parser = millis)]
    seconds: Option<u64>,

    /// How to report
    #[arg(long, value_enum, default_value = "text", value_name = "FORMAT")]
    format: Format,

    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,

    /// Report to this file, which is replaced once everything is measured [default: standard output]
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Write a trace of every side, for https://ui.perfetto.dev: at most 256 requests and 0.1 s of each, in runs of their
    /// own once an experiment is measured
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
}

/// What can be run.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq)]
#[value(rename_all = "lower")]
enum Name {
    /// Checksum inline or on workers, by size
    Submit,
    /// Finish in the issuer's context or on a worker
    Complete,
    /// How large one device I/O may grow
    Split,
    /// Never defer when the checksum is fast
    Crc,
    /// How fast each checksum is by itself
    Csum,
    /// All of them
    All,
}

/// The values of `--format`.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq)]
enum Format {
    /// Tables
    Text,
    /// One object
    Json,
    /// One page with drawings, which needs nothing else
    Html,
}

impl Name {
    /// The experiments that it stands for.
    fn runners(self) -> Vec<Runner> {
        match self {
            Self::Submit => vec![experiments::submit],
            Self::Complete => vec![experiments::complete],
            Self::Split => vec![experiments::split],
            Self::Crc => vec![experiments::crc],
            Self::Csum => vec![experiments::csum],
            Self::All => [Self::Submit, Self::Complete, Self::Split, Self::Crc, Self::Csum]
                .into_iter()
                .flat_map(Self::runners)
                .collect(),
        }
    }
}

/// Milliseconds from seconds with a fraction.
fn millis(text: &str) -> Result<u64, String> {
    let seconds: f64 = text.parse().map_err(|_| format!("'{text}' is not a number of seconds"))?;
    if !(0.001..=86_400.0).contains(&seconds) {
        return Err("a run takes 0.001 to 86400 seconds".into());
    }
    Ok(num::whole(seconds * 1000.0))
}

impl Bench {
    pub fn run(self) -> Result<Exit> {
        if self.size < SIZE_MIN {
            let least = size::human(SIZE_MIN);
            return Err(
                Usage(format!("--size leaves too little to measure; at least {least}")).into()
            );
        }
        // The report has its place before an hour of work is done for it.
        let output = self.output.as_deref().map(|path| self.place(path, "--output")).transpose()?;
        let tracing = self.trace_file()?;
        let (report, traced) = self.measure(tracing)?;
        let format = if self.json { Format::Json } else { self.format };
        let text = match format {
            Format::Text => render::text::text(&report),
            Format::Html => render::html::page(&report),
            Format::Json => json(&render::json::document(&report))?,
        };
        match output {
            Some(output) => output.write(&text)?,
            None => print(&text)?,
        }
        let failures = report.comparison.map_or(0, |comparison| comparison.verify_failures);
        // The report is out, so what went wrong with the trace can be told.
        match traced {
            Err(error) if failures == 0 => return Err(error),
            Err(error) => note(&format!("{error:#}")),
            Ok(()) => {}
        }
        Ok(if failures == 0 { Exit::Fine } else { Exit::Damage })
    }

    /// A place for what is written, other than the device.
    fn place(&self, path: &Path, option: &'static str) -> Result<ReportFile> {
        let is_file = |device: &PathBuf| path.metadata().is_ok_and(|file| is_same(device, &file));
        if self.device.as_ref().is_some_and(is_file) {
            bail!("{} is no place for the report: it is the device to be measured", path.display());
        }
        ReportFile::new(path, &[], option)
    }

    /// The trace that is to be written, if one is.
    fn trace_file(&self) -> Result<Option<Tracing>> {
        let Some(path) = &self.trace else { return Ok(None) };
        if self.name == Name::Csum {
            let text = "csum measures checksums by themselves: there is nothing to trace";
            return Err(Usage(text.to_owned()).into());
        }
        trace::refuse_same(path, self.output.as_deref())?;
        Ok(Some(Tracing::new(path, self.place(path, "--trace")?)))
    }

    /// Measures, and says how the trace went.
    fn measure(&self, tracing: Option<Tracing>) -> Result<(Report, Result<()>)> {
        let begin = Instant::now();
        let folder =
            self.dir.clone().unwrap_or_else(|| PathBuf::from("target").join("oxblock-bench"));
        let size = self.size.next_multiple_of(1 << 20);
        // On a device the experiments have the bare device beside them anyway.
        let compares = self.quick && self.name == Name::All && self.device.is_none();
        let comparison = compares.then(|| quick::compare(&folder, size)).transpose()?;
        let (stage, place) = match &self.device {
            Some(path) => (Stage::on_device(path, size, self.force)?, path),
            None => (Stage::in_folder(&folder, size)?, &folder),
        };
        let defaults = usize::from(self.quick);
        let pick = |values: [u64; 2]| values.get(defaults).copied().unwrap_or(1);
        let mut lab = Lab {
            stage,
            rounds: self.rounds.map_or(pick(ROUNDS.map(u64::from)), u64::from).try_into()?,
            millis: self.seconds.unwrap_or(pick(MILLIS)),
            quick: self.quick,
            ticker: Ticker::new(),
            tracing,
        };
        let carry_out = |run: Runner| {
            let experiment = run(&mut lab)?;
            if let Some(tracing) = &mut lab.tracing {
                tracing.carry_out(experiment.name, &mut lab.stage, &mut lab.ticker);
            }
            Ok(experiment)
        };
        let experiments: Result<Vec<Experiment>> =
            self.name.runners().into_iter().map(carry_out).collect();
        lab.ticker.finish();
        let experiments = experiments?;
        if self.device.is_some() {
            note(&format!("{} holds what the last run left on it", place.display()));
        }
        let traced = lab.tracing.map_or(Ok(()), Tracing::finish);
        let report = Report {
            place: place.display().to_string(),
            in_memory: lab.stage.in_memory,
            size,
            rounds: lab.rounds,
            run_time: lab.millis * 1_000_000,
            device_call: lab.stage.device_call.clone(),
            machine: machine::describe(),
            taken: u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX),
            comparison,
            experiments,
        };
        Ok((report, traced))
    }
}
