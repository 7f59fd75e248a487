//! oxblock against fio on the same backing file, in turn: the table of `docs/performance.md`.
//!
//! `cargo bench -p oxblock-cli --bench compare -- [--dir DIR]... [--rounds N] [--seconds S] [--only WORDS]`
//!
//! For every cell fio runs on the prefilled file (io_uring, direct, no checksums), then a volume is made on that file and
//! `oxblock run` runs the same job on it. Rounds alternate; the medians and their ratio are printed, with the CPU time
//! that each I/O took. Needs fio.

#[path = "common/options.rs"]
mod options;

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use options::Options;
use serde_json::Value;

/// The range that every job works on.
const RANGE: u64 = 1 << 30;
/// The volume is larger, so that a short run meets no cleaning: that is measured by itself.
const VOLUME: u64 = 6 << 30;

/// Time for a disk to come to rest after it was filled.
const SETTLE: Duration = Duration::from_secs(2);

/// One line of the table.
struct Cell {
    name: &'static str,
    rw: &'static str,
    bs: &'static str,
    depth: u32,
}

const CELLS: &[Cell] = &[
    Cell { name: "4 KiB random write", rw: "randwrite", bs: "4k", depth: 1 },
    Cell { name: "4 KiB random write", rw: "randwrite", bs: "4k", depth: 4 },
    Cell { name: "4 KiB random write", rw: "randwrite", bs: "4k", depth: 16 },
    Cell { name: "4 KiB random write", rw: "randwrite", bs: "4k", depth: 64 },
    Cell { name: "4 KiB random read", rw: "randread", bs: "4k", depth: 1 },
    Cell { name: "4 KiB random read", rw: "randread", bs: "4k", depth: 4 },
    Cell { name: "4 KiB random read", rw: "randread", bs: "4k", depth: 16 },
    Cell { name: "4 KiB random read", rw: "randread", bs: "4k", depth: 64 },
    Cell { name: "1 MiB sequential write", rw: "write", bs: "1m", depth: 4 },
    Cell { name: "1 MiB sequential read", rw: "read", bs: "1m", depth: 4 },
    Cell { name: "64 KiB random write", rw: "randwrite", bs: "64k", depth: 4 },
    Cell { name: "64 KiB random read", rw: "randread", bs: "64k", depth: 4 },
];

/// What one run came to.
#[derive(Clone, Copy)]
struct Outcome {
    iops: f64,
    /// CPU microseconds for each I/O, user and system.
    cpu: f64,
}

fn main() -> Result<()> {
    let options = Options::parse()?;
    for dir in &options.dirs {
        let file = dir.join("oxblock-compare.bin");
        let result = compare(&file, &options);
        std::fs::remove_file(&file).ok();
        result?;
    }
    Ok(())
}

fn compare(file: &Path, options: &Options) -> Result<()> {
    println!("\n{}: medians of {} rounds of {} s", file.display(), options.rounds, options.seconds);
    let needed = oxblock::volume::required_size(VOLUME)?;
    prefill(file, needed)?;
    println!(
        "{:<24} {:>5} {:>12} {:>12} {:>7} {:>10} {:>10}",
        "job", "depth", "fio IOPS", "oxblock IOPS", "ratio", "fio us/IO", "ox us/IO"
    );
    let wanted = |name: &str| options.only.as_ref().is_none_or(|only| name.contains(only.as_str()));
    for cell in CELLS.iter().filter(|cell| wanted(&format!("{} {}", cell.name, cell.depth))) {
        let job = job(cell, RANGE, options.seconds);
        let (mut raw, mut ours) = (Vec::new(), Vec::new());
        for _ in 0..options.rounds {
            raw.push(fio(file, &job)?);
            create(file, VOLUME)?;
            if cell.rw.contains("read") {
                run(file, &fill_job(RANGE))?;
                // A disk goes on with what it was given; fio did not have that behind its back.
                std::thread::sleep(SETTLE);
            }
            ours.push(run(file, &job)?);
        }
        let (raw, ours) = (median(&mut raw), median(&mut ours));
        print_line(cell.name, cell.depth, raw, ours);
    }
    if wanted("after three overwrites") {
        aged(file, options)?;
    }
    Ok(())
}

