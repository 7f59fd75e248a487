//! Every crash point of a short piece of work: cut after each of its device changes in turn, with several outcomes each.

use oxblock::device::sim::Cut;

use crate::mask::Mask;
use crate::model::Violation;
use crate::plan::Plan;
use crate::run::Failure;
use crate::sabotage::Sabotage;
use crate::world::World;

/// A short piece of work.
pub type Script = fn(&mut World) -> Result<(), Violation>;

/// Runs `script` on a fresh volume of `plan` as often as it makes device changes, cutting the power after each in turn,
/// `reseeds` times each. Returns how many cuts that were.
///
/// # Errors
/// The first cut after which the volume is not the state after a prefix.
pub fn every_point(plan: &Plan, script: Script, reseeds: u64) -> Result<u64, Box<Failure>> {
    let mut cuts = 0;
    let mut point = 1;
    loop {
        let mut finished = false;
        for outcome in 0..reseeds {
            let failed = |what: Violation| {
                Box::new(Failure {
                    seed: plan.seed,
                    step: point,
                    life: 0,
                    played: Vec::new(),
                    mask: Mask::default(),
                    sabotage: Sabotage::None,
                    what: format!("cut after {point} changes, outcome {outcome}: {what}"),
                })
            };
            finished |= one(plan, script, point, outcome).map_err(failed)?;
            cuts += 1;
        }
        if finished {
            return Ok(cuts);
        }
        point += 1;
    }
}

/// One cut; true when the script came to its end before it.
fn one(plan: &Plan, script: Script, point: u64, outcome: u64) -> Result<bool, Violation> {
    let mut world = World::new(plan.clone(), Sabotage::None)?;
    // The work is the same every time; only what the cut leaves differs.
    world.disk.reseed(plan.seed);
    world.disk.cut_after_changes(point);
    let opened = world.open(false, false);
    if opened.is_ok() {
        script(&mut world)?;
    }
    let finished = !world.disk.is_off();
    world.disk.power_off();
    world.disk.reseed(plan.seed ^ (outcome << 32) ^ point);
    world.disk.power_cut_with(match outcome {
        0 => Cut::KeepNone,
        1 => Cut::KeepAll,
        _ => Cut::Arbitrary,
    });
    world.drop_volume();
    world.open(false, false).map_err(|error| format!("open: {error}"))?;
    world.verify()?;
    Ok(finished)
}
