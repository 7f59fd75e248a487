//! A failed write goes elsewhere: nobody notices, but for a counter and a notice. When all places fail, the volume takes no
//! more writes, and reads go on.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![expect(clippy::cast_possible_truncation, reason = "the volumes of these tests are small")]

#[path = "common/disk.rs"]
mod disk;
#[path = "common/run.rs"]
mod run;

use oxblock::device::sim::{
    EIO, ENOSPC, Fault, FaultPlan, FaultRates, FaultRule, OpKind, Rng, SimDisk,
};
use oxblock::format::layout::{AREA_BYTES, SUPERBLOCK_SIZE};
use oxblock::format::superblock::{Superblock, offsets};
use oxblock::volume::{Costs, check_on};
use oxblock::{Buf, Completion, ErrorKind, OpenOptions, Request, RequestKind, Volume};

use disk::disk;
use run::{finish, run};

const BLOCK: u64 = 4096;
/// In every way in which a write can fail.
const FAULTS: [Fault; 3] = [Fault::Fail(EIO), Fault::Torn(EIO), Fault::Stored(EIO)];

fn options() -> OpenOptions {
    let costs = Some(Costs { block_ns: 100, hand_off_ns: 500, wake_ns: 50_000 });
    OpenOptions { costs, ..OpenOptions::default() }
}

fn open(disk: &SimDisk) -> Volume {
    Volume::open_on(Box::new(disk.queue()), &options()).unwrap()
}

fn write_kind(block: u64, blocks: u64, byte: u8) -> RequestKind {
    let buf = Buf::copy_of(&vec![byte; (blocks * BLOCK) as usize]);
    RequestKind::Write { offset: block * BLOCK, buf, fua: false }
}

fn write(volume: &mut Volume, block: u64, blocks: u64, byte: u8) {
    run(volume, write_kind(block, blocks, byte)).result.unwrap();
}

fn flush(volume: &mut Volume) {
    run(volume, RequestKind::Flush).result.unwrap();
}

fn read(volume: &mut Volume, block: u64, blocks: u64) -> Completion {
    let buf = Buf::new((blocks * BLOCK) as usize);
    run(volume, RequestKind::Read { offset: block * BLOCK, buf })
}

fn holds(volume: &mut Volume, block: u64, blocks: u64, byte: u8) {
    let done = read(volume, block, blocks);
    done.result.unwrap();
    let found = done.buf.unwrap();
    assert_eq!(found.iter().find(|found| **found != byte), None, "block {block}: not {byte}");
}

/// The write after the next `skip` writes fails.
fn fail_write(disk: &SimDisk, fault: &Fault, skip: u64) {
    disk.add_fault(FaultRule::new(OpKind::Write, fault.clone()).skip(skip));
}

fn is_sound(disk: &SimDisk) {
    let report = check_on(Box::new(disk.queue()), &options(), &mut |_, _| {}).unwrap();
    assert_eq!(report.total_findings, 0, "{:?}", report.findings);
}

/// What is in the device's cache is lost, and the volume is opened again.
fn cut(disk: &SimDisk, volume: Volume) -> Volume {
    disk.power_cut_keep_none();
    drop(volume);
    open(disk)
}

#[test]
fn a_failed_write_of_data_is_not_noticed() {
    for fault in FAULTS {
        let disk = disk(16 << 20, 1);
        let mut volume = open(&disk);
        write(&mut volume, 0, 1, 1);
        fail_write(&disk, &fault, 0);
        write(&mut volume, 1, 3, 2);
        write(&mut volume, 4, 1, 3);
        flush(&mut volume);
        let counters = volume.counters();
        assert_eq!((counters.failed_writes, counters.resent_data), (1, 1), "{fault:?}");
        let notices = volume.notices().join("\n");
        assert!(notices.contains("a write of the log has failed and went elsewhere"), "{notices}");
        for _ in 0..2 {
            holds(&mut volume, 0, 1, 1);
            holds(&mut volume, 1, 3, 2);
            holds(&mut volume, 4, 1, 3);
            volume = cut(&disk, volume);
        }
        volume.close().unwrap();
        is_sound(&disk);
    }
}

