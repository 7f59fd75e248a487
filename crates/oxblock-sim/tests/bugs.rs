//! Each bug on purpose in the engine is found: from several seeds on, within 10,000 power cuts.
//!
//! `cargo test --release -p oxblock-sim --features canary --test bugs -- --nocapture` prints how many cuts it took.

use std::ops::ControlFlow;

use oxblock::canary::Canary;
use oxblock_sim::run::run_plan;
use oxblock_sim::shrink::{Budget, shrink};
use oxblock_sim::soak::Soak;
use oxblock_sim::{Failure, Plan, Sabotage, Trouble, run, run_masked};

/// Power cuts within which a bug must be found.
const CUTS: u64 = 10_000;
/// Seeds from which the search begins.
const STARTS: u64 = 5;

/// The first failure from `start` on, and the cuts until then.
fn find(canary: Canary, start: u64) -> (Option<Failure>, u64) {
    let (mut found, mut cuts) = (None, 0);
    Soak::new(start..start + CUTS, Sabotage::Bug(canary)).run(&mut |_, outcome| {
        cuts += outcome.coverage.cuts;
        found = outcome.failure;
        match found.is_some() || cuts > CUTS {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    });
    (found, cuts)
}

fn is_found(canary: Canary) {
    let mut all: Vec<u64> = Vec::new();
    for start in 0..STARTS {
        let (found, cuts) = find(canary, start * 100_000);
        let what = found.map(|failure| failure.what).unwrap_or_default();
        println!("{}: {cuts} cuts, {}", canary.name(), what.chars().take(140).collect::<String>());
        assert!(!what.is_empty(), "{canary:?} was not noticed in {cuts} cuts");
        all.push(cuts);
    }
    all.sort_unstable();
    println!("{}: found after {:?} cuts in the median", canary.name(), all.get(all.len() / 2));
    let worst = all.last().copied().unwrap_or(u64::MAX);
    assert!(worst <= CUTS, "{canary:?} took {worst} cuts");
}

#[test]
fn a_segment_reused_before_its_checkpoint_is_noticed() {
    is_found(Canary::ReuseEarly);
}

#[test]
fn a_relocation_that_does_not_compare_is_noticed() {
    is_found(Canary::RelocateBlindly);
}

#[test]
fn a_durable_write_without_its_flush_is_noticed() {
    is_found(Canary::FuaVolatile);
}

#[test]
fn a_flush_acknowledged_early_is_noticed() {
    is_found(Canary::FlushEarly);
}

#[test]
fn a_checkpoint_ahead_of_retirement_is_noticed() {
    is_found(Canary::CheckpointAhead);
}

#[test]
fn reads_that_are_not_verified_are_noticed() {
    is_found(Canary::ReadUnverified);
}

#[test]
fn a_torn_record_that_is_replayed_is_noticed() {
    is_found(Canary::ReplayUnverified);
}

/// The first failure of plans that are bent towards writes that fail, and the cuts until then.
fn find_where_writes_fail(canary: Canary, start: u64) -> (Option<Failure>, u64) {
    let (mut found, mut cuts, mut seed) = (None, 0, start);
    while found.is_none() && cuts <= CUTS {
        let mut plan = Plan::new(seed);
        plan.trouble = Trouble::Errors;
        let outcome = run_plan(plan, Sabotage::Bug(canary));
        cuts += outcome.coverage.cuts;
        found = outcome.failure;
        seed += 1;
    }
    (found, cuts)
}

fn is_found_where_writes_fail(canary: Canary) {
    for start in 0..STARTS {
        let (found, cuts) = find_where_writes_fail(canary, start * 100_000);
        let what = found.map(|failure| failure.what).unwrap_or_default();
        println!("{}: {cuts} cuts, {}", canary.name(), what.chars().take(140).collect::<String>());
        assert!(!what.is_empty(), "{canary:?} was not noticed in {cuts} cuts");
    }
}

#[test]
fn a_recovery_that_goes_by_the_old_place_of_a_record_is_noticed() {
    is_found_where_writes_fail(Canary::OldPlaceFirst);
}

#[test]
fn records_that_are_left_behind_a_failed_one_are_noticed() {
    is_found_where_writes_fail(Canary::LeaveBehind);
}

#[test]
fn an_atomic_group_that_is_split_is_noticed() {
    // Small writes must lie beside a large one where a segment ends, and the power fail right there: this takes plans
    // that are bent towards it.
    let (mut found, mut cuts, mut seed) = (None, 0, 0);
    while found.is_none() && cuts <= CUTS {
        let mut plan = Plan::new(seed);
        plan.size = 2 << 20;
        plan.device.size = oxblock::volume::required_size(plan.size).unwrap();
        plan.trouble = Trouble::None;
        plan.hot.clear();
        (plan.fill, plan.wear, plan.small) = (false, 0, false);
        (plan.depth, plan.requests, plan.lives, plan.outcomes) = (32, 64, 12, 4);
        let outcome = run_plan(plan, Sabotage::Bug(Canary::SplitGroup));
        cuts += outcome.coverage.cuts;
        found = outcome.failure;
        seed += 1;
    }
    println!("split-group: {cuts} cuts, {}", found.map(|failure| failure.what).unwrap());
}

#[test]
fn a_failure_shrinks_to_a_few_requests_that_fail_still() {
    let canary = Canary::FlushEarly;
    let failure = find(canary, 0).0.unwrap();
    let plan = Plan::new(failure.seed);
    let shrunk = shrink(&plan, &failure, Budget::default());
    println!(
        "{} turns became {}\n{}",
        failure.played.len(),
        shrunk.failure.played.len(),
        shrunk.failure
    );
    assert!(shrunk.failure.played.len() <= 4, "{}", shrunk.failure);
    assert!(shrunk.story.iter().any(|line| line.contains("power cut")), "{:?}", shrunk.story);
    // What is printed is what fails.
    let mask = shrunk.failure.mask.to_string().parse().unwrap();
    let again = run_masked(plan.clone(), Sabotage::Bug(canary), &mask);
    assert_eq!(again.failure.unwrap().what, shrunk.failure.what);
    // Without the bug there is nothing to find.
    assert!(run(failure.seed, Sabotage::None).failure.is_none());
    assert!(run_masked(plan, Sabotage::None, &mask).failure.is_none());
}
