//! Volumes whose checksums hold and whose numbers lie: made by somebody, or by a fault of ours. They are refused or do no
//! more harm than to themselves; nothing panics, nothing overflows, no memory is set aside by what they say.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![expect(clippy::cast_possible_truncation, reason = "the volumes of these tests are small")]

#[path = "common/disk.rs"]
mod disk;
#[path = "common/newest.rs"]
mod newest;
#[path = "common/run.rs"]
mod run;

use oxblock::csum::Csum;
use oxblock::device::sim::{EIO, Fault, FaultRule, OpKind, SimDisk};
use oxblock::format::layout::{AREA_BYTES, BLOCK_BYTES, COUNTER_LIMIT};
use oxblock::format::pointer::identity;
use oxblock::format::segment::SegmentEntry;
use oxblock::format::superblock::{Superblock, offsets};
use oxblock::volume::{FindingKind, Part, check_on, dump_on};
use oxblock::{Buf, Completion, ErrorKind, OpenOptions, RequestKind, Volume};
use zerocopy::FromBytes;

use disk::disk;
use newest::newest;
use run::run;

const SIZE: u64 = 16 << 20;

/// A closed volume with 600 blocks in it.
fn written(seed: u64) -> SimDisk {
    let disk = disk(SIZE, seed);
    let mut volume = open(&disk).unwrap();
    write(&mut volume, 0, 600).result.unwrap();
    volume.close().unwrap();
    disk
}

fn open(disk: &SimDisk) -> oxblock::Result<Volume> {
    Volume::open_on(Box::new(disk.queue()), &OpenOptions::default())
}

fn write(volume: &mut Volume, block: u64, blocks: u64) -> Completion {
    let buf = Buf::copy_of(&vec![1; (blocks * BLOCK_BYTES) as usize]);
    run(volume, RequestKind::Write { offset: block * BLOCK_BYTES, buf, fua: false })
}

/// Changes the newest superblock and seals it again.
fn forge(disk: &SimDisk, change: impl FnOnce(&mut Superblock)) {
    let mut superblock = newest(disk);
    let generation = superblock.checkpoint.generation;
    change(&mut superblock);
    for offset in offsets(0, generation, disk.limits(0).unwrap().size) {
        disk.write_raw(0, offset, &superblock.encode());
    }
}

/// Changes the entries of the segment table and seals them again; the superblock too.
fn forge_table(disk: &SimDisk, change: impl FnOnce(&mut [SegmentEntry], &mut Superblock)) {
    forge(disk, |superblock| {
        assert_eq!(superblock.checkpoint.table_height, 1);
        let at = place(superblock.checkpoint.table_root.addr);
        let mut bytes = disk.read_raw(0, at, BLOCK_BYTES as usize);
        change(<[SegmentEntry]>::mut_from_bytes(&mut bytes).unwrap(), superblock);
        let csum = Csum::new(superblock.csum, superblock.volume);
        superblock.checkpoint.table_root.csum = csum.of(identity::node(true, 0, 0), &bytes);
        disk.write_raw(0, at, &bytes);
    });
}

fn place(addr: u64) -> u64 {
    AREA_BYTES + addr * BLOCK_BYTES
}

fn refused(disk: &SimDisk) -> ErrorKind {
    open(disk).unwrap_err().kind()
}

#[test]
fn a_count_of_used_blocks_that_is_too_low_does_not_run_below_zero() {
    let disk = written(1);
    forge(&disk, |superblock| superblock.checkpoint.used_blocks = 3);
    let mut volume = open(&disk).unwrap();
    run(&mut volume, RequestKind::Discard { offset: 0, len: SIZE }).result.unwrap();
    volume.close().unwrap();
    assert_eq!(open(&disk).unwrap().info().used, 0);
}

#[test]
fn a_count_of_used_blocks_that_is_too_high_does_not_end_in_a_volume_that_cannot_be_opened() {
    let disk = written(2);
    let mut volume = open(&disk).unwrap();
    write(&mut volume, 0, SIZE / BLOCK_BYTES - 10).result.unwrap();
    volume.close().unwrap();
    forge(&disk, |superblock| superblock.checkpoint.used_blocks = SIZE / BLOCK_BYTES);
    let mut volume = open(&disk).unwrap();
    write(&mut volume, SIZE / BLOCK_BYTES - 10, 10).result.unwrap();
    volume.close().unwrap();
    open(&disk).unwrap();
}

#[test]
fn counters_at_their_end_are_refused() {
    let max = u64::MAX;
    let disk = written(3);
    forge_table(&disk, |entries, _| entries[20].generation = max.into());
    assert_eq!(refused(&disk), ErrorKind::Corrupt);
    forge_table(&disk, |entries, _| {
        entries[20].generation = 0.into();
        entries[1].sealed = max.into();
    });
    assert_eq!(refused(&disk), ErrorKind::Corrupt);
}

