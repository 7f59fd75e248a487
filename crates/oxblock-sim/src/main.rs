//! `oxblock-sim --seeds A..B [--minutes M] [--keep-going] [--twice] [--require-coverage] [--sabotage flush|fua]`: runs seeds
//! and reports what they reached.
//!
//! `OXBLOCK_SIM_LOG` in the environment prints every event; `OXBLOCK_SIM_TRACE` prints an engine's panic where it happens.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use oxblock_sim::{Coverage, Failure, Sabotage, run};

const USAGE: &str = "usage: oxblock-sim --seeds A..B [--minutes M] [--keep-going] [--twice] [--require-coverage] \
                     [--sabotage flush|fua]
  --minutes M          begin no seed after so many
  --keep-going         go on after a failure
  --twice              run every seed twice, and fail when the two differ
  --require-coverage   fail when something that seeds can reach was never reached
  --sabotage           make the device lie: the run must fail
environment: OXBLOCK_SIM_LOG=1 prints every event, OXBLOCK_SIM_TRACE=1 prints a panic where it happens";

struct Arguments {
    from: u64,
    to: u64,
    limit: Option<Duration>,
    keep_going: bool,
    twice: bool,
    require_coverage: bool,
    sabotage: Sabotage,
}

fn parse() -> Result<Arguments, String> {
    let mut arguments = Arguments {
        from: 0,
        to: 1000,
        limit: None,
        keep_going: false,
        twice: false,
        require_coverage: false,
        sabotage: Sabotage::None,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        match word.as_str() {
            "--seeds" => {
                let text = value()?;
                let parsed = text
                    .split_once("..")
                    .and_then(|(from, to)| Some((from.parse().ok()?, to.parse().ok()?)));
                let Some((from, to)) = parsed else { return Err(format!("not a range: {text}")) };
                if from >= to {
                    return Err(format!(
                        "no seed is in {text}: the second must be the greater one"
                    ));
                }
                (arguments.from, arguments.to) = (from, to);
            }
            "--minutes" => {
                let minutes: f64 = value()?.parse().map_err(|_| "not a number of minutes")?;
                arguments.limit = Some(Duration::from_secs_f64(minutes.max(0.0) * 60.0));
            }
            "--keep-going" => arguments.keep_going = true,
            "--twice" => arguments.twice = true,
            "--require-coverage" => arguments.require_coverage = true,
            "--sabotage" => {
                arguments.sabotage = match value()?.as_str() {
                    "flush" => Sabotage::DropFlushes,
                    "fua" => Sabotage::DropDurable,
                    other => return Err(format!("no such sabotage: {other}")),
                }
            }
            other => return Err(format!("unknown argument {other}")),
        }
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
    let begun = Instant::now();
    let mut said = begun;
    let mut sum = Coverage::default();
    let mut failures: Vec<Failure> = Vec::new();
    for seed in arguments.from..arguments.to {
        if arguments.limit.is_some_and(|limit| begun.elapsed() >= limit) {
            break;
        }
        if arguments.to - arguments.from == 1 {
            eprintln!("{:#?}", oxblock_sim::Plan::new(seed));
        }
        let outcome = run(seed, arguments.sabotage);
        if arguments.twice && run(seed, arguments.sabotage).digest != outcome.digest {
            let what = "two runs of it differ".into();
            failures.push(Failure { seed, step: 0, what });
        }
        sum.add(&outcome.coverage);
        if let Some(failure) = outcome.failure {
            eprintln!("{failure}\n");
            failures.push(failure);
        }
        if !failures.is_empty() && !arguments.keep_going {
            break;
        }
        if said.elapsed() > Duration::from_secs(10) {
            said = Instant::now();
            let rate = sum.cuts as f64 / begun.elapsed().as_secs_f64();
            eprintln!(
                "seed {seed}: {} cuts, {rate:.0} a second, {} requests, {} failures",
                sum.cuts,
                sum.requests,
                failures.len()
            );
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    print!("{sum}");
    println!(
        "  {:.1} s, {:.1} cuts a second, {} failures",
        seconds,
        sum.cuts as f64 / seconds,
        failures.len()
    );
    let missing = sum.missing();
    if !missing.is_empty() {
        println!("  never reached: {}", missing.join(", "));
    }
    match failures.is_empty() && (missing.is_empty() || !arguments.require_coverage) {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
