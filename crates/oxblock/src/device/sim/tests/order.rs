//! Time, order, overlap, and the digest over all of it.

use std::collections::BTreeSet;
use std::time::Duration;

use super::*;

#[test]
fn operations_end_in_any_order_or_in_order() {
    for (reorder, orders) in [(true, 2..7), (false, 1..2)] {
        let mut seen = BTreeSet::new();
        for seed in 0..60 {
            let disk = SimDisk::single(SimConfig { reorder, ..SimConfig::new(1 << 20, seed) });
            let mut queue = disk.queue();
            for tag in 0..3 {
                queue.push(write(tag, tag * K4, 1, 4096));
            }
            seen.insert(drain(&mut queue).iter().map(|done| done.tag).collect::<Vec<_>>());
        }
        assert!(orders.contains(&seen.len()), "{seen:?}");
        assert!(seen.contains(&vec![0, 1, 2]));
    }
}

#[test]
fn overlapping_writes_end_in_any_order() {
    let mut last = BTreeSet::new();
    for seed in 0..40 {
        let disk = disk(seed);
        let mut queue = disk.queue();
        queue.push(write(1, 0, 1, 4096));
        queue.push(write(2, 0, 2, 4096));
        drain(&mut queue);
        last.insert(disk.read_raw(0, 0, 1));
    }
    assert_eq!(last.len(), 2);
}

#[test]
fn read_beside_a_write_sees_either_version_by_the_sector() {
    let (mut old, mut new, mut mixed) = (0, 0, 0);
    for seed in 0..200 {
        let disk = disk(seed);
        let mut queue = disk.queue();
        ok(&mut queue, write(1, 0, 1, 4096));
        queue.push(write(2, 0, 2, 4096));
        queue.push(read(3, 0, 4096));
        let done = drain(&mut queue);
        let read = done.iter().find(|done| done.tag == 3).unwrap();
        let bytes: Vec<u8> = read.bufs[0].chunks(512).map(|sector| sector[0]).collect();
        assert!(bytes.iter().all(|byte| [1, 2].contains(byte)));
        old += u32::from(bytes.iter().all(|byte| *byte == 1));
        new += u32::from(bytes.iter().all(|byte| *byte == 2));
        mixed += u32::from(bytes.contains(&1) && bytes.contains(&2));
    }
    assert!(old > 10 && new > 10 && mixed > 10, "old {old}, new {new}, mixed {mixed}");
}

#[test]
fn read_pushed_before_a_write_may_see_it_or_not() {
    let mut seen = BTreeSet::new();
    for seed in 0..200 {
        let disk = disk(seed);
        let mut queue = disk.queue();
        queue.push(read(1, 0, 512 * 8));
        queue.push(write(2, 0, 2, 4096));
        let done = drain(&mut queue);
        let read = done.iter().find(|done| done.tag == 1).unwrap();
        seen.insert(read.bufs[0].iter().filter(|byte| **byte == 2).count() / 512);
    }
    assert!(seen.contains(&0) && seen.contains(&8) && seen.len() > 4, "{seen:?}");
}

#[test]
fn wait_passes_time_to_the_next_end_or_by_the_timeout() {
    let config = SimConfig { latency: 5000..5001, ..SimConfig::new(1 << 20, 1) };
    let disk = SimDisk::single(config);
    let mut queue = disk.queue();
    queue.wait(None);
    assert_eq!(queue.now(), 0, "nothing in flight");
    queue.push(write(1, 0, 1, 4096));
    queue.wait(Some(Duration::from_nanos(100)));
    assert_eq!(queue.now(), 100);
    let mut done = Vec::new();
    assert_eq!((queue.reap(&mut done), queue.in_flight()), (0, 1));
    queue.wait(Some(Duration::from_secs(1)));
    assert_eq!((queue.now(), queue.reap(&mut done)), (5000, 1));
}

#[test]
fn engine_that_only_polls_gets_on() {
    let disk = disk(1);
    let mut queue = disk.queue();
    queue.push(write(1, 0, 1, 4096));
    queue.submit();
    let mut done = Vec::new();
    let polls = (0..10_000).take_while(|_| queue.reap(&mut done) == 0).count();
    assert!((10..1000).contains(&polls), "{polls}");
}

#[test]
fn queues_share_devices_and_clock() {
    let disk = disk(1);
    let (mut one, mut two) = (disk.queue(), disk.queue());
    one.push(write(1, 0, 1, 4096));
    assert_eq!((one.in_flight(), two.in_flight()), (1, 0));
    ok(&mut two, write(1, K4, 2, 4096));
    drain(&mut one);
    assert_eq!(ok(&mut two, read(2, 0, 8192)).bufs[0][0], 1);
    assert_eq!(one.now(), two.now());
}

#[test]
fn handle_and_queue_may_move_between_threads() {
    fn is_send<T: Send>() {}
    is_send::<SimDisk>();
    is_send::<SimQueue>();
    is_send::<Snapshot>();
}

/// A busy run with faults and cuts; its digest and what is left.
fn busy(seed: u64) -> (u64, u64) {
    let disk = SimDisk::new([SimConfig::new(64 << 20, seed), SimConfig::new(64 << 20, seed + 1)]);
    let rates = FaultRates {
        write_misdirected: 5000,
        write_torn: 5000,
        read_flip: 5000,
        flush_fail: 50_000,
        rot: 1000,
        ..FaultRates::default()
    };
    disk.set_faults(FaultPlan::new().rates(0, rates));
    let mut work = Rng::new(seed);
    let mut done = Vec::new();
    for round in 0..4 {
        let mut queue = disk.queue();
        for tag in 0..500 {
            let offset = work.below(64) * K4;
            let op = match work.below(10) {
                0 => flush(tag),
                1 => discard(tag, offset, 8 * K4),
                2..5 => read(tag, offset, 16_384),
                5 => durable(tag, offset, round, 4096),
                _ => write(tag, offset, round + 1, 8192),
            };
            queue.push(on(u16::try_from(work.below(2)).unwrap(), op));
            queue.submit();
            if queue.in_flight() > 16 {
                queue.wait(None);
                queue.reap(&mut done);
            }
        }
        disk.power_cut();
    }
    let left: Vec<u8> = (0..2).flat_map(|device| disk.read_raw(device, 0, 1 << 19)).collect();
    let mut hash = super::super::digest::Digest::default();
    hash.bytes(&left);
    (disk.digest(), hash.value())
}

#[test]
fn same_seed_same_digest_other_seed_another() {
    let digests: BTreeSet<(u64, u64)> = (0..10).map(busy).collect();
    assert_eq!(digests.len(), 10);
    assert!((0..10).all(|seed| digests.contains(&busy(seed))));
}
