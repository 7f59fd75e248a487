//! A mounted volume as a file: what is written is there, and what files promise is kept.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::panic,
    reason = "tests"
)]

mod common;

use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use common::mapping::Mapping;
use common::mount::{Mounted, Place, mountable, run, unmount};
use common::{Random, arg, content, oxblock};
use rustix::fs::{FallocateFlags, OFlags, fallocate, seek};
use rustix::io::Errno;

const MIB: u64 = 1 << 20;

fn errno(error: &std::io::Error) -> Option<Errno> {
    Errno::from_io_error(error)
}

#[test]
fn what_is_written_is_there_and_in_the_volume() {
    mountable!();
    let place = Place::new("64M");
    let mounted = place.mount(&[]);
    assert_eq!(mounted.file, place.point.canonicalize().unwrap().join("volume"));
    let file = mounted.open();
    assert_eq!(file.metadata().unwrap().len(), 64 * MIB);
    // Of every size and alignment, over each other, against a copy in memory.
    let mut copy = vec![0; 64 << 20];
    let mut random = Random(5);
    for round in 0..400 {
        let len = match round % 4 {
            0 => 1 + random.below(100),
            1 => 4096 * (1 + random.below(4)),
            2 => 1 + random.below(3 << 20),
            _ => 1 + random.below(9000),
        };
        let offset = random.below(64 * MIB - len);
        let offset = if round % 4 == 1 { offset / 4096 * 4096 } else { offset };
        let bytes = random.bytes(len as usize);
        file.write_all_at(&bytes, offset).unwrap();
        copy[offset as usize..][..bytes.len()].copy_from_slice(&bytes);
        let len = 1 + random.below(2 << 20);
        let offset = random.below(64 * MIB - len);
        let mut found = vec![0; len as usize];
        file.read_exact_at(&mut found, offset).unwrap();
        assert!(found == copy[offset as usize..][..found.len()], "round {round} differs");
    }
    file.sync_all().unwrap();
    drop(file);
    mounted.unmount();
    assert!(place.exported() == copy, "the volume differs from what was written to the mount");
    oxblock(["check", arg(&place.device), "-q"]).ended(0);
}

#[test]
fn every_way_to_the_device_serves() {
    mountable!();
    let place = Place::new("32M");
    let ways: [&[&str]; 5] = [
        &["--device-call", "ring"],
        &["--device-call", "inline"],
        &["--device-call", "threads"],
        &["--policy", "submit=offload,complete=worker"],
        &["--device-call", "threads", "--policy", "submit=offload,complete=worker"],
    ];
    for (seed, way) in (1..).zip(ways) {
        let mounted = place.mount(way);
        let bytes = content(seed, 8 << 20);
        // Several at once, so that some are under way while others come.
        std::thread::scope(|scope| {
            for (at, part) in (0..).zip(bytes.chunks(1 << 20)) {
                let file = mounted.open();
                scope.spawn(move || {
                    for (piece, bytes) in (0..).zip(part.chunks(40_000)) {
                        let offset = at * MIB + piece * 40_000;
                        file.write_all_at(bytes, offset).unwrap();
                        let mut found = vec![0; bytes.len()];
                        file.read_exact_at(&mut found, offset).unwrap();
                        assert!(found == bytes, "{way:?}: {offset} differs");
                    }
                    file.sync_all().unwrap();
                });
            }
        });
        // And after a pause, in which it sleeps.
        std::thread::sleep(std::time::Duration::from_millis(50));
        let mut found = vec![0; bytes.len()];
        mounted.open().read_exact_at(&mut found, 0).unwrap();
        assert!(found == bytes, "{way:?}");
        mounted.unmount();
    }
}

#[test]
fn dd_and_cp_need_no_options() {
    mountable!();
    let place = Place::new("32M");
    let image = place.folder.path().join("image");
    let bytes = content(3, 5 << 20);
    std::fs::write(&image, &bytes).unwrap();
    let mounted = place.mount(&[]);
    let file = arg(&mounted.file);
    // Opening with O_TRUNC leaves the size, as on a block device.
    for program in [
        vec!["dd", "bs=1M", &format!("if={}", arg(&image)), &format!("of={file}"), "status=none"],
        vec!["cp", arg(&image), file],
        vec![
            "dd",
            "bs=1M",
            "oflag=direct",
            "conv=fsync",
            &format!("if={}", arg(&image)),
            &format!("of={file}"),
            "status=none",
        ],
    ] {
        mounted.open().write_all(&vec![1; 6 << 20]).unwrap();
        run(program[0], program[1..].iter().copied());
        run("cmp", ["-n", &bytes.len().to_string(), arg(&image), file]);
        assert_eq!(std::fs::metadata(&mounted.file).unwrap().len(), 32 * MIB);
        let mut behind = [0; 4096];
        mounted.open().read_exact_at(&mut behind, 5 * MIB).unwrap();
        assert_eq!(behind, [1; 4096]);
    }
    mounted.unmount();
}

