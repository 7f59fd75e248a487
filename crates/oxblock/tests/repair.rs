//! Repair: what records prove is as it was, what they do not prove fails, and nothing is ever anything else.
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

use oxblock::csum::Csum;
use oxblock::device::sim::{EIO, Fault, FaultRule, OpKind};
use oxblock::format::layout::{BLOCK_BYTES, BLOCK_SIZE, SUPERBLOCK_SIZE};
use oxblock::format::pointer::identity;
use oxblock::format::record::Kind;
use oxblock::format::segment::SegmentEntry;
use oxblock::format::superblock::{Superblock, offsets};
use oxblock::volume::{ExtentKind, FindingKind, repair_on};
use oxblock::{ErrorKind, OpenOptions, RequestKind, Volume};
use zerocopy::FromBytes;

use run::run;
use world::{World, options, place};

const SIZE: u64 = 16 << 20;

/// A closed volume: blocks here and there, some of them several times, some given up, over several lives.
fn used(seed: u64) -> World {
    let mut world = World::new(SIZE, seed);
    let mut volume = world.open();
    for (block, count) in [(0, 200), (50, 60), (1000, 30), (3000, 256), (4090, 6)] {
        world.write(&mut volume, block, count);
    }
    world.trim(&mut volume, 20, 9);
    volume.close().unwrap();
    let mut volume = world.open();
    for (block, count) in [(60, 10), (22, 2), (1010, 300), (4000, 1)] {
        world.write(&mut volume, block, count);
    }
    world.trim(&mut volume, 3100, 40);
    volume.close().unwrap();
    world
}

/// The same with a tail that is not closed.
fn with_tail(seed: u64) -> World {
    let mut world = used(seed);
    let mut volume = world.open();
    world.write(&mut volume, 100, 40);
    world.trim(&mut volume, 1000, 15);
    world.write(&mut volume, 2000, 20);
    run(&mut volume, RequestKind::Flush).result.unwrap();
    // It says that what came before it was durable.
    world.write(&mut volume, 2020, 1);
    run(&mut volume, RequestKind::Flush).result.unwrap();
    drop(volume);
    world.disk.power_cut_keep_all();
    world
}

/// All is as it was written.
#[track_caller]
fn is_whole(world: &World) {
    assert_eq!(world.check(), [""; 0]);
    assert!(world.reopened().is_empty());
    assert_eq!(world.check(), [""; 0]);
}

/// Changes the newest superblock and seals it again.
fn forge(world: &World, change: impl FnOnce(&mut Superblock)) {
    let mut superblock = world.superblock();
    change(&mut superblock);
    let generation = superblock.checkpoint.generation;
    for offset in offsets(0, generation, world.disk.limits(0).unwrap().size) {
        world.disk.write_raw(0, offset, &superblock.encode());
    }
}

/// Changes the entries of the segment table and seals them again.
fn forge_table(world: &World, change: impl FnOnce(&mut [SegmentEntry], &mut Superblock)) {
    forge(world, |superblock| {
        let at = place(superblock.checkpoint.table_root.addr);
        let mut bytes = world.disk.read_raw(0, at, BLOCK_SIZE);
        change(<[SegmentEntry]>::mut_from_bytes(&mut bytes).unwrap(), superblock);
        let csum = Csum::new(superblock.csum, superblock.volume);
        superblock.checkpoint.table_root.csum = csum.of(identity::node(true, 0, 0), &bytes);
        world.disk.write_raw(0, at, &bytes);
    });
}

#[test]
fn a_sound_volume_is_not_written() {
    let world = with_tail(1);
    let before = world.disk.stats();
    let report = world.repair();
    assert!(report.is_sound() && report.repaired.is_empty());
    assert_eq!(world.disk.stats().writes, before.writes);
}

#[test]
fn every_copy_of_the_superblock_is_renewed_while_one_is_left() {
    for left in 0..4 {
        let world = used(2);
        let size = world.disk.limits(0).unwrap().size;
        let copies: Vec<u64> = (0..2).flat_map(|slot| offsets(0, slot, size)).collect();
        let newest = world.superblock().checkpoint.generation;
        let kept = [offsets(0, newest, size), offsets(0, newest + 1, size)].concat()[left];
        for copy in copies.iter().filter(|copy| **copy != kept) {
            world.disk.write_raw(0, copy + 2000, &[0xa5; 100]);
        }
        let report = world.repair();
        assert_eq!(report.found.total_findings, 3);
        assert!(report.is_sound(), "{report:?}");
        assert_eq!(report.repaired[0].kind, FindingKind::Superblock);
        for copy in copies {
            let bytes = world.disk.read_raw(0, copy, SUPERBLOCK_SIZE);
            assert!(Superblock::decode(&bytes).unwrap().is_some());
        }
        is_whole(&world);
    }
}

