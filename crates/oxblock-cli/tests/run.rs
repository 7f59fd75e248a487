//! Job files on a volume and on the bare device.
#![expect(clippy::unwrap_used, reason = "helpers of tests: a failure is the test's")]

mod common;

use std::fs;
use std::path::PathBuf;

use common::{Random, arg, command, oxblock, oxblock_with};

#[test]
fn a_verifying_job_runs_and_reports_as_fio_does() {
    let folder = tempfile::tempdir().unwrap();
    let (device, job, out) = (
        folder.path().join("disk.ox"),
        folder.path().join("job.fio"),
        folder.path().join("out.json"),
    );
    oxblock(["create", arg(&device), "--size", "16M"]).ended(0);
    std::fs::write(
        &job,
        "[global]\nioengine=libaio\nbs=4k\nsize=100%\n[w]\nrw=randwrite\niodepth=16\nverify=crc32c\nfsync=64\n\
         [r]\nstonewall\nrw=randread\niodepth=4\n",
    )
    .unwrap();
    let ran = oxblock(["run", arg(&job), arg(&device)]).ended(0);
    assert!(ran.stderr.contains("replaced by the target: ioengine"), "{}", ran.stderr);
    assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
    let text = ran.text();
    assert!(!text.contains("replaced by"), "{text}");
    assert!(text.contains("w: (groupid=0") && text.contains("IOPS="), "{text}");
    let args = ["run", arg(&job), arg(&device), "--output-format=json", "--output", arg(&out)];
    assert!(oxblock(args).ended(0).stdout.is_empty());
    let report: serde_json::Value = serde_json::from_slice(&std::fs::read(&out).unwrap()).unwrap();
    let jobs = report["jobs"].as_array().unwrap();
    assert_eq!(jobs.len(), 2);
    assert_eq!(jobs[0]["write"]["io_bytes"], 16 << 20);
    assert_eq!(jobs[1]["read"]["io_bytes"], 16 << 20);
    oxblock(["check", arg(&device)]).ended(0);
}

#[test]
fn the_bare_device_takes_the_same_job() {
    let folder = tempfile::tempdir().unwrap();
    let (file, job) = (folder.path().join("raw"), folder.path().join("job.fio"));
    std::fs::write(&file, vec![0; 4 << 20]).unwrap();
    std::fs::write(&job, "[w]\nrw=write\nbs=64k\nsize=100%\nverify=md5\n").unwrap();
    oxblock(["run", arg(&job), arg(&file), "--target", "raw"]).ended(0);
    assert!(std::fs::read(&file).unwrap().iter().any(|byte| *byte != 0));
    let refused = oxblock(["run", arg(&job), arg(&file)]).ended(1);
    assert!(refused.stderr.contains("not an oxblock volume"), "{}", refused.stderr);
}

#[test]
fn bad_job_files_are_refused_by_name_and_line() {
    let folder = tempfile::tempdir().unwrap();
    let (device, job) = (folder.path().join("disk.ox"), folder.path().join("job.fio"));
    oxblock(["create", arg(&device), "--size", "1M"]).ended(0);
    std::fs::write(&job, "[w]\nrw=write\nblocksiez=4k\n").unwrap();
    let ran = oxblock(["run", arg(&job), arg(&device)]).ended(2);
    assert!(ran.stderr.contains(&format!("{}:3", job.display())), "{}", ran.stderr);
    assert!(ran.stderr.contains("blocksiez"), "{}", ran.stderr);
}

#[test]
fn what_was_not_written_fails_verification_with_status_3() {
    let folder = tempfile::tempdir().unwrap();
    let (device, job) = (folder.path().join("disk.ox"), folder.path().join("job.fio"));
    oxblock(["create", arg(&device), "--size", "1M"]).ended(0);
    std::fs::write(&job, "[w]\nrw=write\nbs=4k\nsize=1m\nverify=crc32c\nverify_only=1\n").unwrap();
    let ran = oxblock(["run", arg(&job), arg(&device)]).ended(3);
    assert!(ran.stderr.contains("not what was written"), "{}", ran.stderr);
}

/// A folder with a volume, and a job that writes to it.
fn volume_and_job() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let (device, job) = (folder.path().join("disk.ox"), folder.path().join("job.fio"));
    oxblock(["create", arg(&device), "--size", "1M"]).ended(0);
    fs::write(&job, "[w]\nrw=write\nbs=4k\nsize=1m\n").unwrap();
    (folder, device, job)
}

#[test]
fn the_report_overwrites_nothing_that_matters() {
    let (folder, device, job) = volume_and_job();
    let (other, copy) = (folder.path().join("other.ox"), folder.path().join("copy.ox"));
    oxblock(["create", arg(&other), "--size", "1M"]).ended(0);
    // Known by its second superblock only.
    let mut bytes = fs::read(&other).unwrap();
    bytes[..4096].fill(0);
    fs::write(&copy, bytes).unwrap();
    let (hard, soft) = (folder.path().join("hard"), folder.path().join("soft"));
    fs::hard_link(&device, &hard).unwrap();
    std::os::unix::fs::symlink(&device, &soft).unwrap();
    let everything = [&device, &job, &other, &copy];
    let before = everything.map(|path| fs::read(path).unwrap());
    for (out, why) in [
        (&device, "which the job runs on"),
        (&hard, "which the job runs on"),
        (&soft, "which the job runs on"),
        (&job, "the job file"),
        (&other, "is an oxblock volume"),
        (&copy, "is an oxblock volume"),
        (&folder.path().to_owned(), "is a directory"),
        (&PathBuf::from("/dev/zero"), "is a device"),
    ] {
        let ran = oxblock(["run", arg(&job), arg(&device), "--output", arg(out)]).ended(1);
        assert!(ran.stderr.contains(why), "{}: {}", out.display(), ran.stderr);
    }
    assert!(before == everything.map(|path| fs::read(path).unwrap()));
    let args = ["run", arg(&device), arg(&device), "--target", "raw"];
    assert!(oxblock(args).ended(1).stderr.contains("cannot be the job file"));
    oxblock(["run", arg(&job), arg(&device), "--output", "/dev/null"]).ended(0);
    let ran = oxblock(["run", arg(&job), arg(&device), "--output", "/dev/stdout"]).ended(0);
    assert!(ran.text().contains("IOPS="), "{}", ran.text());
}