#[test]
fn the_first_record_of_a_segment_goes_elsewhere_and_so_do_those_behind_a_failed_one() {
    for fault in FAULTS {
        for failed in 0..4 {
            let disk = disk(16 << 20, 2);
            let mut volume = open(&disk);
            write(&mut volume, 4000, 1, 9);
            volume.close().unwrap();
            let mut volume = open(&disk);
            // Full records, so that several are under way at once; the superblock of this life comes first.
            fail_write(&disk, &fault, 2 + failed);
            for number in 0..4_u64 {
                volume.queue(Request {
                    tag: number,
                    kind: write_kind(number * 256, 256, number as u8 + 1),
                });
            }
            for done in finish(&mut volume, 4) {
                done.result.unwrap();
            }
            flush(&mut volume);
            assert!(volume.counters().resent_data > 0, "{fault:?}");
            let mut volume = cut(&disk, volume);
            for number in 0..4_u64 {
                holds(&mut volume, number * 256, 256, number as u8 + 1);
            }
            volume.close().unwrap();
            is_sound(&disk);
        }
    }
}

#[test]
fn a_durable_write_that_failed_is_durable_elsewhere() {
    for fault in FAULTS {
        let disk = disk(16 << 20, 3);
        let mut volume = open(&disk);
        write(&mut volume, 0, 1, 1);
        flush(&mut volume);
        fail_write(&disk, &fault, 0);
        let buf = Buf::copy_of(&[2; BLOCK as usize]);
        run(&mut volume, RequestKind::Write { offset: BLOCK, buf, fua: true }).result.unwrap();
        assert_eq!(volume.counters().resent_data, 1);
        let mut volume = cut(&disk, volume);
        holds(&mut volume, 1, 1, 2);
    }
}

/// Copies of the newest superblock.
fn copies(disk: &SimDisk) -> usize {
    let size = disk.limits(0).unwrap().size;
    let places = (0..2).flat_map(|slot| offsets(0, slot, size));
    let found = places.filter_map(|at| {
        let bytes = disk.read_raw(0, at, SUPERBLOCK_SIZE);
        Some(Superblock::decode(&bytes).ok()??.checkpoint.generation)
    });
    let found: Vec<u64> = found.collect();
    let newest = found.iter().max();
    found.iter().filter(|generation| Some(*generation) == newest).count()
}

/// The least writes of a small life behind its first one: of data, of nodes, of the segment table, of both copies of a
/// superblock. There are more when closing makes another checkpoint.
const WRITES: u64 = 5;

#[test]
fn a_failed_write_of_a_node_of_the_table_or_of_one_superblock_copy_is_not_noticed() {
    let mut singles = 0;
    for fault in FAULTS {
        for failed in 0.. {
            let disk = disk(16 << 20, 4);
            let mut volume = open(&disk);
            write(&mut volume, 0, 8, 1);
            fail_write(&disk, &fault, failed);
            write(&mut volume, 3000, 8, 2);
            volume.close().unwrap();
            if disk.stats().errors == 0 {
                assert!(failed >= WRITES, "{failed}");
                break;
            }
            disk.power_cut_keep_none();
            let mut volume = open(&disk);
            assert_eq!(volume.replayed().records, 0, "{fault:?} {failed}");
            holds(&mut volume, 0, 8, 1);
            holds(&mut volume, 3000, 8, 2);
            let single = volume.notices().iter().any(|notice| notice.contains("only one copy"));
            assert_eq!(single, copies(&disk) == 1, "{fault:?} {failed}");
            singles += u32::from(single);
            // The next checkpoints write both copies, in both slots.
            for byte in 3..5 {
                write(&mut volume, 0, 8, byte);
                volume.close().unwrap();
                volume = open(&disk);
            }
            assert_eq!(volume.notices(), [""; 0]);
            drop(volume);
            is_sound(&disk);
        }
    }
    assert!(singles > 2, "{singles}");
}

