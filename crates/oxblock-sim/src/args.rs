//! The command line.

use std::time::Duration;

use oxblock_sim::soak::Soak;
use oxblock_sim::{Mask, Sabotage};

/// What is said to somebody who got it wrong.
pub fn usage() -> String {
    let names: Vec<&str> = Sabotage::all().iter().map(|sabotage| sabotage.name()).collect();
    format!(
        "usage: oxblock-sim [--seeds A..B] [--minutes M] [--jobs N] [--keep-going] [--twice] [--require-coverage]
                   [--sabotage NAME] [--only MASK] [--no-shrink]
  --seeds A..B         the seeds to run; 0..1000 if nothing is said
  --minutes M          begin no seed after so many
  --jobs N             threads; as many as there are cores if nothing is said
  --keep-going         go on after a failure
  --twice              run every seed twice, and fail when the two differ
  --require-coverage   fail when something that seeds can reach was never reached
  --sabotage NAME      put a fault in on purpose, which the run must find: {}
                       (others with the feature 'canary')
  --only MASK          play only a part of each plan, as a failure says that was shrunk
  --no-shrink          leave a failure as it is
environment: OXBLOCK_SIM_LOG=1 prints every event, OXBLOCK_SIM_TRACE=1 prints a panic where it happens",
        names.join(", ")
    )
}

/// What was asked for.
#[derive(Debug)]
pub struct Arguments {
    /// What to run.
    pub soak: Soak,
    /// Go on after a failure.
    pub keep_going: bool,
    /// Fail when something was never reached.
    pub require_coverage: bool,
    /// Shrink failures.
    pub shrink: bool,
}

/// Reads the command line.
///
/// # Errors
/// What is wrong with it.
pub fn parse(words: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let soak = Soak::new(0..1000, Sabotage::None);
    let mut arguments =
        Arguments { soak, keep_going: false, require_coverage: false, shrink: true };
    let mut words = words;
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        let soak = &mut arguments.soak;
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
                soak.seeds = from..to;
            }
            "--minutes" => {
                let minutes: f64 = value()?.parse().map_err(|_| "not a number of minutes")?;
                let limit = Duration::try_from_secs_f64(minutes.max(0.0) * 60.0);
                soak.limit = Some(limit.map_err(|_| "not a number of minutes")?);
            }
            "--jobs" => {
                soak.jobs = value()?.parse().map_err(|_| "not a number of threads")?;
            }
            "--keep-going" => arguments.keep_going = true,
            "--twice" => soak.twice = true,
            "--require-coverage" => arguments.require_coverage = true,
            "--no-shrink" => arguments.shrink = false,
            "--only" => soak.mask = value()?.parse::<Mask>()?,
            "--sabotage" => {
                let name = value()?;
                soak.sabotage =
                    Sabotage::named(&name).ok_or_else(|| format!("no such sabotage: {name}"))?;
            }
            other => return Err(format!("unknown argument {other}")),
        }
    }
    Ok(arguments)
}
