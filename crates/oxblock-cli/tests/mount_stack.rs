//! What people put on a mounted volume: file systems on loop devices, and fio.
#![expect(clippy::unwrap_used, reason = "tests")]

mod common;

use std::process::Command;

use common::mount::{Place, has, mountable, run};
use common::stack::{BTRFS, EXT4, FileSystem, Stack, XFS};
use common::{arg, content, oxblock};

/// Puts files on a file system, and looks at them again after everything was closed in between.
fn file_system(kind: FileSystem) {
    let Some(mut stack) = Stack::new(kind, "512M") else { return };
    let size = |n: u64| usize::try_from(n * n * 4000).unwrap();
    let files: Vec<(String, Vec<u8>)> =
        (0..60).map(|n| (format!("file-{n}"), content(n, size(n)))).collect();
    for (name, bytes) in &files {
        std::fs::write(stack.inside.join(name), bytes).unwrap();
    }
    // Some are removed, and the space is given back to the volume.
    for (name, _) in files.iter().step_by(3) {
        std::fs::remove_file(stack.inside.join(name)).unwrap();
    }
    run("fstrim", [arg(&stack.inside)]);
    stack.unmount();
    stack.mount();
    for (at, (name, bytes)) in files.iter().enumerate() {
        let found = std::fs::read(stack.inside.join(name));
        match at % 3 {
            0 => assert!(found.is_err(), "{name} was removed"),
            _ => assert!(found.unwrap() == *bytes, "{name} differs"),
        }
    }
    stack.unmount();
}

#[test]
fn ext4() {
    file_system(EXT4);
}

#[test]
fn xfs() {
    file_system(XFS);
}

#[test]
fn btrfs() {
    file_system(BTRFS);
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
