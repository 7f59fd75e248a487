//! `check --repair`: what it says, and what its exit status says.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod common;

use std::fs::File;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

use common::{arg, content, oxblock, oxblock_with};

const SIZE: usize = 8 << 20;

fn volume(folder: &Path) -> (PathBuf, Vec<u8>) {
    let device = folder.join("disk.ox");
    oxblock(["create", arg(&device), "--size", "8M"]).ended(0);
    let bytes = content(5, SIZE);
    oxblock_with(&["import", "-", arg(&device)], &bytes).ended(0);
    (device, bytes)
}

fn damage(device: &Path, place: u64) {
    let file = File::options().read(true).write(true).open(device).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, place).unwrap();
    file.write_all_at(&[byte[0] ^ 8], place).unwrap();
}

/// Where the node of the map at `level` for block 0 is, 0 being the root; or its data.
fn place_of(device: &Path, what: &str) -> u64 {
    let path = oxblock(["dump", "map", "0", arg(device), "--json"]).ended(0).json();
    let place = match what {
        "data" => &path["data"],
        "root" => &path["nodes"][0],
        _ => path["nodes"].as_array().unwrap().last().unwrap(),
    };
    place["device_offset"].as_u64().unwrap()
}

#[test]
fn a_sound_volume_is_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let (device, _) = volume(folder.path());
    let before = std::fs::read(&device).unwrap();
    let ran = oxblock(["check", arg(&device), "--repair"]).ended(0);
    assert!(ran.text().contains("no damage"), "{ran:?}");
    let report = oxblock(["check", arg(&device), "--repair", "--json"]).ended(0).json();
    assert_eq!((&report["sound"], &report["repaired"]), (&true.into(), &serde_json::json!([])));
    assert_eq!((&report["total_left"], &report["refused"]), (&0.into(), &serde_json::Value::Null));
    assert!(std::fs::read(&device).unwrap() == before);
}

#[test]
fn lost_nodes_are_made_anew_and_the_volume_is_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let (device, image) = volume(folder.path());
    for (what, json) in [("leaf", true), ("root", false)] {
        damage(&device, place_of(&device, what) + 100);
        oxblock(["check", arg(&device)]).ended(3);
        if json {
            let report = oxblock(["check", arg(&device), "--repair", "--json"]).ended(0).json();
            assert_eq!(report["sound"], true);
            assert_eq!(report["total_findings"], 1);
            assert_eq!(report["findings"][0]["kind"], "map node");
            assert!(
                report["repaired"].as_array().unwrap().iter().any(|one| one["kind"] == "map node")
            );
            assert_eq!(report["left"], serde_json::json!([]));
        } else {
            let ran = oxblock(["check", arg(&device), "--repair"]).ended(0);
            assert!(ran.stderr.contains("map node of blocks 0 to "), "{ran:?}");
            assert!(ran.stderr.contains("repaired: 1 map nodes were made anew"), "{ran:?}");
            assert!(ran.text().contains("1 damaged place, all repaired"), "{ran:?}");
        }
        oxblock(["check", arg(&device)]).ended(0);
        assert!(oxblock(["export", arg(&device), "-"]).ended(0).stdout == image);
    }
}

#[test]
fn what_is_left_is_said_and_lost_blocks_are_exported_as_missing() {
    let folder = tempfile::tempdir().unwrap();
    let (device, image) = volume(folder.path());
    let superblock = oxblock(["dump", "superblock", arg(&device), "--json"]).ended(0).json();
    let root = superblock["checkpoint"]["table_root"]["addr"].as_u64().unwrap();
    damage(&device, place_of(&device, "data") + 9);
    damage(&device, place_of(&device, "leaf") + 9);
    damage(&device, (1 << 20) + root * 4096 + 9);
    let ran = oxblock(["check", arg(&device), "--repair"]).ended(3);
    assert!(ran.stderr.contains("left: lost data of blocks 0 to 255 at "), "{ran:?}");
    let report = oxblock(["check", arg(&device), "--repair", "--json"]).ended(3).json();
    assert_eq!((&report["sound"], &report["total_left"]), (&false.into(), &1.into()));
    assert_eq!(report["left"][0]["kind"], "lost data");
    assert_eq!(
        (&report["left"][0]["first_block"], &report["left"][0]["blocks"]),
        (&0.into(), &256.into())
    );
    assert_eq!(report["repaired"], serde_json::json!([]));
    let out = folder.path().join("out");
    let exported = oxblock(["export", arg(&device), arg(&out), "--json"]).ended(3).json();
    assert_eq!(exported["lost"], serde_json::json!([{ "block": 0, "blocks": 256 }]));
    let copy = std::fs::read(&out).unwrap();
    assert!(copy[..1 << 20].iter().all(|byte| *byte == 0) && copy[1 << 20..] == image[1 << 20..]);
    let path = oxblock(["dump", "map", "7", arg(&device), "--json"]).ended(0).json();
    assert!(path["data"].as_str().unwrap().starts_with("lost"), "{path}");
    // Writing them again makes the volume whole.
    oxblock_with(&["import", "-", arg(&device)], &image[..1 << 20]).ended(0);
    oxblock(["check", arg(&device)]).ended(0);
    assert!(oxblock(["export", arg(&device), "-"]).ended(0).stdout == image);
}

#[test]
fn a_device_that_is_read_only_or_in_use_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (device, _) = volume(folder.path());
    damage(&device, place_of(&device, "leaf") + 100);
    let mut held = common::command(["import", "-", arg(&device)])
        .stdin(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(std::time::Duration::from_millis(500));
    let ran = oxblock(["check", arg(&device), "--repair"]).ended(1);
    assert!(ran.stderr.contains("use"), "{ran:?}");
    drop(held.stdin.take());
    held.wait().unwrap();
    std::fs::set_permissions(&device, std::fs::Permissions::from_mode(0o444)).unwrap();
    if File::options().write(true).open(&device).is_err() {
        let ran = oxblock(["check", arg(&device), "--repair"]).ended(1);
        assert!(ran.stderr.contains(arg(&device)), "{ran:?}");
    }
}
