//! One seed from beginning to end.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use crate::coverage::Coverage;
use crate::life::Fate;
use crate::model::Violation;
use crate::plan::Plan;
use crate::probe::Sabotage;
use crate::world::World;

/// How a run went.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Hash over everything that happened: a function of the seed alone.
    pub digest: u64,
    /// What was reached.
    pub coverage: Coverage,
    /// What was wrong, if anything.
    pub failure: Option<Failure>,
}

/// What was wrong.
#[derive(Debug, Clone)]
pub struct Failure {
    /// The seed that shows it.
    pub seed: u64,
    /// Requests handed over before.
    pub step: u64,
    /// What happened.
    pub what: String,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { seed, step, what } = self;
        writeln!(f, "seed {seed}, after {step} requests: {what}")?;
        write!(f, "replay: cargo run --release -p oxblock-sim -- --seeds {seed}..{}", seed + 1)
    }
}

/// Runs `seed`.
pub fn run(seed: u64, sabotage: Sabotage) -> Outcome {
    let plan = Plan::new(seed);
    run_plan(plan, sabotage)
}

thread_local! {
    static LAST_PANIC: Cell<String> = const { Cell::new(String::new()) };
    static RUNNING: Cell<bool> = const { Cell::new(false) };
}

/// Keeps the message of a panic for the report instead of printing it.
fn keep_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let ours = RUNNING.get();
            if ours {
                LAST_PANIC.set(info.to_string());
            }
            if !ours || std::env::var_os("OXBLOCK_SIM_TRACE").is_some() {
                usual(info);
            }
        }));
    });
}

/// Runs a plan.
pub fn run_plan(plan: Plan, sabotage: Sabotage) -> Outcome {
    keep_panics();
    let seed = plan.seed;
    let mut world = match World::new(plan, sabotage) {
        Ok(world) => world,
        Err(what) => {
            let failure = Some(Failure { seed, step: 0, what });
            return Outcome { digest: 0, coverage: Coverage::default(), failure };
        }
    };
    // A panic of the engine is a finding like any other; the world is only looked at afterwards.
    RUNNING.set(true);
    let result = catch_unwind(AssertUnwindSafe(|| lives(&mut world)));
    RUNNING.set(false);
    let failure = match result {
        Ok(Ok(())) => None,
        Ok(Err(what)) => Some(what),
        Err(_) => Some(format!("the engine panicked: {}", LAST_PANIC.take())),
    };
    let mut coverage = world.coverage;
    coverage.device_ops = world.disk.stats().operations();
    coverage.blocks_checked = world.model.checked;
    coverage.writes_lost = world.model.lost;
    let failure = failure.map(|what| Failure { seed, step: world.step, what });
    let outcome = Outcome { digest: world.digest, coverage, failure };
    if outcome.failure.is_some() {
        // A volume that is in an impossible state must not run its destructors.
        std::mem::forget(world);
    }
    outcome
}

fn lives(world: &mut World) -> Result<(), Violation> {
    for life in 0..world.plan.lives {
        if world.reopen()? == Fate::Over {
            return Ok(());
        }
        if life == 0 && world.plan.fill {
            world.fill()?;
        }
        world.live()?;
    }
    world.disk.clear_faults();
    if world.reopen()? == Fate::On {
        world.drop_volume();
    }
    Ok(())
}