#[test]
fn the_report_replaces_its_file_only_when_the_run_has_ended() {
    let (folder, device, job) = volume_and_job();
    let (out, link) = (folder.path().join("out"), folder.path().join("link"));
    fs::write(&out, "the last report").unwrap();
    std::os::unix::fs::symlink(&out, &link).unwrap();
    let missing = folder.path().join("none.ox");
    oxblock(["run", arg(&job), arg(&missing), "--output", arg(&out)]).ended(1);
    assert_eq!(fs::read(&out).unwrap(), b"the last report");
    oxblock(["run", arg(&job), arg(&device), "--output", arg(&link)]).ended(0);
    assert!(fs::read_to_string(&out).unwrap().contains("IOPS="));
    assert!(link.is_symlink());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 4, "a temporary file was left");
}

#[test]
fn only_what_can_be_a_job_file_is_read() {
    let (folder, device, job) = volume_and_job();
    let large = folder.path().join("large");
    fs::File::create(&large).unwrap().set_len((16 << 20) + 1).unwrap();
    for (file, why) in [
        (arg(&large), "16 MiB"),
        ("/dev/zero", "is not a file"),
        (arg(folder.path()), "not a file"),
    ] {
        let ran = oxblock(["run", file, arg(&device)]).ended(1);
        assert!(ran.stderr.contains(why), "{}", ran.stderr);
    }
    let text = fs::read(&job).unwrap();
    oxblock_with(&["run", "-", arg(&device)], &text).ended(0);
}

#[test]
fn damage_that_a_job_reads_is_status_3() {
    let (_folder, device, job) = volume_and_job();
    let content = Random(7).bytes(1 << 20);
    oxblock_with(&["import", "-", arg(&device)], &content).ended(0);
    let mut bytes = fs::read(&device).unwrap();
    let at = (0..bytes.len()).step_by(4096).find(|at| bytes[*at..].starts_with(&content[..4096]));
    bytes[at.unwrap() + 100] ^= 1;
    fs::write(&device, bytes).unwrap();
    fs::write(&job, "[r]\nrw=read\nbs=4k\nsize=1m\n").unwrap();
    let ran = oxblock(["run", arg(&job), arg(&device)]).ended(3);
    assert!(ran.stderr.contains("run 'oxblock check'"), "{}", ran.stderr);
}

#[test]
fn arguments_that_make_no_sense_are_status_2() {
    let (folder, device, job) = volume_and_job();
    let new = folder.path().join("new.ox");
    let (device, job, new) = (arg(&device), arg(&job), arg(&new));
    for args in [
        vec!["create", new, "--size", "0"],
        vec!["create", new, "--lanes", "2"],
        vec!["create", new, "--profile", "raid1"],
        vec!["create", new, "b.ox"],
        vec!["info", device, device],
        vec!["check", device, device],
        vec!["dump", "superblock", device, device],
        vec!["export", device, device, "-"],
        vec!["run", job, device, device],
        vec!["run", job, device, device, "--target", "raw"],
        vec!["bench", "--size", "0"],
        vec!["bench", "crc", "--quick", "--seconds", "-1"],
        vec!["bench", "crc", "--force"],
    ] {
        assert_eq!(oxblock(&args).code, 2, "{args:?}");
    }
    assert!(!folder.path().join("new.ox").exists());
}

#[test]
fn standard_streams_are_no_way_round_the_devices() {
    let (_folder, device, _job) = volume_and_job();
    let open = || fs::File::options().read(true).write(true).open(&device).unwrap();
    let output = command(["export", arg(&device), "-"]).stdout(open()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let output = command(["import", "-", arg(&device)]).stdin(open()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    oxblock(["check", arg(&device)]).ended(0);
}

#[test]
fn an_export_spares_what_another_process_has_locked() {
    let (folder, device, _job) = volume_and_job();
    let dest = folder.path().join("dest");
    fs::write(&dest, "precious").unwrap();
    let user = fs::File::open(&dest).unwrap();
    user.lock_shared().unwrap();
    let ran = oxblock(["export", arg(&device), arg(&dest), "--force"]).ended(1);
    assert!(ran.stderr.contains("is in use by another process"), "{}", ran.stderr);
    assert_eq!(fs::read(&dest).unwrap(), b"precious");
}

#[test]
fn names_that_are_not_text_are_no_panic() {
    use std::os::unix::ffi::OsStrExt;
    let folder = tempfile::tempdir().unwrap();
    let device = folder.path().join(std::ffi::OsStr::from_bytes(b"disk\xff.ox"));
    let words = |words: &[&str]| words.iter().map(std::ffi::OsString::from).collect::<Vec<_>>();
    let with = |before: &[&str], after: &[&str]| {
        [words(before), vec![device.clone().into_os_string()], words(after)].concat()
    };
    oxblock(with(&["create"], &["--size", "1M", "--json"])).ended(0).json();
    oxblock(with(&["info"], &["--json"])).ended(0).json();
    oxblock(with(&["import", "/dev/null"], &["--json"])).ended(0).json();
    oxblock(with(&["check"], &["--json"])).ended(0).json();
}
