//! `oxblock tune` and `--policy`: what is measured, what is kept, and what is refused.

mod common;

use std::fs::{self, Permissions};
use std::io::{BufRead, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use common::{Random, arg, command, is_root, oxblock, oxblock_with};
use serde_json::Value;

/// A volume that holds 12 MiB.
fn volume(folder: &Path) -> PathBuf {
    let device = folder.join("disk.ox");
    oxblock(["create", arg(&device), "--size", "64M"]).ended(0);
    oxblock_with(&["import", "-", arg(&device)], &Random(3).bytes(12 << 20)).ended(0);
    device
}

fn info(device: &Path) -> Value {
    let info = oxblock(["info", arg(device), "--json"]).ended(0).json();
    info.get("policy").cloned().unwrap_or_default()
}

#[test]
fn it_measures_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let device = volume(folder.path());
    let before = fs::read(&device).unwrap();
    let report = oxblock(["tune", arg(&device), "--json"]).ended(0).json();
    assert!(report["cores"].as_u64().unwrap() > 0);
    assert!(report["hand_off_nanoseconds"].as_u64().unwrap() > 0);
    assert!(report["wake_up_nanoseconds"].as_u64().unwrap() > 0);
    assert_eq!(report["csum"], "crc32c");
    let checksums = report["checksums"].as_array().unwrap();
    let names: Vec<&str> = checksums.iter().map(|c| c["csum"].as_str().unwrap()).collect();
    assert_eq!(names, ["crc32c", "crc32c", "xxh3", "blake3", "sha256"]);
    assert_eq!(checksums[1]["table"], true);
    assert!(checksums.iter().all(|c| c["gb_per_second"].as_f64().unwrap() > 0.0));
    let reads = report["reads"].as_array().unwrap();
    let shapes: Vec<(u64, u64)> = reads
        .iter()
        .map(|r| (r["block_size"].as_u64().unwrap(), r["depth"].as_u64().unwrap()))
        .collect();
    let (small, large) = (4096, 1 << 20);
    assert_eq!(shapes, [(small, 1), (small, 4), (small, 16), (large, 1), (large, 4), (large, 16)]);
    for read in reads {
        assert!(read["count"].as_u64().unwrap() > 0 && read["failed"] == 0, "{read}");
        let median = read["median_nanoseconds"].as_u64().unwrap();
        assert!(median > 0 && median <= read["p99_nanoseconds"].as_u64().unwrap(), "{read}");
    }
    let large = &report["large_read"];
    assert_eq!(large["bytes"], 12 << 20);
    let limits: Vec<Value> = large["limits"]
        .as_array()
        .unwrap()
        .iter()
        .map(|limit| limit["bio_max_bytes"].clone())
        .collect();
    assert_eq!(limits, [Value::Null, (4 << 20).into(), (16 << 20).into(), 0.into()]);
    for part in ["submit", "complete", "bio_max_bytes", "crc"] {
        assert_eq!(report["policy"][part]["origin"], "auto", "{part}");
        assert!(!report["policy"][part]["why"].as_str().unwrap().is_empty(), "{part}");
        assert!(!report["choice"][part]["why"].as_str().unwrap().is_empty(), "{part}");
    }
    assert_eq!(report["applied"], false);
    assert_eq!(report["stored"]["submit"], "auto");
    let text = oxblock(["tune", arg(&device)]).ended(0).text();
    assert!(text.contains("nothing was changed") && text.contains("in bios of any size"), "{text}");
    assert!(fs::read(&device).unwrap() == before, "the volume was written to");
}

#[test]
fn an_empty_volume_has_nothing_to_read() {
    let folder = tempfile::tempdir().unwrap();
    let device = folder.path().join("disk.ox");
    oxblock(["create", arg(&device), "--size", "1M", "--csum", "sha256"]).ended(0);
    let text = oxblock(["tune", arg(&device)]).ended(0).text();
    assert!(text.contains("holds nothing to read"), "{text}");
    let report = oxblock(["tune", arg(&device), "--json"]).ended(0).json();
    assert_eq!(report["reads"], Value::Array(Vec::new()));
    assert_eq!(report["large_read"], Value::Null);
}

