//! The experiments, with tiny sizes and times: what is reported, what is refused, and that nothing stays behind.
#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests: a failure is the test's")]

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use common::{Ran, arg, command, is_root, oxblock};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde_json::Value;

/// As little as there can be.
const TINY: [&str; 7] = ["--quick", "--size", "8M", "--rounds", "1", "--seconds", "0.002"];

fn bench(folder: &Path, name: &str, more: &[&str]) -> Ran {
    let place = ["bench", name, "--dir", arg(folder)];
    oxblock(place.iter().chain(&TINY).chain(more))
}

fn on_device(device: &Path, more: &[&str]) -> Ran {
    let place = ["bench", "split", "--device", arg(device)];
    oxblock(place.iter().chain(&TINY).chain(more))
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).unwrap().next().is_none()
}

/// The names of a table's columns.
fn columns(table: &Value) -> Vec<&str> {
    table["columns"].as_array().unwrap().iter().map(|c| c["name"].as_str().unwrap()).collect()
}

fn experiment<'r>(report: &'r Value, name: &str) -> &'r Value {
    let all = report["experiments"].as_array().unwrap();
    all.iter().find(|one| one["name"] == name).unwrap_or_else(|| panic!("no {name}"))
}

/// Every row has a cell for each column, and every side that is measured now has a figure that is not zero.
fn check_tables(experiment: &Value) {
    for table in experiment["tables"].as_array().unwrap() {
        let columns = table["columns"].as_array().unwrap();
        for row in table["rows"].as_array().unwrap() {
            let row = row.as_array().unwrap();
            assert_eq!(row.len(), columns.len(), "{table}");
            for (cell, column) in row.iter().zip(columns) {
                let rate = column["unit"].as_str().unwrap().ends_with("per_second");
                if rate && cell.is_object() && column["name"] != "deepest dip" {
                    assert!(cell["max"].as_f64().unwrap() > 0.0, "{column} in {row:?}");
                    assert!(cell["min"].as_f64() <= cell["median"].as_f64());
                }
            }
        }
    }
}

#[test]
fn every_experiment_shows_all_its_sides_and_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let made = folder.path().join("made");
    for (name, tables, sides) in [
        ("submit", 9, &["async", "sync", "offload", "inline", "rules", "auto", "raw"][..]),
        ("complete", 4, &["worker", "issuer", "auto", "raw"][..]),
        ("split", 1, &["no limit", "1 MiB limit", "auto", "raw"][..]),
        ("crc", 4, &["throughput", "deepest dip", "CPU", "offered to workers"][..]),
        ("csum", 1, &["4K", "64K", "1M"][..]),
    ] {
        let report = bench(&made, name, &["--json"]).ended(0).json();
        assert_eq!(report["experiments"].as_array().unwrap().len(), 1);
        assert_eq!((report["size"].as_u64(), report["rounds"].as_u64()), (Some(8 << 20), Some(1)));
        let experiment = experiment(&report, name);
        for text in ["question", "rule"] {
            assert!(!experiment[text].as_str().unwrap().is_empty());
        }
        let found = experiment["tables"].as_array().unwrap();
        assert!(found.len() >= tables, "{name}: {}", found.len());
        let names = columns(&found[0]);
        assert!(sides.iter().all(|side| names.contains(side)), "{name}: {names:?}");
        check_tables(experiment);
        let clients: Vec<&str> = found
            .iter()
            .filter(|table| columns(table)[0] == "clients")
            .map(|table| table["title"].as_str().unwrap())
            .collect();
        if name == "complete" {
            let [fast, slow] = clients[..] else { panic!("{clients:?}") };
            assert!(fast.starts_with("4 KiB ") && fast.ends_with(" crc32c"), "{fast}");
            assert!(slow.starts_with("64 KiB ") && slow.ends_with(" sha256"), "{slow}");
        } else {
            assert!(clients.is_empty());
        }
        // Counted is what was offered: an issuer may take it back.
        let shares = found.iter().filter(|table| table.to_string().contains("offered to workers"));
        let expected = match name {
            "submit" => 3,
            "complete" => found.iter().filter(|table| columns(table)[0] == "depth").count(),
            "crc" => 2,
            _ => 0,
        };
        assert_eq!(shares.count(), expected, "{name}");
        assert!(!made.exists(), "a folder that was made goes away again");
    }
    assert!(is_empty(folder.path()));
}

