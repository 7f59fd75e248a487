//! One seed from beginning to end.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use crate::coverage::Coverage;
use crate::life::Fate;
use crate::mask::Mask;
use crate::model::Violation;
use crate::plan::Plan;
use crate::sabotage::Sabotage;
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
    /// The life in which it happened.
    pub life: u64,
    /// The turns that were played until then, with their lives.
    pub played: Vec<(u64, u64)>,
    /// What of the plan was played.
    pub mask: Mask,
    /// The lie that was told.
    pub sabotage: Sabotage,
    /// What happened.
    pub what: String,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { seed, step, life, what, mask, sabotage, .. } = self;
        writeln!(f, "seed {seed}, life {life}, after {step} requests: {what}")?;
        let features = if sabotage.is_bug() { " --features canary" } else { "" };
        write!(
            f,
            "replay: cargo run --release -p oxblock-sim{features} -- --seeds {seed}..{}",
            seed + 1
        )?;
        if !mask.is_all() {
            write!(f, " --only '{mask}'")?;
        }
        if *sabotage != Sabotage::None {
            write!(f, " --sabotage {}", sabotage.name())?;
        }
        Ok(())
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
    run_masked(plan, sabotage, &Mask::default())
}

/// Runs what `mask` leaves of a plan.
pub fn run_masked(plan: Plan, sabotage: Sabotage, mask: &Mask) -> Outcome {
    play(plan, sabotage, mask, false).0
}

/// As [`run_masked`], and says what happened, line by line.
pub fn tell(plan: Plan, sabotage: Sabotage, mask: &Mask) -> (Outcome, Vec<String>) {
    play(plan, sabotage, mask, true)
}

fn play(plan: Plan, sabotage: Sabotage, mask: &Mask, tell: bool) -> (Outcome, Vec<String>) {
    keep_panics();
    let seed = plan.seed;
    let failed = |what, step, life, played| Failure {
        seed,
        step,
        life,
        played,
        what,
        mask: mask.clone(),
        sabotage,
    };
    sabotage.begin();
    let mut world = match World::masked(plan, sabotage, mask.clone()) {
        Ok(world) => world,
        Err(what) => {
            let failure = Some(failed(what, 0, 0, Vec::new()));
            return (Outcome { digest: 0, coverage: Coverage::default(), failure }, Vec::new());
        }
    };
    world.story = tell.then(RefCell::default);
    // A panic of the engine is a finding like any other; the world is only looked at afterwards.
    RUNNING.set(true);
    let result = catch_unwind(AssertUnwindSafe(|| lives(&mut world)));
    RUNNING.set(false);
    let what = match result {
        Ok(Ok(())) => None,
        Ok(Err(what)) => Some(what),
        Err(_) => Some(format!("the engine panicked: {}", LAST_PANIC.take())),
    };
    let mut coverage = world.coverage;
    let stats = world.disk.stats();
    coverage.device_ops = stats.operations();
    coverage.add_hits(&stats.hits);
    coverage.blocks_checked = world.model.checked;
    coverage.writes_lost = world.model.lost;
    let played = std::mem::take(&mut world.played);
    let failure = what.map(|what| failed(what, world.step, world.life, played));
    let story = world.story.take().map_or_else(Vec::new, RefCell::into_inner);
    let outcome = Outcome { digest: world.digest, coverage, failure };
    if outcome.failure.is_some() {
        // A volume that is in an impossible state must not run its destructors. What it keeps of the device is small then.
        world.disk.erase(0);
        std::mem::forget(world);
    }
    (outcome, story)
}

/// Plays the lives; the last opening, after which everything is verified, counts as one more.
fn lives(world: &mut World) -> Result<(), Violation> {
    let mut fresh = true;
    for life in 0..world.plan.lives {
        if !world.mask.has_life(life) {
            continue;
        }
        world.life = life;
        if world.reopen()? == Fate::Over {
            return Ok(());
        }
        if std::mem::take(&mut fresh) {
            world.prepare()?;
        }
        world.live()?;
    }
    world.life = world.plan.lives;
    world.trouble_ends();
    if world.reopen()? == Fate::On {
        world.verify_opening(true, true)?;
        world.drop_volume();
    }
    Ok(())
}
