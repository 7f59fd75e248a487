//! Power cuts: every outcome is reached, and a wrong engine is caught.

use std::collections::BTreeSet;

use super::*;

/// Two volatile versions over a durable one, and a write in flight: what is left of one page.
fn outcome(seed: u64) -> Vec<u8> {
    let disk = disk(seed);
    let mut queue = disk.queue();
    ok(&mut queue, durable(1, 0, 1, 4096));
    ok(&mut queue, write(2, 0, 2, 4096));
    ok(&mut queue, write(3, 0, 3, 4096));
    queue.push(write(4, 0, 4, 4096));
    queue.submit();
    disk.power_cut();
    sectors(&disk, 0)
}

#[test]
fn cuts_tear_and_lose_and_keep_by_the_sector() {
    let outcomes: Vec<Vec<u8>> = (0..400).map(outcome).collect();
    for version in 1..=4 {
        assert!(outcomes.iter().any(|page| page.iter().all(|v| *v == version)), "whole {version}");
        for sector in 0..8 {
            assert!(outcomes.iter().any(|page| page[sector] == version), "{version} at {sector}");
        }
    }
    let torn = outcomes.iter().filter(|page| page.iter().any(|v| *v != page[0])).count();
    assert!((40..360).contains(&torn), "{torn} torn of 400");
    assert!(outcomes.iter().any(|page| page.iter().collect::<BTreeSet<_>>().len() > 2));
    assert_eq!(outcome(11), outcome(11));
}

#[test]
fn cuts_reorder_writes() {
    let mut combinations = BTreeSet::new();
    for seed in 0..200 {
        let disk = disk(seed);
        let mut queue = disk.queue();
        for (n, tag) in (0..3).zip(1..) {
            ok(&mut queue, write(tag, n * K4, 9, 4096));
        }
        disk.power_cut();
        let kept: Vec<bool> =
            (0..3).map(|n| disk.read_raw(0, n * K4, 4096).iter().all(|byte| *byte == 9)).collect();
        combinations.insert(kept);
    }
    assert_eq!(combinations.len(), 8, "any subset of the writes survives");
}

#[test]
fn large_write_in_flight_is_torn_without_a_cache_too() {
    let mut torn = 0;
    for seed in 0..100 {
        let config = SimConfig { write_cache: false, ..SimConfig::new(1 << 30, seed) };
        let disk = SimDisk::single(config);
        let mut queue = disk.queue();
        queue.push(durable(1, 0, 1, 1 << 20));
        disk.power_cut();
        let left = disk.read_raw(0, 0, 1 << 20);
        torn += u32::from(left.contains(&0) && left.contains(&1));
    }
    assert!((10..=95).contains(&torn), "{torn} of 100");
}

#[test]
fn old_queue_fails_everything_after_a_cut_and_returns_buffers() {
    let disk = disk(1);
    let mut queue = disk.queue();
    queue.push(read(1, 0, 4096));
    disk.power_cut();
    queue.push(write(2, 0, 1, 8192));
    queue.push(flush(3));
    let mut done = Vec::new();
    assert_eq!(queue.in_flight(), 3);
    queue.wait(None);
    assert_eq!(queue.reap(&mut done), 3);
    for done in &done {
        assert_eq!(done.result.as_ref().unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }
    assert_eq!((done[0].bufs[0].len(), done[1].bufs[0].len()), (4096, 8192));
    let mut fresh = disk.queue();
    ok(&mut fresh, write(4, 0, 1, 4096));
    drop(queue);
    ok(&mut fresh, read(5, 0, 4096));
}

#[test]
fn dropping_a_queue_ends_what_is_in_flight() {
    let disk = disk(1);
    let mut queue = disk.queue();
    queue.push(durable(1, 0, 1, 4096));
    drop(queue);
    disk.power_cut_keep_none();
    assert_eq!(disk.read_raw(0, 0, 1), [1]);
}

/// An engine that says a write is safe when `flush_first`, or too early when not. Returns how many
/// it acknowledged.
fn engine(queue: &mut SimQueue, flush_first: bool) -> u64 {
    for n in 0..4 {
        if run(queue, write(2 * n, n * K4, 5, 4096)).result.is_err() {
            return n;
        }
        let flushed = run(queue, flush(2 * n + 1)).result.is_ok();
        if flush_first && !flushed {
            return n;
        }
    }
    4
}

/// Cuts at every operation, with several seeds each, and counts lost acknowledged writes.
fn losses(flush_first: bool) -> u32 {
    let mut losses = 0;
    let first = disk(0);
    engine(&mut first.queue(), flush_first);
    for point in 0..=first.stats().operations() {
        for seed in 0..8 {
            let disk = disk(seed);
            let mut queue = disk.queue();
            disk.cut_after_ops(point);
            let safe = engine(&mut queue, flush_first);
            drop(queue);
            let _reopened = disk.queue();
            let held = (0..safe).all(|n| disk.read_raw(0, n * K4, 4096) == [5; 4096]);
            losses += u32::from(!held);
        }
    }
    losses
}

#[test]
fn canary_that_acknowledges_before_the_flush_is_caught() {
    assert_eq!(losses(true), 0);
    assert!(losses(false) > 0, "the harness would not notice a lost write");
}

#[test]
fn cut_after_counts_operations_or_changes() {
    let disk = disk(1);
    let mut queue = disk.queue();
    disk.cut_after_changes(2);
    ok(&mut queue, write(1, 0, 1, 4096));
    ok(&mut queue, read(2, 0, 4096));
    ok(&mut queue, flush(3));
    assert!(disk.is_off());
    assert!(run(&mut queue, read(4, 0, 4096)).result.is_err());
    let mut queue = disk.queue();
    assert!(!disk.is_off());
    disk.cut_after_ops(0);
    assert!(run(&mut queue, read(5, 0, 4096)).result.is_err());
    assert_eq!(disk.stats().changes(), 2);
}

#[test]
fn one_run_can_be_cut_in_many_ways() {
    let disk = disk(1);
    let mut queue = disk.queue();
    ok(&mut queue, durable(1, 0, 1, 4096));
    queue.push(write(2, 0, 2, 4096));
    disk.power_off();
    let off = disk.snapshot();
    let mut outcomes = BTreeSet::new();
    for seed in 0..50 {
        disk.restore(&off);
        disk.reseed(seed);
        disk.power_cut();
        outcomes.insert(sectors(&disk, 0));
    }
    assert!(outcomes.len() > 10, "{}", outcomes.len());
}