#[test]
fn a_first_look_compares_verifies_and_runs_everything() {
    let folder = tempfile::tempdir().unwrap();
    let report = bench(folder.path(), "all", &["--json"]).ended(0).json();
    assert_eq!(report["jobs"].as_array().unwrap().len(), 6);
    assert_eq!(report["verified_bytes"], 8 << 20);
    assert_eq!(report["verify_failures"], 0);
    for name in ["submit", "complete", "split", "crc", "csum"] {
        check_tables(experiment(&report, name));
    }
    assert!(is_empty(folder.path()));
}

#[test]
fn a_page_replaces_its_file_and_needs_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let (scratch, page) = (folder.path().join("scratch"), folder.path().join("page.html"));
    fs::write(&page, "the last report").unwrap();
    let args = ["--format", "html", "--output", arg(&page)];
    assert!(bench(&scratch, "csum", &args).ended(0).stdout.is_empty());
    let text = fs::read_to_string(&page).unwrap();
    assert!(
        text.starts_with("<!DOCTYPE html>") && text.contains("<svg") && text.contains("blake3")
    );
    assert!(!text.contains("<script") && !text.contains("http"));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn text_has_then_and_now() {
    let folder = tempfile::tempdir().unwrap();
    let text = bench(folder.path(), "split", &[]).ended(0).text();
    for expected in
        ["split: How large", "rule: ", "job: rw=read bs=1048576", "then, SCSI disk", "Scaled: "]
    {
        assert!(text.contains(expected), "'{expected}' is not in\n{text}");
    }
}

/// The names of the processes in a trace, in order, each with how many requests it has. Every span ends where it should.
fn processes(file: &Path) -> Vec<(String, usize)> {
    let events: Vec<Value> = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    let mut tracks: BTreeMap<(&str, &str), (u64, Vec<&str>)> = BTreeMap::new();
    let mut found: BTreeMap<u64, (String, usize)> = BTreeMap::new();
    for event in &events {
        let text = |key: &str| event[key].as_str().unwrap();
        let (name, pid) = (text("name"), event["pid"].as_u64().unwrap());
        if text("ph") == "M" {
            assert_eq!(name, "process_name");
            let named = event.pointer("/args/name").unwrap().as_str().unwrap().to_owned();
            assert!(found.insert(pid, (named, 0)).is_none(), "process {pid} begins twice");
            continue;
        }
        let (of, open) =
            tracks.entry((text("cat"), text("id"))).or_insert_with(|| (pid, Vec::new()));
        assert_eq!(*of, pid, "a track of two processes: {event}");
        let is_request = ["read", "write"].contains(&name) && text("cat") == "request";
        match text("ph") {
            "b" => {
                found.get_mut(&pid).unwrap().1 += usize::from(is_request);
                open.push(name);
            }
            "e" => assert_eq!(open.pop(), Some(name), "{event} ends out of turn"),
            _ => panic!("{event}"),
        }
    }
    assert!(tracks.values().all(|(_, open)| open.is_empty()), "a span never ends");
    found.into_values().collect()
}

#[test]
fn a_trace_has_every_side_as_a_process_and_stays_small() {
    let folder = tempfile::tempdir().unwrap();
    let (scratch, trace) = (folder.path().join("scratch"), folder.path().join("trace.json"));
    fs::write(&trace, "the last trace").unwrap();
    for (name, count, expected) in [
        ("submit", 3 * 3 * 4, &["submit, 4k, sha256, offload", "submit, 512k, sha256, auto"][..]),
        ("complete", 0, &["complete, depth 16, verified reads, one core, worker"][..]),
        (
            "split",
            3,
            &["split, 1 MiB, no limit", "split, 1 MiB, 1 MiB limit", "split, 1 MiB, auto"][..],
        ),
        ("crc", 0, &["crc, 1 MiB writes, table crc32c, offload", "crc, 1 MiB writes, xxh3, auto"]),
    ] {
        let ran = bench(&scratch, name, &["--trace", arg(&trace), "--json"]).ended(0);
        check_tables(experiment(&ran.json(), name));
        let found = processes(&trace);
        let mut names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
        for expected in expected {
            assert!(names.contains(expected), "{expected} is not in {names:?}");
        }
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all, "names twice");
        assert!(count == 0 || all == count, "{name}: {all}");
        // What is measured in split is one read.
        let most = if name == "split" { 1 } else { 256 };
        assert!(found.iter().all(|(_, count)| (1..=most).contains(count)), "{found:?}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "only the trace stays");
    }
}

