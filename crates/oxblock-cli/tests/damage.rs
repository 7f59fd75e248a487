//! A flipped byte anywhere is found, named, and never exported silently.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

mod common;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use common::{Random, arg, content, oxblock, oxblock_with};

const SIZE: usize = 8 << 20;

/// How many bytes to flip, and from which seed: `OXBLOCK_FLIPS` and `OXBLOCK_SEED`.
fn plan() -> (u64, u64) {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let seed = number("OXBLOCK_SEED").unwrap_or(u64::from(now.subsec_nanos()));
    (number("OXBLOCK_FLIPS").unwrap_or(200), seed)
}

/// A volume that was written several times, so that it holds dead records too, and what it reads as.
fn volume(folder: &Path, csum: &str) -> (PathBuf, Vec<u8>) {
    let device = folder.join(format!("disk-{csum}.ox"));
    oxblock(["create", arg(&device), "--size", "8M", "--csum", csum]).ended(0);
    oxblock_with(&["import", "-", arg(&device)], &content(1, SIZE)).ended(0);
    oxblock_with(&["import", "-", arg(&device)], &content(2, SIZE / 2)).ended(0);
    oxblock_with(&["import", "-", arg(&device)], &content(3, SIZE / 5)).ended(0);
    let image = oxblock(["export", arg(&device), "-"]).ended(0).stdout;
    assert_eq!(image.len(), SIZE);
    (device, image)
}

/// The stretches of a file that hold data.
fn extents(file: &File) -> Vec<(u64, u64)> {
    use rustix::fs::{SeekFrom, seek};
    let mut found = Vec::new();
    let mut at = 0;
    while let Ok(start) = seek(file, SeekFrom::Data(at)) {
        at = seek(file, SeekFrom::Hole(start)).unwrap();
        found.push((start, at));
    }
    found
}

/// Exports a damaged volume: what is not said to be missing is as it was.
fn export_is_honest(device: &Path, out: &Path, image: &[u8], place: u64) -> i32 {
    let ran = oxblock(["export", arg(device), arg(out), "--force", "--json", "--quiet"]);
    match ran.code {
        0 => {
            assert!(std::fs::read(out).unwrap() == image, "{place}: wrong data, silently");
            return 0;
        }
        3 if ran.stdout.is_empty() => {
            // The volume does not open, and says so.
            assert!(ran.stderr.contains(arg(device)), "{place}: {}", ran.stderr);
            return 3;
        }
        3 => {}
        _ => panic!("{place}: {ran:?}"),
    }
    let report = ran.json();
    let mut missing: Vec<(u64, u64)> = Vec::new();
    for bad in report["bad_blocks"].as_array().unwrap() {
        missing.push((bad["block"].as_u64().unwrap(), 1));
        let offset = bad["offset"].as_u64().unwrap();
        assert!((offset..offset + 4096).contains(&place), "{place}: {bad}");
        assert_ne!(bad["expected"], bad["got"], "{place}: {bad}");
    }
    for lost in report["lost"].as_array().unwrap() {
        missing.push((lost["block"].as_u64().unwrap(), lost["blocks"].as_u64().unwrap()));
    }
    assert!(!missing.is_empty(), "{place}: damage, and nothing is missing");
    let copy = std::fs::read(out).unwrap();
    assert_eq!(copy.len(), image.len());
    for (block, (copy, image)) in (0..).zip(copy.chunks(4096).zip(image.chunks(4096))) {
        let is_missing =
            missing.iter().any(|(first, count)| (*first..first + count).contains(&block));
        let fits = if is_missing { copy.iter().all(|byte| *byte == 0) } else { copy == image };
        assert!(fits, "{place}: block {block}, said to be missing: {is_missing}");
    }
    3
}