#[test]
fn wrong_counts_are_corrected() {
    for change in [-1i64, 1, 7] {
        let world = used(3);
        forge_table(&world, |entries, superblock| {
            for entry in entries.iter_mut().filter(|entry| entry.live.get() > 10) {
                entry.live =
                    (i64::from(entry.live.get()) + change).try_into().map(u32::into).unwrap();
            }
            superblock.checkpoint.used_blocks -= 5;
        });
        let report = world.repair();
        assert!(!report.found.is_sound() && report.is_sound(), "{report:?}");
        is_whole(&world);
    }
}

#[test]
fn segments_in_use_are_no_longer_taken_for_free() {
    let world = used(4);
    let used = |entries: &[SegmentEntry]| {
        let mut used: Vec<u32> =
            (0..).zip(entries).filter(|(_, e)| e.live.get() > 0).map(|(id, _)| id).collect();
        used.sort_by_key(|id| std::cmp::Reverse(entries[*id as usize].live.get()));
        used[0]
    };
    forge_table(&world, |entries, superblock| {
        let id = used(entries);
        entries[id as usize].live = 0.into();
        let point = &mut superblock.checkpoint;
        point.used_blocks = 1;
        point.heads.iter_mut().for_each(|head| *head = head.filter(|head| head.segment != id));
        point.reserve.retain(|reserved| *reserved != id);
        point.reserve.insert(0, id);
    });
    let report = world.repair();
    assert!(report.found.findings.iter().any(|f| f.kind == FindingKind::Reference), "{report:?}");
    assert!(report.is_sound(), "{report:?}");
    is_whole(&world);
}

#[test]
fn nothing_is_written_over_what_lies_behind_the_end_of_an_open_segment() {
    let world = used(5);
    forge(&world, |superblock| {
        let head = superblock.checkpoint.heads[0].as_mut().unwrap();
        head.offset = 1;
    });
    let report = world.repair();
    assert!(!report.found.is_sound() && report.is_sound(), "{report:?}");
    is_whole(&world);
}

#[test]
fn a_lost_segment_table_is_made_anew() {
    for world in [used(6), with_tail(7)] {
        world.damage(world.superblock().checkpoint.table_root.addr);
        assert!(Volume::open_on(Box::new(world.disk.queue()), &options()).is_err());
        let report = world.repair();
        assert!(report.is_sound(), "{report:?}");
        assert!(report.repaired.iter().any(|done| done.kind == FindingKind::SegmentTable));
        is_whole(&world);
        // And it goes on.
        let mut world = world;
        let mut volume = world.open();
        for round in 0..40 {
            world.write(&mut volume, round * 90 % 3800, 256);
        }
        volume.close().unwrap();
        is_whole(&world);
    }
}

#[test]
fn a_segment_table_that_contradicts_itself_is_made_anew() {
    let world = used(8);
    forge_table(&world, |entries, _| entries[0].live = u32::MAX.into());
    let report = world.repair();
    assert!(report.is_sound(), "{report:?}");
    is_whole(&world);
}

#[test]
fn every_lost_node_is_made_anew_where_its_records_are_there() {
    for tail in [false, true] {
        let make = |seed| if tail { with_tail(seed) } else { used(seed) };
        let count = make(9).nodes().len();
        for which in 0..count {
            let world = make(9);
            let (level, index, addr) = world.nodes()[which];
            world.damage(addr);
            let report = world.repair();
            assert!(report.is_sound(), "node {level}/{index}: {report:?}");
            assert!(report.repaired.iter().any(|done| done.kind == FindingKind::MapNode));
            is_whole(&world);
        }
        let world = make(10);
        world.nodes().iter().for_each(|(.., addr)| world.damage(*addr));
        let report = world.repair();
        assert!(report.is_sound(), "all nodes: {report:?}");
        is_whole(&world);
    }
}