#[test]
fn a_volume_whose_counters_would_soon_be_out_of_range_is_only_read() {
    // What would be written next could not be read by anybody.
    let last = COUNTER_LIMIT - 1;
    type Change = fn(&mut Superblock, u64);
    let changes: [Change; 4] = [
        // Operations of a lane carry the sequence number, and have 56 bits for it.
        |superblock, _| {
            let point = &mut superblock.checkpoint;
            (point.sequence, point.durable) = (1 << 57, 1 << 57);
        },
        |superblock, last| superblock.checkpoint.epoch = last,
        |superblock, last| {
            let point = &mut superblock.checkpoint;
            (point.sequence, point.durable) = (last, last);
        },
        // The other slot has the generation before, which must stay the older one.
        |superblock, last| {
            superblock.checkpoint.generation =
                last - last % 2 + superblock.checkpoint.generation % 2 - 2
        },
    ];
    for (seed, change) in (30..).zip(changes) {
        let disk = written(seed);
        forge(&disk, |superblock| change(superblock, last));
        assert_eq!(refused(&disk), ErrorKind::Corrupt);
        let options = OpenOptions { read_only: true, ..OpenOptions::default() };
        let mut volume = Volume::open_on(Box::new(disk.queue()), &options).unwrap();
        let read = RequestKind::Read { offset: 0, buf: Buf::new(4096) };
        run(&mut volume, read).result.unwrap();
    }
    let disk = written(40);
    forge_table(&disk, |entries, _| entries[20].generation = last.into());
    assert_eq!(refused(&disk), ErrorKind::Corrupt);
}

#[test]
fn a_life_of_too_many_errors_counts_no_further() {
    let disk = written(4);
    forge(&disk, |superblock| superblock.checkpoint.checksum_errors = u64::MAX);
    let mut volume = open(&disk).unwrap();
    let root = newest(&disk).checkpoint.map_root.addr;
    disk.flip_bit(0, place(root) + 1, 1);
    let read = RequestKind::Read { offset: 0, buf: Buf::new(4096) };
    assert_eq!(run(&mut volume, read).result.unwrap_err().kind(), ErrorKind::Corrupt);
    assert_eq!(volume.info().checksum_errors, u64::MAX);
}

#[test]
fn streams_that_this_version_does_not_know_are_not_supported() {
    let disk = written(5);
    forge(&disk, |superblock| {
        superblock.streams = 4;
        superblock.checkpoint.heads.push(None);
    });
    assert_eq!(refused(&disk), ErrorKind::Unsupported);
    let options = OpenOptions::default();
    let checked = check_on(Box::new(disk.queue()), &options, &mut |_, _| {});
    assert_eq!(checked.unwrap_err().kind(), ErrorKind::Unsupported);
}

#[test]
fn memory_is_not_set_aside_for_segments_that_the_device_has_no_room_for() {
    let disk = written(6);
    forge(&disk, |superblock| {
        superblock.segments = 1 << 31;
        superblock.devices[0].size = 1 << 60;
        superblock.checkpoint.table_height = 4;
    });
    assert_eq!(refused(&disk), ErrorKind::Corrupt);
    let options = OpenOptions::default();
    let report = check_on(Box::new(disk.queue()), &options, &mut |_, _| {}).unwrap();
    assert!(
        report.findings.iter().any(|found| found.kind == FindingKind::Superblock),
        "{report:?}"
    );
    let dumped = dump_on(Box::new(disk.queue()), Part::Segment(3), &options);
    assert_eq!(dumped.unwrap_err().kind(), ErrorKind::Corrupt);
}

#[test]
fn a_segment_that_holds_the_table_is_not_taken_off_the_reserve_list() {
    let disk = written(7);
    let mut volume = open(&disk).unwrap();
    // An empty map: nothing counts as live, and the table is all that there is.
    run(&mut volume, RequestKind::Discard { offset: 0, len: SIZE }).result.unwrap();
    volume.close().unwrap();
    forge(&disk, |superblock| {
        let point = &mut superblock.checkpoint;
        let segment = (point.table_root.addr / u64::from(superblock.segment_blocks)) as u32;
        for head in &mut point.heads {
            head.take_if(|head| head.segment == segment);
        }
        point.reserve.insert(0, segment);
    });
    let error = open(&disk).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    // Who accepts that loses nothing of what the checkpoint holds.
    let options = OpenOptions { rollback: true, ..OpenOptions::default() };
    let mut volume = Volume::open_on(Box::new(disk.queue()), &options).unwrap();
    write(&mut volume, 0, 600).result.unwrap();
    volume.close().unwrap();
    open(&disk).unwrap();
}

#[test]
fn a_segment_table_that_cannot_be_read_is_no_damage() {
    let disk = written(8);
    let at = place(newest(&disk).checkpoint.table_root.addr);
    let fail = FaultRule::new(OpKind::Read, Fault::Fail(EIO)).within(at..at + BLOCK_BYTES);
    disk.add_fault(fail.clone());
    open(&disk).unwrap();
    disk.add_fault(fail.forever());
    let error = open(&disk).unwrap_err();
    assert_eq!((error.kind(), error.errno()), (ErrorKind::Io, EIO), "{error}");
    assert!(error.to_string().contains(&format!("segment table at offset {at}")), "{error}");
}