#[test]
fn a_trace_goes_over_nothing_and_leaves_nothing_when_there_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (trace, link, device, missing) =
        (path("trace"), path("link"), path("device"), path("none/trace"));
    let volume = path("volume");
    oxblock(["create", arg(&volume), "--size", "16M"]).ended(0);
    fs::File::create(&device).unwrap().set_len(200 << 20).unwrap();
    std::os::unix::fs::symlink("device", &link).unwrap();
    let roundabout = folder.path().join("../").join(folder.path().file_name().unwrap());
    let roundabout = roundabout.join("trace");
    for (name, more, code, says) in [
        ("csum", &["--trace", arg(&trace)][..], 2, "nothing to trace"),
        ("split", &["--trace", arg(&trace), "--output", arg(&trace)], 2, "the same file"),
        ("split", &["--trace", arg(&trace), "--output", arg(&roundabout)], 2, "the same file"),
        ("split", &["--trace", arg(&device), "--output", arg(&link)], 2, "the same file"),
        ("split", &["--trace", arg(&missing)], 1, "none/trace"),
        ("split", &["--trace", arg(folder.path())], 1, "--trace takes the name of a file"),
        ("split", &["--trace", "/dev/full"], 1, "is a device; --trace"),
        ("split", &["--trace", arg(&volume)], 1, "an oxblock volume; --trace"),
        ("split", &["--trace", arg(&link), "--device", arg(&device)], 1, "to be measured"),
        ("split", &["--trace", arg(&trace), "--size", "1P"], 1, "has room for"),
    ] {
        let place = ["bench", name, "--quick", "--rounds", "1", "--seconds", "0.002"];
        let ran = command(place.iter().chain(more)).current_dir(folder.path()).output().unwrap();
        let stderr = String::from_utf8(ran.stderr).unwrap();
        assert_eq!(ran.status.code(), Some(code), "{more:?}: {stderr}");
        assert!(ran.stdout.is_empty() && stderr.contains(says), "{says}: {stderr}");
    }
    assert!(fs::read(&device).unwrap().iter().all(|byte| *byte == 0));
    oxblock(["check", arg(&volume)]).ended(0);
    // The device, the link to it and the volume.
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);
}

#[test]
fn what_cannot_be_done_is_said_in_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "precious").unwrap();
    let missing = folder.path().join("none").join("report");
    let last = |ran: Ran| ran.stderr.lines().last().unwrap_or_default().to_owned();
    for (dir, more, code, says) in [
        (folder.path(), &["--size", "1M"][..], 2, "--size"),
        (folder.path(), &["--size", "1P"][..], 1, "has room for"),
        (folder.path(), &["--output", arg(&missing)][..], 1, "No such file"),
        (folder.path(), &["--output", "/dev/full"][..], 1, "is a device"),
        (&file, &[][..], 1, "create"),
        (Path::new("/proc/oxblock"), &[][..], 1, "create the folder /proc/oxblock"),
    ] {
        // The last of two equal options would be refused: the tiny ones are left out here.
        let args = ["bench", "csum", "--quick", "--dir", arg(dir)];
        let ran = oxblock(args.iter().chain(more)).ended(code);
        assert!(ran.stdout.is_empty() && last(ran).contains(says), "{}: {says}", dir.display());
    }
    assert_eq!(fs::read(&file).unwrap(), b"precious");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_folder_that_must_not_be_written_to_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    if is_root() {
        eprintln!("SKIPPED: no mode bits stop root");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o555)).unwrap();
    let ran = bench(folder.path(), "csum", &[]).ended(1);
    assert!(ran.stderr.contains("create a scratch file in"), "{}", ran.stderr);
}

