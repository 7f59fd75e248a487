//! Images go in and come out as they were.

mod common;

use common::{arg, content, oxblock, oxblock_with};

#[test]
fn an_image_of_any_length_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    for (number, len) in [5_000_001, 1 << 20, 4096, 1, 0].into_iter().enumerate() {
        let device = folder.path().join(format!("disk-{number}.ox"));
        let (image, copy) = (
            folder.path().join(format!("image-{number}")),
            folder.path().join(format!("copy-{number}")),
        );
        let bytes = content(len as u64, len);
        std::fs::write(&image, &bytes).unwrap();
        let created = oxblock(["create", arg(&device), "--size", "8M", "--label", "x y", "--json"]);
        let created = created.ended(0).json();
        assert_eq!(created["size"], 8 << 20);
        let imported = oxblock(["import", arg(&image), arg(&device), "--json"]).ended(0).json();
        assert_eq!(imported["bytes"], len);
        assert_eq!(imported["padding"], (len as u64).next_multiple_of(4096) - len as u64);
        let length = len.to_string();
        let exported = oxblock(["export", arg(&device), arg(&copy), "--length", &length, "--json"])
            .ended(0)
            .json();
        assert_eq!(exported["bytes"], len);
        assert_eq!(exported["bad_blocks"].as_array().unwrap().len(), 0);
        assert!(std::fs::read(&copy).unwrap() == bytes, "{len}: the copy differs");
        let info = oxblock(["info", arg(&device), "--json"]).ended(0).json();
        assert_eq!(info["uuid"], created["uuid"]);
        assert_eq!(info["label"], "x y");
        assert_eq!(info["clean"], true);
        assert_eq!(info["devices"][0]["path"], arg(&device));
        let blocks = bytes.chunks(4096).filter(|block| block.iter().any(|byte| *byte != 0)).count();
        assert_eq!(info["used"], blocks * 4096);
        let checked = oxblock(["check", arg(&device), "--json"]).ended(0).json();
        assert_eq!(checked["sound"], true);
        assert_eq!(checked["blocks"], blocks);
        // All of it: what was not imported is zero.
        let whole = oxblock(["export", arg(&device), "-"]).ended(0);
        assert_eq!(whole.stdout.len(), 8 << 20);
        assert!(whole.stdout[..len] == bytes);
        assert!(whole.stdout[len..].iter().all(|byte| *byte == 0));
    }
}

#[test]
fn streams_work_in_both_directions_and_for_every_checksum() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = content(7, 3_333_333);
    for csum in ["crc32c", "xxh3", "blake3", "sha256"] {
        let device = folder.path().join(csum);
        oxblock(["create", arg(&device), "--size", "4M", "--csum", csum]).ended(0);
        oxblock_with(&["import", "-", arg(&device)], &bytes).ended(0);
        let out = oxblock(["export", arg(&device), "-", "--length", "3333333"]).ended(0);
        assert!(out.stdout == bytes, "{csum}: the stream differs");
        let checked = oxblock(["check", arg(&device)]).ended(0);
        assert!(checked.text().contains("no damage"), "{}", checked.text());
    }
}

#[test]
fn importing_again_replaces_what_was_there() {
    let folder = tempfile::tempdir().unwrap();
    let device = folder.path().join("disk.ox");
    oxblock(["create", arg(&device), "--size", "8M"]).ended(0);
    for seed in 0..6 {
        let bytes = content(seed, 8 << 20);
        oxblock_with(&["import", "-", arg(&device)], &bytes).ended(0);
        let out = oxblock(["export", arg(&device), "-"]).ended(0);
        assert!(out.stdout == bytes, "round {seed}: the volume differs");
        oxblock(["check", arg(&device)]).ended(0);
    }
}

#[test]
fn a_volume_of_12_tib_exports_at_the_cost_of_what_it_holds() {
    let folder = tempfile::tempdir().unwrap();
    let (device, copy) = (folder.path().join("disk.ox"), folder.path().join("copy"));
    let created = oxblock(["create", arg(&device), "--size", "12T"]);
    if created.code != 0 {
        // File systems have limits of their own.
        println!("skipped: {}", created.stderr);
        return;
    }
    oxblock_with(&["import", "-", arg(&device)], &content(1, 100_000)).ended(0);
    let exported = oxblock(["export", arg(&device), arg(&copy), "--length", "11T", "--json"]);
    if exported.code != 0 {
        println!("skipped: {}", exported.stderr);
        return;
    }
    assert_eq!(exported.json()["bytes"], 11_u64 << 40);
    assert_eq!(std::fs::metadata(&copy).unwrap().len(), 11 << 40);
    oxblock(["check", arg(&device)]).ended(0);
}

#[test]
fn structures_can_be_looked_at() {
    let folder = tempfile::tempdir().unwrap();
    let device = folder.path().join("disk.ox");
    oxblock(["create", arg(&device), "--size", "8M", "--label", "look"]).ended(0);
    oxblock_with(&["import", "-", arg(&device)], &content(3, 5 << 20)).ended(0);
    let dump = |what: &[&str]| {
        let mut args = vec!["dump"];
        args.extend(what);
        args.extend([arg(&device), "--json"]);
        oxblock(args).ended(0).json()
    };
    let superblock = dump(&["superblock"]);
    assert_eq!(superblock["label"], "look");
    assert_eq!(superblock["copies"].as_array().unwrap().len(), 4);
    let checkpoint = dump(&["checkpoint"]);
    assert_eq!(checkpoint["clean"], true);
    assert_eq!(checkpoint, {
        let mut inner = superblock["checkpoint"].clone();
        inner["version"] = 1.into();
        inner
    });
    let map = dump(&["map", "3"]);
    assert_eq!(map["nodes"].as_array().unwrap().len(), map["map_height"]);
    assert_eq!(map["data"]["verifies"], true);
    assert_eq!(map["data"]["addr"], map["after_replay"]["addr"]);
    let nothing = dump(&["map", "2047"]);
    assert!(nothing["data"].is_null());
    let segment = dump(&["segment", "0"]);
    let records = segment["records"].as_array().unwrap();
    assert!(!records.is_empty());
    for record in records {
        let addr = record["addr"].to_string();
        let shown = dump(&["record", &addr]);
        assert_eq!(shown["verifies"], true);
        assert_eq!(shown["sequence"], record["sequence"]);
    }
    // Not a record: said in a sentence.
    let refused = oxblock(["dump", "record", "1", arg(&device)]).ended(1);
    assert!(refused.stderr.contains("no record begins at address 1"), "{}", refused.stderr);
    let refused = oxblock(["dump", "segment", "99999", arg(&device)]).ended(1);
    assert!(refused.stderr.contains("does not exist"), "{}", refused.stderr);
    let text = oxblock(["dump", "superblock", arg(&device)]).ended(0).text();
    assert!(text.contains("label") && text.contains("look"), "{text}");
}
