//! How far a long measurement is: a bar on a terminal, else a line every few seconds.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::output::note;

/// Seconds between two plain lines.
const EVERY: Duration = Duration::from_secs(5);

/// Counts runs.
pub struct Ticker {
    /// What is being measured.
    name: &'static str,
    bar: Option<ProgressBar>,
    last: Instant,
    runs: usize,
    total: usize,
}

impl Ticker {
    pub fn new() -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(0);
            match ProgressStyle::with_template("{prefix} {wide_bar} {pos} of {len}  {msg}") {
                Ok(style) => bar.with_style(style),
                Err(_) => bar,
            }
        });
        Self { name: "", bar, last: Instant::now(), runs: 0, total: 0 }
    }

    /// The next experiment begins, with so many runs.
    pub fn begin(&mut self, name: &'static str, total: usize) {
        (self.name, self.runs, self.total) = (name, 0, total);
        if let Some(bar) = &self.bar {
            bar.set_prefix(name);
            bar.set_length(u64::try_from(total).unwrap_or(u64::MAX));
            bar.set_position(0);
        }
    }

    /// The run `what` begins.
    pub fn tick(&mut self, what: &str) {
        match &self.bar {
            Some(bar) => {
                bar.set_message(what.to_owned());
                bar.inc(u64::from(self.runs > 0));
            }
            None if self.last.elapsed() >= EVERY => {
                self.last = Instant::now();
                note(&format!("{}: {} of {} runs done", self.name, self.runs, self.total));
            }
            None => {}
        }
        self.runs += 1;
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
