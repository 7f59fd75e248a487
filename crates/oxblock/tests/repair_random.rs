//! Random histories, random damage to what is no data, and a repair: nothing is ever read that was not last written.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]
#![expect(clippy::cast_possible_truncation, reason = "the volumes of these tests are small")]

#[path = "common/newest.rs"]
mod newest;
#[path = "common/run.rs"]
mod run;
#[path = "common/world.rs"]
#[expect(dead_code, reason = "other tests use more of it")]
mod world;

use std::collections::BTreeSet;

use oxblock::device::sim::{EIO, Fault, Rng};
use oxblock::format::superblock::offsets;
use oxblock::volume::FindingKind;
use oxblock::{ErrorKind, RequestKind};

use run::run;
use world::World;

/// `OXBLOCK_REPAIRS` and `OXBLOCK_SEED`: how many volumes, from which seed on.
fn plan() -> (u64, u64) {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    (number("OXBLOCK_REPAIRS").unwrap_or(24), number("OXBLOCK_SEED").unwrap_or(1))
}

/// A volume that is written, trimmed and closed at random, mostly until segments go round.
fn history(seed: u64, rng: &mut Rng) -> World {
    let size = [4 << 20, 10 << 20, 80 << 20][rng.below(3) as usize];
    let mut world = World::new(size, seed);
    // The volume is used where it is full, so that there is something to clean.
    let blocks = (size / 4096).min(2500);
    let lives = 1 + rng.below(4);
    for life in 0..lives {
        let mut volume = world.open();
        let mut failed = 0;
        for _ in 0..rng.below(if size > 20 << 20 { 150 } else { 1200 }) {
            let count = if rng.below(8) == 0 { 1 + rng.below(256) } else { 1 + rng.below(4) };
            let block = rng.below(blocks - count.min(blocks - 1));
            match rng.below(40) {
                0..4 => world.trim(&mut volume, block, count),
                4 => run(&mut volume, RequestKind::Flush).result.unwrap(),
                5 if failed < 2 => {
                    // It goes elsewhere.
                    failed += 1;
                    let faults = [Fault::Fail(EIO), Fault::Torn(EIO), Fault::Stored(EIO)];
                    world.fail_log_write(faults[rng.below(3) as usize].clone(), rng.below(4));
                }
                _ => world.write(&mut volume, block, count),
            }
        }
        run(&mut volume, RequestKind::Flush).result.unwrap();
        if life + 1 < lives || rng.below(2) == 0 {
            volume.close().unwrap();
        } else {
            drop(volume);
            world.disk.power_cut_keep_all();
        }
    }
    world
}

/// Damages places that hold no data; returns what it did.
fn damage(world: &World, rng: &mut Rng) -> Vec<String> {
    let mut done = Vec::new();
    let nodes = world.nodes();
    let point = world.superblock().checkpoint;
    let records = world.records();
    for _ in 0..1 + rng.below(4) {
        match rng.below(8) {
            0..4 if !nodes.is_empty() => {
                let (level, index, addr) = nodes[rng.below(nodes.len() as u64) as usize];
                world.damage(addr);
                done.push(format!("node {level}/{index}"));
            }
            4 if rng.below(3) == 0 && !point.table_root.is_null() => {
                world.damage(point.table_root.addr);
                done.push("table".into());
            }
            5 => {
                let size = world.disk.limits(0).unwrap().size;
                let copy = offsets(0, point.generation, size)[rng.below(2) as usize];
                if done.iter().all(|what| what != "copy") {
                    world.disk.write_raw(0, copy + 3000, &[0xa5; 9]);
                    done.push("copy".into());
                }
            }
            _ if !records.is_empty() => {
                let (header, _) = &records[rng.below(records.len() as u64) as usize];
                // The end of the log is another matter.
                if header.sequence <= point.sequence {
                    world.damage(header.addr);
                    done.push(format!("header {}", header.addr));
                }
            }
            _ => {}
        }
    }
    done
}

/// Uses a volume that is damaged, which refuses some of it.
fn use_damaged(world: &mut World, rng: &mut Rng) {
    let Some(mut volume) = world.try_open() else { return };
    for _ in 0..rng.below(60) {
        let (block, count) = (rng.below(900), 1 + rng.below(4));
        if let Err(error) = world.try_write(&mut volume, block, count) {
            assert_eq!(error.kind(), ErrorKind::Corrupt);
        }
    }
    if rng.below(2) == 0 {
        volume.close().unwrap();
    } else {
        run(&mut volume, RequestKind::Flush).result.unwrap();
        drop(volume);
        world.disk.power_cut_keep_all();
    }
}

#[test]
fn after_a_repair_nothing_is_read_that_was_not_last_written() {
    let (count, first) = plan();
    println!("seeds {first}..{} (OXBLOCK_REPAIRS, OXBLOCK_SEED)", first + count);
    let (mut whole, mut part, mut blocks, mut lost) = (0, 0, 0, 0);
    for seed in first..first + count {
        println!("seed {seed}");
        let mut rng = Rng::new(seed);
        let mut world = history(seed, &mut rng);
        assert_eq!(world.check(), [""; 0]);
        let mut what = damage(&world, &mut rng);
        if rng.below(3) == 0 {
            what.push("used".into());
            use_damaged(&mut world, &mut rng);
        }
        let report = world.repair();
        assert_eq!(report.refused, None, "{what:?}");
        let left: Vec<String> = report.left.findings.iter().map(ToString::to_string).collect();
        assert!(
            report.left.findings.iter().all(|found| found.kind == FindingKind::Lost),
            "{what:?}: {left:#?}"
        );
        let failing = world.reopened();
        let told: BTreeSet<u64> = report
            .left
            .findings
            .iter()
            .filter_map(|found| found.blocks)
            .flat_map(|(from, end)| from..end)
            .collect();
        assert!(failing.is_subset(&told), "{what:?}");
        assert_eq!(world.check(), left, "{what:?}");
        println!("seed {seed}: {what:?}, {} of {} blocks lost", failing.len(), world.held.len());
        whole += u64::from(left.is_empty());
        part += u64::from(!left.is_empty());
        blocks += world.held.len();
        lost += failing.len();
        // What is lost can be used again, and everything goes on.
        let mut volume = world.open();
        for block in told {
            world.write(&mut volume, block, 1);
        }
        for _ in 0..300 {
            let block = rng.below(900);
            world.write(&mut volume, block, 1 + rng.below(8));
        }
        volume.close().unwrap();
        assert_eq!(world.check(), [""; 0], "{what:?}");
        assert!(world.reopened().is_empty());
    }
    println!("{whole} repaired as a whole, {part} in part; {lost} of {blocks} blocks lost");
    assert!(whole > count / 4, "{whole} of {count}");
}