#[test]
fn what_is_applied_is_kept_until_it_is_reset() {
    let folder = tempfile::tempdir().unwrap();
    let device = volume(folder.path());
    let policy = "submit=offload,complete=issuer,bio_max_bytes=0,crc=table";
    let report =
        oxblock(["tune", arg(&device), "--policy", policy, "--apply", "--json"]).ended(0).json();
    assert_eq!(report["applied"], true);
    assert_eq!(report["choice"]["submit"]["why"], "as given");
    assert_eq!(report["stored"]["bio_max_bytes"], 0);

    let kept = info(&device);
    for (part, value) in [("submit", "offload"), ("complete", "issuer"), ("crc", "table")] {
        assert_eq!(kept[part]["value"], value);
        assert_eq!(kept[part]["origin"], "stored");
    }
    assert_eq!(kept["bio_max_bytes"]["value"], 0);
    let text = oxblock(["info", arg(&device)]).ended(0).text();
    assert!(
        text.contains("checksum: workers (as set") && text.contains("kept in the volume"),
        "{text}"
    );
    assert!(text.contains("crc32c by table"), "{text}");

    // Lives of the volume do not change it, the command line goes before it, and the volume is sound.
    oxblock_with(&["import", "-", arg(&device)], &Random(4).bytes(3 << 20)).ended(0);
    oxblock(["check", arg(&device)]).ended(0);
    let args = ["info", arg(&device), "--json", "--policy", "submit=inline"];
    let given = oxblock(args).ended(0).json()["policy"].clone();
    assert_eq!(given["submit"]["value"], "inline");
    assert_eq!(given["submit"]["origin"], "given");
    assert_eq!(given["crc"]["origin"], "stored");
    let dump = oxblock(["dump", "superblock", arg(&device), "--json"]).ended(0).json();
    assert_eq!(dump["compat"], 1);
    assert_eq!(dump["policy"]["submit"], 2);

    let text = oxblock(["tune", arg(&device), "--reset"]).ended(0).text();
    assert!(text.contains(&format!("removed from the volume: {policy}")), "{text}");
    assert_eq!(info(&device)["submit"]["origin"], "auto");
    let again = oxblock(["tune", arg(&device), "--reset", "--json"]).ended(0).json();
    assert_eq!(again["removed"]["submit"], "auto");
    let dump = oxblock(["dump", "superblock", arg(&device), "--json"]).ended(0).json();
    assert_eq!(dump["compat"], 0);
}

#[test]
fn what_cannot_be_done_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("none.ox");
    let ran = oxblock(["tune", arg(&missing)]).ended(1);
    assert!(ran.stderr.contains("does not exist"), "{}", ran.stderr);
    let foreign = folder.path().join("foreign");
    fs::write(&foreign, Random(1).bytes(4 << 20)).unwrap();
    for more in [&[][..], &["--apply"], &["--reset"]] {
        let ran = oxblock([&["tune", arg(&foreign)], more].concat()).ended(1);
        assert!(ran.stderr.contains("not an oxblock volume"), "{}", ran.stderr);
    }
    let device = volume(folder.path());
    for (policy, says) in [
        ("submit=never", "'never'"),
        ("colour=red", "'colour'"),
        ("crc=slow", "'slow'"),
        ("bio_max_bytes=1X", "'1X'"),
        ("complete", "lacks '='"),
    ] {
        for command in ["tune", "info", "check"] {
            let ran = oxblock([command, arg(&device), "--policy", policy]).ended(2);
            assert!(ran.stderr.contains(says), "{}", ran.stderr);
        }
    }
    let ran = oxblock(["dump", "superblock", arg(&device), "--policy", "crc=table"]).ended(2);
    assert!(ran.stderr.contains("--policy has no meaning here"), "{}", ran.stderr);
    let ran = oxblock(["tune", arg(&device), "--reset", "--policy", "crc=table"]).ended(2);
    assert!(ran.stderr.contains("--policy has no meaning here"), "{}", ran.stderr);
}

