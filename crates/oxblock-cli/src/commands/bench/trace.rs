//! `--trace`: what each side of an experiment does, for <https://ui.perfetto.dev>.
//!
//! A trace takes time, so nothing that is measured is written into it. When an experiment is measured, each of its sides that is a
//! volume runs once more, briefly, and all of these runs go into one file, each as a process of its own. What goes wrong
//! with it costs no figure: it is told when the report is out.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};
use oxblock::csum::CsumKind;
use oxblock::trace::{ChromeTrace, TraceSink};
use oxblock::volume::Policy;
use oxblock_fio::VolumeTarget;

use super::experiments::traced_read;
use super::lab::{On, Point, Side, carry_out};
use super::stage::Stage;
use super::ticker::Ticker;
use crate::output::Usage;
use crate::report_file::ReportFile;
use crate::same::is_same;

/// How long a traced run of a job is, in milliseconds, and how many requests it has: both at most. A request takes 2 KiB and
/// more of the file, and all experiments together have some two hundred runs, which a browser is to open.
const MILLIS: u64 = 100;
const REQUESTS: u64 = 256;

/// The file, and what is to go into it.
pub struct Tracing {
    /// What errors name.
    name: PathBuf,
    /// Where the file is to be. Until there is something to write, what is there stays.
    place: Option<ReportFile>,
    file: Option<Arc<Mutex<ChromeTrace>>>,
    /// What went wrong first; nothing is traced after it.
    failed: Option<anyhow::Error>,
    runs: Vec<Run>,
}

/// A run to be traced.
struct Run {
    name: String,
    csum: CsumKind,
    policy: Policy,
    what: What,
}

/// What is run.
enum What {
    /// A job, in fio's language, and whether there must be something for it to read.
    Job(String, bool),
    /// The one read of so many bytes whose delay `split` measures.
    Read(u64),
}

impl Tracing {
    /// A trace at `place`, which errors call `name`.
    pub fn new(name: &Path, place: ReportFile) -> Self {
        let name = name.to_owned();
        Self { name, place: Some(place), file: None, failed: None, runs: Vec::new() }
    }

    /// Traces what the experiment has asked for.
    pub fn carry_out(&mut self, experiment: &str, stage: &mut Stage, ticker: &mut Ticker) {
        let runs = std::mem::take(&mut self.runs);
        if runs.is_empty() || self.failed.is_some() {
            return;
        }
        ticker.begin("trace", runs.len());
        for run in runs {
            ticker.tick(&run.name);
            let traced = self.open().and_then(|file| run.carry_out(experiment, stage, &file));
            if let Err(error) = traced {
                self.failed = Some(error.context(format!("trace {experiment}, {}", run.name)));
                return;
            }
        }
    }

    /// The file, which becomes one with the first run.
    fn open(&mut self) -> Result<Arc<Mutex<ChromeTrace>>> {
        if let Some(place) = self.place.take() {
            let trace = ChromeTrace::new(&self.name, place.stream()?);
            self.file = Some(Arc::new(Mutex::new(trace)));
        }
        self.file.clone().context("the file of the trace is not open")
    }

    /// Closes the file.
    ///
    /// # Errors
    /// The first thing that went wrong with the trace.
    pub fn finish(self) -> Result<()> {
        let closed = self.file.map_or(Ok(()), |file| lock(&file).finish());
        self.failed.map_or(Ok(()), Err)?;
        Ok(closed?)
    }

    /// Has every side that is a volume traced at every point, once the experiment is measured.
    pub fn add_jobs(
        &mut self,
        points: &[Point],
        sides: &[Side],
        name: impl Fn(&Point, &Side) -> String,
    ) {
        for point in points {
            // The last of two equal options is the one that holds.
            let limits = format!("time_based=0\nruntime={MILLIS}ms\nnumber_ios={REQUESTS}\n");
            let job = format!("{}\n{limits}", point.job);
            self.add(sides, |side| name(point, side), || What::Job(job.clone(), point.reads));
        }
    }

    /// The same with one read of `bytes` bytes.
    pub fn add_reads(&mut self, bytes: u64, sides: &[Side], name: impl Fn(&Side) -> String) {
        self.add(sides, name, || What::Read(bytes));
    }

    fn add(&mut self, sides: &[Side], name: impl Fn(&Side) -> String, what: impl Fn() -> What) {
        for side in sides {
            if let On::Volume(csum, policy) = side.on {
                self.runs.push(Run { name: name(side), csum, policy, what: what() });
            }
        }
    }
}

impl Run {
    fn carry_out(
        &self,
        experiment: &str,
        stage: &mut Stage,
        file: &Arc<Mutex<ChromeTrace>>,
    ) -> Result<()> {
        let sink = || -> Box<dyn TraceSink> {
            lock(file).begin_process(&format!("{experiment}, {}", self.name));
            Box::new(Arc::clone(file))
        };
        match &self.what {
            What::Read(bytes) => traced_read(stage, self.csum, &self.policy, *bytes, sink),
            What::Job(job, reads) => {
                let mut volume = stage.volume(self.csum, &self.policy, *reads)?.into_volume();
                volume.set_trace(Some(sink()));
                let mut target = VolumeTarget::new(volume);
                let result = carry_out(&mut target, job);
                let mut volume = target.into_volume();
                volume.set_trace(None);
                let closed = volume.close();
                result?;
                Ok(closed?)
            }
        }
    }
}

/// A sink is no worse for a panic elsewhere.
fn lock(file: &Mutex<ChromeTrace>) -> MutexGuard<'_, ChromeTrace> {
    file.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Refuses to put the trace where the report goes.
pub fn refuse_same(trace: &Path, output: Option<&Path>) -> Result<()> {
    if output.is_some_and(|output| is_same_place(trace, output)) {
        return Err(Usage("--trace and --output name the same file".to_owned()).into());
    }
    Ok(())
}

/// Whether two names are those of one file, which need not be there yet.
fn is_same_place(one: &Path, two: &Path) -> bool {
    if let Ok(file) = two.metadata() {
        return is_same(one, &file);
    }
    let place = |path: &Path| {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new(".")).canonicalize();
        Some((folder.ok()?, path.file_name()?.to_owned()))
    };
    one == two || place(one).is_some_and(|one| place(two) == Some(one))
}
