//! `oxblock-sim`: runs seeds, reports what they reached, and shrinks what fails. See `usage` in `args.rs`.
#![forbid(unsafe_code)]

mod args;

use std::ops::ControlFlow;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use oxblock_sim::shrink::{Budget, shrink};
use oxblock_sim::{Coverage, Failure, Plan};

use crate::args::{Arguments, parse, usage};

/// Lines of a story that are printed, the last ones.
const STORY: usize = 80;

fn main() -> ExitCode {
    let arguments = match parse(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(why) => {
            eprintln!("{why}\n{}", usage());
            return ExitCode::from(2);
        }
    };
    let seeds = &arguments.soak.seeds;
    if seeds.end - seeds.start == 1 {
        eprintln!("{:#?}", Plan::new(seeds.start));
    }
    let begun = Instant::now();
    let mut said = begun;
    let mut sum = Coverage::default();
    let mut failures: Vec<Failure> = Vec::new();
    arguments.soak.run(&mut |seed, outcome| {
        sum.add(&outcome.coverage);
        if let Some(failure) = outcome.failure {
            eprintln!("{failure}\n");
            failures.push(failure);
            if !arguments.keep_going {
                return ControlFlow::Break(());
            }
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
        ControlFlow::Continue(())
    });
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
    if let Some(failure) = failures.first().filter(|_| arguments.shrink) {
        explain(failure, &arguments);
    }
    match failures.is_empty() && (missing.is_empty() || !arguments.require_coverage) {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

/// Shrinks a failure and says what is left of it. One that was shrunk already is told as it is.
fn explain(failure: &Failure, arguments: &Arguments) {
    let budget = match arguments.soak.mask.is_all() {
        true => Budget::default(),
        false => Budget { runs: 0, ..Budget::default() },
    };
    let shrunk = shrink(&Plan::new(failure.seed), failure, budget);
    let hidden = shrunk.story.len().saturating_sub(STORY);
    eprintln!("shrunk by {} runs; what happens", shrunk.runs);
    if hidden > 0 {
        eprintln!("  ({hidden} lines before)");
    }
    for line in shrunk.story.iter().skip(hidden) {
        eprintln!("  {line}");
    }
    eprintln!("{}", shrunk.failure);
}
