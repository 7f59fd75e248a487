//! How a mount ends: by unmounting, by signals, by being killed; and why it does not begin.
#![expect(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "tests")]

mod common;

use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::process::Stdio;
use std::time::{Duration, Instant};

use common::mount::{Left, Mounted, Place, has, mountable, not_root, run, unmount};
use common::{Random, arg, command, oxblock, seed};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::Signal;

const MIB: u64 = 1 << 20;

#[test]
fn signals_end_it_and_lose_nothing() {
    mountable!();
    let place = Place::new("16M");
    for (round, signal) in (1..).zip([Signal::TERM, Signal::INT, Signal::HUP]) {
        let mut mounted = place.mount(&[]);
        let file = mounted.open();
        // Not flushed: ending in good order does that.
        file.write_all_at(&[round; 8192], 4096).unwrap();
        // It stays open: whoever has it gets errors from now on, and holds nobody up.
        let began = Instant::now();
        mounted.signal(signal);
        let (code, said) = mounted.ended();
        assert_eq!((code, said.as_str()), (Some(0), ""));
        assert!(began.elapsed() < Duration::from_secs(5), "{signal:?} took {:?}", began.elapsed());
        assert!(file.read_at(&mut [0; 4096], 0).is_err());
        assert!(std::fs::read_dir(&place.point).unwrap().next().is_none(), "still mounted");
        assert_eq!(place.exported()[4096..12288], [round; 8192]);
    }
}

#[test]
fn a_signal_that_is_ignored_stays_ignored() {
    mountable!();
    if !has("nohup") {
        return println!("skipped: there is no nohup");
    }
    let place = Place::new("16M");
    let mut command = std::process::Command::new("nohup");
    command.args([env!("CARGO_BIN_EXE_oxblock"), "mount", arg(&place.device), arg(&place.point)]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut mounted = Mounted::of(command.spawn().unwrap(), &place.point);
    mounted.signal(Signal::HUP);
    std::thread::sleep(Duration::from_millis(200));
    mounted.open().write_all_at(&[1; 4096], 0).unwrap();
    mounted.signal(Signal::TERM);
    assert_eq!(mounted.ended().0, Some(0));
}

#[test]
fn requests_under_way_are_answered_before_it_ends() {
    mountable!();
    let place = Place::new("64M");
    for _ in 0..5 {
        let mut mounted = place.mount(&[]);
        let file = mounted.open();
        let writer = std::thread::spawn(move || {
            // What was acknowledged, until it fails.
            let mut written = 0;
            while file.write_all_at(&[5; 65536], written % (64 * MIB)).is_ok() {
                written += 65536;
            }
            written
        });
        std::thread::sleep(Duration::from_millis(100));
        mounted.signal(Signal::TERM);
        let (code, said) = mounted.ended();
        assert_eq!((code, said.as_str()), (Some(0), ""));
        let written = writer.join().unwrap().min(64 * MIB);
        assert!(place.exported()[..written as usize].iter().all(|byte| *byte == 5));
    }
}

#[test]
fn what_was_flushed_survives_kill_9_of_the_server() {
    mountable!();
    let mut random = Random(seed());
    let place = Place::new("32M");
    for round in 0..8 {
        let mounted = place.mount(&[]);
        // Half of the time each write is durable by itself.
        let flags = if round % 2 == 0 { OFlags::empty() } else { OFlags::DSYNC };
        let file = std::fs::OpenOptions::new()
            .write(true)
            .custom_flags(flags.bits().cast_signed())
            .open(&mounted.file)
            .unwrap();
        let mut durable: Vec<(u64, Vec<u8>)> = Vec::new();
        for _ in 0..1 + random.below(40) {
            let offset = random.below(8000) * 4096;
            let len = 1 + random.below(9000) as usize;
            let bytes = random.bytes(len);
            file.write_all_at(&bytes, offset).unwrap();
            // Of what overlaps, the last one counts.
            let end = offset + 9000;
            durable.retain(|(other, bytes)| other + bytes.len() as u64 <= offset || *other >= end);
            durable.push((offset, bytes));
        }
        if round % 2 == 0 {
            file.sync_data().unwrap();
        }
        mounted.signal(Signal::KILL);
        drop(file);
        drop(mounted);
        oxblock(["check", arg(&place.device), "-q"]).ended(0);
        let found = place.exported();
        for (offset, bytes) in &durable {
            assert!(
                found[*offset as usize..][..bytes.len()] == **bytes,
                "{offset} is lost, round {round}"
            );
        }
    }
}

#[test]
fn a_full_device_is_an_error_and_no_hang() {
    mountable!(not_root);
    let folder = tempfile::tempdir().unwrap();
    let small = folder.path().join("small");
    std::fs::create_dir(&small).unwrap();
    run("mount", ["-t", "tmpfs", "-o", "size=12M", "none", arg(&small)]);
    let _left = Left(&small);
    let device = small.join("disk.ox");
    oxblock(["create", arg(&device), "--size", "64M"]).ended(0);
    let point = folder.path().join("point");
    std::fs::create_dir(&point).unwrap();
    let mut mounted = Mounted::at(&device, &point, &[]);
    let file = mounted.open();
    let failed =
        (0..64).find_map(|mib| Some((mib, file.write_all_at(&vec![1; 1 << 20], mib * MIB).err()?)));
    let (written, error) = failed.unwrap();
    assert!(written > 0);
    assert_eq!(Errno::from_io_error(&error), Some(Errno::NOSPC));
    // From now on it reads, and takes nothing any more.
    let later = file.write_all_at(&[2; 4096], 0).unwrap_err();
    assert_eq!(Errno::from_io_error(&later), Some(Errno::IO));
    assert_eq!(Errno::from_io_error(&file.sync_all().unwrap_err()), Some(Errno::IO));
    let mut found = [0; 4096];
    file.read_exact_at(&mut found, 0).unwrap();
    assert_eq!(found, [1; 4096]);
    drop(file);
    unmount(&point);
    let (code, said) = mounted.ended();
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("free space"), "{said}");
    unmount(&small);
}

