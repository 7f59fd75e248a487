//! Random load on mounted volumes, and on file systems on them, against copies in memory.
//!
//! `OXBLOCK_SEED` is what the random numbers begin with, and `OXBLOCK_LOAD` how many times as much is done as usually.
#![expect(clippy::unwrap_used, reason = "tests")]

mod common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::durable::Durable;
use common::fsx::Fsx;
use common::mount::{Place, mountable, run};
use common::stack::{BTRFS, EXT4, FileSystem, Stack, XFS};
use common::stress::Tree;
use common::{Random, arg, given, oxblock, seed};

const MIB: u64 = 1 << 20;

/// How many times as much is done as usually.
fn load() -> u64 {
    given("OXBLOCK_LOAD").unwrap_or(1)
}

#[test]
fn every_access_to_a_volume() {
    mountable!();
    let mut random = Random(seed());
    let place = Place::new("16M");
    let mounted = place.mount(&[]);
    // Neighbours that share blocks.
    let edges = [0, 5_000_001, 9 * MIB + 4095, 16 * MIB];
    let mut parts: Vec<Fsx> = edges
        .windows(2)
        .map(|edge| Fsx::on_volume(&mounted.file, edge[0]..edge[1], random.next()))
        .collect();
    mounted.unmount();
    let ways: [&[&str]; 4] = [
        &[],
        &["--device-call", "ring", "--map-cache", "256K"],
        &["--device-call", "inline"],
        &["--device-call", "threads", "--policy", "submit=offload,complete=worker"],
    ];
    for way in ways {
        let mounted = place.mount(way);
        parts.iter().for_each(Fsx::compare);
        std::thread::scope(|scope| {
            for part in &mut parts {
                scope.spawn(|| part.run(500 * load()));
            }
        });
        mounted.unmount();
        oxblock(["check", arg(&place.device), "-q"]).ended(0);
        let mut whole = vec![0; 16 << 20];
        parts.iter().for_each(|part| part.put(&mut whole));
        assert!(place.exported() == whole, "the volume differs from what was written to the mount");
    }
}

/// Every access to some files of a file system at the same time.
fn files(kind: FileSystem, size: &str) {
    let Some(mut stack) = Stack::new(kind, size) else { return };
    let mut random = Random(seed());
    let mut files: Vec<Fsx> = ["one", "two", "three"]
        .iter()
        .map(|name| Fsx::on_file(&stack.inside.join(name), kind.collapses, 4 * MIB, random.next()))
        .collect();
    for _ in 0..2 {
        std::thread::scope(|scope| {
            for file in &mut files {
                scope.spawn(|| file.run(500 * load()));
            }
        });
        stack.unmount();
        stack.mount();
        files.iter().for_each(Fsx::compare);
    }
    stack.unmount();
}

#[test]
fn every_access_to_files_on_ext4() {
    files(EXT4, "128M");
}

#[test]
fn every_access_to_files_on_xfs() {
    files(XFS, "320M");
}

#[test]
fn every_access_to_files_on_btrfs() {
    files(BTRFS, "256M");
}

/// Trees in a file system that change at the same time, while what becomes free is given back to the volume.
fn trees(kind: FileSystem, size: &str) {
    let Some(mut stack) = Stack::new(kind, size) else { return };
    let mut random = Random(seed());
    let mut trees: Vec<Tree> =
        (0..4).map(|n| Tree::new(&stack.inside.join(format!("tree-{n}")), random.next())).collect();
    for _ in 0..2 {
        let working = AtomicBool::new(true);
        std::thread::scope(|scope| {
            let workers: Vec<_> = trees
                .iter_mut()
                .map(|tree| scope.spawn(|| (0..1000 * load()).for_each(|_| tree.step())))
                .collect();
            scope.spawn(|| {
                while working.load(Ordering::Relaxed) {
                    run("fstrim", [arg(&stack.inside)]);
                    std::thread::sleep(Duration::from_millis(200));
                }
            });
            let failed = workers.into_iter().filter_map(|worker| worker.join().err()).count();
            working.store(false, Ordering::Relaxed);
            assert_eq!(failed, 0, "trees differ");
        });
        stack.unmount();
        stack.mount();
        trees.iter().for_each(Tree::compare);
    }
    stack.unmount();
}

#[test]
fn trees_on_ext4() {
    trees(EXT4, "160M");
}

#[test]
fn trees_on_xfs() {
    trees(XFS, "320M");
}

#[test]
fn trees_on_btrfs() {
    trees(BTRFS, "320M");
}

/// `kill -9` of the server while files are written and flushed. The file system brings itself in order.
fn killed(kind: FileSystem, size: &str) {
    let Some(mut stack) = Stack::new(kind, size) else { return };
    let mut random = Random(seed());
    let mut writers: Vec<Durable> = (0..3)
        .map(|n| Durable::new(&stack.inside.join(format!("writer-{n}")), random.next()))
        .collect();
    for round in 0..3 * load() {
        let pause = Duration::from_millis(300 + random.below(1000));
        let killed = AtomicBool::new(false);
        let flushed: u64 = std::thread::scope(|scope| {
            let workers: Vec<_> =
                writers.iter_mut().map(|writer| scope.spawn(|| writer.write_on(&killed))).collect();
            std::thread::sleep(pause);
            killed.store(true, Ordering::SeqCst);
            stack.kill();
            workers.into_iter().map(|worker| worker.join().unwrap()).sum()
        });
        println!("killed after {pause:?} and {flushed} flushes");
        stack.clear();
        stack.mount();
        writers.iter_mut().for_each(Durable::compare);
        // It can be used as before; sometimes it is killed again without having been unmounted.
        if round % 2 == 0 {
            stack.unmount();
            stack.mount();
        }
    }
    stack.unmount();
}

#[test]
fn what_was_flushed_on_ext4_survives_kill_9_of_the_server() {
    killed(EXT4, "160M");
}

#[test]
fn what_was_flushed_on_xfs_survives_kill_9_of_the_server() {
    killed(XFS, "320M");
}

#[test]
fn what_was_flushed_on_btrfs_survives_kill_9_of_the_server() {
    killed(BTRFS, "256M");
}
