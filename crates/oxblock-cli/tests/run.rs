//! Job files on a volume and on the bare device.
#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests: a failure is the test's")]

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
    assert!(
        ran.stderr.contains(&format!("is in use by pid {}", std::process::id())),
        "{}",
        ran.stderr
    );
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
    // Nor when there is something to say about the device.
    let mut bytes = fs::read(&device).unwrap();
    bytes[100] ^= 1;
    fs::write(&device, bytes).unwrap();
    let report = oxblock(with(&["check"], &["--json"])).ended(3).json();
    assert!(report["findings"][0]["device"].as_str().unwrap().contains("disk"), "{report}");
}

#[test]
fn a_reader_that_goes_away_changes_no_verdict() {
    let (folder, device, _job) = volume_and_job();
    let unread = |args: &[&str]| {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        command(args).stdout(writer).output().unwrap()
    };
    assert_eq!(unread(&["check", arg(&device)]).status.code(), Some(0));
    let mut bytes = fs::read(&device).unwrap();
    bytes[100] ^= 1;
    fs::write(&device, bytes).unwrap();
    assert_eq!(unread(&["check", arg(&device), "--json"]).status.code(), Some(3));
    // Here what was asked for is not done.
    let output = unread(&["export", arg(&device), "-"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    drop(folder);
}

/// Waits until a process has locked its device, without touching the device.
fn wait_for_lock(pid: u32) {
    let held = format!(" {pid} ");
    for _ in 0..2000 {
        let locks = fs::read_to_string("/proc/locks").unwrap();
        if locks.lines().any(|line| line.contains("FLOCK") && line.contains(&held)) {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("pid {pid} has locked nothing");
}

#[test]
fn an_interrupted_run_reports_and_closes_the_volume() {
    let (folder, device, job) = volume_and_job();
    fs::write(&job, "[w]\nrw=randwrite\nbs=4k\ntime_based\nruntime=100\n").unwrap();
    let out = folder.path().join("out");
    let child = command(["run", arg(&job), arg(&device), "--output", arg(&out)])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    wait_for_lock(child.id());
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("interrupted"), "{output:?}");
    assert!(fs::read_to_string(&out).unwrap().contains("w: (groupid=0"));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3, "a temporary file was left");
    let info = oxblock(["info", arg(&device), "--json"]).ended(0).json();
    assert_eq!(info["clean"], true);
}

#[test]
fn a_killed_run_leaves_no_temporary_report() {
    let (folder, device, job) = volume_and_job();
    fs::write(&job, "[w]\nrw=randwrite\nbs=4k\ntime_based\nruntime=100\n").unwrap();
    let out = folder.path().join("out");
    let mut child = command(["run", arg(&job), arg(&device), "--output", arg(&out)])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    wait_for_lock(child.id());
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "a temporary file was left");
}

/// A volume, and a job that writes and reads at depth.
fn volume_and_mix() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let (folder, device, job) = volume_and_job();
    let text = "[w]\nrw=randrw\nbs=4k\niodepth=8\nsize=1m\nio_size=4m\nnorandommap\nfsync=64\n";
    fs::write(&job, text).unwrap();
    (folder, device, job)
}

#[test]
fn stages_and_counters_stand_next_to_fios_keys() {
    let (_folder, device, job) = volume_and_mix();
    let args = ["run", arg(&job), arg(&device), "--stages", "--output-format=json"];
    let report: serde_json::Value = serde_json::from_slice(&oxblock(args).ended(0).stdout).unwrap();
    let engine = &report["oxblock"];
    assert_eq!(engine["version"], 1);
    for (kind, stages) in [
        ("write", ["queued", "gathered", "checksummed", "submitted", "device", "retired"]),
        ("read", ["queued", "looked_up", "total", "completed", "total", "total"]),
    ] {
        let ios = &report["jobs"][0][kind]["total_ios"];
        for stage in stages {
            let times = &engine["stages"][kind][stage];
            assert_eq!(&times["count"], ios, "{kind} {stage}");
            let value = |name: &str| times[name].as_u64().unwrap();
            let order = ["min", "p50", "p90", "p99", "p99.9", "max"].map(value);
            assert!(order.is_sorted() && value("mean") <= value("max"), "{times}");
        }
    }
    assert!(engine["stages"]["bio"]["record"]["count"].as_u64().unwrap() > 0);
    let counters = engine["counters"].as_object().unwrap();
    assert_eq!(counters["written_blocks"], report["jobs"][0]["write"]["total_ios"]);
    assert!(counters.contains_key("inline_sums") && counters.contains_key("cleared_retry"));
    let text = oxblock(["run", arg(&job), arg(&device), "--stages"]).ended(0).text();
    assert!(text.contains("\noxblock:\n  read (nsec)\n    queued     : count="), "{text}");
    assert!(text.contains("\n  counters\n    requests          : "), "{text}");
    // Nobody who does not ask for it gets it.
    let plain = oxblock(["run", arg(&job), arg(&device), "--output-format=json"]).ended(0);
    assert!(!plain.text().contains("\"oxblock\":"));
}

#[test]
fn the_trace_is_json_in_which_every_begin_has_its_end() {
    let (folder, device, job) = volume_and_mix();
    let trace = folder.path().join("trace.json");
    let args = ["run", arg(&job), arg(&device), "--trace", arg(&trace), "--output-format=json"];
    let report: serde_json::Value = serde_json::from_slice(&oxblock(args).ended(0).stdout).unwrap();
    let events: Vec<serde_json::Value> =
        serde_json::from_slice(&fs::read(&trace).unwrap()).unwrap();
    let count = |phase: &str, name: &str| {
        let found = events.iter().filter(|event| event["ph"] == phase && event["name"] == name);
        u64::try_from(found.count()).unwrap()
    };
    for name in ["write", "queued", "gathered", "device", "completed", "record"] {
        assert!(count("b", name) > 0, "{name}");
        assert_eq!(count("b", name), count("e", name), "{name}");
    }
    assert_eq!(report["jobs"][0]["write"]["total_ios"], count("e", "write"));
    // The last checkpoint is made when the volume is closed.
    assert!(count("e", "checkpoint") > 0);
    assert_eq!(report["oxblock"]["version"], 1);
}

#[test]
fn a_trace_has_its_place_and_its_meaning() {
    let (folder, device, job) = volume_and_job();
    let file = folder.path().join("file");
    for (args, says) in [
        (["--trace", arg(&device)], "which the job runs on"),
        (["--trace", arg(&job)], "it is the job file"),
        (["--trace", arg(folder.path())], "--trace takes the name of a file"),
    ] {
        let ran = oxblock(["run", arg(&job), arg(&device)].into_iter().chain(args)).ended(1);
        assert!(ran.stderr.contains(says), "{}", ran.stderr);
    }
    let both = ["run", arg(&job), arg(&device), "--trace", arg(&file), "--output", arg(&file)];
    assert!(oxblock(both).ended(2).stderr.contains("same file"));
    let raw = ["run", arg(&job), arg(&device), "--target", "raw", "--stages"];
    assert!(oxblock(raw).ended(2).stderr.contains("--target raw has none"));
    assert!(!file.exists(), "nothing was begun");
}