#[test]
fn in_the_background_it_returns_when_it_is_mounted() {
    mountable!();
    let place = Place::new("16M");
    let ran = oxblock(["mount", "--background", arg(&place.device), arg(&place.point)]).ended(0);
    let _left = Left(&place.point);
    let file = place.point.join("volume");
    assert_eq!(ran.text(), format!("16 MiB at {}\n", file.canonicalize().unwrap().display()));
    std::fs::OpenOptions::new().write(true).open(&file).unwrap().write_all(b"x").unwrap();
    oxblock(["info", arg(&place.device)]).ended(1);
    unmount(&place.point);
    // It ends by itself, and lets go of the device.
    let began = Instant::now();
    while oxblock(["info", arg(&place.device)]).code != 0 {
        assert!(began.elapsed() < Duration::from_secs(20), "it does not end");
    }
    assert_eq!(place.exported()[0], b'x');
    // A failure is told as in the foreground.
    let ran = oxblock(["mount", "--background", arg(&place.device), "/nowhere"]).ended(1);
    assert!(ran.stderr.contains("/nowhere does not exist"), "{}", ran.stderr);
}

#[test]
fn what_is_no_place_to_mount_at_is_refused_by_name() {
    let place = Place::new("16M");
    let device = arg(&place.device);
    for (point, code, why) in [
        ("/no/such/place", 1, "does not exist"),
        ("/dev/null", 1, "neither a folder nor a file"),
        (device, 2, "is the device itself"),
    ] {
        let ran = oxblock(["mount", device, point]).ended(code);
        assert!(ran.stderr.contains(why), "{}", ran.stderr);
    }
    let none = place.folder.path().join("none.ox");
    let ran = oxblock(["mount", arg(&none), arg(&place.point)]).ended(1);
    assert!(ran.stderr.contains("none.ox"), "{}", ran.stderr);
}

