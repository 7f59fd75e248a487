//! What single faults of the device do to a volume: nothing is lost that could be had, nothing is counted that was not,
//! and nothing is given up after one try.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![expect(clippy::cast_possible_truncation, reason = "the volumes of these tests are small")]

#[path = "common/disk.rs"]
mod disk;
#[path = "common/newest.rs"]
mod newest;
#[path = "common/run.rs"]
mod run;

use std::ops::Range;

use oxblock::device::sim::{EIO, ENOSPC, Fault, FaultRule, OpKind, SimDisk};
use oxblock::format::layout::AREA_BYTES;
use oxblock::format::pointer::PointerWidth;
use oxblock::volume::Costs;
use oxblock::{Buf, Completion, ErrorKind, OpenOptions, Request, RequestKind, Volume};

use disk::disk;
use newest::newest;
use run::{finish, run};

const BLOCK: u64 = 4096;

fn open_with(disk: &SimDisk, options: &OpenOptions) -> oxblock::Result<Volume> {
    // Given, not measured, so that a run is the same everywhere.
    let costs = Some(Costs { block_ns: 100, hand_off_ns: 500, wake_ns: 50_000 });
    Volume::open_on(Box::new(disk.queue()), &OpenOptions { costs, ..options.clone() })
}

fn open(disk: &SimDisk) -> Volume {
    open_with(disk, &OpenOptions::default()).unwrap()
}

fn write_kind(block: u64, blocks: u64, byte: u8) -> RequestKind {
    let buf = Buf::copy_of(&vec![byte; (blocks * BLOCK) as usize]);
    RequestKind::Write { offset: block * BLOCK, buf, fua: false }
}

fn write(volume: &mut Volume, block: u64, blocks: u64, byte: u8) {
    run(volume, write_kind(block, blocks, byte)).result.unwrap();
}

fn read(volume: &mut Volume, block: u64, blocks: u64) -> Completion {
    let buf = Buf::new((blocks * BLOCK) as usize);
    run(volume, RequestKind::Read { offset: block * BLOCK, buf })
}

/// Where on the device a pointer leads.
fn place(addr: u64) -> Range<u64> {
    let start = AREA_BYTES + addr * BLOCK;
    start..start + BLOCK
}

/// Where on the device the leaf of the map for `block` is, in a map of two levels.
fn leaf(disk: &SimDisk, block: u64) -> Range<u64> {
    let root = newest(disk).checkpoint.map_root;
    let page = disk.read_raw(0, place(root.addr).start, BLOCK as usize);
    place(PointerWidth::Narrow.get(&page, (block / 256) as usize).addr)
}

/// Reads of this range fail `times` times.
fn fail_reads(disk: &SimDisk, range: Range<u64>, times: u64) {
    disk.add_fault(FaultRule::new(OpKind::Read, Fault::Fail(EIO)).within(range).times(times));
}

fn bad(completion: &Completion) -> Vec<u64> {
    let error = completion.result.as_ref().unwrap_err();
    error.blocks().iter().map(|bad| bad.block).collect()
}

/// Where on the device a page of nothing but `byte` is.
fn find(disk: &SimDisk, byte: u8) -> u64 {
    let size = disk.limits(0).unwrap().size;
    let pages = disk.allocated_in(0, 0..size);
    let page = |at: &u64| disk.read_raw(0, *at, BLOCK as usize).iter().all(|found| *found == byte);
    pages.into_iter().find(page).unwrap()
}

#[test]
fn a_look_ahead_keeps_the_completions_that_it_meets() {
    let disk = disk(16 << 20, 1);
    let mut volume = open(&disk);
    write(&mut volume, 0, 1, 1);
    write(&mut volume, 2000, 1, 2);
    volume.close().unwrap();
    let mut volume = open(&disk);
    disk.add_fault(FaultRule::new(OpKind::Write, Fault::Fail(EIO)).forever());
    volume.queue(Request { tag: 1, kind: write_kind(5, 1, 3) });
    volume.submit();
    // Whether or not the failed writes show while the node is fetched, a volume that takes no writes can be read.
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(extent) = volume.next_data(from) {
        found.push(extent.start);
        from = extent.end;
    }
    assert_eq!(found, [0, 2000 * BLOCK]);
    let done = finish(&mut volume, 1);
    assert!(done[0].result.is_err());
    assert!(done[0].buf.is_some());
}

