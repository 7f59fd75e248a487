//! What must not be done is not done, in a sentence that says why and what to do, and nothing is overwritten.

mod common;

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use common::{Ran, Random, arg, command, content, is_root, oxblock, oxblock_with};

fn says(ran: &Ran, parts: &[&str]) {
    for part in parts {
        assert!(ran.stderr.contains(part), "'{part}' is not in: {}", ran.stderr);
    }
    // A sentence, not a page, and not a debugging aid.
    assert!(ran.stderr.lines().count() <= 3, "{}", ran.stderr);
    assert!(!ran.stderr.contains("Error {") && !ran.stderr.contains("Os {"), "{}", ran.stderr);
}

fn volume(folder: &Path, size: &str) -> std::path::PathBuf {
    let device = folder.join("disk.ox");
    oxblock(["create", arg(&device), "--size", size]).ended(0);
    device
}

#[test]
fn directories_are_no_devices() {
    let folder = tempfile::tempdir().unwrap();
    let path = arg(folder.path());
    for args in [
        vec!["create", path, "--size", "1M"],
        vec!["create", path, "--size", "1M", "--force"],
        vec!["info", path],
        vec!["check", path],
        vec!["export", path, "-"],
        vec!["dump", "superblock", path],
    ] {
        let ran = oxblock(&args).ended(1);
        says(&ran, &[path, "is a directory"]);
    }
}

#[test]
fn what_is_missing_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("none.ox");
    for args in
        [vec!["info", arg(&path)], vec!["check", arg(&path)], vec!["export", arg(&path), "-"]]
    {
        says(&oxblock(&args).ended(1), &[arg(&path), "does not exist"]);
    }
    assert!(!path.exists());
    let device = volume(folder.path(), "1M");
    says(&oxblock(["import", arg(&path), arg(&device)]).ended(1), &[arg(&path)]);
    says(&oxblock(["run", arg(&path), arg(&device)]).ended(1), &[arg(&path)]);
}

#[test]
fn foreign_content_is_named_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    let mut kinds: Vec<(&str, Vec<u8>)> = vec![("random", Random(5).bytes(80 << 20))];
    std::fs::write(&path, vec![0; 80 << 20]).unwrap();
    match Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&path).status() {
        Ok(status) if status.success() => kinds.push(("ext4", std::fs::read(&path).unwrap())),
        other => println!("skipped the ext4 image: mkfs.ext4 gave {other:?}"),
    }
    for (kind, bytes) in kinds {
        std::fs::write(&path, &bytes).unwrap();
        let created = oxblock(["create", arg(&path)]).ended(1);
        says(&created, &[arg(&path), "--force"]);
        let info = oxblock(["info", arg(&path)]).ended(1);
        says(&info, &[arg(&path), "not an oxblock volume"]);
        says(&oxblock(["check", arg(&path)]).ended(1), &["not an oxblock volume"]);
        if kind == "ext4" {
            says(&created, &["ext4"]);
            says(&info, &["ext4"]);
        }
        assert!(std::fs::read(&path).unwrap() == bytes, "{kind}: it was written to");
        oxblock(["create", arg(&path), "--force"]).ended(0);
        oxblock(["check", arg(&path)]).ended(0);
    }
    // Nor is a volume itself.
    says(&oxblock(["create", arg(&path)]).ended(1), &["--force"]);
}

#[test]
fn small_devices_and_nonsense_sizes_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("small");
    std::fs::write(&path, vec![0; 1 << 20]).unwrap();
    says(&oxblock(["create", arg(&path)]).ended(1), &[arg(&path), "too small"]);
    says(&oxblock(["create", arg(&path), "--size", "1G"]).ended(1), &["too small"]);
    assert!(std::fs::read(&path).unwrap() == vec![0; 1 << 20]);
    let path = folder.path().join("new");
    says(&oxblock(["create", arg(&path), "--size", "0"]).ended(2), &["--size 0 makes no volume"]);
    oxblock(["create", arg(&path), "--size", "1KB"]).ended(2);
    oxblock(["create", arg(&path), "--size", "1M", "--label", &"x".repeat(65)]).ended(2);
    oxblock(["create", arg(&path), "--size", "1M", "--lanes", "2"]).ended(2);
    oxblock(["create", arg(&path), "--size", "1M", "--profile", "raid1"]).ended(2);
    assert!(
        !path.exists() || std::fs::metadata(&path).unwrap().len() == 0,
        "a refused create leaves no file that holds anything"
    );
}

