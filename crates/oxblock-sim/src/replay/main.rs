//! `oxblock-replay`: records a mixed run on a real file and judges every state that a power cut could have left of it.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use oxblock_sim::replay::record::{Plan, record};
use oxblock_sim::replay::{Lie, replay};

const USAGE: &str = "usage: oxblock-replay [--seed N] [--runs N] [--seconds S] [--dir DIR] [--rate R] [--samples K] \
                     [--threads T] [--lie flush|reorder|durable]
       oxblock-replay --tape FILE [--point N] [--samples K] [--threads T]
  --seed N      where chance comes from; from the time unless given
  --runs N      so many seeds, one after the other [1]
  --seconds S   how long to record each [10]
  --dir DIR     where the backing file and the tape are [target/oxblock-replay]
  --rate R      requests a second, at the most [300]
  --samples K   images between two boundaries, besides one for each boundary [1]
  --threads T   images judged at the same time [2]
  --lie L       let the recorder lie: the replay must fail
  --tape FILE   judge a tape that was kept
  --point N     only this image of it";

struct Arguments {
    seed: u64,
    runs: u64,
    time: Duration,
    folder: PathBuf,
    rate: u64,
    samples: u64,
    threads: u64,
    lie: Lie,
    tape: Option<PathBuf>,
    point: Option<u64>,
}

fn parse() -> Result<Arguments, String> {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let mut arguments = Arguments {
        seed: now.map_or(0, |now| now.as_secs()),
        runs: 1,
        time: Duration::from_secs(10),
        folder: PathBuf::from("target/oxblock-replay"),
        rate: 300,
        samples: 1,
        threads: 2,
        lie: Lie::None,
        tape: None,
        point: None,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| format!("{word} is unknown, or needs a value"))?;
        let number = || value.parse::<u64>().map_err(|_| format!("{word}: {value} is no number"));
        match word.as_str() {
            "--seed" => arguments.seed = number()?,
            "--runs" => arguments.runs = number()?,
            "--seconds" => {
                let seconds = value.parse::<f64>().ok();
                let time = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
                arguments.time = time.ok_or_else(|| format!("{value} is no number of seconds"))?;
            }
            "--dir" => arguments.folder = PathBuf::from(value),
            "--rate" => arguments.rate = number()?,
            "--samples" => arguments.samples = number()?,
            "--threads" => arguments.threads = number()?,
            "--lie" => {
                arguments.lie = match value.as_str() {
                    "flush" => Lie::DropFlush,
                    "reorder" => Lie::Reorder,
                    "durable" => Lie::DropDurable,
                    other => return Err(format!("no such lie: {other}")),
                }
            }
            "--tape" => arguments.tape = Some(PathBuf::from(value)),
            "--point" => arguments.point = Some(number()?),
            other => return Err(format!("unknown argument {other}")),
        }
    }
    if arguments.point.is_some() && arguments.tape.is_none() {
        return Err("--point is one of a tape: --tape is missing".to_owned());
    }
    Ok(arguments)
}

fn main() -> ExitCode {
    let arguments = match parse() {
        Ok(arguments) => arguments,
        Err(why) => {
            eprintln!("{why}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    if let Some(tape) = &arguments.tape {
        return if judge(&arguments, tape) { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    if let Err(error) = std::fs::create_dir_all(&arguments.folder) {
        eprintln!("create {}: {error}", arguments.folder.display());
        return ExitCode::FAILURE;
    }
    for seed in arguments.seed..arguments.seed.saturating_add(arguments.runs) {
        if !run(&arguments, seed) {
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// Records and judges one seed; true when nothing is wrong.
fn run(arguments: &Arguments, seed: u64) -> bool {
    let tape = arguments.folder.join(format!("replay-{seed}.tape"));
    let plan = Plan {
        seed,
        time: arguments.time,
        rate: arguments.rate,
        folder: arguments.folder.clone(),
        lie: arguments.lie,
    };
    println!("seed {seed}: recording {:.1} s", arguments.time.as_secs_f64());
    if let Err(error) = record(&plan, &tape) {
        println!("violation: seed {seed}, while it was recorded: {error}");
        return false;
    }
    let well = judge(arguments, &tape);
    if well {
        // A tape that stays behind is only in the way.
        std::fs::remove_file(&tape).ok();
    }
    well
}

/// Judges a tape; true when nothing is wrong.
fn judge(arguments: &Arguments, tape: &Path) -> bool {
    let begun = Instant::now();
    let images = AtomicU64::new(0);
    let said = AtomicU64::new(0);
    let progress = || {
        let images = images.fetch_add(1, Ordering::Relaxed) + 1;
        let now = begun.elapsed().as_secs();
        if now >= said.load(Ordering::Relaxed) + 10 {
            said.store(now, Ordering::Relaxed);
            eprintln!("{images} images, {} a second", images / now);
        }
    };
    let judged = replay(tape, arguments.samples, arguments.point, arguments.threads, &progress);
    let seconds = begun.elapsed().as_secs_f64();
    match judged {
        Ok(counts) => {
            let rate = counts.images as f64 / seconds;
            print!("{counts}");
            println!("  {seconds:.1} s, {rate:.0} images a second, no violation");
            true
        }
        Err(failure) => {
            println!("violation: point {}: {}", failure.point, failure.what);
            println!(
                "replay: cargo run --release -p oxblock-sim --bin oxblock-replay -- --tape {} --point {} --samples {}",
                tape.display(),
                failure.point,
                arguments.samples
            );
            false
        }
    }
}