#[test]
fn without_the_segment_table_nothing_is_proved_of_lost_nodes() {
    let world = used(11);
    let leaf = world.nodes()[0];
    assert_eq!((leaf.0, leaf.1), (0, 0));
    world.damage(leaf.2);
    world.damage(world.superblock().checkpoint.table_root.addr);
    let report = world.repair();
    let lost: Vec<_> = report.left.findings.iter().collect();
    assert_eq!(lost.len(), 1, "{report:?}");
    assert_eq!((lost[0].kind, lost[0].blocks), (FindingKind::Lost, Some((0, 256))));
    assert_eq!(world.reopened().into_iter().max(), Some(199));
}

/// A volume with a block that was given up, of which the record is gone while its old place is still there.
fn with_a_lost_trim(seed: u64) -> World {
    let mut world = World::new(SIZE, seed);
    let mut volume = world.open();
    world.write(&mut volume, 0, 247);
    world.write(&mut volume, 300, 256);
    // The segment is full, and the trim goes to the next one.
    world.write(&mut volume, 600, 5);
    world.trim(&mut volume, 10, 1);
    for _ in 0..40 {
        world.write(&mut volume, 2000, 256);
        world.write(&mut volume, 2256, 256);
    }
    volume.close().unwrap();
    assert!(!world.pointer(11).is_null() && world.pointer(10).is_null());
    let trims = world.records().into_iter().filter(|(header, _)| header.kind == Kind::Trim);
    assert_eq!(trims.count(), 0, "the record of the trim is still there");
    world
}

#[test]
fn a_trim_whose_record_is_gone_is_not_undone() {
    let world = with_a_lost_trim(12);
    let (.., addr) = world.nodes()[0];
    world.damage(addr);
    let report = world.repair();
    assert!(!report.is_sound());
    assert!(report.left.findings.iter().all(|found| found.kind == FindingKind::Lost), "{report:?}");
    // The old content of block 10 would be version 11: `failing` accepts zeroes or an error.
    let failing = world.reopened();
    assert!(failing.contains(&10), "{failing:?}");
    assert!(failing.iter().all(|block| *block < 256));
}

#[test]
fn lost_blocks_fail_by_themselves_and_can_be_used_again() {
    let mut world = with_a_lost_trim(13);
    let (.., addr) = world.nodes()[0];
    world.damage(addr);
    let report = world.repair();
    assert!(world.superblock().features.has_lost());
    let lost = report.left.findings.iter().map(|found| found.blocks.unwrap());
    let lost: u64 = lost.map(|(from, end)| end - from).sum();
    let mut volume = world.open();
    let failing = world.failing(&mut volume);
    assert_eq!(failing.len() as u64, lost);
    let read = RequestKind::Read { offset: 0, buf: oxblock::Buf::new(2 * BLOCK_SIZE) };
    let error = run(&mut volume, read).result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().contains("block 0 was lost"), "{error}");
    let first = volume.next_data(0).unwrap();
    assert_eq!((first.start, first.kind), (0, ExtentKind::Lost));
    assert!(first.end <= 250 * BLOCK_BYTES);
    // A write of part of a block cannot know the rest of it.
    let part = RequestKind::Write { offset: 100, buf: oxblock::Buf::copy_of(&[1; 10]), fua: false };
    run(&mut volume, part).result.unwrap_err();
    // By every way of giving them another content.
    world.write(&mut volume, 0, 100);
    world.trim(&mut volume, 100, 50);
    let zero =
        RequestKind::WriteZeroes { offset: 150 * BLOCK_BYTES, len: 100 * BLOCK_BYTES, fua: false };
    run(&mut volume, zero).result.unwrap();
    world.held.extend((150..250).map(|block| (block, 0)));
    assert!(world.failing(&mut volume).is_empty());
    volume.close().unwrap();
    is_whole(&world);
}

#[test]
fn lost_blocks_stay_lost_over_checkpoints_cleaning_and_another_damage() {
    let mut world = with_a_lost_trim(14);
    world.damage(world.nodes()[0].2);
    world.repair();
    let failing = world.reopened();
    let mut volume = world.open();
    world.write(&mut volume, 255, 1);
    for round in 0..60u64 {
        world.write(&mut volume, 300 + round * 131 % 3000, 200);
    }
    volume.close().unwrap();
    assert_eq!(world.reopened(), failing);
    let lost = world.check();
    assert!(lost.iter().all(|line| line.starts_with("lost data")), "{lost:?}");
    // The leaf that says so is damaged itself.
    world.damage(world.nodes()[0].2);
    let report = world.repair();
    let now = world.reopened();
    assert!(failing.is_subset(&now), "{report:?}");
}