#[test]
fn a_damaged_block_counts_once_and_in_the_life_of_the_volume() {
    let disk = disk(16 << 20, 2);
    let mut volume = open(&disk);
    write(&mut volume, 0, 4, 0xaa);
    volume.close().unwrap();
    disk.flip_bit(0, find(&disk, 0xaa) + 7, 3);
    let mut volume = open(&disk);
    let done = read(&mut volume, 0, 4);
    assert_eq!(done.result.as_ref().unwrap_err().kind(), ErrorKind::Checksum);
    assert_eq!(bad(&done), [0]);
    assert_eq!(volume.counters().checksum_errors, 1);
    // A checkpoint takes the count in, and must not count it again.
    for round in 0.. {
        write(&mut volume, 256 + round % 8 * 256, 256, 1);
        if volume.counters().checkpoints > 0 {
            break;
        }
    }
    assert_eq!(volume.info().checksum_errors, 1);
    volume.close().unwrap();
    assert_eq!(open(&disk).info().checksum_errors, 1);
}

#[test]
fn a_read_that_fails_once_is_no_checksum_error_and_costs_nothing() {
    let disk = disk(16 << 20, 3);
    let mut volume = open(&disk);
    write(&mut volume, 0, 4, 0xaa);
    let data = find(&disk, 0xaa);
    fail_reads(&disk, data..data + BLOCK, 1);
    read(&mut volume, 0, 4).result.unwrap();
    disk.add_fault(FaultRule::new(OpKind::Read, Fault::BitFlip).within(data..data + BLOCK));
    read(&mut volume, 0, 1).result.unwrap();
    assert_eq!(volume.counters().checksum_errors, 0);
    assert!(volume.counters().second_reads >= 2);
    // A device that fails for good is not the fault of a checksum either.
    fail_reads(&disk, data..data + BLOCK, u64::MAX);
    assert_eq!(bad(&read(&mut volume, 0, 4)), [0]);
    assert_eq!(volume.counters().checksum_errors, 0);
}

#[test]
fn a_map_node_that_cannot_be_read_is_tried_again_by_the_next_request() {
    let disk = disk(16 << 20, 4);
    let mut volume = open(&disk);
    write(&mut volume, 0, 600, 0xaa);
    volume.close().unwrap();
    let node = leaf(&disk, 256);
    let mut volume = open(&disk);
    fail_reads(&disk, node.clone(), 2);
    read(&mut volume, 300, 1).result.unwrap();
    let mut volume = open(&disk);
    fail_reads(&disk, node.clone(), 3);
    let done = read(&mut volume, 250, 300);
    let error = done.result.as_ref().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    assert_eq!(bad(&done), (256..512).collect::<Vec<_>>());
    assert_eq!(volume.counters().checksum_errors, 0);
    read(&mut volume, 250, 300).result.unwrap();
    // Writes ask for it anew, too.
    let mut volume = open(&disk);
    fail_reads(&disk, node, 3);
    assert_eq!(run(&mut volume, write_kind(300, 1, 1)).result.unwrap_err().kind(), ErrorKind::Io);
    write(&mut volume, 300, 1, 2);
    assert_eq!(read(&mut volume, 300, 1).buf.unwrap()[..], [2; BLOCK as usize]);
}

