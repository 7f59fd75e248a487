//! A short soak, and every crash point of short pieces of work.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::ops::ControlFlow;

use oxblock_sim::model::Violation;
use oxblock_sim::points::every_point;
use oxblock_sim::soak::Soak;
use oxblock_sim::world::World;
use oxblock_sim::{Plan, Sabotage, Trouble, run};

#[test]
fn a_few_seeds_of_everything() {
    for seed in 0..24 {
        let outcome = run(seed, Sabotage::None);
        assert!(outcome.failure.is_none(), "{}", outcome.failure.unwrap());
    }
}

#[test]
fn the_same_seed_is_the_same_run() {
    for seed in [3, 5, 11] {
        let first = run(seed, Sabotage::None);
        let second = run(seed, Sabotage::None);
        assert_eq!(first.digest, second.digest, "seed {seed}");
        assert_eq!(first.coverage, second.coverage, "seed {seed}");
    }
}

#[test]
fn seeds_come_in_their_order_whatever_the_threads() {
    let digests = |jobs| {
        let mut soak = Soak::new(40..52, Sabotage::None);
        soak.jobs = jobs;
        let mut digests = Vec::new();
        soak.run(&mut |seed, outcome| {
            digests.push((seed, outcome.digest));
            match digests.len() {
                10 => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        });
        digests
    };
    let alone = digests(1);
    assert_eq!(alone.iter().map(|(seed, _)| *seed).collect::<Vec<_>>(), Vec::from_iter(40..50));
    assert_eq!(digests(3), alone);
}

/// A small volume on a device with a volatile cache.
fn plan(seed: u64) -> Plan {
    let mut plan = Plan::new(seed);
    plan.size = 4 << 20;
    plan.device.size = oxblock::volume::required_size(plan.size).unwrap();
    plan.device.write_cache = true;
    plan.device.fua = oxblock::device::Fua::Native;
    plan.hot.clear();
    plan.trouble = Trouble::None;
    plan.depth = 1;
    plan
}

fn check(seed: u64, script: fn(&mut World) -> Result<(), Violation>) {
    let cuts = every_point(&plan(seed), script, 6).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(cuts > 30, "only {cuts} cuts");
}

#[test]
fn every_point_of_single_writes() {
    check(1, |world| {
        for n in 0..12u64 {
            world.write(n % 5 * 4096, n % 5 * 4096 + 8192, n == 7);
            world.drain(0)?;
            if n % 4 == 3 {
                world.flush();
                world.drain(0)?;
            }
        }
        Ok(())
    });
}

#[test]
fn every_point_of_requests_under_way_together() {
    check(2, |world| {
        for n in 0..40u64 {
            let from = n * 7919 % 900 * 4096;
            match n % 8 {
                3 => world.trim(from, from + 40_960),
                5 => world.zero(from + 100, from + 30_000, false),
                6 => world.flush(),
                7 => world.write(from + 77, from + 9_000, true),
                _ => world.write(from, from + 12_288, false),
            }
            world.drain(7)?;
        }
        world.drain(0)
    });
}

#[test]
fn every_point_of_atomic_writes_over_segment_ends() {
    check(3, |world| {
        for n in 0..6u64 {
            world.write(n * 300_000, n * 300_000 + (1 << 20), n == 4);
            world.write(n * 4096, (n + 1) * 4096, n == 2);
            world.drain(1)?;
        }
        world.flush();
        world.drain(0)
    });
}

#[test]
fn every_point_of_closing_and_opening() {
    check(4, |world| {
        for n in 0..3u64 {
            world.write(n * 100_000, n * 100_000 + 50_000, false);
            world.drain(0)?;
            world.close()?;
            if world.disk.is_off() || world.open(false, false).is_err() {
                return Ok(());
            }
        }
        Ok(())
    });
}