#[test]
fn a_superblock_of_which_both_copies_fail_ends_the_writes() {
    let disk = disk(16 << 20, 5);
    let mut volume = open(&disk);
    write(&mut volume, 0, 8, 1);
    write(&mut volume, 3000, 8, 2);
    flush(&mut volume);
    for area in [0..AREA_BYTES, disk.limits(0).unwrap().size - AREA_BYTES..u64::MAX] {
        disk.add_fault(FaultRule::new(OpKind::Write, FAULTS[0].clone()).within(area));
    }
    let error = volume.close().unwrap_err();
    assert!(error.to_string().contains("writing the superblock failed"), "{error}");
    disk.power_cut_keep_none();
    let mut volume = open(&disk);
    holds(&mut volume, 0, 8, 1);
    holds(&mut volume, 3000, 8, 2);
}

/// Writes everywhere until cleaning and checkpoints have met failures too.
#[test]
fn writes_that_fail_here_and_there_are_not_noticed_by_cleaning_nor_by_checkpoints() {
    let disk = disk(16 << 20, 6);
    let mut volume = open(&disk);
    let rates = FaultRates {
        write_fail: 10_000,
        write_torn: 10_000,
        write_stored: 10_000,
        ..FaultRates::default()
    };
    let mut bytes = vec![0_u8; 4096];
    let mut rng = Rng::new(6);
    for round in 0..6000_u64 {
        if round == 10 {
            disk.set_faults(FaultPlan::new().rates(0, rates.clone()));
        }
        let (block, byte) = (rng.below(4096 - 64), round as u8);
        let blocks = 1 + rng.below(64);
        write(&mut volume, block, blocks, byte);
        bytes[block as usize..(block + blocks) as usize].fill(byte);
        let counters = volume.counters();
        if counters.resent_relocations > 2 && counters.checkpoints_aborted > 2 {
            break;
        }
    }
    let counters = volume.counters();
    assert!(counters.resent_relocations > 2 && counters.resent_nodes > 2, "{counters:?}");
    assert!(counters.checkpoints_aborted > 2 && counters.resent_data > 2, "{counters:?}");
    assert_eq!(counters.damaged_segments, 0, "{counters:?}");
    flush(&mut volume);
    let all = |volume: &mut Volume| {
        for (block, byte) in (0..).zip(&bytes) {
            holds(volume, block, 1, *byte);
        }
    };
    all(&mut volume);
    let mut volume = cut(&disk, volume);
    disk.clear_faults();
    all(&mut volume);
    volume.close().unwrap();
    is_sound(&disk);
}

#[test]
fn a_bad_place_is_written_around_for_a_whole_life() {
    let disk = disk(16 << 20, 7);
    let bad = AREA_BYTES + (2 << 20)..AREA_BYTES + (5 << 20);
    disk.fail_range(0, OpKind::Write, bad, EIO);
    let mut volume = open(&disk);
    for round in 0..400 {
        write(&mut volume, round * 251 % 3700, 256, round as u8);
    }
    assert!(volume.counters().failed_writes > 0);
    flush(&mut volume);
    let mut volume = cut(&disk, volume);
    holds(&mut volume, 399 * 251 % 3700, 256, 399_u64 as u8);
    volume.close().unwrap();
}