#[test]
fn a_damaged_map_node_is_lost_and_its_blocks_are_listed_with_the_others() {
    let disk = disk(16 << 20, 5);
    let mut volume = open(&disk);
    write(&mut volume, 0, 1, 0xbb);
    write(&mut volume, 1, 299, 0xaa);
    volume.close().unwrap();
    disk.flip_bit(0, leaf(&disk, 256).start + 9, 1);
    disk.flip_bit(0, find(&disk, 0xbb) + 9, 1);
    let mut volume = open(&disk);
    for _ in 0..2 {
        let done = read(&mut volume, 0, 258);
        let error = done.result.as_ref().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        assert_eq!(bad(&done), [0, 256, 257]);
    }
    // The node once, the block each time that it was asked for.
    assert_eq!(volume.counters().checksum_errors, 3);
}

/// Cuts the power with everything left, as when the engine dies.
fn die(disk: &SimDisk, volume: Volume) {
    disk.power_cut_keep_all();
    drop(volume);
}

#[test]
fn opening_after_a_crash_reads_the_tail_and_not_the_reserve_list() {
    let disk = disk(64 << 30, 6);
    let mut volume = open(&disk);
    write(&mut volume, 0, 4, 0xaa);
    die(&disk, volume);
    let before = disk.stats().read_bytes;
    let mut volume = open(&disk);
    let reserve = newest(&disk).checkpoint.reserve.len() as u64;
    let bytes = disk.stats().read_bytes - before;
    // Two stretches of 16 MiB are searched for records behind the gap; the rest of the list has one block each to see.
    assert!(bytes < (40 << 20) + reserve * 2 * BLOCK, "{bytes} for {reserve} reserve segments");
    read(&mut volume, 0, 4).result.unwrap();
}

#[test]
fn a_bad_sector_behind_the_log_does_not_keep_it_from_being_read() {
    let disk = disk(16 << 20, 7);
    let mut volume = open(&disk);
    write(&mut volume, 0, 4, 0xaa);
    let end = find(&disk, 0xaa) + 4 * BLOCK;
    die(&disk, volume);
    // Nothing is stored there, and nobody needs to know.
    fail_reads(&disk, end + 5 * BLOCK..end + 6 * BLOCK, u64::MAX);
    let mut volume = open(&disk);
    assert_eq!(volume.replayed().changes, 1);
    read(&mut volume, 0, 4).result.unwrap();
}

#[test]
fn a_tail_that_cannot_be_read_is_passed_over_by_a_rollback_only() {
    let disk = disk(16 << 20, 8);
    let mut volume = open(&disk);
    write(&mut volume, 0, 4, 0xaa);
    write(&mut volume, 4, 4, 0xbb);
    let second = find(&disk, 0xbb) - BLOCK;
    die(&disk, volume);
    fail_reads(&disk, second..second + BLOCK, u64::MAX);
    let mut options = OpenOptions::default();
    assert_eq!(open_with(&disk, &options).unwrap_err().kind(), ErrorKind::Io);
    options.rollback = true;
    let mut volume = open_with(&disk, &options).unwrap();
    read(&mut volume, 0, 4).result.unwrap();
    let old = read(&mut volume, 4, 4);
    old.result.unwrap();
    assert!(old.buf.unwrap().iter().all(|byte| *byte == 0));
    write(&mut volume, 4, 4, 0xcc);
    volume.close().unwrap();
}

#[test]
fn a_torn_record_counts_once() {
    let disk = disk(16 << 20, 9);
    let mut volume = open(&disk);
    write(&mut volume, 0, 4, 0xaa);
    die(&disk, volume);
    disk.flip_bit(0, find(&disk, 0xaa) + 5, 1);
    assert_eq!(open(&disk).counters().torn_records, 1);
}

#[test]
fn damage_in_the_log_is_told_with_every_place_where_the_record_may_be() {
    let disk = disk(16 << 20, 10);
    let mut volume = open(&disk);
    // The first record opens the first segment of the reserve list; no stream has a head yet.
    write(&mut volume, 0, 1, 0xaa);
    run(&mut volume, RequestKind::Flush).result.unwrap();
    write(&mut volume, 1, 1, 0xbb);
    die(&disk, volume);
    let first = place(u64::from(newest(&disk).checkpoint.reserve[0]) * 512).start;
    assert_eq!(find(&disk, 0xaa), first + BLOCK);
    disk.flip_bit(0, first + 5 * 16, 1);
    let error = open_with(&disk, &OpenOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().contains(&format!("expected at device offset {first})")), "{error}");
}