/// Checks a damaged volume: it names the place that was hit.
fn check_names(device: &Path, place: u64) -> i32 {
    let ran = oxblock(["check", arg(device), "--json", "--quiet"]);
    let report = ran.json();
    let findings = report["findings"].as_array().unwrap();
    assert_eq!(report["sound"], findings.is_empty());
    assert_eq!(report["total_findings"], findings.len());
    assert_eq!(ran.code, if findings.is_empty() { 0 } else { 3 }, "{place}: {ran:?}");
    let named = findings.iter().any(|finding| {
        let Some(offset) = finding["offset"].as_u64() else { return false };
        let len = match finding["kind"].as_str().unwrap() {
            "superblock" => 16384,
            "record header" => 3 * 4096,
            _ => 4096,
        };
        (offset..offset + len).contains(&place)
    });
    assert!(findings.is_empty() || named, "{place} is not among {findings:#?}");
    for finding in findings.iter().filter(|finding| finding["kind"] == "data block") {
        let lines: Vec<&str> = ran.stderr.lines().collect();
        let (block, offset) = (&finding["first_block"], &finding["offset"]);
        let (expected, got) =
            (finding["expected"].as_str().unwrap(), finding["got"].as_str().unwrap());
        let line = format!(
            "data block {block} at {} offset {offset}: expected {expected}, got {got}",
            device.display()
        );
        assert!(lines.iter().any(|text| text.contains(&line)), "'{line}' not in {lines:#?}");
    }
    ran.code
}

#[test]
fn flipped_bytes_are_found_and_named() {
    let (flips, seed) = plan();
    println!("seed {seed}, {flips} flips (OXBLOCK_SEED, OXBLOCK_FLIPS)");
    let mut random = Random(seed);
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let (mut damaged, mut refused, mut harmless) = (0, 0, 0);
    for csum in ["crc32c", "blake3"] {
        let (device, image) = volume(folder.path(), csum);
        let file = File::options().read(true).write(true).open(&device).unwrap();
        let len = file.metadata().unwrap().len();
        let data = extents(&file);
        for flip in 0..flips / 2 {
            // One in five anywhere, the others where something is, one of them among the superblocks.
            let (start, end) = match flip % 5 {
                0 => (0, len),
                1 => (0, 32768),
                _ => data[usize::try_from(random.below(data.len() as u64)).unwrap()],
            };
            let place = start + random.below(end - start);
            let mut byte = [0];
            file.read_exact_at(&mut byte, place).unwrap();
            let bit = 1 << random.below(8);
            file.write_all_at(&[byte[0] ^ bit], place).unwrap();
            let exported = export_is_honest(&device, &out, &image, place);
            let checked = check_names(&device, place);
            match (checked, exported) {
                (0, 0) => harmless += 1,
                (3, 0) => damaged += 1,
                (3, 3) => refused += 1,
                other => panic!("{place}: check and export disagree: {other:?}"),
            }
            if checked == 0 {
                oxblock(["info", arg(&device)]).ended(0);
            }
            if checked == 0 && flip % 8 == 0 {
                // Where nothing is damaged, the volume goes on.
                let copy = folder.path().join("copy.ox");
                std::fs::copy(&device, &copy).unwrap();
                let bytes = content(seed ^ flip, SIZE);
                oxblock_with(&["import", "-", arg(&copy)], &bytes).ended(0);
                assert!(oxblock(["export", arg(&copy), "-"]).ended(0).stdout == bytes);
                oxblock(["check", arg(&copy)]).ended(0);
            }
            file.write_all_at(&byte, place).unwrap();
        }
        oxblock(["check", arg(&device)]).ended(0);
    }
    println!("{refused} hit data or its map, {damaged} other metadata in use, {harmless} nothing");
    assert!(flips < 100 || (damaged > 0 && refused > 0 && harmless > 0));
}

