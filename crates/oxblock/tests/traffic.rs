//! What a volume says about the requests and the devices that it has dealt with.
#![allow(clippy::unwrap_used, reason = "tests")]

use oxblock::device::sim::{SimConfig, SimDisk};
use oxblock::trace::Kind;
use oxblock::volume::{create_on, required_size};
use oxblock::{Buf, CreateOptions, OpenOptions, Request, RequestKind, Volume};

const SIZE: u64 = 16 << 20;

fn volume() -> Volume {
    let disk = SimDisk::single(SimConfig::new(required_size(SIZE).unwrap(), 7));
    let options = CreateOptions { size: Some(SIZE), ..CreateOptions::default() };
    create_on(&mut disk.queue(), &options, "sim").unwrap();
    Volume::open_on(Box::new(disk.queue()), &OpenOptions::default()).unwrap()
}

fn run(volume: &mut Volume, kinds: Vec<RequestKind>) {
    let count = kinds.len();
    kinds.into_iter().for_each(|kind| volume.queue(Request { tag: 0, kind }));
    let mut done = Vec::new();
    while done.len() < count {
        volume.submit();
        volume.poll(&mut done);
        if done.len() < count {
            volume.wait(None);
        }
    }
}

fn write(offset: u64, len: usize) -> RequestKind {
    RequestKind::Write { offset, buf: Buf::new(len), fua: false }
}

fn read(offset: u64, len: usize) -> RequestKind {
    RequestKind::Read { offset, buf: Buf::new(len) }
}

#[test]
fn requests_are_counted_by_kind() {
    let mut volume = volume();
    run(&mut volume, vec![write(0, 4096), write(8192, 5000), RequestKind::Flush]);
    run(&mut volume, vec![read(0, 8192), read(SIZE, 4096)]);
    let zeroes = RequestKind::WriteZeroes { offset: 1, len: 10_000, fua: false };
    run(&mut volume, vec![RequestKind::Discard { offset: 0, len: 4096 }, zeroes]);
    let traffic = volume.traffic();
    let seen: Vec<_> = traffic
        .all()
        .map(|(kind, flow)| (kind, flow.latency.count(), flow.bytes, flow.errors, flow.in_flight))
        .collect();
    let expected = vec![
        (Kind::Read, 2, 8192, 1, 0),
        (Kind::Write, 2, 9096, 0, 0),
        (Kind::Flush, 1, 0, 0, 0),
        (Kind::Discard, 1, 4096, 0, 0),
        (Kind::WriteZeroes, 1, 10_000, 0, 0),
    ];
    assert_eq!(seen, expected);
    assert_eq!(volume.counters().requests, 7);
}

#[test]
fn what_is_under_way_is_counted_until_it_is_done() {
    let mut volume = volume();
    volume.queue(Request { tag: 0, kind: write(0, 4096) });
    assert_eq!(volume.traffic().of(Kind::Write).in_flight, 1);
    run(&mut volume, vec![read(0, 4096)]);
    while volume.traffic().all().any(|(_, flow)| flow.in_flight > 0) {
        volume.submit();
        volume.poll(&mut Vec::new());
        volume.wait(None);
    }
    // The simulator's time goes on while one waits, and so did this.
    let times = volume.traffic().of(Kind::Write).latency.times();
    assert!(times.count == 1 && times.min > 0, "{times:?}");
}

#[test]
fn operations_are_counted_by_device() {
    let mut volume = volume();
    let before = volume.info().devices.first().unwrap().traffic;
    run(&mut volume, vec![write(0, 1 << 20)]);
    run(&mut volume, vec![RequestKind::Flush]);
    run(&mut volume, vec![read(0, 1 << 20)]);
    let traffic = |volume: &Volume| volume.info().devices.first().unwrap().traffic;
    // What the engine does for itself ends too.
    for _ in 0..100 {
        if traffic(&volume).in_flight > 0 {
            volume.submit();
            volume.wait(None);
            volume.poll(&mut Vec::new());
        }
    }
    let after = traffic(&volume);
    assert!(after.written_bytes - before.written_bytes >= 1 << 20);
    assert!(after.read_bytes - before.read_bytes >= 1 << 20);
    assert!(after.writes > before.writes && after.reads > before.reads);
    assert!(after.flushes > before.flushes);
    assert_eq!((after.errors, after.in_flight), (0, 0));
    assert!(volume.map_stats().lookups > 0);
}
