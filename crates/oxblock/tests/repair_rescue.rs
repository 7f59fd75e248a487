//! Repair of damaged record headers: all that lives behind them is moved, however much and however full the volume is.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

#[path = "common/newest.rs"]
mod newest;
#[path = "common/run.rs"]
mod run;
#[path = "common/world.rs"]
#[expect(dead_code, reason = "other tests use more of it")]
mod world;

use std::collections::HashSet;

use oxblock::OpenOptions;
use oxblock::volume::{FindingKind, RepairReport};

use world::{World, options};

/// Damages the headers before anything live, all but every `spare`-th; returns how many.
fn damage_headers(world: &World, spare: usize) -> u64 {
    let live: HashSet<u64> = world
        .addresses()
        .into_iter()
        .chain(world.nodes().iter().map(|node| node.2))
        .chain([world.superblock().checkpoint.table_root.addr])
        .collect();
    let mut hit = 0;
    for (place, (header, _)) in world.records().into_iter().enumerate() {
        let behind =
            header.payload_addr()..header.payload_addr() + u64::from(header.payload_blocks);
        if !place.is_multiple_of(spare) && behind.into_iter().any(|addr| live.contains(&addr)) {
            world.damage(header.addr);
            hit += 1;
        }
    }
    hit
}

/// All was found, and nothing is left.
#[track_caller]
fn is_healed(world: &World, report: &RepairReport) {
    assert!(report.found.findings.iter().all(|found| found.kind == FindingKind::RecordHeader));
    assert!(!report.found.is_sound() && report.is_sound(), "{report:?}");
    assert_eq!(world.check(), [""; 0]);
    assert!(world.reopened().is_empty());
    assert_eq!(world.check(), [""; 0]);
}

#[test]
fn the_segment_table_of_an_empty_volume_is_moved() {
    let mut world = World::new(16 << 20, 6);
    let mut volume = world.open();
    world.write(&mut volume, 0, 1);
    world.trim(&mut volume, 0, 1);
    volume.close().unwrap();
    assert!(world.addresses().is_empty());
    assert!(damage_headers(&world, usize::MAX) > 0);
    let report = world.repair();
    is_healed(&world, &report);
}

#[test]
fn all_of_a_full_volume_is_moved() {
    let size = 48 << 20;
    let mut world = World::new(size, 1);
    let mut volume = world.open();
    for block in (0..size / 4096).step_by(256) {
        world.write(&mut volume, block, 256);
    }
    // In all orders, and several times.
    for round in 0..3000u64 {
        world.write(&mut volume, round * 7919 % (size / 4096 - 4), 1 + round % 4);
    }
    volume.close().unwrap();
    assert!(damage_headers(&world, usize::MAX) > 100);
    let report = world.repair();
    is_healed(&world, &report);
}

#[test]
fn more_is_moved_than_one_checkpoint_takes() {
    let mut world = World::new(160 << 20, 2);
    let mut volume = world.open();
    for block in (0..20_000).step_by(250) {
        world.write(&mut volume, block, 250);
    }
    volume.close().unwrap();
    damage_headers(&world, usize::MAX);
    let report = world.repair();
    is_healed(&world, &report);
}

#[test]
fn more_nodes_are_moved_than_fit_in_memory() {
    let mut world = World::new(1200 << 20, 3);
    let mut volume = world.open();
    for leaf in 0..1200 {
        world.write(&mut volume, leaf * 256, 1);
    }
    volume.close().unwrap();
    damage_headers(&world, usize::MAX);
    let small = OpenOptions { map_cache_bytes: OpenOptions::MIN_MAP_CACHE, ..options() };
    let report = world.repair_with(&small);
    is_healed(&world, &report);
}

#[test]
fn every_gap_is_found_and_mended_however_many_there_are() {
    let mut world = World::new(64 << 20, 4);
    let mut volume = world.open();
    for block in 0..9000 {
        world.write(&mut volume, block, 1);
    }
    volume.close().unwrap();
    // Every other one, so that each is a gap of its own.
    let hit = damage_headers(&world, 2);
    assert!(hit > 4200, "{hit}");
    let report = world.repair();
    assert_eq!(report.found.total_findings, hit);
    is_healed(&world, &report);
}

#[test]
fn what_cannot_be_moved_does_not_keep_the_rest_from_it() {
    let mut world = World::new(160 << 20, 5);
    let mut volume = world.open();
    for block in (0..20_000).step_by(250) {
        world.write(&mut volume, block, 250);
    }
    volume.close().unwrap();
    let last = world.pointer(19_999).addr;
    damage_headers(&world, usize::MAX);
    // More than is looked at in one go, and all of it comes first.
    for addr in world.addresses().into_iter().take(17_000) {
        world.damage(addr);
    }
    let report = world.repair();
    assert!(!report.is_sound());
    assert_ne!(world.pointer(19_999).addr, last);
    let failing = world.reopened();
    assert_eq!((failing.len(), failing.first(), failing.last()), (17_000, Some(&0), Some(&16_999)));
}
