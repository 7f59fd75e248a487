//! A checkpoint that streams leave segments behind in.

use crate::device::sim::{SimConfig, SimDisk};
use crate::format::superblock::Superblock;
use crate::log::load::{newest, read_slots};
use crate::volume::{create_on, required_size};
use crate::{Buf, CreateOptions, OpenOptions, Request, RequestKind, Volume};

fn run(volume: &mut Volume, kind: RequestKind) {
    volume.queue(Request { tag: 0, kind });
    finish(volume);
}

fn finish(volume: &mut Volume) {
    let mut done = Vec::new();
    while done.is_empty() || !volume.lane.point.idle() {
        volume.submit();
        volume.poll(&mut done);
        volume.wait(None);
    }
    done.pop().unwrap().result.unwrap();
}

fn write(blocks: usize) -> RequestKind {
    RequestKind::Write { offset: 0, buf: Buf::new(blocks * 4096), fua: false }
}

/// The data stream leaves a full segment in which nothing lives while a checkpoint is under way that has it as a head. The
/// segment is free once the checkpoint stands, and may be on its reserve list: then it must not be a head of it too.
#[test]
fn a_head_that_was_left_empty_is_not_on_the_reserve_list_as_well() {
    let size = 16 << 20;
    let disk = SimDisk::single(SimConfig::new(required_size(size).unwrap(), 1));
    let options = CreateOptions { size: Some(size), ..CreateOptions::default() };
    create_on(&mut disk.queue(), &options, "sim").unwrap();
    let mut volume = Volume::open_on(Box::new(disk.queue()), &OpenOptions::default()).unwrap();
    // 5 records of 101 blocks and one of 6; the record of the trim fills the segment's last block.
    for blocks in [100, 100, 100, 100, 100, 5] {
        run(&mut volume, write(blocks));
    }
    run(&mut volume, RequestKind::Discard { offset: 0, len: size });
    let full = volume.lane.log.head(0).unwrap();
    assert_eq!(volume.lane.segments.at(full).written, volume.lane.segments.blocks());
    assert_eq!(volume.lane.segments.at(full).live, 0);
    volume.lane.want_checkpoint();
    volume.submit();
    assert!(!volume.lane.point.idle());
    volume.queue(Request { tag: 0, kind: write(50) });
    finish(&mut volume);
    assert_ne!(volume.lane.log.head(0), Some(full));
    drop(volume);
    let slots = read_slots(&mut disk.queue());
    let point = &newest(&slots).map(|found: &Superblock| found.checkpoint.clone()).unwrap();
    let heads = point.heads.iter().flatten();
    assert!(heads.clone().all(|head| !point.reserve.contains(&head.segment)), "{point:?}");
    let mut volume = Volume::open_on(Box::new(disk.queue()), &OpenOptions::default()).unwrap();
    assert!(volume.replayed().changes > 0);
    run(&mut volume, write(1));
}
