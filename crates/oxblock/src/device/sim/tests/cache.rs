//! The volatile cache: what a flush and a durable write promise, and what they do not.

use super::*;
use crate::device::Fua;

#[test]
fn writes_are_lost_without_a_flush_and_kept_with_one() {
    let disk = disk(1);
    let mut queue = disk.queue();
    ok(&mut queue, write(1, 0, 1, 4096));
    ok(&mut queue, flush(2));
    ok(&mut queue, write(3, K4, 2, 4096));
    assert_eq!(disk.volatile_pages(0), 1);
    disk.power_cut_keep_none();
    assert_eq!(disk.read_raw(0, 0, 1), [1]);
    assert_eq!(disk.read_raw(0, K4, 1), [0]);
    assert_eq!(disk.volatile_pages(0), 0);
}

#[test]
fn keep_all_keeps_writes_in_flight() {
    let disk = disk(1);
    let mut queue = disk.queue();
    ok(&mut queue, write(1, 0, 1, 4096));
    queue.push(write(2, K4, 2, 4096));
    disk.power_cut_keep_all();
    assert_eq!((disk.read_raw(0, 0, 1), disk.read_raw(0, K4, 1)), (vec![1], vec![2]));
}

#[test]
fn flush_covers_only_what_was_done_before_it_was_pushed() {
    for seed in 0..50 {
        let disk = disk(seed);
        let mut queue = disk.queue();
        ok(&mut queue, write(1, 0, 1, 4096));
        queue.push(write(2, K4, 2, 4096));
        queue.push(flush(3));
        drain(&mut queue);
        ok(&mut queue, write(4, 0, 4, 4096));
        disk.power_cut_keep_none();
        assert_eq!(disk.read_raw(0, 0, 1), [1], "seed {seed}");
        assert_eq!(disk.read_raw(0, K4, 1), [0], "seed {seed}");
    }
}

#[test]
fn durable_write_makes_itself_durable_only() {
    for fua in [Fua::Native, Fua::Emulated] {
        let disk = SimDisk::single(SimConfig { fua, ..SimConfig::new(1 << 20, 3) });
        let mut queue = disk.queue();
        ok(&mut queue, write(1, 0, 1, 8192));
        ok(&mut queue, durable(2, K4, 2, 4096));
        disk.power_cut_keep_none();
        assert_eq!(disk.read_raw(0, 0, 1), [0]);
        assert_eq!(disk.read_raw(0, K4, 1), [2]);
    }
}

#[test]
fn durable_write_of_part_of_a_page_leaves_the_rest_volatile() {
    let config = SimConfig { block_size: 512, ..SimConfig::new(1 << 20, 3) };
    let disk = SimDisk::single(config);
    let mut queue = disk.queue();
    ok(&mut queue, write(1, 0, 1, 4096));
    ok(&mut queue, durable(2, 1024, 2, 512));
    assert_eq!(sectors(&disk, 0), [1, 1, 2, 1, 1, 1, 1, 1]);
    ok(&mut queue, write(3, 1024, 3, 1024));
    disk.power_cut_keep_none();
    assert_eq!(sectors(&disk, 0), [0, 0, 2, 0, 0, 0, 0, 0]);
}

#[test]
fn device_without_a_cache_loses_nothing_that_is_done() {
    let no_cache = SimConfig { write_cache: false, ..SimConfig::new(1 << 20, 3) };
    let not_needed = SimConfig { fua: Fua::NotNeeded, ..SimConfig::new(1 << 20, 3) };
    for config in [no_cache, not_needed] {
        let disk = SimDisk::single(config);
        let limits = disk.limits(0).unwrap();
        assert_eq!((limits.write_cache, limits.fua), (false, Fua::NotNeeded));
        let mut queue = disk.queue();
        ok(&mut queue, write(1, 0, 1, 4096));
        queue.push(write(2, K4, 2, 4096));
        disk.power_cut_keep_none();
        assert_eq!((disk.read_raw(0, 0, 1), disk.read_raw(0, K4, 1)), (vec![1], vec![0]));
    }
}

#[test]
fn failed_flush_cannot_be_retried_and_forgotten() {
    let disk = disk(5);
    let mut queue = disk.queue();
    ok(&mut queue, write(1, 0, 1, 4096));
    ok(&mut queue, write(2, K4, 1, 4096));
    disk.fail_next(0, OpKind::Flush, EIO);
    assert_eq!(errno(&run(&mut queue, flush(3))), Some(EIO));
    ok(&mut queue, write(4, K4, 2, 4096));
    ok(&mut queue, write(5, 2 * K4, 3, 4096));
    ok(&mut queue, flush(6));
    assert_eq!(disk.volatile_pages(0), 1);
    disk.power_cut_keep_none();
    assert_eq!(disk.read_raw(0, 0, 1), [0], "the second flush must not cover it");
    assert_eq!(disk.read_raw(0, K4, 1), [2], "written again, and flushed");
    assert_eq!(disk.read_raw(0, 2 * K4, 1), [3]);
}

#[test]
fn discarded_content_may_return_and_may_not() {
    let mut seen = [false; 3];
    for seed in 0..60 {
        let disk = disk(seed);
        let mut queue = disk.queue();
        ok(&mut queue, durable(1, 0, 7, 4096));
        ok(&mut queue, discard(2, 0, K4));
        disk.power_cut();
        let left = disk.read_raw(0, 0, 4096);
        seen[match left.iter().all(|byte| *byte == left[0]) {
            true if left[0] == 7 => 0,
            true => 1,
            false => 2,
        }] = true;
    }
    assert_eq!(seen, [true; 3]);
}

#[test]
fn write_after_a_discard_is_not_harmed_by_it() {
    for seed in 0..30 {
        let disk = disk(seed);
        let mut queue = disk.queue();
        ok(&mut queue, durable(1, 0, 7, 4096));
        ok(&mut queue, discard(2, 0, K4));
        ok(&mut queue, durable(3, 0, 8, 4096));
        disk.power_cut();
        assert_eq!(disk.read_raw(0, 0, 4096), [8; 4096]);
    }
}

#[test]
fn discard_gives_space_back_or_is_ignored() {
    for (discard_mode, left) in [(DiscardMode::Zeroes, 2), (DiscardMode::Ignored, 4)] {
        let config = SimConfig { discard: discard_mode, ..SimConfig::new(1 << 20, 3) };
        let disk = SimDisk::single(config);
        assert_eq!(disk.limits(0).unwrap().discard, discard_mode == DiscardMode::Zeroes);
        let mut queue = disk.queue();
        ok(&mut queue, durable(1, 0, 7, 4 * 4096));
        ok(&mut queue, discard(2, K4, 2 * K4));
        assert_eq!(disk.allocated_pages(0), left);
        ok(&mut queue, flush(3));
        disk.power_cut();
        assert_eq!(disk.allocated_pages(0), left);
    }
}

#[test]
fn hot_page_does_not_grow_without_bound() {
    let disk = disk(2);
    let mut queue = disk.queue();
    for n in 0..100 {
        ok(&mut queue, write(u64::from(n), 0, n, 4096));
    }
    disk.power_cut_keep_none();
    // A full cache wrote some back; never the newest.
    assert!(disk.read_raw(0, 0, 1)[0] < 99);
}
