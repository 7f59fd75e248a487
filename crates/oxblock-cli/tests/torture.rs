//! `oxblock torture`: it passes on a sound device, finds what a device loses, and refuses what it must.

mod common;

use std::process::{Command, Stdio};
use std::time::Duration;

use common::{arg, command, oxblock};

#[test]
fn a_short_torture_passes_and_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let device = folder.path().join("disk.ox");
    let ran =
        oxblock(["torture", arg(&device), "--kills", "6", "--size", "16M", "--json"]).ended(0);
    let report = ran.json();
    assert_eq!(report["kills"], 6, "{report:#}");
    assert_eq!(report["damage"], serde_json::Value::Null, "{report:#}");
    assert!(report["writes"].as_u64().unwrap() > 0, "{report:#}");
    assert!(report["blocks"].as_u64().unwrap() > 0, "{report:#}");
    assert!(!device.exists());
}

#[test]
fn a_file_that_was_there_stays() {
    let folder = tempfile::tempdir().unwrap();
    let device = folder.path().join("disk.ox");
    std::fs::File::create(&device).unwrap();
    let ran = oxblock(["torture", arg(&device), "--kills", "1", "--size", "8M"]).ended(0);
    assert!(ran.text().contains("1 kills") && ran.text().contains("nothing is torn"), "{ran:?}");
    oxblock(["check", arg(&device)]).ended(0);
}

#[test]
fn a_device_that_loses_data_is_found_out() {
    let folder = tempfile::tempdir().unwrap();
    let device = folder.path().join("disk.ox");
    let args = ["torture", arg(&device), "--kills", "50", "--size", "8M", "--lose", "4", "--json"];
    let ran = oxblock(args).ended(3);
    let report = ran.json();
    assert!(report["kills"].as_u64().unwrap() >= 4, "{report:#}");
    assert!(report["damage"].is_string(), "{report:#}");
    assert!(ran.stderr.contains("is left as it is"), "{}", ran.stderr);
    assert!(device.exists());
}

#[test]
fn what_is_there_is_not_overwritten_unasked() {
    let folder = tempfile::tempdir().unwrap();
    let device = folder.path().join("disk.ox");
    let precious = vec![7; 80 << 20];
    std::fs::write(&device, &precious).unwrap();
    let ran = oxblock(["torture", arg(&device), "--kills", "1", "--size", "8M"]).ended(1);
    assert!(ran.stderr.contains("--force"), "{}", ran.stderr);
    assert!(std::fs::read(&device).unwrap() == precious);
    let path = arg(folder.path());
    let ran = oxblock(["torture", path, "--kills", "1"]).ended(1);
    assert!(ran.stderr.contains("is a directory"), "{}", ran.stderr);
    let new = folder.path().join("new");
    oxblock(["torture", arg(&new), "--kills", "1", "--size", "0"]).ended(2);
    oxblock(["torture", arg(&new), "--kills", "0"]).ended(2);
    assert!(!new.exists());
    oxblock(["torture", arg(&device), "--kills", "1", "--size", "8M", "--force"]).ended(0);
}

#[test]
fn ctrl_c_ends_it_with_a_report() {
    let folder = tempfile::tempdir().unwrap();
    let device = folder.path().join("disk.ox");
    let child = command(["torture", arg(&device), "--minutes", "10", "--size", "8M", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_secs(2));
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["interrupted"], true);
    assert_eq!(report["damage"], serde_json::Value::Null, "{report:#}");
    assert!(!device.exists(), "{stderr}");
}