/// The same random write on a fresh volume and on one that was filled to 80 % and overwritten three times.
fn aged(file: &Path, options: &Options) -> Result<()> {
    const SIZE: u64 = 1 << 30;
    for depth in [1, 16] {
        let cell = Cell { name: "", rw: "randwrite", bs: "4k", depth };
        let range = SIZE / 10 * 8 / (1 << 20) * (1 << 20);
        let job = job(&cell, range, options.seconds);
        let (mut fresh, mut aged) = (Vec::new(), Vec::new());
        for _ in 0..options.rounds {
            create(file, VOLUME)?;
            fresh.push(run(file, &job)?);
            let small = file.with_extension("aged");
            prefill(&small, oxblock::volume::required_size(SIZE)?)?;
            create(&small, SIZE)?;
            run(&small, &fill_job(range))?;
            let overwrite = format!(
                "[age]\nrw=randwrite\nbs=64k\niodepth=16\nsize={range}\nloops=3\nioengine=io_uring\n"
            );
            run(&small, &overwrite)?;
            aged.push(run(&small, &job)?);
            std::fs::remove_file(&small)?;
        }
        let (fresh, aged) = (median(&mut fresh), median(&mut aged));
        println!(
            "{:<24} {:>5} {:>12.0} {:>12.0} {:>7.2} {:>10.2} {:>10.2}   (fresh against aged)",
            "after three overwrites",
            depth,
            fresh.iops,
            aged.iops,
            aged.iops / fresh.iops,
            fresh.cpu,
            aged.cpu
        );
    }
    Ok(())
}

fn print_line(name: &str, depth: u32, raw: Outcome, ours: Outcome) {
    let ratio = ours.iops / raw.iops;
    println!(
        "{name:<24} {depth:>5} {:>12.0} {:>12.0} {ratio:>7.2} {:>10.2} {:>10.2}",
        raw.iops, ours.iops, raw.cpu, ours.cpu
    );
}

/// The job of a cell on the first `size` bytes.
fn job(cell: &Cell, size: u64, seconds: f64) -> String {
    format!(
        "[cell]\nrw={}\nbs={}\niodepth={}\nsize={size}\nnorandommap\nrandrepeat=0\ntime_based\nruntime={}ms\ndirect=1\nioengine=io_uring\n",
        cell.rw,
        cell.bs,
        cell.depth,
        seconds * 1000.0
    )
}

fn fill_job(size: u64) -> String {
    format!("[fill]\nrw=write\nbs=1m\niodepth=4\nsize={size}\nioengine=io_uring\ndirect=1\n")
}

/// Writes every byte once, so that no later write allocates.
fn prefill(file: &Path, size: u64) -> Result<()> {
    let out = File::create(file).with_context(|| format!("creating {}", file.display()))?;
    let block = vec![0xa5; 1 << 20];
    for offset in (0..size).step_by(block.len()) {
        let len = usize::try_from(size - offset)?.min(block.len());
        out.write_all_at(block.get(..len).unwrap_or(&block), offset)?;
    }
    out.sync_all()?;
    Ok(())
}

fn create(file: &Path, size: u64) -> Result<()> {
    let size = size.to_string();
    let status = Command::new(env!("CARGO_BIN_EXE_oxblock"))
        .args(["create", "--force", "--size", &size])
        .arg(file)
        .output()?;
    ensure!(status.status.success(), "create: {}", String::from_utf8_lossy(&status.stderr));
    Ok(())
}

fn with_job(job: &str, command: impl FnOnce(&Path) -> Command) -> Result<Outcome> {
    let mut file = tempfile::Builder::new().suffix(".fio").tempfile()?;
    file.write_all(job.as_bytes())?;
    let output = command(file.path()).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout)?;
    // fio may print a note before the report.
    let json = text.get(text.find('{').context("no report")?..).unwrap_or_default();
    outcome(&serde_json::from_str(json)?).context("the report lacks a figure")
}

fn run(file: &Path, job: &str) -> Result<Outcome> {
    with_job(job, |job| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_oxblock"));
        command.arg("run").arg(job).arg(file).args(["--output-format", "json"]);
        command
    })
}

fn fio(file: &Path, job: &str) -> Result<Outcome> {
    with_job(job, |job| {
        let mut command = Command::new("fio");
        command.arg("--output-format=json").arg("--filename").arg(file).arg(job);
        command
    })
}

fn outcome(report: &Value) -> Option<Outcome> {
    let job = report.get("jobs")?.get(0)?;
    let sum = |key: &str| {
        Some(job.get("read")?.get(key)?.as_f64()? + job.get("write")?.get(key)?.as_f64()?)
    };
    let runtime = job.get("job_runtime")?.as_f64()? * 1000.0;
    let cpu = job.get("usr_cpu")?.as_f64()? + job.get("sys_cpu")?.as_f64()?;
    Some(Outcome { iops: sum("iops")?, cpu: cpu / 100.0 * runtime / sum("total_ios")?.max(1.0) })
}

fn median(outcomes: &mut [Outcome]) -> Outcome {
    outcomes.sort_by(|a, b| a.iops.total_cmp(&b.iops));
    match outcomes.get(outcomes.len() / 2) {
        Some(outcome) => *outcome,
        None => Outcome { iops: 0.0, cpu: 0.0 },
    }
}