/// A write fails; then the power, after each number of operations, with everything kept that can be, or nothing.
#[test]
fn power_that_fails_at_any_operation_after_a_failed_write_loses_nothing_that_was_flushed() {
    for fault in FAULTS {
        for keep in [false, true] {
            let mut cuts = 0;
            for operations in 0.. {
                let disk = disk(4 << 20, 8);
                let mut volume = open(&disk);
                write(&mut volume, 0, 8, 1);
                flush(&mut volume);
                fail_write(&disk, &fault, 0);
                disk.cut_after_ops(operations);
                let mut flushed = 1;
                for byte in 2..6 {
                    for part in 0..4 {
                        volume
                            .queue(Request { tag: part, kind: write_kind(part * 200, 200, byte) });
                    }
                    let good = finish(&mut volume, 4).iter().all(|done| done.result.is_ok());
                    if good && run(&mut volume, RequestKind::Flush).result.is_ok() {
                        flushed = byte;
                    }
                    fail_write(&disk, &fault, u64::from(byte) % 3);
                }
                let off = disk.is_off();
                match keep {
                    true => disk.power_cut_keep_all(),
                    false => disk.power_cut_keep_none(),
                }
                drop(volume);
                disk.clear_faults();
                let mut volume = open(&disk);
                let found = read(&mut volume, 0, 1).buf.unwrap()[0];
                assert!(found >= flushed, "{fault:?} {operations}: {found} for {flushed}");
                for part in 0..4 {
                    let seen = read(&mut volume, part * 200, 200).buf.unwrap();
                    // A record is there as a whole or not at all.
                    assert!(seen.iter().skip(4096 * 8).all(|byte| *byte == seen[4096 * 8]));
                    assert!(flushed == 1 || seen[0] >= flushed, "{fault:?} {operations} {part}");
                }
                volume.close().unwrap();
                is_sound(&disk);
                if !off {
                    break;
                }
                cuts += 1;
            }
            assert!(cuts > 30, "{cuts}");
        }
    }
}

#[test]
fn recovery_writes_elsewhere_too_and_a_cut_in_it_brings_nothing_back() {
    for fault in FAULTS {
        for failed in 0..3 {
            for operations in (0..60).step_by(2) {
                let disk = disk(4 << 20, 9);
                let mut volume = open(&disk);
                write(&mut volume, 0, 8, 1);
                write(&mut volume, 900, 8, 1);
                flush(&mut volume);
                disk.power_cut_keep_all();
                drop(volume);
                fail_write(&disk, &fault, failed);
                disk.cut_after_ops(operations);
                drop(Volume::open_on(Box::new(disk.queue()), &options()));
                disk.power_cut_keep_all();
                disk.clear_faults();
                // What the interrupted recovery has left must not be taken for what comes now.
                for byte in 2..5 {
                    let mut volume = open(&disk);
                    holds(&mut volume, 900, 8, byte - 1);
                    write(&mut volume, 0, 8, byte);
                    write(&mut volume, 900, 8, byte);
                    flush(&mut volume);
                    disk.power_cut_keep_none();
                }
                holds(&mut open(&disk), 0, 8, 4);
            }
        }
    }
}

#[test]
fn when_all_places_fail_the_writes_end_and_reads_go_on() {
    for (errno, kind, advice) in [
        (EIO, ErrorKind::Io, "until it is reopened"),
        (ENOSPC, ErrorKind::NoSpace, "free space on the file system under the device"),
    ] {
        let disk = disk(16 << 20, 10);
        let mut volume = open(&disk);
        write(&mut volume, 0, 8, 1);
        disk.add_fault(FaultRule::new(OpKind::Write, Fault::Fail(errno)).forever());
        let error = run(&mut volume, write_kind(8, 8, 2)).result.unwrap_err();
        assert_eq!((error.kind(), error.errno()), (kind, errno), "{error}");
        assert!(error.to_string().contains(advice), "{error}");
        assert_eq!(volume.counters().failed_writes, 4);
        let error = run(&mut volume, RequestKind::Flush).result.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Latched, "{error}");
        holds(&mut volume, 0, 8, 1);
        disk.clear_faults();
        drop(volume);
        let mut volume = open(&disk);
        holds(&mut volume, 0, 8, 1);
        write(&mut volume, 8, 8, 3);
        volume.close().unwrap();
        is_sound(&disk);
    }
}