#[test]
fn a_damaged_data_block_is_named_and_left() {
    let world = used(16);
    world.damage(world.pointer(5).addr);
    let report = world.repair();
    assert!(report.repaired.is_empty());
    assert_eq!(report.left.findings.len(), 1);
    assert_eq!(report.left.findings[0].blocks, Some((5, 6)));
    // Beside what can be repaired too.
    world.damage(world.nodes()[0].2);
    let report = world.repair();
    assert_eq!(report.left.findings.len(), 1, "{report:?}");
    assert_eq!(world.reopened().into_iter().collect::<Vec<_>>(), [5]);
}

#[test]
fn damage_at_the_end_of_the_log_is_repaired_only_with_rollback() {
    let mut world = with_tail(17);
    let sequence = world.superblock().checkpoint.sequence;
    let next =
        world.records().into_iter().find(|(header, _)| header.sequence == sequence + 1).unwrap();
    world.damage(next.0.payload_addr());
    let report = world.repair();
    assert!(report.refused.unwrap().contains("--rollback"));
    assert!(!report.left.is_sound());
    let options = OpenOptions { rollback: true, ..options() };
    let report = world.repair_with(&options);
    assert!(report.is_sound(), "{report:?}");
    // The state before the tail.
    world.held = used(17).held;
    is_whole(&world);
}

#[test]
fn a_copy_of_the_superblock_that_contradicts_is_not_overwritten() {
    let world = used(18);
    let mut other = world.superblock();
    other.volume = [9; 16];
    let size = world.disk.limits(0).unwrap().size;
    let [_, second] = offsets(0, other.checkpoint.generation, size);
    world.disk.write_raw(
        0,
        second,
        &Superblock {
            checkpoint: oxblock::format::superblock::Checkpoint {
                generation: 0,
                ..other.checkpoint.clone()
            },
            ..other
        }
        .encode(),
    );
    let before = world.disk.stats().writes;
    let report = world.repair();
    assert!(report.refused.unwrap().contains("contradicts"));
    assert_eq!(world.disk.stats().writes, before);
}

#[test]
fn without_any_superblock_nothing_is_done() {
    let world = used(19);
    let size = world.disk.limits(0).unwrap().size;
    for copy in (0..2).flat_map(|slot| offsets(0, slot, size)) {
        world.disk.write_raw(0, copy + 2000, &[0xa5; 100]);
    }
    let before = world.disk.stats().writes;
    let report = world.repair();
    assert!(report.refused.is_some() && !report.left.is_sound());
    assert_eq!(world.disk.stats().writes, before);
}

#[test]
fn nothing_is_given_up_because_the_device_fails_a_read() {
    let world = with_a_lost_trim(20);
    let at = place(world.nodes()[0].2);
    world.disk.add_fault(
        FaultRule::new(OpKind::Read, Fault::Fail(EIO)).within(at..at + BLOCK_BYTES).forever(),
    );
    let report = world.repair();
    assert!(report.refused.unwrap().contains("fails reads"));
    world.disk.clear_faults();
    is_whole(&world);
}

#[test]
fn nothing_is_given_up_because_the_device_fails_a_few_reads() {
    for failures in 1..10 {
        let world = with_a_lost_trim(20);
        let at = place(world.nodes()[0].2);
        let fault = FaultRule::new(OpKind::Read, Fault::Fail(EIO)).within(at..at + BLOCK_BYTES);
        world.disk.add_fault(fault.times(failures));
        let report = world.repair();
        assert!(report.repaired.is_empty(), "{failures}: {report:?}");
        world.disk.clear_faults();
        is_whole(&world);
    }
}

