//! `oxblock-fuzz TARGET|all`, `oxblock-fuzz smoke`, `oxblock-fuzz replay TARGET FILE...`.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use oxblock_fuzz::runner::{Tally, Until, corpus_of, fuzz, once, watch};
use oxblock_fuzz::target::{ALL, Target, find};

const USAGE: &str = "usage: oxblock-fuzz TARGET|all [--seconds N | --runs N] [--seed S] [--grow N]
       oxblock-fuzz smoke                  a fixed number of inputs of every target, from a fixed seed
       oxblock-fuzz replay TARGET FILE...  run inputs once
targets: superblock, record, node, checkpoint, table, image, flip, jobfile, fuse, nbd
  --seconds N  stop after so long, each target (60)
  --runs N     stop after so many inputs instead: the same ones for the same seed
  --seed S     where chance comes from (1)
  --grow N     add the N smallest inputs of a new shape to the target's corpus";

struct Arguments {
    until: Until,
    seed: u64,
    grow: usize,
}

fn parse(words: &[String]) -> Result<Arguments, String> {
    let mut arguments = Arguments { until: Until::Seconds(60.0), seed: 1, grow: 0 };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| format!("{word} needs a value"))?;
        let number: u64 =
            value.parse().map_err(|_| format!("{word}: '{value}' is not a number"))?;
        match word.as_str() {
            "--seconds" => {
                arguments.until =
                    Until::Seconds(std::time::Duration::from_secs(number).as_secs_f64())
            }
            "--runs" => arguments.until = Until::Runs(number),
            "--seed" => arguments.seed = number,
            "--grow" => arguments.grow = usize::try_from(number).unwrap_or(usize::MAX),
            _ => return Err(format!("unknown argument {word}")),
        }
    }
    Ok(arguments)
}

fn line(target: &dyn Target, tally: &Tally) {
    println!(
        "{:<11} {:>9} inputs  {:>7.0}/s  {:>5} shapes  {:>4} MiB at most  {} findings",
        target.name(),
        tally.runs,
        tally.runs as f64 / tally.taken.as_secs_f64().max(0.001),
        tally.shapes,
        tally.peak >> 20,
        tally.findings.len()
    );
}

/// Adds to the corpus what is new, the smallest first.
fn grow(target: &dyn Target, tally: &Tally, most: usize) -> std::io::Result<()> {
    let folder = corpus_of(target);
    std::fs::create_dir_all(&folder)?;
    for (number, input) in tally.kept.iter().take(most).enumerate() {
        std::fs::write(folder.join(format!("kept-{number:02}")), input)?;
    }
    Ok(())
}

fn run(target: &'static dyn Target, arguments: &Arguments) -> bool {
    let tally = fuzz(target, arguments.seed, arguments.until, |tally| line(target, tally));
    line(target, &tally);
    if arguments.grow > 0
        && let Err(error) = grow(target, &tally, arguments.grow)
    {
        eprintln!("cannot add to the corpus: {error}");
        return false;
    }
    tally.findings.is_empty()
}

fn replay(name: &str, files: &[String]) -> Result<bool, String> {
    let target = find(name).ok_or_else(|| format!("no such target: {name}"))?;
    let watch = watch(target);
    let mut fine = true;
    for file in files {
        let input = std::fs::read(file).map_err(|error| format!("{file}: {error}"))?;
        let (result, peak) = once(&watch, target, &input);
        match result {
            Ok(_) => println!("{file}: nothing wrong ({} KiB at most)", peak >> 10),
            Err(what) => {
                fine = false;
                println!("{file}: {what}");
            }
        }
    }
    Ok(fine)
}

fn start() -> Result<bool, String> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (first, rest) = words.split_first().ok_or("what is to be fuzzed?")?;
    match first.as_str() {
        "replay" => {
            let (name, files) = rest.split_first().ok_or("replay needs a target")?;
            replay(name, files)
        }
        "smoke" => {
            let smoke = |target: &'static dyn Target| {
                run(
                    target,
                    &Arguments { until: Until::Runs(target.smoke_runs()), seed: 1, grow: 0 },
                )
            };
            // All of them, whatever the first ones say.
            Ok(ALL.into_iter().filter(|target| !smoke(*target)).count() == 0)
        }
        "all" => {
            let arguments = parse(rest)?;
            Ok(ALL.into_iter().filter(|target| !run(*target, &arguments)).count() == 0)
        }
        name => {
            let target = find(name).ok_or_else(|| format!("no such target: {name}"))?;
            Ok(run(target, &parse(rest)?))
        }
    }
}

fn main() -> ExitCode {
    match start() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("{why}\n{USAGE}");
            ExitCode::from(2)
        }
    }
}