/// Overwrites what is behind block 70 of a volume of 16 MiB, so that cleaning has to empty the segments that hold what is
/// before, until `done` says so.
fn churn(volume: &mut Volume, mut done: impl FnMut(&Volume) -> bool) {
    for round in 0..4000 {
        write(volume, 70 + round * 251 % 3700, 256, 1);
        if done(volume) {
            return;
        }
    }
    panic!("cleaning never came to the first segment: {:?}", volume.counters());
}

#[test]
fn cleaning_gives_a_segment_up_only_when_a_second_read_says_so_too() {
    for fault in [Fault::Fail(EIO), Fault::BitFlip] {
        let disk = disk(16 << 20, 11);
        let mut volume = open(&disk);
        write(&mut volume, 0, 64, 0xaa);
        // Every other read goes wrong.
        for _ in 0..500 {
            disk.add_fault(FaultRule::new(OpKind::Read, fault.clone()));
            disk.add_fault(FaultRule::new(OpKind::Read, Fault::Stall(1)));
        }
        let mut rounds = 0;
        churn(&mut volume, |_| {
            rounds += 1;
            rounds == 300
        });
        let counters = volume.counters();
        assert!(counters.second_reads > 0 && counters.cleaned_segments > 0, "{counters:?}");
        assert_eq!((counters.damaged_segments, counters.checksum_errors), (0, 0), "{counters:?}");
        disk.clear_faults();
        read(&mut volume, 0, 64).result.unwrap();
    }
}

#[test]
fn cleaning_moves_what_it_can_around_a_bad_sector_and_counts_the_segment_once() {
    for header in [false, true] {
        let disk = disk(16 << 20, 12);
        let mut volume = open(&disk);
        for block in 0..64 {
            write(&mut volume, block, 1, 0xaa);
        }
        write(&mut volume, 64, 1, 0xbb);
        let bad = find(&disk, 0xbb) - if header { BLOCK } else { 0 };
        fail_reads(&disk, bad..bad + BLOCK, u64::MAX);
        // What goes with it leaves in full records only, so some may wait when the segment is given up.
        churn(&mut volume, |volume| {
            volume.counters().damaged_segments > 0 && volume.counters().relocated_blocks >= 64
        });
        let counters = volume.counters();
        assert_eq!((counters.damaged_segments, counters.checksum_errors), (1, 0), "{counters:?}");
        assert_eq!(volume.info().segments.damaged, 1);
        read(&mut volume, 0, 64).result.unwrap();
    }
}

#[test]
fn a_latched_volume_says_so_and_requests_under_way_are_told_the_cause() {
    for (errno, cause, advice) in [
        (EIO, ErrorKind::Io, "until it is reopened"),
        (ENOSPC, ErrorKind::NoSpace, "free space on the file system under the device"),
    ] {
        let disk = disk(16 << 20, 13);
        let mut volume = open(&disk);
        write(&mut volume, 0, 1, 1);
        disk.add_fault(FaultRule::new(OpKind::Write, Fault::Fail(errno)).forever());
        let error = run(&mut volume, write_kind(1, 1, 2)).result.unwrap_err();
        assert_eq!((error.kind(), error.errno()), (cause, errno), "{error}");
        assert!(error.to_string().contains(advice), "{error}");
        for kind in [write_kind(2, 1, 3), RequestKind::Flush] {
            let error = run(&mut volume, kind).result.unwrap_err();
            assert_eq!((error.kind(), error.errno()), (ErrorKind::Latched, EIO), "{error}");
            assert!(error.to_string().contains(advice), "{error}");
        }
        read(&mut volume, 0, 1).result.unwrap();
    }
}
