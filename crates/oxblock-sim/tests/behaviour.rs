//! Faults that the soak has found, each as a soak of its own that is bent towards it.
#![expect(clippy::unwrap_used, reason = "tests")]

use oxblock::device::Fua;
use oxblock_sim::run::run_plan;
use oxblock_sim::{Coverage, Plan, Sabotage, Trouble};

fn soak(seeds: u64, bend: fn(&mut Plan)) -> Coverage {
    let mut sum = Coverage::default();
    for seed in 0..seeds {
        let mut plan = Plan::new(seed);
        plan.trouble = Trouble::None;
        plan.size = 4 << 20;
        plan.device.write_cache = true;
        plan.device.fua = Fua::Native;
        plan.hot.clear();
        plan.fill = false;
        plan.small = false;
        bend(&mut plan);
        plan.device.size = oxblock::volume::required_size(plan.size).unwrap();
        let outcome = run_plan(plan, Sabotage::None);
        sum.add(&outcome.coverage);
        assert!(outcome.failure.is_none(), "{}", outcome.failure.unwrap());
    }
    sum
}

/// A write in the first record of an atomic group was acknowledged as durable while the group's end was not: recovery
/// takes none of the group then.
#[test]
fn no_flush_covers_half_of_an_atomic_group() {
    let sum = soak(30, |plan| {
        plan.depth = 32;
        plan.requests = 128;
        plan.lives = 12;
    });
    assert!(sum.groups > 100, "{sum}");
}

/// The records of a checkpoint may open a segment that its own reserve list names, if others come in between.
#[test]
fn a_checkpoint_may_lie_in_its_own_reserve() {
    let sum = soak(30, |plan| {
        plan.depth = 8;
        plan.requests = 64;
        plan.lives = 12;
    });
    assert!(sum.cuts_in_checkpoint > 3, "{sum}");
}

/// A checkpoint waits until its own records are retired; they must not wait for the next checkpoint behind records that
/// find no room for dirty nodes.
#[test]
fn retirement_never_waits_for_a_checkpoint() {
    let sum = soak(6, |plan| {
        plan.size = 40 << 20;
        plan.map_cache = 256 << 10;
        plan.depth = 32;
        plan.requests = 256;
        plan.lives = 3;
    });
    assert!(sum.checkpoints > 20, "{sum}");
}

/// A read that fails once while the log is replayed must not lose what the record says.
#[test]
fn replay_survives_transient_errors() {
    let sum = soak(30, |plan| {
        plan.trouble = Trouble::Transient;
        plan.size = 1 << 30;
        plan.map_cache = 256 << 10;
        plan.hot = (0..200).map(|n| n * 5_000_000 / 4096 * 4096).collect();
        plan.hot_bytes = 16 << 10;
        plan.small = true;
        plan.requests = 64;
        plan.lives = 8;
    });
    assert!(sum.recoveries > 50, "{sum}");
}

/// A full volume goes on being overwritten, with cleaning at its heels and cuts in between, and cleaning never gives up
/// a sound segment.
#[test]
fn a_full_volume_survives_cuts() {
    let sum = soak(6, |plan| {
        plan.fill = true;
        plan.small = true;
        plan.depth = 16;
        plan.requests = 1000;
        plan.lives = 8;
    });
    assert!(sum.relocated > 0, "{sum}");
}
