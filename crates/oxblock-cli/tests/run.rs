//! Job files on a volume and on the bare device.

mod common;

use common::{arg, oxblock};

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
    let text = ran.text();
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
    let ran = oxblock(["run", arg(&job), arg(&device)]).ended(1);
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
