//! What people put on a mounted volume: file systems on loop devices, and fio.
#![expect(clippy::unwrap_used, reason = "tests")]

mod common;

use std::path::Path;
use std::process::{Command, Stdio};

use common::mount::{Place, has, mountable, not_root, run, unmount};
use common::{arg, content, oxblock};

/// A loop device, and what is mounted from it.
struct Loop {
    node: String,
}

impl Loop {
    /// Over a file, with direct I/O; `None` where there are no loop devices.
    fn over(file: &Path) -> Option<Self> {
        let args = ["--find", "--show", "--direct-io=on", arg(file)];
        let output = Command::new("losetup").args(args).output().ok()?;
        let said = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() {
            println!("skipped: losetup: {said}");
            return None;
        }
        let node = String::from_utf8(output.stdout).unwrap().trim().to_owned();
        let dio = run("losetup", ["--noheadings", "-O", "DIO", &node]);
        assert_eq!(String::from_utf8_lossy(&dio.stdout).trim(), "1", "no direct I/O");
        Some(Self { node })
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        Command::new("losetup").args(["-d", &self.node]).stderr(Stdio::null()).status().ok();
    }
}

/// Runs a command line with one more word.
fn run_on(line: &str, node: &str) {
    let mut words = line.split(' ').chain([node]);
    run(words.next().unwrap_or_default(), words);
}

/// Makes a file system on a volume, puts files on it, and looks at them again after everything was closed in between.
fn file_system(program: &str, make: &str, check: &str) {
    if let Some(why) = not_root() {
        return println!("{why}");
    }
    if !has(program) || !has("losetup") {
        return println!("skipped: {program} or losetup is not installed");
    }
    let place = Place::new("512M");
    let inside = place.folder.path().join("inside");
    std::fs::create_dir(&inside).unwrap();
    let size = |n: u64| usize::try_from(n * n * 4000).unwrap();
    let files: Vec<(String, Vec<u8>)> =
        (0..60).map(|n| (format!("file-{n}"), content(n, size(n)))).collect();
    for round in 0..2 {
        let mounted = place.mount(&[]);
        let Some(device) = Loop::over(&mounted.file) else { return };
        if round == 0 {
            run_on(make, &device.node);
        }
        run_on(check, &device.node);
        run("mount", ["-o", "discard", &device.node, arg(&inside)]);
        if round == 0 {
            for (name, bytes) in &files {
                std::fs::write(inside.join(name), bytes).unwrap();
            }
            // Some are removed, and the space is given back to the volume.
            for (name, _) in files.iter().step_by(3) {
                std::fs::remove_file(inside.join(name)).unwrap();
            }
            run("fstrim", [arg(&inside)]);
        } else {
            for (at, (name, bytes)) in files.iter().enumerate() {
                let found = std::fs::read(inside.join(name));
                match at % 3 {
                    0 => assert!(found.is_err(), "{name} was removed"),
                    _ => assert!(found.unwrap() == *bytes, "{name} differs"),
                }
            }
        }
        unmount(&inside);
        run_on(check, &device.node);
        drop(device);
        mounted.unmount();
        oxblock(["check", arg(&place.device), "-q"]).ended(0);
    }
}

#[test]
fn ext4() {
    file_system("mkfs.ext4", "mkfs.ext4 -q -F", "fsck.ext4 -f -n");
}

#[test]
fn xfs() {
    file_system("mkfs.xfs", "mkfs.xfs -q -f", "xfs_repair -n");
}

#[test]
fn btrfs() {
    file_system("mkfs.btrfs", "mkfs.btrfs -q -f", "btrfs check --readonly");
}

#[test]
fn fio_verifies_what_it_wrote_at_depth_16() {
    mountable!();
    if !has("fio") {
        return println!("skipped: fio is not installed");
    }
    let place = Place::new("128M");
    let mounted = place.mount(&[]);
    let file = format!("--filename={}", arg(&mounted.file));
    for (engine, direct) in [("io_uring", "1"), ("libaio", "1"), ("psync", "0")] {
        let job = [
            "--name=verify",
            &file,
            &format!("--ioengine={engine}"),
            &format!("--direct={direct}"),
            "--iodepth=16",
            "--rw=randrw",
            "--rwmixread=30",
            "--bsrange=4k-256k",
            "--size=128m",
            "--io_size=96m",
            "--verify=crc32c",
            "--fsync=50",
            "--randrepeat=0",
        ];
        let output =
            Command::new("fio").args(job).current_dir(place.folder.path()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        if said.contains("io_uring_queue_init") {
            println!("skipped: no io_uring for fio here");
            continue;
        }
        let report = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{engine}: {said}{report}");
        assert!(report.contains("err= 0"), "{engine}: {report}");
    }
    mounted.unmount();
    oxblock(["check", arg(&place.device), "-q"]).ended(0);
}