#[test]
fn a_file_that_cannot_be_written_is_measured_and_keeps_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let device = volume(folder.path());
    fs::set_permissions(&device, Permissions::from_mode(0o444)).unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    // Nothing is read-only to root.
    let run = |args: &[&str]| {
        let mut command = command(args);
        if is_root() {
            command.uid(65534).gid(65534);
        }
        let output = command.output().unwrap();
        (output.status.code().unwrap(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, stderr) = run(&["tune", arg(&device)]);
    assert_eq!(code, 0, "{stderr}");
    for more in ["--apply", "--reset"] {
        let (code, stderr) = run(&["tune", arg(&device), more]);
        assert_eq!(code, 1, "{stderr}");
        assert!(stderr.contains(arg(&device)) && !stderr.contains("panicked"), "{stderr}");
    }
    assert_eq!(info(&device)["submit"]["origin"], "auto");
}

#[test]
fn a_volume_in_use_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let device = volume(folder.path());
    let mut import = command(["import", "-", arg(&device)]);
    let mut import =
        import.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // More than a pipe holds: once it is written the import reads, and has the volume open.
    import.stdin.as_mut().unwrap().write_all(&Random(5).bytes(2 << 20)).unwrap();
    for more in [&[][..], &["--apply"], &["--reset"]] {
        let ran = oxblock([&["tune", arg(&device)], more].concat()).ended(1);
        assert!(ran.stderr.contains("use"), "{}", ran.stderr);
    }
    drop(import.stdin.take());
    let stdout = std::io::BufReader::new(import.stdout.take().unwrap());
    assert!(stdout.lines().next().is_some());
    assert!(import.wait().unwrap().success());
    oxblock(["tune", arg(&device), "--reset"]).ended(0);
}

#[test]
fn a_job_file_names_the_policy_and_the_command_line_goes_before_it() {
    let folder = tempfile::tempdir().unwrap();
    let device = volume(folder.path());
    let job = folder.path().join("job.fio");
    fs::write(
        &job,
        "[global]\npolicy=submit=offload,complete=worker\n[w]\nrw=write\nbs=64k\nsize=1m\n",
    )
    .unwrap();
    oxblock(["run", arg(&job), arg(&device)]).ended(0);
    oxblock(["run", arg(&job), arg(&device), "--policy", "submit=inline"]).ended(0);
    let raw = folder.path().join("raw");
    fs::write(&raw, vec![0; 4 << 20]).unwrap();
    let ran = oxblock(["run", arg(&job), arg(&raw), "--target", "raw"]).ended(0);
    assert!(ran.stderr.contains("replaced by the target: policy"), "{}", ran.stderr);
    let args = ["run", arg(&job), arg(&raw), "--target", "raw", "--policy", "crc=table"];
    assert!(oxblock(args).ended(2).stderr.contains("--policy has no meaning here"));

    fs::write(&job, "[a]\npolicy=crc=table\nrw=read\n[b]\npolicy=crc=fast\nrw=read\n").unwrap();
    let ran = oxblock(["run", arg(&job), arg(&device)]).ended(2);
    assert!(ran.stderr.contains("job.fio:5: policy:"), "{}", ran.stderr);
    fs::write(&job, "[a]\npolicy=submit=never\nrw=read\n").unwrap();
    let ran = oxblock(["run", arg(&job), arg(&device)]).ended(2);
    assert!(ran.stderr.contains("job.fio:2: policy:") && ran.stderr.contains("'never'"));
}
