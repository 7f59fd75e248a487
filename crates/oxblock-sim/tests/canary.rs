//! The checker can fail: a device that lies about durability is found out.

use oxblock_sim::{Sabotage, run};

fn caught_within(sabotage: Sabotage, seeds: u64) {
    let caught = (0..seeds).find(|seed| run(*seed, sabotage).failure.is_some());
    assert!(caught.is_some(), "{sabotage:?} was not noticed in {seeds} seeds");
}

#[test]
fn flushes_that_do_nothing_are_noticed() {
    caught_within(Sabotage::DropFlushes, 40);
}

#[test]
fn durable_writes_that_are_not_are_noticed() {
    caught_within(Sabotage::DropDurable, 40);
}