#[test]
fn a_device_is_overwritten_only_when_it_may_be() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (blank, full, small, volume) = (path("blank"), path("full"), path("small"), path("volume"));
    fs::File::create(&blank).unwrap().set_len(200 << 20).unwrap();
    fs::File::create(&small).unwrap().set_len(8 << 20).unwrap();
    fs::write(&full, vec![7; 200 << 20]).unwrap();
    oxblock(["create", arg(&volume), "--size", "64M"]).ended(0);
    for (device, says) in [
        (&full, "use --force"),
        (&volume, "an oxblock volume"),
        (&small, "too small"),
        (&path("none"), "does not exist"),
        (&folder.path().to_owned(), "is a directory"),
    ] {
        let before = fs::read(device).ok();
        let ran = on_device(device, &[]).ended(1);
        assert!(ran.stderr.contains(says), "{}: {}", device.display(), ran.stderr);
        assert!(before == fs::read(device).ok(), "{} was changed", device.display());
    }
    assert!(!path("none").exists());
    on_device(&blank, &[]).ended(0);
    let report = on_device(&full, &["--force", "--json"]).ended(0).json();
    assert_eq!(report["place"], arg(&full));
    check_tables(experiment(&report, "split"));
    let refused = on_device(&full, &["--force", "--output", arg(&full)]).ended(1);
    assert!(refused.stderr.contains("the device to be measured"), "{}", refused.stderr);
}

#[test]
fn a_device_that_is_in_use_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let device = folder.path().join("device");
    let file = fs::File::create(&device).unwrap();
    file.set_len(200 << 20).unwrap();
    file.lock().unwrap();
    let ran = on_device(&device, &["--force"]).ended(1);
    assert!(ran.stderr.contains("in use"), "{}", ran.stderr);
}

#[test]
fn one_core_shows_every_side_and_says_that_workers_share_it() {
    let folder = tempfile::tempdir().unwrap();
    // What a thread starts inherits its cores.
    let all = sched_getaffinity(None).unwrap();
    let first = (0..CpuSet::MAX_CPU).find(|cpu| all.is_set(*cpu)).unwrap();
    let mut one = CpuSet::new();
    one.set(first);
    sched_setaffinity(None, &one).unwrap();
    let ran = bench(folder.path(), "submit", &["--json"]);
    sched_setaffinity(None, &all).unwrap();
    let report = ran.ended(0).json();
    let submit = experiment(&report, "submit");
    check_tables(submit);
    assert!(columns(&submit["tables"][0]).contains(&"offload"));
    let notes = submit["notes"].as_array().unwrap();
    assert!(
        notes.iter().any(|note| note.as_str().unwrap().contains("workers share it")),
        "{notes:?}"
    );
}

#[test]
fn the_job_files_run_on_a_volume() {
    let folder = tempfile::tempdir().unwrap();
    let (device, job) = (folder.path().join("disk.ox"), folder.path().join("job.fio"));
    oxblock(["create", arg(&device), "--size", "16M"]).ended(0);
    let jobs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../jobs");
    for name in ["submit", "complete", "split", "crc"] {
        let text = fs::read_to_string(jobs.join(format!("{name}.fio"))).unwrap();
        // A hundredth of the time; the sizes are cut to the volume's by themselves.
        let line = |line: &str| match line.split_once('=') {
            Some(("runtime", seconds)) => format!("runtime={seconds}0ms"),
            Some(("bs", "64m")) => "bs=2m".to_owned(),
            _ => line.to_owned(),
        };
        let scaled: Vec<String> = text.lines().map(line).collect();
        fs::write(&job, scaled.join("\n")).unwrap();
        let ran = oxblock(["run", arg(&job), arg(&device)]).ended(0);
        assert!(ran.text().contains("IOPS="), "{name}: {}", ran.text());
    }
    oxblock(["check", arg(&device)]).ended(0);
}