#[test]
fn every_lost_superblock_copy_is_found_and_the_last_one_carries_on() {
    let folder = tempfile::tempdir().unwrap();
    let (device, image) = volume(folder.path(), "crc32c");
    let copies = oxblock(["dump", "superblock", arg(&device), "--json"]).ended(0).json();
    let copies: Vec<u64> = copies["copies"]
        .as_array()
        .unwrap()
        .iter()
        .map(|copy| copy["offset"].as_u64().unwrap())
        .collect();
    let file = File::options().read(true).write(true).open(&device).unwrap();
    for (hit, offset) in copies.iter().enumerate() {
        let report = oxblock(["check", arg(&device), "--json"]).json();
        assert_eq!(report["total_findings"], hit);
        file.write_all_at(&[0xA5; 100], *offset + 2000).unwrap();
    }
    let report = oxblock(["check", arg(&device), "--json"]).ended(3).json();
    assert_eq!(report["total_findings"], 4);
    let ran = oxblock(["export", arg(&device), "-"]).ended(3);
    assert!(ran.stdout.is_empty() && ran.stderr.contains("superblock"), "{}", ran.stderr);
    drop(image);
}

/// Appends to the log without closing it in good order, and returns where the log goes on behind the last checkpoint, in
/// blocks of the log space and in bytes of the device.
fn leave_a_tail(folder: &Path, device: &Path) -> (u64, u64) {
    let job = folder.join("tail.fio");
    // Flushes make what came before provably durable.
    let text = "[tail]\nrw=randwrite\nbs=4k\nsize=100%\nloops=1000\nfsync=4\nrate_iops=2000\n";
    std::fs::write(&job, text).unwrap();
    let mut writer = common::command(["run", arg(&job), arg(device)])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(std::time::Duration::from_millis(700));
    writer.kill().unwrap();
    writer.wait().unwrap();
    let superblock = oxblock(["dump", "superblock", arg(device), "--json"]).ended(0).json();
    let point = &superblock["checkpoint"];
    let blocks = superblock["segment_blocks"].as_u64().unwrap();
    let head = &point["heads"][0];
    let at_head = |head: &serde_json::Value| {
        Some(head["segment"].as_u64()? * blocks + head["offset"].as_u64()?)
    };
    let reserve = point["reserve"][0].as_u64().unwrap() * blocks;
    let wanted = point["sequence"].as_u64().unwrap() + 1;
    for addr in at_head(head).into_iter().chain([reserve]) {
        let record = oxblock(["dump", "record", &addr.to_string(), arg(device), "--json"]);
        if record.code == 0 && record.json()["sequence"] == wanted {
            return (addr, record.json()["device_offset"].as_u64().unwrap());
        }
    }
    panic!("no record follows the checkpoint: {superblock:#}");
}

#[test]
fn damage_to_what_was_flushed_keeps_the_volume_shut_until_rollback_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let (device, image) = volume(folder.path(), "crc32c");
    let (addr, offset) = leave_a_tail(folder.path(), &device);
    let checked = oxblock(["check", arg(&device)]).ended(0);
    assert!(checked.stderr.contains("replayed in memory"), "{}", checked.stderr);
    let file = File::options().read(true).write(true).open(&device).unwrap();
    // The payload behind the header, and then the header too.
    for place in [offset + 4096 + 77, offset + 200] {
        let mut byte = [0];
        file.read_exact_at(&mut byte, place).unwrap();
        file.write_all_at(&[byte[0] ^ 4], place).unwrap();
        assert_eq!(check_names(&device, place), 3, "address {addr}");
        let shut = oxblock(["export", arg(&device), "-"]).ended(3);
        assert!(shut.stdout.is_empty() && shut.stderr.contains("rollback"), "{}", shut.stderr);
    }
    oxblock(["check", arg(&device), "--rollback"]).ended(2);
    let back = oxblock(["export", arg(&device), "-", "--rollback"]).ended(0).stdout;
    assert_eq!(back.len(), image.len());
    // Nothing of the tail was accepted without being asked for.
    oxblock(["check", arg(&device)]).ended(3);
    oxblock_with(&["import", "-", arg(&device), "--rollback"], &image).ended(0);
    oxblock(["check", arg(&device)]).ended(0);
    assert!(oxblock(["export", arg(&device), "-"]).ended(0).stdout == image);
}