#[test]
fn a_failed_flush_still_ends_the_writes_at_once() {
    let disk = disk(16 << 20, 11);
    let mut volume = open(&disk);
    write(&mut volume, 0, 8, 1);
    disk.fail_next(0, OpKind::Flush, EIO);
    let error = run(&mut volume, RequestKind::Flush).result.unwrap_err();
    assert!(error.to_string().contains("flushing failed"), "{error}");
    assert_eq!(
        run(&mut volume, write_kind(0, 1, 2)).result.unwrap_err().kind(),
        ErrorKind::Latched
    );
    holds(&mut volume, 0, 8, 1);
}

#[test]
fn a_sparse_file_without_room_is_written_where_it_has_some() {
    let disk = disk(16 << 20, 12);
    let mut volume = open(&disk);
    write(&mut volume, 0, 256, 1);
    disk.set_full(0, true);
    let error = run(&mut volume, write_kind(1000, 256, 2)).result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
    holds(&mut volume, 0, 256, 1);
    drop(volume);
    disk.set_full(0, false);
    let mut volume = open(&disk);
    holds(&mut volume, 0, 256, 1);
    write(&mut volume, 1000, 256, 3);
    volume.close().unwrap();
}

/// The same on a real file system, where one can be mounted.
#[test]
fn a_file_on_a_full_file_system_ends_the_writes_and_reads_go_on() {
    use std::process::Command;

    let folder = tempfile::tempdir().unwrap();
    let mount = |args: &[&str]| Command::new(args[0]).args(&args[1..]).status();
    let path = folder.path().to_str().unwrap().to_owned();
    let mounted = mount(&["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", &path]);
    if !mounted.is_ok_and(|status| status.success()) {
        eprintln!("no tmpfs can be mounted here: not tested");
        return;
    }
    let result = std::panic::catch_unwind(|| {
        let device = [folder.path().join("disk.ox")];
        let create =
            oxblock::CreateOptions { size: Some(64 << 20), ..oxblock::CreateOptions::default() };
        oxblock::volume::create(&device, &create, &mut |_, _| {}).unwrap();
        let mut volume = Volume::open(&device, &options()).unwrap();
        write(&mut volume, 0, 64, 1);
        flush(&mut volume);
        let failed = (1..60)
            .find_map(|round| run(&mut volume, write_kind(round * 256, 256, 2)).result.err())
            .unwrap_or_else(|| panic!("60 MiB fit into 8"));
        assert_eq!(failed.kind(), ErrorKind::NoSpace, "{failed}");
        assert!(failed.to_string().contains("free space on the file system"), "{failed}");
        holds(&mut volume, 0, 64, 1);
        drop(volume);
        assert!(mount(&["mount", "-o", "remount,size=120m", &path]).unwrap().success());
        let mut volume = Volume::open(&device, &options()).unwrap();
        holds(&mut volume, 0, 64, 1);
        write(&mut volume, 1000, 256, 3);
        volume.close().unwrap();
    });
    assert!(mount(&["umount", "-l", &path]).unwrap().success());
    if let Err(panic) = result {
        std::panic::resume_unwind(panic);
    }
}

#[test]
fn an_area_that_can_never_be_written_is_told_of_once() {
    let disk = disk(16 << 20, 4);
    let mut volume = open(&disk);
    let first = FaultRule::new(OpKind::Write, Fault::Fail(EIO)).within(0..AREA_BYTES);
    disk.add_fault(first.forever());
    for round in 0..300 {
        write(&mut volume, round % 8 * 256, 256, round as u8);
    }
    assert!(volume.counters().single_superblocks > 3, "{:?}", volume.counters());
    assert_eq!(volume.notices().len(), 1, "{:?}", volume.notices());
    holds(&mut volume, 299 % 8 * 256, 256, 299_u64 as u8);
}
