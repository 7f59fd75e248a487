//! A short recorded run on a real file, and recorders that lie.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::path::Path;
use std::time::Duration;

use oxblock_sim::replay::record::{Plan, record};
use oxblock_sim::replay::{Counts, Failure, Lie, replay};

fn run(folder: &Path, seed: u64, seconds: f64, lie: Lie) -> Result<Counts, Failure> {
    let tape = folder.join("tape");
    let time = Duration::from_secs_f64(seconds);
    let plan = Plan { seed, time, rate: 400, folder: folder.to_owned(), lie };
    record(&plan, &tape).unwrap();
    replay(&tape, 1, None, 2, &|| {})
}

#[test]
fn every_boundary_of_a_short_run_is_the_state_after_a_prefix() {
    let folder = tempfile::tempdir().unwrap();
    let mut sum = Counts::default();
    for seed in 0..3 {
        match run(folder.path(), seed, 0.5, Lie::None) {
            Ok(counts) => sum.add(&counts),
            Err(failure) => panic!("seed {seed}, point {}: {}", failure.point, failure.what),
        }
    }
    assert!(sum.flushes > 30 && sum.durable > 10 && sum.settled >= 3, "{sum}");
    assert!(sum.torn > 10 && sum.recoveries > 30 && sum.interrupted > 5, "{sum}");
    // The backing files are gone.
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

fn is_caught(lie: Lie) {
    let folder = tempfile::tempdir().unwrap();
    let caught = (0..6).find_map(|seed| run(folder.path(), seed, 0.2, lie).err());
    let failure = caught.unwrap_or_else(|| panic!("{lie:?} was not noticed"));
    println!("{lie:?}: point {}: {}", failure.point, failure.what);
}

#[test]
fn a_recorder_that_drops_flushes_is_caught() {
    is_caught(Lie::DropFlush);
}

#[test]
fn a_recorder_that_moves_writes_behind_a_flush_is_caught() {
    is_caught(Lie::Reorder);
}

#[test]
fn a_recorder_that_drops_the_durable_flag_is_caught() {
    is_caught(Lie::DropDurable);
}