#[test]
fn a_device_that_was_cut_short_is_said_to_be() {
    let folder = tempfile::tempdir().unwrap();
    let device = volume(folder.path(), "8M");
    oxblock_with(&["import", "-", arg(&device)], &content(1, 8 << 20)).ended(0);
    let file = std::fs::OpenOptions::new().write(true).open(&device).unwrap();
    let len = file.metadata().unwrap().len();
    for cut in [len - 4096, len / 2, 5 << 20, 2 << 20] {
        file.set_len(cut).unwrap();
        for args in [vec!["info", arg(&device)], vec!["export", arg(&device), "-"]] {
            let ran = oxblock(&args).ended(3);
            says(&ran, &[arg(&device), "cut short", "restore its full length"]);
            assert!(ran.stdout.is_empty());
        }
        let checked = oxblock(["check", arg(&device)]).ended(3);
        assert!(checked.stderr.contains("cut short"), "{}", checked.stderr);
    }
    for cut in [4096, 0] {
        file.set_len(cut).unwrap();
        let ran = oxblock(["info", arg(&device)]);
        assert!(ran.code == 1 || ran.code == 3, "{ran:?}");
        says(&ran, &[arg(&device)]);
    }
}

#[test]
fn one_process_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let device = volume(folder.path(), "8M");
    let mut holder = command(["import", "-", arg(&device)])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let job = folder.path().join("job.fio");
    std::fs::write(&job, "[j]\nrw=write\nbs=4k\nsize=1m\n").unwrap();
    // More than a pipe holds: once it is taken, the volume is open.
    holder.stdin.as_mut().unwrap().write_all(&content(4, 4 << 20)).unwrap();
    let pid = format!("in use by pid {}", holder.id());
    for args in [
        vec!["info", arg(&device)],
        vec!["check", arg(&device)],
        vec!["export", arg(&device), "-"],
        vec!["import", arg(&job), arg(&device)],
        vec!["run", arg(&job), arg(&device)],
        vec!["run", arg(&job), arg(&device), "--target", "raw"],
        vec!["create", arg(&device), "--size", "8M", "--force"],
        vec!["dump", "superblock", arg(&device)],
    ] {
        says(&oxblock(&args).ended(1), &[arg(&device), &pid]);
    }
    drop(holder.stdin.take());
    assert!(holder.wait().unwrap().success());
    oxblock(["check", arg(&device)]).ended(0);
}

#[test]
fn existing_files_and_devices_are_no_destination() {
    let folder = tempfile::tempdir().unwrap();
    let device = volume(folder.path(), "1M");
    let out = folder.path().join("out");
    std::fs::write(&out, "precious").unwrap();
    says(&oxblock(["export", arg(&device), arg(&out)]).ended(1), &[arg(&out), "--force"]);
    assert_eq!(std::fs::read(&out).unwrap(), b"precious");
    oxblock(["export", arg(&device), arg(&out), "--force"]).ended(0);
    assert_eq!(std::fs::metadata(&out).unwrap().len(), 1 << 20);
    oxblock(["export", arg(&device), arg(&device), "--force"]).ended(1);
    oxblock(["import", arg(&device), arg(&device)]).ended(1);
    oxblock(["check", arg(&device)]).ended(0);
    oxblock(["export", arg(&device), arg(&out), "--force", "--length", "2M"]).ended(2);
    let large = folder.path().join("large");
    std::fs::write(&large, vec![1; (1 << 20) + 1]).unwrap();
    let ran = oxblock(["import", arg(&large), arg(&device)]).ended(1);
    says(&ran, &["nothing was written"]);
}

#[test]
fn permissions_are_heeded() {
    if is_root() {
        println!("skipped: root is stopped by no mode bits");
        return;
    }
    use std::os::unix::fs::PermissionsExt;
    let mode = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let folder = tempfile::tempdir().unwrap();
    let device = volume(folder.path(), "1M");
    mode(&device, 0o444);
    says(&oxblock(["import", "-", arg(&device)]).ended(1), &[arg(&device), "owner and mode"]);
    oxblock(["check", arg(&device)]).ended(0);
    mode(&device, 0o000);
    says(&oxblock(["info", arg(&device)]).ended(1), &[arg(&device), "owner and mode"]);
    mode(&device, 0o644);
    mode(folder.path(), 0o555);
    let new = folder.path().join("new.ox");
    says(&oxblock(["create", arg(&new), "--size", "1M"]).ended(1), &[arg(&new)]);
    says(&oxblock(["export", arg(&device), arg(&new)]).ended(1), &[arg(&new)]);
    mode(folder.path(), 0o755);
}

#[test]
fn a_reader_that_goes_away_is_no_panic() {
    let folder = tempfile::tempdir().unwrap();
    let device = volume(folder.path(), "8M");
    oxblock_with(&["import", "-", arg(&device)], &Random(1).bytes(8 << 20)).ended(0);
    let mut child = command(["export", arg(&device), "-"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!stderr.contains("panicked"), "{stderr}");
    assert_ne!(output.status.code(), Some(0));
}
