//! Measuring: sides in turn, point by point, round by round.
//!
//! Every side runs the same job in every round, and the order turns round from one round to the next, so that what
//! changes on the machine meanwhile meets all of them alike. A volume is opened for each run and closed after it.

use anyhow::{Result, bail};
use oxblock::csum::CsumKind;
use oxblock::stats::Counters;
use oxblock::volume::Policy;
use oxblock_fio::{RunOptions, Target, parse, run};

use super::model::{Cell, Spread};
use super::num::{float, percent};
use super::stage::Stage;
use super::ticker::Ticker;
use super::trace::Tracing;

/// Nanoseconds over which completed bytes are counted: dips are looked for in these.
pub const WINDOW: u64 = 100_000_000;

/// What measures, and with how much patience.
pub struct Lab {
    pub stage: Stage,
    /// Rounds.
    pub rounds: usize,
    /// Milliseconds of one run.
    pub millis: u64,
    /// A first look: fewer points.
    pub quick: bool,
    pub ticker: Ticker,
    /// Takes the sides that are to be traced, if any are.
    pub tracing: Option<Tracing>,
}

/// One of those that are compared.
#[derive(Debug, Clone)]
pub struct Side {
    pub name: String,
    pub on: On,
}

/// What a side runs on.
#[derive(Debug, Clone, Copy)]
pub enum On {
    /// A volume with this checksum, under this policy.
    Volume(CsumKind, Policy),
    /// The bare device.
    Raw,
}

impl Side {
    pub fn volume(name: impl Into<String>, csum: CsumKind, policy: Policy) -> Self {
        Self { name: name.into(), on: On::Volume(csum, policy) }
    }

    pub fn raw() -> Self {
        Self { name: "raw".into(), on: On::Raw }
    }
}

/// One job, at one place of the horizontal axis.
#[derive(Debug, Clone)]
pub struct Point {
    /// What distinguishes it, such as its block size.
    pub label: String,
    /// In fio's language.
    pub job: String,
    /// It reads, so there must be something to read.
    pub reads: bool,
}

/// What one run came to.
#[derive(Debug, Clone, Default)]
pub struct Figures {
    /// Bytes a second.
    pub bandwidth: f64,
    /// Operations a second.
    pub iops: f64,
    /// CPU seconds, user and system, for each GiB moved.
    pub cpu_per_gib: f64,
    /// Bytes completed in each [`WINDOW`].
    pub windows: Vec<u64>,
    /// Blocks whose checksum was offered to workers, in percent; the issuer may have taken it back.
    pub offloaded: f64,
    /// Operations whose end was offered to workers, in percent; likewise.
    pub worker_ends: f64,
}

impl Figures {
    /// Bytes a second in the worst window.
    pub fn dip(&self) -> Option<f64> {
        self.windows.iter().min().map(|bytes| float(*bytes) * 1e9 / float(WINDOW))
    }
}

/// All runs of one side at one point.
#[derive(Debug, Clone, Default)]
pub struct Samples(pub Vec<Figures>);

impl Samples {
    /// The middle and the spread of one of the figures.
    pub fn spread(&self, figure: impl Fn(&Figures) -> f64) -> Option<Spread> {
        Spread::of(self.0.iter().map(figure))
    }

    /// The same as a cell.
    pub fn cell(&self, figure: impl Fn(&Figures) -> f64) -> Cell {
        self.spread(figure).into()
    }

    /// The median of a figure; 0 of none.
    pub fn median(&self, figure: impl Fn(&Figures) -> f64) -> f64 {
        self.spread(figure).map_or(0.0, |spread| spread.median)
    }

    /// The run whose bandwidth is the median.
    pub fn middle(&self) -> Option<&Figures> {
        let mut sorted: Vec<&Figures> = self.0.iter().collect();
        sorted.sort_by(|one, two| one.bandwidth.total_cmp(&two.bandwidth));
        sorted.get(sorted.len() / 2).copied()
    }
}

/// The runs of all sides at all points.
pub struct Grid {
    /// By point, then by side.
    samples: Vec<Vec<Samples>>,
}

impl Grid {
    /// The runs of one side at one point.
    pub fn at(&self, point: usize, side: usize) -> Samples {
        self.samples.get(point).and_then(|sides| sides.get(side)).cloned().unwrap_or_default()
    }
}

/// `sides` in the order of this round: every other one begins with the last.
pub fn in_turn<T>(round: usize, sides: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut turn: Vec<T> = sides.into_iter().collect();
    if round % 2 == 1 {
        turn.reverse();
    }
    turn
}

impl Lab {
    /// Options that end a run after the time of this lab, and not before `least` milliseconds.
    pub fn timed(&self, least: u64) -> String {
        format!("time_based\nruntime={}ms\n", self.millis.max(least))
    }

    /// Runs every point on every side, in rounds.
    pub fn measure(&mut self, points: &[Point], sides: &[Side]) -> Result<Grid> {
        let mut samples = vec![vec![Samples::default(); sides.len()]; points.len()];
        for round in 0..self.rounds {
            for (point, samples) in points.iter().zip(&mut samples) {
                for (side, samples) in in_turn(round, sides.iter().zip(samples)) {
                    self.ticker.tick(&format!("{} {}", point.label, side.name));
                    samples.0.push(self.run(side, point)?);
                }
            }
        }
        Ok(Grid { samples })
    }

    fn run(&mut self, side: &Side, point: &Point) -> Result<Figures> {
        match side.on {
            On::Raw => {
                let mut target = self.stage.raw(!point.reads)?;
                carry_out(&mut target, &point.job)
            }
            On::Volume(csum, policy) => {
                let mut target = self.stage.volume(csum, &policy, point.reads)?;
                let before = target.volume().counters();
                let result = carry_out(&mut target, &point.job);
                let after = target.volume().counters();
                let closed = target.into_volume().close();
                let mut figures = result?;
                closed?;
                shares(&mut figures, &before, &after);
                Ok(figures)
            }
        }
    }
}

fn shares(figures: &mut Figures, before: &Counters, after: &Counters) {
    let since = |count: fn(&Counters) -> u64| count(after).saturating_sub(count(before));
    let (inline, offloaded) = (since(|c| c.inline_sums), since(|c| c.offloaded_sums));
    let (issuer, worker) = (since(|c| c.issuer_ends), since(|c| c.worker_ends));
    figures.offloaded = percent(offloaded, inline + offloaded);
    figures.worker_ends = percent(worker, issuer + worker);
}

/// Runs one job and takes its figures.
pub fn carry_out(target: &mut dyn Target, job: &str) -> Result<Figures> {
    let options = RunOptions { window: WINDOW, ..RunOptions::default() };
    let report = run(&parse(job, "bench")?, target, &options)?;
    let Some(job) = report.entries().into_iter().next() else {
        bail!("a job without a result");
    };
    if let Some(error) = &job.error {
        bail!("{error}");
    }
    let gib = float(job.stats.bytes()) / float(1 << 30);
    Ok(Figures {
        bandwidth: job.bandwidth(),
        iops: job.iops(),
        cpu_per_gib: if gib > 0.0 { job.usage.cpu() / gib } else { 0.0 },
        windows: job.stats.windows.bytes().to_vec(),
        ..Figures::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_sides_turns_round_from_one_round_to_the_next() {
        let rounds: Vec<Vec<char>> = (0..3).map(|round| in_turn(round, ['a', 'b', 'c'])).collect();
        assert_eq!(rounds, [['a', 'b', 'c'], ['c', 'b', 'a'], ['a', 'b', 'c']]);
    }
}
