//! Each rule of the model, one test, and the proof that a wrong engine is caught.

mod cache;
mod crash;
mod faults;
mod media;
mod oracle;
mod order;

use std::io;

use super::*;
use crate::device::{Action, Buf, DeviceIndex, Done, IoQueue, Op, conformance};

const K4: u64 = 4096;

fn write(tag: u64, offset: u64, byte: u8, len: usize) -> Op {
    let bufs = [Buf::from(vec![byte; len])].into_iter().collect();
    Op { tag, device: 0, offset, action: Action::Write { bufs, durable: false } }
}

fn durable(tag: u64, offset: u64, byte: u8, len: usize) -> Op {
    let bufs = [Buf::from(vec![byte; len])].into_iter().collect();
    Op { tag, device: 0, offset, action: Action::Write { bufs, durable: true } }
}

fn read(tag: u64, offset: u64, len: usize) -> Op {
    let bufs = [Buf::new(len)].into_iter().collect();
    Op { tag, device: 0, offset, action: Action::Read(bufs) }
}

fn flush(tag: u64) -> Op {
    Op { tag, device: 0, offset: 0, action: Action::Flush }
}

fn discard(tag: u64, offset: u64, len: u64) -> Op {
    Op { tag, device: 0, offset, action: Action::Discard { len } }
}

fn on(device: DeviceIndex, op: Op) -> Op {
    Op { device, ..op }
}

/// Ends everything in flight.
fn drain(queue: &mut SimQueue) -> Vec<Done> {
    let mut done = Vec::new();
    queue.submit();
    while queue.in_flight() > 0 {
        queue.wait(None);
        queue.reap(&mut done);
    }
    done
}

/// Runs one operation to its end.
fn run(queue: &mut SimQueue, op: Op) -> Done {
    queue.push(op);
    let mut done = drain(queue);
    assert_eq!(done.len(), 1);
    done.remove(0)
}

/// Runs one operation that must succeed.
fn ok(queue: &mut SimQueue, op: Op) -> Done {
    let done = run(queue, op);
    assert!(done.result.is_ok(), "{:?}", done.result);
    done
}

fn errno(done: &Done) -> Option<i32> {
    done.result.as_ref().err().and_then(io::Error::raw_os_error)
}

fn disk(seed: u64) -> SimDisk {
    SimDisk::single(SimConfig::new(1 << 30, seed))
}

/// The first byte of each sector of a page.
fn sectors(disk: &SimDisk, offset: u64) -> Vec<u8> {
    disk.read_raw(0, offset, 4096)
        .chunks(512)
        .map(|sector| {
            assert!(sector.iter().all(|byte| *byte == sector[0]), "torn within a sector");
            sector[0]
        })
        .collect()
}

#[test]
fn random_numbers_stay_in_bounds_and_cover_them() {
    let mut rng = Rng::new(1);
    let mut seen = [false; 7];
    for _ in 0..1000 {
        seen[usize::try_from(rng.below(7)).unwrap()] = true;
        assert!((10..12).contains(&rng.range(10..12)));
    }
    assert_eq!(seen, [true; 7]);
    assert_eq!((rng.below(0), rng.range(5..5)), (0, 5));
    assert!(rng.chance(MILLION) && !rng.chance(0));
    let hits = (0..100_000).filter(|_| rng.chance(250_000)).count();
    assert!((24_000..26_000).contains(&hits), "{hits}");
    assert_eq!(Rng::new(9).next_u64(), Rng::new(9).next_u64());
    assert_ne!(Rng::new(9).fork().next_u64(), Rng::new(9).next_u64());
}

#[test]
fn the_seam_is_described() {
    let disk = disk(0);
    let queue = disk.queue();
    assert_eq!(queue.describe(), "simulated device");
    assert!(queue.waiter().is_none());
    assert_eq!(queue.limits(), [disk.limits(0).unwrap()]);
    let sized = SimConfig::new(K4 * 3 + 100, 0);
    assert_eq!(SimDisk::single(sized).limits(0).unwrap().size, K4 * 3);
}

#[test]
fn conforms_to_the_seam() {
    for seed in 0..4 {
        let queue = |size| SimDisk::single(SimConfig::new(size, seed)).queue();
        conformance::suite(&mut |size| Box::new(queue(size)));
    }
}