#[test]
fn a_file_becomes_the_volume_and_a_label_its_name() {
    mountable!();
    let place = Place::with(&["--size", "16M", "--label", "my disk"]);
    let mounted = place.mount(&[]);
    assert_eq!(mounted.file.file_name().unwrap(), "my disk");
    let names: Vec<_> =
        std::fs::read_dir(&place.point).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, ["my disk"]);
    assert!(std::fs::File::create(place.point.join("new")).is_err());
    mounted.unmount();
    let point = place.folder.path().join("file");
    std::fs::write(&point, "below").unwrap();
    let mounted = Mounted::at(&place.device, &point, &[]);
    assert_eq!(mounted.file, point.canonicalize().unwrap());
    assert_eq!(std::fs::metadata(&point).unwrap().len(), 16 * MIB);
    mounted.open().write_all(b"above").unwrap();
    assert_eq!(&std::fs::read(&point).unwrap()[..5], b"above");
    mounted.unmount();
    assert_eq!(std::fs::read(&point).unwrap(), b"below");
}

#[test]
fn holes_are_punched_found_and_counted() {
    mountable!();
    let place = Place::new("32M");
    let mounted = place.mount(&[]);
    let file = mounted.open();
    let (keep, punch, zero) =
        (FallocateFlags::KEEP_SIZE, FallocateFlags::PUNCH_HOLE, FallocateFlags::ZERO_RANGE);
    file.write_all_at(&vec![7; 8 << 20], 4 * MIB).unwrap();
    assert_eq!(file.metadata().unwrap().blocks() * 512, 8 * MIB);
    fallocate(&file, punch | keep, 6 * MIB, MIB).unwrap();
    fallocate(&file, zero, 8 * MIB + 100, 8192).unwrap();
    fallocate(&file, punch | keep, 9 * MIB + 1, 4096).unwrap();
    assert!(file.metadata().unwrap().blocks() * 512 <= 7 * MIB);
    let mut found = vec![0; 8 << 20];
    file.read_exact_at(&mut found, 4 * MIB).unwrap();
    for (at, byte) in (4 * MIB..).zip(&found) {
        let hole = (6 * MIB..7 * MIB).contains(&at)
            || (8 * MIB + 100..8 * MIB + 8292).contains(&at)
            || (9 * MIB + 1..9 * MIB + 4097).contains(&at);
        assert_eq!(*byte, if hole { 0 } else { 7 }, "byte {at}");
    }
    for (from, to) in [
        (rustix::fs::SeekFrom::Data(0), 4 * MIB),
        (rustix::fs::SeekFrom::Hole(0), 0),
        (rustix::fs::SeekFrom::Data(4 * MIB + 5), 4 * MIB + 5),
        (rustix::fs::SeekFrom::Hole(4 * MIB + 5), 6 * MIB),
        (rustix::fs::SeekFrom::Hole(6 * MIB + 5), 6 * MIB + 5),
        (rustix::fs::SeekFrom::Data(6 * MIB + 5), 7 * MIB),
        (rustix::fs::SeekFrom::Hole(10 * MIB), 12 * MIB),
        (rustix::fs::SeekFrom::Hole(32 * MIB - 1), 32 * MIB - 1),
    ] {
        assert_eq!(seek(&file, from), Ok(to), "{from:?}");
    }
    for from in [rustix::fs::SeekFrom::Data(12 * MIB), rustix::fs::SeekFrom::Hole(32 * MIB)] {
        assert_eq!(seek(&file, from), Err(Errno::NXIO), "{from:?}");
    }
    // The last byte written: there is no hole before the end.
    file.write_all_at(&vec![1; 1 << 20], 31 * MIB).unwrap();
    assert_eq!(seek(&file, rustix::fs::SeekFrom::Hole(31 * MIB)), Ok(32 * MIB));
    for (mode, offset, len, errno) in [
        (FallocateFlags::empty(), 0, MIB, Errno::OPNOTSUPP),
        (FallocateFlags::COLLAPSE_RANGE, 0, MIB, Errno::OPNOTSUPP),
        (zero, 31 * MIB, 2 * MIB, Errno::FBIG),
    ] {
        assert_eq!(fallocate(&file, mode, offset, len), Err(errno), "{mode:?}");
    }
    drop(file);
    mounted.unmount();
}