#[test]
fn what_a_killed_server_leaves_is_named() {
    mountable!();
    let place = Place::new("16M");
    let mounted = place.mount(&[]);
    mounted.signal(Signal::KILL);
    let mut mounted = mounted;
    mounted.ended();
    let ran = oxblock(["mount", arg(&place.device), arg(&place.point)]).ended(1);
    assert!(ran.stderr.contains("unmount it first"), "{}", ran.stderr);
    unmount(&place.point);
    place.mount(&[]).unmount();
}

/// Who is not root, and owns a volume and a place to mount it.
fn nobody(place: &Place) -> std::process::Command {
    for path in [place.folder.path(), &place.device, &place.point] {
        std::os::unix::fs::chown(path, Some(65534), Some(65534)).unwrap();
    }
    let mut command = command(["mount", arg(&place.device), arg(&place.point)]);
    command.uid(65534).gid(65534).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[test]
fn without_the_helper_it_says_what_is_missing() {
    mountable!(not_root);
    let place = Place::new("16M");
    let output = nobody(&place).env("PATH", "/nowhere").output();
    let output = match output {
        Ok(output) => output,
        Err(error) => return println!("skipped: others may not run the command: {error}"),
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("install the package fuse3") || said.contains("/dev/fuse"), "{said}");
}

#[test]
fn who_is_not_root_mounts_by_the_helper() {
    mountable!(not_root);
    if !has("fusermount3") {
        return println!("skipped: there is no fusermount3");
    }
    if std::fs::metadata("/dev/fuse").unwrap().mode() & 0o006 != 0o006 {
        return println!("skipped: /dev/fuse is only for root");
    }
    let place = Place::new("16M");
    let child = match nobody(&place).spawn() {
        Ok(child) => child,
        Err(error) => return println!("skipped: others may not run the command: {error}"),
    };
    let mounted = Mounted::of(child, &place.point);
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap();
    let line = mounts.lines().find(|line| line.contains(arg(&place.point))).unwrap();
    assert!(line.contains("fuse.oxblock") && line.contains("user_id=65534"), "{line}");
    // Not even root may look.
    assert!(std::fs::metadata(&mounted.file).is_err());
    let mut mounted = mounted;
    let file = format!("of={}", arg(&mounted.file));
    let as_nobody = |program: &str, args: &[&str]| {
        let mut command = std::process::Command::new(program);
        command.args(args).uid(65534).gid(65534).stderr(Stdio::null());
        assert!(command.status().unwrap().success(), "{program} {args:?}");
    };
    as_nobody("dd", &["if=/dev/zero", &file, "bs=4096", "count=3", "conv=notrunc,fsync"]);
    as_nobody("fusermount3", &["-u", arg(&place.point)]);
    assert_eq!(mounted.ended().0, Some(0));
    // Ending it by a signal unmounts by the helper too.
    let mut mounted = Mounted::of(nobody(&place).spawn().unwrap(), &place.point);
    mounted.signal(Signal::TERM);
    assert_eq!(mounted.ended(), (Some(0), String::new()));
    assert!(!std::fs::read_to_string("/proc/mounts").unwrap().contains(arg(&place.point)));
}

#[test]
fn a_connection_that_is_cut_off_ends_the_server_and_the_mount() {
    mountable!(not_root);
    let place = Place::new("16M");
    let mut mounted = place.mount(&[]);
    mounted.open().write_all_at(b"x", 0).unwrap();
    let control = place.folder.path().join("control");
    std::fs::create_dir(&control).unwrap();
    run("mount", ["-t", "fusectl", "none", arg(&control)]);
    // The name of a connection is the number of its file system's device.
    let device = rustix::fs::minor(rustix::fs::stat(&mounted.file).unwrap().st_dev);
    std::fs::write(control.join(device.to_string()).join("abort"), "1").unwrap();
    unmount(&control);
    let (code, said) = mounted.ended();
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("cut off"), "{said}");
    assert!(std::fs::read_dir(&place.point).unwrap().next().is_none(), "still mounted");
    assert_eq!(place.exported()[0], b'x');
}
