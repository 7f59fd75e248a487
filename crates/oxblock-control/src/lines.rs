//! The language of the control socket: a line with a JSON object asks, a line with a JSON object answers.
//!
//! `{"ask":"status"}` gives a [`Status`], `{"ask":"stats"}` a [`Stats`]; what cannot be answered gives `{"error":"..."}`.

use std::io::Write;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::report::{Question, Stats, Status, VERSION, VolumeStats, VolumeStatus};
use crate::source::Source;

/// The most bytes of a question.
pub(crate) const LINE_MOST: usize = 4096;

/// A question.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Ask {
    pub ask: Question,
}

/// In place of an answer.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Refused {
    pub error: String,
}

/// The answer to `line`, with the end of its line.
pub(crate) fn answer(line: &[u8], source: &dyn Source, since: Instant) -> Vec<u8> {
    let mut out = Vec::new();
    let told = match serde_json::from_slice::<Ask>(line) {
        Ok(Ask { ask: Question::Status }) => status(source, since).map(|told| put(&told, &mut out)),
        Ok(Ask { ask: Question::Stats }) => stats(source, since).map(|told| put(&told, &mut out)),
        Err(error) => Err(format!("not understood: {error}")),
    };
    if let Err(error) = told {
        put(&Refused { error }, &mut out);
    }
    out
}

fn put(told: &impl Serialize, out: &mut Vec<u8>) {
    // Neither a vector nor these types fail.
    serde_json::to_writer(&mut *out, told).ok();
    out.write_all(b"\n").ok();
}

fn uptime(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

fn status(source: &dyn Source, since: Instant) -> Result<Status, String> {
    let seen = source.look()?;
    Ok(Status {
        version: VERSION,
        program: env!("CARGO_PKG_VERSION").into(),
        pid: std::process::id(),
        uptime: uptime(since),
        volumes: seen.iter().map(VolumeStatus::from).collect(),
    })
}

fn stats(source: &dyn Source, since: Instant) -> Result<Stats, String> {
    let seen = source.look()?;
    let volumes = seen.iter().map(VolumeStats::from).collect();
    Ok(Stats { version: VERSION, uptime: uptime(since), volumes })
}
