//! Faults: by rule, by rate, and directly.

use super::*;

fn rule(kind: OpKind, fault: Fault) -> FaultRule {
    FaultRule::new(kind, fault)
}

#[test]
fn nth_write_fails_and_stores_nothing() {
    let disk = disk(1);
    let mut queue = disk.queue();
    disk.add_fault(rule(OpKind::Write, Fault::Fail(EIO)).skip(1));
    ok(&mut queue, write(1, 0, 1, 4096));
    let failed = run(&mut queue, write(2, 0, 2, 4096));
    assert_eq!((errno(&failed), failed.bufs[0][0]), (Some(EIO), 2));
    assert_eq!(disk.read_raw(0, 0, 1), [1]);
    ok(&mut queue, write(3, 0, 3, 4096));
    let stats = disk.device_stats(0);
    assert_eq!((stats.writes, stats.errors, stats.faults), (3, 1, 1));
}

#[test]
fn latched_range_fails_until_cleared() {
    let disk = disk(1);
    let mut queue = disk.queue();
    disk.fail_range(0, OpKind::Read, K4..2 * K4, EIO);
    ok(&mut queue, read(1, 0, 4096));
    for tag in 2..5 {
        assert_eq!(errno(&run(&mut queue, read(tag, 0, 8192))), Some(EIO));
    }
    disk.clear_faults();
    ok(&mut queue, read(5, 0, 8192));
}

#[test]
fn bad_sector_reads_again_after_a_rewrite() {
    let disk = disk(1);
    let mut queue = disk.queue();
    let bad = rule(OpKind::Read, Fault::Fail(EIO)).within(0..K4).until_written();
    disk.set_faults(FaultPlan::new().rule(bad));
    assert!(run(&mut queue, read(1, 0, 4096)).result.is_err());
    ok(&mut queue, write(2, K4, 1, 4096));
    assert!(run(&mut queue, read(3, 0, 4096)).result.is_err());
    ok(&mut queue, write(4, 0, 1, 4096));
    ok(&mut queue, read(5, 0, 4096));
}

#[test]
fn torn_write_stores_a_part_and_fails() {
    let disk = disk(1);
    let mut queue = disk.queue();
    disk.add_fault(rule(OpKind::Write, Fault::Torn(EIO)));
    assert_eq!(errno(&run(&mut queue, write(1, 0, 1, 65536))), Some(EIO));
    let left = disk.read_raw(0, 0, 65536);
    assert!(left.contains(&0) && left.contains(&1));
}

#[test]
fn lost_write_says_done_and_is_not_there() {
    let disk = disk(1);
    let mut queue = disk.queue();
    disk.add_fault(rule(OpKind::Write, Fault::Lost));
    ok(&mut queue, durable(1, 0, 1, 4096));
    assert_eq!(disk.read_raw(0, 0, 1), [0]);
}

#[test]
fn lost_flush_says_done_and_covers_nothing() {
    let disk = disk(1);
    let mut queue = disk.queue();
    ok(&mut queue, write(1, 0, 1, 4096));
    disk.add_fault(rule(OpKind::Flush, Fault::Lost));
    ok(&mut queue, flush(2));
    assert_eq!(disk.volatile_pages(0), 1);
}

#[test]
fn misdirected_write_lands_elsewhere() {
    let disk = disk(1);
    let mut queue = disk.queue();
    disk.add_fault(rule(OpKind::Write, Fault::Misdirected(Some(5 * K4))));
    ok(&mut queue, durable(1, 0, 1, 4096));
    assert_eq!((disk.read_raw(0, 0, 1), disk.read_raw(0, 5 * K4, 1)), (vec![0], vec![1]));
    disk.add_fault(rule(OpKind::Write, Fault::Misdirected(None)).times(2));
    ok(&mut queue, durable(2, 0, 2, 4096));
    assert_eq!(disk.read_raw(0, 5 * K4, 1), [2], "it prefers what hurts");
    ok(&mut queue, durable(3, 5 * K4, 3, 4096));
    assert_eq!(disk.read_raw(0, 5 * K4, 1), [2]);
    assert_eq!(disk.allocated_pages(0), 2);
}

fn ones(bytes: &[u8]) -> u32 {
    bytes.iter().map(|byte| byte.count_ones()).sum()
}

#[test]
fn bits_flip_in_transfer_and_on_the_media() {
    let disk = disk(1);
    let mut queue = disk.queue();
    disk.add_fault(rule(OpKind::Read, Fault::BitFlip));
    assert_eq!(ones(&ok(&mut queue, read(1, 0, 8192)).bufs[0]), 1);
    assert_eq!(ones(&ok(&mut queue, read(2, 0, 8192)).bufs[0]), 0);
    disk.add_fault(rule(OpKind::Write, Fault::BitFlip));
    let sent = ok(&mut queue, write(3, 0, 0, 8192));
    assert_eq!(ones(&sent.bufs[0]), 0, "the engine's buffer is not touched");
    assert_eq!(ones(&disk.read_raw(0, 0, 8192)), 1);
}

#[test]
fn stalled_operation_takes_longer() {
    let disk = disk(1);
    let mut queue = disk.queue();
    disk.add_fault(rule(OpKind::Read, Fault::Stall(1_000_000_000)));
    ok(&mut queue, read(1, 0, 4096));
    assert!(queue.now() > 1_000_000_000);
}

