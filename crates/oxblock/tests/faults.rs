//! What single faults of the device do to a volume: nothing is lost that could be had, nothing is counted that was not,
//! and nothing is given up after one try.
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]
#![expect(clippy::cast_possible_truncation, reason = "the volumes of these tests are small")]

use oxblock::device::sim::{EIO, Fault, FaultRule, OpKind, SimConfig, SimDisk};
use oxblock::volume::{create_on, required_size};
use oxblock::{
    Buf, Completion, CreateOptions, ErrorKind, OpenOptions, Request, RequestKind, Volume,
};

const BLOCK: u64 = 4096;

fn disk(size: u64, seed: u64) -> SimDisk {
    let device = required_size(size).unwrap();
    let disk = SimDisk::single(SimConfig::new(device, seed));
    let options = CreateOptions { size: Some(size), ..CreateOptions::default() };
    create_on(&mut disk.queue(), &options, "sim").unwrap();
    disk
}

fn open_with(disk: &SimDisk, options: &OpenOptions) -> oxblock::Result<Volume> {
    Volume::open_on(Box::new(disk.queue()), options)
}

fn open(disk: &SimDisk) -> Volume {
    open_with(disk, &OpenOptions::default()).unwrap()
}

/// Runs until `count` requests are done.
fn finish(volume: &mut Volume, count: usize) -> Vec<Completion> {
    let mut done = Vec::new();
    for _ in 0..100_000 {
        volume.submit();
        volume.poll(&mut done);
        if done.len() >= count {
            return done;
        }
        volume.wait(None);
    }
    panic!("{} of {count} requests completed", done.len());
}

fn run(volume: &mut Volume, kind: RequestKind) -> Completion {
    volume.queue(Request { tag: 7, kind });
    finish(volume, 1).pop().unwrap()
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

/// Where on the device a page of nothing but `byte` is.
fn find(disk: &SimDisk, byte: u8) -> u64 {
    let size = disk.limits(0).unwrap().size;
    let pages = disk.allocated_in(0, 0..size);
    let page =
        |at: &u64| disk.read_raw(0, *at, BLOCK as usize).iter().all(|found| *found == byte);
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
    disk.fail_next(0, OpKind::Write, EIO);
    volume.queue(Request { tag: 1, kind: write_kind(5, 1, 3) });
    volume.submit();
    // Whether or not the failed write shows while the node is fetched, a volume that takes no writes can be read.
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