#[test]
fn the_size_is_fixed() {
    mountable!();
    let place = Place::new("16M");
    let mounted = place.mount(&[]);
    let mut file = mounted.open();
    for size in [0, 1, 32 * MIB] {
        assert_eq!(errno(&file.set_len(size).unwrap_err()), Some(Errno::PERM));
    }
    file.set_len(16 * MIB).unwrap();
    // Over the end a write is cut, behind it it fails; a read ends.
    assert_eq!(file.write_at(&[1; 100], 16 * MIB - 10).unwrap(), 10);
    assert_eq!(file.write_at(&[1; 100], 16 * MIB).unwrap_err().kind(), ErrorKind::StorageFull);
    file.seek(SeekFrom::End(-10)).unwrap();
    let mut end = Vec::new();
    file.read_to_end(&mut end).unwrap();
    assert_eq!(end, [1; 10]);
    assert_eq!(file.read_at(&mut [0; 10], 16 * MIB + 5).unwrap(), 0);
    assert!(!file.metadata().unwrap().is_dir() && file.metadata().unwrap().len() == 16 * MIB);
    drop(file);
    mounted.unmount();
}

#[test]
fn shared_mappings_and_file_access_see_each_other() {
    mountable!();
    let place = Place::new("16M");
    let mounted = place.mount(&[]);
    let file = mounted.open();
    file.write_all_at(&vec![3; 1 << 20], 0).unwrap();
    let Some(mut mapping) = Mapping::of_mounted(&mounted.file) else { return };
    assert_eq!(mapping.read(0, 5), [3; 5]);
    mapping.write(4096, b"hello", true);
    let mut found = [0; 5];
    file.read_exact_at(&mut found, 4096).unwrap();
    assert_eq!(&found, b"hello");
    drop(mapping);
    drop(file);
    mounted.unmount();
}

#[test]
fn read_only_is_read_only() {
    mountable!();
    let place = Place::new("16M");
    let mounted = place.mount(&[]);
    mounted.open().write_all(b"before").unwrap();
    mounted.unmount();
    let before = std::fs::read(&place.device).unwrap();
    let mounted = place.mount(&["--read-only"]);
    let opened = std::fs::OpenOptions::new().write(true).open(&mounted.file);
    assert_eq!(errno(&opened.unwrap_err()), Some(Errno::ROFS));
    let file = std::fs::File::open(&mounted.file).unwrap();
    let mut found = [0; 6];
    file.read_exact_at(&mut found, 0).unwrap();
    assert_eq!(&found, b"before");
    assert_eq!(file.metadata().unwrap().mode() & 0o7777, 0o400);
    assert_eq!(
        fallocate(&file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 0, 4096),
        Err(Errno::BADF)
    );
    drop(file);
    mounted.unmount();
    assert!(before == std::fs::read(&place.device).unwrap(), "a read-only mount has written");
}

#[test]
fn a_damaged_block_fails_alone() {
    mountable!();
    let place = Place::new("16M");
    let mounted = place.mount(&[]);
    let mark = Random(77).bytes(4096);
    let file = mounted.open();
    file.write_all_at(&vec![9; 64 << 10], 0).unwrap();
    file.write_all_at(&mark, 20480).unwrap();
    drop(file);
    mounted.unmount();
    damage(&place.device, &mark);
    let mut mounted = place.mount(&[]);
    let open = |flags: OFlags| {
        let flags = flags.bits().cast_signed();
        std::fs::OpenOptions::new().read(true).custom_flags(flags).open(&mounted.file).unwrap()
    };
    for file in [open(OFlags::empty()), open(OFlags::DIRECT)] {
        // Aligned, for the second of them.
        let mut buf = oxblock::Buf::new(64 << 10);
        assert_eq!(file.read_at(&mut buf, 0).unwrap(), 20480);
        assert!(buf[..20480] == [9; 20480]);
        let failed = file.read_at(&mut buf, 20480).unwrap_err();
        assert_eq!(errno(&failed), Some(Errno::IO));
        file.read_exact_at(&mut buf[..8192], 24576).unwrap();
        assert!(buf[..8192] == [9; 8192]);
    }
    unmount(&place.point);
    let (code, said) = mounted.ended();
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("block 5 ") && said.contains("oxblock check"), "{said}");
}

/// Flips a bit in the one place of `device` that holds `mark`.
fn damage(device: &Path, mark: &[u8]) {
    let mut bytes = std::fs::read(device).unwrap();
    let places: Vec<usize> =
        (0..bytes.len() / 4096).filter(|at| bytes[at * 4096..][..4096] == *mark).collect();
    let [place] = places.as_slice() else { panic!("{} places", places.len()) };
    bytes[place * 4096 + 100] ^= 1;
    let file = std::fs::OpenOptions::new().write(true).open(device).unwrap();
    file.write_all_at(&bytes[place * 4096..][..4096], *place as u64 * 4096).unwrap();
}