#[test]
fn gone_device_fails_and_others_do_not() {
    let disk = SimDisk::new([SimConfig::default(), SimConfig::default()]);
    let mut queue = disk.queue();
    ok(&mut queue, on(1, durable(1, 0, 1, 4096)));
    disk.set_gone(1, true);
    let gone = rustix::io::Errno::NODEV.raw_os_error();
    for op in [on(1, read(2, 0, 4096)), on(1, write(3, 0, 2, 4096)), on(1, flush(4))] {
        assert_eq!(errno(&run(&mut queue, op)), Some(gone));
    }
    ok(&mut queue, on(0, write(5, 0, 2, 4096)));
    assert!(run(&mut queue, on(2, read(6, 0, 4096))).result.is_err());
    disk.set_gone(1, false);
    assert_eq!(ok(&mut queue, on(1, read(7, 0, 4096))).bufs[0][0], 1);
}

#[test]
fn full_device_takes_overwrites_only() {
    let disk = disk(1);
    let mut queue = disk.queue();
    ok(&mut queue, write(1, 0, 1, 4096));
    disk.set_full(0, true);
    ok(&mut queue, write(2, 0, 2, 4096));
    let full = run(&mut queue, write(3, 0, 3, 8192));
    assert_eq!(full.result.unwrap_err().kind(), io::ErrorKind::StorageFull);
    assert_eq!(disk.read_raw(0, 0, 1), [2]);
    disk.limit_pages(0, Some(2));
    ok(&mut queue, write(4, 0, 4, 8192));
    assert!(run(&mut queue, write(5, 2 * K4, 5, 4096)).result.is_err());
    disk.set_full(0, false);
    ok(&mut queue, write(6, 2 * K4, 6, 4096));
}

#[test]
fn rates_hit_their_share_of_one_device() {
    let disk = SimDisk::new([SimConfig::default(), SimConfig::default()]);
    let mut queue = disk.queue();
    let rates = FaultRates { write_fail: 100_000, read_flip: 500_000, ..FaultRates::default() };
    disk.set_faults(FaultPlan::new().rates(1, rates));
    for tag in 0..1000 {
        for device in 0..2 {
            queue.push(on(device, write(2 * tag + u64::from(device), 0, 0, 4096)));
        }
    }
    drain(&mut queue);
    assert_eq!(disk.device_stats(0).faults, 0);
    assert!((60..140).contains(&disk.device_stats(1).errors));
    let mut flipped = 0;
    for tag in 0..200 {
        flipped += ones(&ok(&mut queue, on(1, read(tag, 0, 4096))).bufs[0]);
    }
    assert!((60..140).contains(&flipped));
}

#[test]
fn rot_damages_pages_in_place() {
    let disk = disk(1);
    let mut queue = disk.queue();
    ok(&mut queue, durable(1, 0, 0, 4096));
    disk.set_faults(FaultPlan::new().rates(0, FaultRates { rot: MILLION, ..Default::default() }));
    ok(&mut queue, read(2, K4, 4096));
    disk.power_cut_keep_none();
    assert_eq!(ones(&disk.read_raw(0, 0, 4096)), 1);
    assert_eq!(disk.allocated_pages(0), 1);
}

#[test]
fn misuse_is_refused() {
    let disk = disk(1);
    let mut queue = disk.queue();
    let invalid = rustix::io::Errno::INVAL.raw_os_error();
    assert_eq!(errno(&run(&mut queue, read(1, 512, 4096))), Some(invalid));
    assert_eq!(errno(&run(&mut queue, write(2, 0, 1, 512))), Some(invalid));
    let end = 1 << 30;
    let beyond = run(&mut queue, read(3, end - K4, 8192)).result.unwrap_err();
    assert_eq!(beyond.kind(), io::ErrorKind::UnexpectedEof);
    for op in [write(4, end, 1, 4096), discard(5, end, K4)] {
        let beyond = run(&mut queue, op).result.unwrap_err();
        assert_eq!(beyond.kind(), io::ErrorKind::StorageFull);
    }
    let mut buf = Buf::new(8192);
    let odd = buf.split_off(512);
    let mut odd = odd;
    odd.truncate(4096);
    let action = Action::Read([odd].into_iter().collect());
    let done = run(&mut queue, Op { tag: 6, device: 0, offset: 0, action });
    assert_eq!(errno(&done), Some(invalid), "misaligned buffer");
}

#[test]
fn each_fault_that_hits_is_counted_by_its_kind() {
    let disk = disk(1);
    let mut queue = disk.queue();
    for fault in [
        Fault::Fail(EIO),
        Fault::Torn(EIO),
        Fault::Stored(EIO),
        Fault::Lost,
        Fault::Misdirected(None),
    ] {
        disk.add_fault(rule(OpKind::Write, fault));
        run(&mut queue, write(1, 0, 1, 8192));
    }
    for (kind, op) in [(OpKind::Read, read(1, 0, 4096)), (OpKind::Flush, flush(2))] {
        disk.add_fault(rule(kind, Fault::Fail(EIO)));
        run(&mut queue, op);
    }
    disk.add_fault(rule(OpKind::Read, Fault::BitFlip));
    run(&mut queue, read(1, 0, 4096));
    disk.add_fault(rule(OpKind::Read, Fault::Stall(1)));
    run(&mut queue, read(1, 0, 4096));
    disk.set_full(0, true);
    run(&mut queue, write(1, 1 << 20, 1, 4096));
    disk.set_gone(0, true);
    assert!(disk.is_gone(0));
    run(&mut queue, write(1, 1 << 20, 1, 4096));
    let expected = Hits {
        write_fail: 1,
        write_torn: 1,
        write_stored: 1,
        write_lost: 1,
        write_misdirected: 1,
        read_fail: 1,
        read_flip: 1,
        flush_fail: 1,
        stall: 1,
        full: 1,
        gone: 1,
        ..Hits::default()
    };
    assert_eq!(disk.stats().hits, expected);
}
