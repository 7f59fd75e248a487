//! Volumes end to end on the simulator: every request kind, reopening, and space.
#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]
#![expect(clippy::cast_possible_truncation, reason = "the volumes of these tests are small")]

#[path = "common/disk.rs"]
mod disk;
#[path = "common/run.rs"]
mod run;

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use oxblock::device::DeviceCall;
use oxblock::device::sim::{Rng, SimDisk};
use oxblock::volume::create;
use oxblock::{Buf, CreateOptions, ErrorKind, OpenOptions, Request, RequestKind, Volume};

use disk::disk;
use run::{finish, run};

/// Bytes over which a few blocks lie far apart in the map.
const SPREAD: u64 = 4 << 30;

fn open(disk: &SimDisk) -> Volume {
    Volume::open_on(Box::new(disk.queue()), &OpenOptions::default()).unwrap()
}

fn write(volume: &mut Volume, offset: u64, data: &[u8]) {
    let kind = RequestKind::Write { offset, buf: Buf::copy_of(data), fua: false };
    let done = run(volume, kind);
    done.result.unwrap();
    assert_eq!(&*done.buf.unwrap(), data, "the buffer comes back");
}

fn read(volume: &mut Volume, offset: u64, len: usize) -> Vec<u8> {
    let done = run(volume, RequestKind::Read { offset, buf: Buf::new(len) });
    done.result.unwrap();
    done.buf.unwrap().to_vec()
}

fn pattern(rng: &mut Rng, len: usize) -> Vec<u8> {
    let mut data = vec![0; len];
    rng.fill(&mut data);
    data
}

#[test]
fn what_is_written_is_read_at_any_alignment() {
    let size = 32 << 20;
    let disk = disk(size, 1);
    let mut volume = open(&disk);
    let mut rng = Rng::new(1);
    let mut model = vec![0u8; size as usize];
    for round in 0..400 {
        let len = match rng.below(4) {
            0 => 4096,
            1 => 1 + rng.below(10_000),
            2 => 4096 * (1 + rng.below(40)),
            _ => 1 + rng.below(1_500_000),
        };
        let mut offset = rng.below(size - len);
        if rng.below(2) == 0 {
            offset -= offset % 4096;
        }
        let (from, to) = (offset as usize, (offset + len) as usize);
        match rng.below(8) {
            0 => {
                run(&mut volume, RequestKind::WriteZeroes { offset, len, fua: false })
                    .result
                    .unwrap();
                model[from..to].fill(0);
            }
            1 => {
                run(&mut volume, RequestKind::Discard { offset, len }).result.unwrap();
                let (first, last) = (from.div_ceil(4096) * 4096, to / 4096 * 4096);
                if first < last {
                    model[first..last].fill(0);
                }
            }
            2 => assert_eq!(
                read(&mut volume, offset, len as usize),
                model[from..to],
                "round {round}"
            ),
            _ => {
                let data = pattern(&mut rng, len as usize);
                write(&mut volume, offset, &data);
                model[from..to].copy_from_slice(&data);
            }
        }
        if rng.below(40) == 0 {
            volume.close().unwrap();
            volume = open(&disk);
        }
    }
    assert_eq!(read(&mut volume, 0, size as usize), model);
}

#[test]
fn a_full_volume_can_be_overwritten_for_ever() {
    let size = 32 << 20;
    let disk = disk(size, 2);
    let mut volume = open(&disk);
    let mut rng = Rng::new(2);
    let blocks = size / 4096;
    let mut model = vec![0u64; blocks as usize];
    let mut done = Vec::new();
    let mut flying = 0;
    for step in 0..blocks * 6 {
        let block = if step < blocks { step } else { rng.below(blocks) };
        model[block as usize] = step + 1;
        let mut buf = Buf::new(4096);
        buf[..8].copy_from_slice(&(step + 1).to_le_bytes());
        let kind = RequestKind::Write { offset: block * 4096, buf, fua: false };
        volume.queue(Request { tag: block, kind });
        flying += 1;
        // Never two writes of one block in flight: their order would be open.
        if flying == 16 || step >= blocks {
            while flying > 0 {
                volume.submit();
                volume.poll(&mut done);
                for done in done.drain(..) {
                    done.result.unwrap();
                    flying -= 1;
                }
                if flying > 0 {
                    volume.wait(None);
                }
            }
        }
    }
    let data = read(&mut volume, 0, size as usize);
    for (block, want) in model.iter().enumerate() {
        let got = u64::from_le_bytes(data[block * 4096..block * 4096 + 8].try_into().unwrap());
        assert_eq!(got, *want, "block {block}");
    }
    volume.close().unwrap();
    let mut volume = open(&disk);
    assert_eq!(read(&mut volume, 0, size as usize), data);
}

