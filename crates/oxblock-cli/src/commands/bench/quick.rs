//! `bench --quick`: a handful of short jobs on a scratch volume and on a bare file in turn, then every block verified.
//!
//! The jobs work on the first half of the volume, so that it is half full, and on a bare file as large as that half.

use std::path::Path;

use anyhow::{Context, Result};
use oxblock_fio::{RunOptions, Target, parse, run};
use serde::Serialize;

use super::num::whole;
use super::scratch::Scratch;
use crate::output::note;
use crate::size::human;

/// Milliseconds of one job of one round.
const MILLIS: u32 = 200;
/// Rounds: the median of an odd number is one of them.
const ROUNDS: usize = 3;

/// Name, options, and whether its figure is bytes rather than operations a second.
const JOBS: [(&str, &str, bool); 6] = [
    ("1 MiB sequential write", "rw=write\nbs=1m\niodepth=4", true),
    ("1 MiB sequential read", "rw=read\nbs=1m\niodepth=4", true),
    ("4 KiB random read, depth 1", "rw=randread\nbs=4k\niodepth=1", false),
    ("4 KiB random read, depth 16", "rw=randread\nbs=4k\niodepth=16", false),
    ("4 KiB random write, depth 1", "rw=randwrite\nbs=4k\niodepth=1", false),
    ("4 KiB random write, depth 16", "rw=randwrite\nbs=4k\niodepth=16", false),
];

/// What the comparison came to.
#[derive(Serialize)]
pub struct Comparison {
    pub jobs: Vec<Row>,
    verified_bytes: u64,
    /// Blocks that are not what was written.
    pub verify_failures: u64,
    #[serde(skip)]
    in_memory: bool,
}

/// One job on both.
#[derive(Serialize)]
pub struct Row {
    pub name: &'static str,
    /// `"operations"` or `"bytes"`, a second.
    pub unit: &'static str,
    pub volume: u64,
    pub raw: u64,
    pub ratio: f64,
}

/// Runs everything in `folder`.
pub fn compare(folder: &Path, size: u64) -> Result<Comparison> {
    let mut scratch = Scratch::new(folder, size)?;
    note(&format!(
        "scratch volume of {} and bare file of {} in {}, {}",
        human(size.saturating_mul(2)),
        human(size),
        folder.display(),
        if scratch.in_memory { "which is main memory" } else { "with direct I/O" }
    ));
    let fill = "rw=write\nbs=1m\niodepth=4";
    measure(&mut scratch.raw, size, fill, false).context("fill the bare file")?;
    measure(&mut scratch.volume, size, fill, false).context("fill the volume")?;
    let mut figures: Vec<(Vec<u64>, Vec<u64>)> = vec![Default::default(); JOBS.len()];
    for round in 0..ROUNDS {
        for ((_, options, in_bytes), (volume, raw)) in JOBS.iter().zip(&mut figures) {
            let timed = format!("{options}\ntime_based\nruntime={MILLIS}ms");
            // Who begins changes, so that neither always meets the device as the other left it.
            let mut on_volume = || measure(&mut scratch.volume, size, &timed, *in_bytes);
            let mut on_raw = || measure(&mut scratch.raw, size, &timed, *in_bytes);
            let (first, second) = if round % 2 == 0 {
                let first = on_volume()?;
                (first, on_raw()?)
            } else {
                let second = on_raw()?;
                (on_volume()?, second)
            };
            volume.push(first);
            raw.push(second);
        }
    }
    let (verified, failures) = verify(&mut scratch, size)?;
    let rows: Vec<Row> = JOBS
        .iter()
        .zip(figures)
        .map(|((name, _, in_bytes), pair)| {
            let (volume, raw) = (median(pair.0), median(pair.1));
            Row {
                name,
                unit: if *in_bytes { "bytes" } else { "operations" },
                volume,
                raw,
                ratio: ratio(volume, raw),
            }
        })
        .collect();
    Ok(Comparison {
        jobs: rows,
        verified_bytes: verified,
        verify_failures: failures,
        in_memory: scratch.in_memory,
    })
}

/// Runs one job over the first `size` bytes and returns operations or bytes a second.
fn measure(target: &mut dyn Target, size: u64, options: &str, in_bytes: bool) -> Result<u64> {
    let text = format!("[job]\nsize={size}\n{options}\n");
    let report = run(&parse(&text, "bench")?, target, &RunOptions::default())?;
    let job = report.jobs.first().context("a job without a result")?;
    if let Some(error) = &job.error {
        anyhow::bail!("{error}");
    }
    let figure = if in_bytes { job.bandwidth() } else { job.iops() };
    Ok(whole(figure))
}

/// Writes every block that the jobs worked on at random, with checksums of its own, and reads all of them back. Returns the bytes
/// that were read back and how many blocks were wrong.
fn verify(scratch: &mut Scratch, size: u64) -> Result<(u64, u64)> {
    let text = format!(
        "[verify]\nsize={size}\nrw=randwrite\nbs=16k\niodepth=16\nverify=crc32c\ndo_verify=1\nverify_fatal=0\n"
    );
    let report = run(&parse(&text, "bench")?, &mut scratch.volume, &RunOptions::default())?;
    let failures = report.mismatch_count();
    if failures == 0
        && let Some(error) = report.jobs.iter().find_map(|job| job.error.as_ref())
    {
        anyhow::bail!("{error}");
    }
    let read = report.jobs.iter().map(|job| job.read().bytes).sum();
    Ok((read, failures))
}

fn median(mut figures: Vec<u64>) -> u64 {
    figures.sort_unstable();
    figures.get(figures.len() / 2).copied().unwrap_or(0)
}

fn ratio(volume: u64, raw: u64) -> f64 {
    let hundredths = (u128::from(volume) * 100).checked_div(u128::from(raw)).unwrap_or(0);
    f64::from(u32::try_from(hundredths).unwrap_or(u32::MAX)) / 100.0
}

/// The comparison as text.
pub fn table(report: &Comparison) -> String {
    let mut lines = vec![format!("{:<30} {:>14} {:>14} {:>7}", "", "volume", "bare file", "ratio")];
    for row in &report.jobs {
        let figure = |value: u64| match row.unit {
            "bytes" => format!("{}/s", human(value)),
            _ => format!("{value} IOPS"),
        };
        lines.push(format!(
            "{:<30} {:>14} {:>14} {:>7.2}",
            row.name,
            figure(row.volume),
            figure(row.raw),
            row.ratio
        ));
    }
    lines.push(String::new());
    lines.push(match report.verify_failures {
        0 => format!(
            "every block written at random and read back: {} verified",
            human(report.verified_bytes)
        ),
        failures => format!(
            "{failures} blocks of {} are not what was written",
            human(report.verified_bytes)
        ),
    });
    lines.push(format!(
        "volume: half full, every block checksummed and verified, crash-consistent; bare file: neither. Medians of {} \
         rounds{}.",
        ROUNDS,
        if report.in_memory { "; in main memory, so no disk is measured" } else { "" }
    ));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_ratios() {
        assert_eq!(median(vec![5, 1, 3]), 3);
        assert_eq!(median(Vec::new()), 0);
        assert!((ratio(150, 100) - 1.5).abs() < 1e-9);
        assert!(ratio(1, 0).abs() < 1e-9);
    }
}
