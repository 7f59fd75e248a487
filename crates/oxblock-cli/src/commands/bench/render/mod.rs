//! The three ways to show a report.

pub mod html;
pub mod json;
#[cfg(test)]
mod sample;
pub mod text;

use super::model::Experiment;
use super::quick::Comparison;

/// Everything that a run of `bench` has to say.
pub struct Report {
    /// Where it was measured.
    pub place: String,
    /// The storage is main memory.
    pub in_memory: bool,
    /// Bytes that the jobs worked on.
    pub size: u64,
    pub rounds: usize,
    /// Nanoseconds of one run.
    pub run_time: u64,
    /// How operations reach the device.
    pub device_call: String,
    /// Cores, processor and kernel.
    pub machine: String,
    /// Nanoseconds that all of it took.
    pub taken: u64,
    pub comparison: Option<Comparison>,
    pub experiments: Vec<Experiment>,
}

impl Report {
    /// What is true of all experiments, in one sentence each.
    pub fn facts(&self) -> Vec<String> {
        let storage = if self.in_memory { " (main memory: no disk is measured)" } else { "" };
        vec![
            format!("measured on {}{storage}", self.place),
            format!("device call: {}", self.device_call),
            self.machine.clone(),
            format!(
                "jobs on {}; medians of {} rounds of {} ms each, smallest and largest beside them",
                crate::size::human(self.size),
                self.rounds,
                self.run_time / 1_000_000
            ),
        ]
    }
}
