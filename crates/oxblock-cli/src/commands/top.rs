//! `oxblock top`: what a server is doing, live.

mod asker;
mod plain;
mod rates;
mod screen;
mod view;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use clap::Args;
use oxblock_control::report::VolumeStats;

use super::ctl::connect;
use crate::interrupt;
use crate::output::Exit;
use asker::Asker;

/// Show what a server is doing, live
///
/// SOCKET is the control socket of 'oxblock serve' or 'oxblock mount', which have one with --control SOCKET. Keys: up and down choose
/// a volume, + and - change the interval, space pauses, q ends it. Where standard output is no terminal, it has a line for each volume
/// and interval.
#[derive(Args)]
pub struct Top {
    /// The control socket
    socket: PathBuf,

    /// Seconds between two looks, 0.1 to 3600
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = interval)]
    interval: Duration,

    /// End after so many intervals
    #[arg(long, value_name = "N")]
    count: Option<u64>,

    /// Lines, also on a terminal
    #[arg(long, conflicts_with = "json")]
    plain: bool,

    /// Lines of JSON, one for each volume and interval
    #[arg(long)]
    json: bool,
}

fn interval(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.1..=3600.0).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or(format!("'{text}' is not 0.1 to 3600 seconds"))
}

impl Top {
    pub fn run(self) -> Result<Exit> {
        // Whoever is not there at the beginning is not waited for.
        connect(&self.socket)?.stats().with_context(|| self.socket.display().to_string())?;
        let stop = interrupt::flag().context("watch for signals")?;
        let asker = Asker::start(self.socket.clone(), self.interval)
            .context("start a thread that asks the server")?;
        let lines = self.plain || self.json || !std::io::stdout().is_terminal();
        if lines {
            plain::run(&asker, self.count, self.json, &stop)?;
        } else if !std::io::stdin().is_terminal() {
            return Err(anyhow!(
                "standard input is no terminal to take keys from; --plain does without"
            ));
        } else {
            view::run(&asker, self.count, &self.socket, &stop)?;
        }
        Ok(Exit::Fine)
    }
}

/// Percent of a volume that was written and not given up.
fn used(volume: &VolumeStats) -> u128 {
    (u128::from(volume.used) * 100).checked_div(u128::from(volume.size)).unwrap_or(0)
}

/// A name as it can be shown in a line.
fn named(name: &str) -> String {
    match name {
        "" => "''".into(),
        name => name.chars().map(|sign| if sign.is_control() { '?' } else { sign }).collect(),
    }
}