#[test]
fn a_write_that_was_refused_proves_nothing() {
    let world = with_a_lost_trim(14);
    let (.., leaf) = world.nodes()[0];
    world.damage(leaf);
    let mut volume = world.open();
    let buf = oxblock::Buf::copy_of(&[9; BLOCK_SIZE]);
    let refused =
        run(&mut volume, RequestKind::Write { offset: 20 * BLOCK_BYTES, buf, fua: false });
    assert_eq!(refused.result.unwrap_err().kind(), ErrorKind::Corrupt);
    volume.close().unwrap();
    assert!(world.superblock().features.has_refused());
    // Without the record that wrote the leaf nothing says that the write came later.
    let own = world.records().into_iter().map(|(header, _)| header).find(|header| {
        let payload = header.payload_addr()..header.addr + u64::from(header.blocks());
        header.kind == Kind::Map && payload.contains(&leaf)
    });
    world.damage(own.unwrap().addr);
    assert!(!world.repair().is_sound());
    let failing = world.reopened();
    assert!(failing.contains(&10) && failing.contains(&20), "{failing:?}");
}

#[test]
fn what_recovery_has_passed_over_is_not_undone() {
    // Blocks of the tail are in the first leaf, and in others.
    let world = with_tail(19);
    world.damage(world.nodes()[0].2);
    let volume = world.open();
    assert!(volume.notices().iter().any(|notice| notice.contains("passed over writes")));
    volume.close().unwrap();
    assert!(world.superblock().features.has_passed_over());
    let report = world.repair();
    assert!(!report.is_sound());
    let failing = world.reopened();
    assert!((100..140).all(|block| failing.contains(&block)), "{failing:?}");
    assert!(!failing.contains(&2000));
    assert!(!world.superblock().features.has_passed_over());
    assert!(!world.open().notices().iter().any(|notice| notice.contains("passed over")));
}

#[test]
fn a_map_cache_that_is_too_small_is_refused_with_the_size_that_will_do() {
    let mut world = World::new(200 << 20, 21);
    let mut volume = world.open();
    for leaf in 0..150 {
        world.write(&mut volume, leaf * 256, 1);
    }
    volume.close().unwrap();
    for (.., addr) in world.nodes() {
        world.damage(addr);
    }
    let small = OpenOptions { map_cache_bytes: OpenOptions::MIN_MAP_CACHE, ..options() };
    let report = world.repair_with(&small);
    let why = report.refused.unwrap();
    assert!(why.contains("--map-cache"), "{why}");
    let size: u64 = why.rsplit(' ').next().unwrap().trim_end_matches('M').parse().unwrap();
    let report = world.repair_with(&OpenOptions { map_cache_bytes: size << 20, ..options() });
    assert!(report.is_sound(), "{report:?}");
    is_whole(&world);
}

#[test]
fn a_power_cut_anywhere_in_a_repair_leaves_a_volume_that_can_be_repaired() {
    type Damage = fn(&World);
    let damages: [(&str, Damage); 4] = [
        ("leaf", |world| world.damage(world.nodes()[0].2)),
        ("root", |world| world.damage(world.nodes().last().unwrap().2)),
        ("table", |world| world.damage(world.superblock().checkpoint.table_root.addr)),
        ("headers", |world| {
            let first = world.pointer(0).addr;
            let header = world.records().into_iter().find(|(header, _)| {
                (header.payload_addr()..header.payload_addr() + 256).contains(&first)
            });
            world.damage(header.unwrap().0.addr);
        }),
    ];
    for (what, damage) in damages {
        for tail in [false, true] {
            let mut cuts = 0;
            for cut in 1.. {
                let world = if tail { with_tail(22 + cut) } else { used(22 + cut) };
                damage(&world);
                world.disk.cut_after_changes(cut);
                let done = repair_on(Box::new(world.disk.queue()), &options(), &mut |_, _| {});
                let off = world.disk.is_off();
                if off {
                    world.disk.power_cut();
                    cuts += 1;
                    let again = world.repair();
                    assert!(again.is_sound(), "{what}, cut at {cut}: {again:?}");
                } else {
                    assert!(done.unwrap().is_sound());
                }
                is_whole(&world);
                if !off {
                    break;
                }
            }
            assert!(cuts > 4, "{what}: {cuts}");
        }
    }
}

#[test]
fn a_repair_that_the_device_fails_says_so_and_can_be_done_again() {
    let world = used(60);
    world.damage(world.nodes()[0].2);
    world.disk.add_fault(FaultRule::new(OpKind::Write, Fault::Fail(EIO)).forever());
    let failed = repair_on(Box::new(world.disk.queue()), &options(), &mut |_, _| {});
    assert_eq!(failed.unwrap_err().errno(), EIO);
    world.disk.clear_faults();
    assert!(world.repair().is_sound());
    is_whole(&world);
}