/// On a full volume what is queued when it is closed needs cleaning to make room for it.
#[test]
fn closing_a_full_volume_finishes_what_is_queued() {
    let (tell, told) = mpsc::channel();
    // On a thread of its own, since the failure is that it never ends.
    thread::spawn(move || {
        let size = 32 << 20;
        let disk = disk(size, 3);
        let mut volume = open(&disk);
        let blocks = size / 4096;
        let queue = |volume: &mut Volume, round: u64| {
            for block in 0..blocks {
                // Far apart from each other, so that no segment empties by itself.
                let offset = block * (1571 + 1440 * round) % blocks * 4096;
                let buf = Buf::copy_of(&[2; 4096]);
                let kind = RequestKind::Write { offset, buf, fua: false };
                volume.queue(Request { tag: block, kind });
            }
        };
        for round in 0..4 {
            queue(&mut volume, round);
            finish(&mut volume, blocks as usize);
        }
        queue(&mut volume, 4);
        volume.close().unwrap();
        let mut volume = open(&disk);
        assert!(read(&mut volume, 0, size as usize).iter().all(|byte| *byte == 2));
        tell.send(()).unwrap();
    });
    told.recv_timeout(Duration::from_secs(60)).expect("it was closed in time");
}

/// `submit` starts what was queued; what that leads to must start without another.
#[test]
fn a_volume_that_is_only_polled_gets_on() {
    for device_call in [DeviceCall::Auto, DeviceCall::Ring, DeviceCall::Inline, DeviceCall::Threads]
    {
        let folder = tempfile::tempdir().unwrap();
        let paths = [folder.path().join("volume")];
        let options = CreateOptions { size: Some(SPREAD), ..CreateOptions::default() };
        create(&paths, &options, &mut |_, _| {}).unwrap();
        let options = OpenOptions { device_call, ..OpenOptions::default() };
        let mut volume = match Volume::open(&paths, &options) {
            Ok(volume) => volume,
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                println!("skipped {device_call:?}: {error}");
                continue;
            }
            Err(error) => panic!("{error}"),
        };
        for part in 0..16 {
            write(&mut volume, SPREAD / 16 * part, &[9; 8192]);
        }
        volume.close().unwrap();
        // Nothing is in memory now: each read needs a node, and then another.
        let mut volume = Volume::open(&paths, &options).unwrap();
        for part in 0..16 {
            let kind = RequestKind::Read { offset: SPREAD / 16 * part, buf: Buf::new(8192) };
            volume.queue(Request { tag: 1, kind });
            volume.submit();
            let (mut done, begin) = (Vec::new(), Instant::now());
            while volume.poll(&mut done) == 0 {
                assert!(begin.elapsed() < Duration::from_secs(10), "{device_call:?} is stuck");
                thread::yield_now();
            }
            assert!(done[0].buf.as_ref().unwrap().iter().all(|byte| *byte == 9));
        }
        volume.close().unwrap();
    }
}

#[test]
fn an_older_superblock_does_not_hide_what_came_after_it() {
    let disk = disk(16 << 20, 3);
    let mut volume = open(&disk);
    write(&mut volume, 0, &[1; 4096]);
    volume.close().unwrap();
    let before = newest(&disk);
    let mut volume = open(&disk);
    write(&mut volume, 0, &[2; 4096]);
    run(&mut volume, RequestKind::Flush).result.unwrap();
    drop(volume);
    let after = newest(&disk);
    assert!(after.0 > before.0, "a new life has a superblock of its own");
    for offset in after.1 {
        disk.flip_bit(0, offset + 500, 1);
    }
    let mut options = OpenOptions::default();
    let error = Volume::open_on(Box::new(disk.queue()), &options).unwrap_err();
    assert_eq!(error.kind(), oxblock::ErrorKind::Corrupt, "{error}");
    options.rollback = true;
    let mut volume = Volume::open_on(Box::new(disk.queue()), &options).unwrap();
    assert_eq!(read(&mut volume, 0, 4096), [1; 4096]);
}

#[test]
fn what_was_given_up_with_a_rollback_does_not_come_back() {
    let disk = disk(16 << 20, 3);
    let mut volume = open(&disk);
    write(&mut volume, 0, &[1; 4096]);
    run(&mut volume, RequestKind::Flush).result.unwrap();
    drop(volume);
    // A life that begins with a replay, and whose superblock is lost.
    let mut volume = open(&disk);
    write(&mut volume, 0, &[2; 4096]);
    run(&mut volume, RequestKind::Flush).result.unwrap();
    drop(volume);
    for offset in newest(&disk).1 {
        disk.flip_bit(0, offset + 500, 1);
    }
    let options = OpenOptions { rollback: true, ..OpenOptions::default() };
    let mut volume = Volume::open_on(Box::new(disk.queue()), &options).unwrap();
    assert_eq!(read(&mut volume, 0, 1), [1]);
    drop(volume);
    let mut volume = open(&disk);
    assert_eq!(read(&mut volume, 0, 1), [1]);
}

/// Generation of the newest superblock, and where its copies are.
fn newest(disk: &SimDisk) -> (u64, [u64; 2]) {
    let size = disk.limits(0).unwrap().size;
    (0..2)
        .filter_map(|slot| {
            let places = oxblock::format::superblock::offsets(0, slot, size);
            let bytes = disk.read_raw(0, places[0], 16384);
            let found = oxblock::format::superblock::Superblock::decode(&bytes).ok()??;
            Some((found.checkpoint.generation, places))
        })
        .max()
        .unwrap()
}
