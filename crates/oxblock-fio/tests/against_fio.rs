//! The same jobs in this runner and in fio: equal totals, the same JSON keys with the same types,
//! the same lines of text. Skipped, with the reason, where fio is not installed.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::process::Command;

use oxblock_fio::{NullTarget, Report, RunOptions, parse, run};
use serde_json::Value;

/// Jobs whose totals do not depend on chance. `ioengine=null` does nothing in fio either.
const JOBS: &str = "[global]\nioengine=null\nblocksize=4k\nsize=16m\n\
    [seq]\nreadwrite=write\nfsync=16\ndescription=all blocks in order\n\
    [rand]\nstonewall\nrw=randread\niodepth=8\niodepth_batch=4\nlat_percentiles=1\nloops=3\n\
    [mixed]\nstonewall\nrw=rw\nrwmixread=70\npercentile_list=50:99:99.9\nslat_percentiles=1\n\
    [trim]\nstonewall\nrw=randtrim\nbs=64k\nio_size=4m\n\
    [both]\nstonewall\nrw=trimwrite\nbs=64k\n\
    [clones]\nstonewall\nrw=read\nnumjobs=3\ngroup_reporting\nnumber_ios=100\n";

/// Runs fio on `JOBS`; `None` where there is no fio.
fn fio(format: &str) -> Option<String> {
    fio_on(JOBS, &[&format!("--output-format={format}")])
}

/// Runs fio on the jobs in `text`; `None` where there is no fio.
fn fio_on(text: &str, args: &[&str]) -> Option<String> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("job.fio");
    std::fs::write(&path, text).unwrap();
    match Command::new("fio").current_dir(&directory).args(args).arg(&path).output() {
        Ok(output) => {
            assert!(output.status.success(), "fio failed: {output:?}");
            Some(String::from_utf8(output.stdout).unwrap())
        }
        Err(error) => {
            eprintln!("SKIPPED: fio cannot be run here: {error}");
            None
        }
    }
}

fn ours() -> Report {
    let file = parse(JOBS, "job.fio").unwrap();
    run(&file, &mut NullTarget::new(64 << 20), &RunOptions::default()).unwrap()
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Every key of `theirs` must be in `ours` with the same type.
fn compare(path: &str, theirs: &Value, ours: &Value, wrong: &mut Vec<String>) {
    if kind(theirs) != kind(ours) {
        wrong.push(format!("{path}: {} in fio, {} here", kind(theirs), kind(ours)));
    }
    match (theirs, ours) {
        (Value::Object(theirs), Value::Object(ours)) => {
            for (key, value) in theirs {
                match ours.get(key) {
                    Some(mine) => compare(&format!("{path}/{key}"), value, mine, wrong),
                    None => wrong.push(format!("{path}/{key} is missing")),
                }
            }
        }
        (Value::Array(theirs), Value::Array(ours)) => {
            if theirs.len() != ours.len() {
                wrong.push(format!("{path}: {} in fio, {} here", theirs.len(), ours.len()));
            }
            for (index, (theirs, ours)) in theirs.iter().zip(ours).enumerate() {
                compare(&format!("{path}[{index}]"), theirs, ours, wrong);
            }
        }
        _ => {}
    }
}

#[test]
fn json_has_every_key_of_fio_with_the_same_type() {
    let Some(text) = fio("json") else { return };
    let theirs: Value = serde_json::from_str(&text).unwrap();
    let ours = ours().json();
    let mut wrong = Vec::new();
    compare("", &theirs, &ours, &mut wrong);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn totals_are_those_of_fio() {
    let Some(text) = fio("json") else { return };
    let theirs: Value = serde_json::from_str(&text).unwrap();
    let ours = ours().json();
    for (theirs, ours) in
        theirs["jobs"].as_array().unwrap().iter().zip(ours["jobs"].as_array().unwrap())
    {
        let name = ours["jobname"].as_str().unwrap();
        for key in ["jobname", "groupid", "error", "job options", "latency_depth"] {
            assert_eq!(theirs[key], ours[key], "{name} {key}");
        }
        let sum = |job: &Value, key: &str| -> u64 {
            ["read", "write", "trim"].iter().map(|d| job[*d][key].as_u64().unwrap()).sum()
        };
        for key in ["io_bytes", "total_ios", "short_ios"] {
            assert_eq!(sum(theirs, key), sum(ours, key), "{name} {key}");
        }
        if name != "mixed" {
            for direction in ["read", "write", "trim"] {
                let (theirs, ours) = (&theirs[direction], &ours[direction]);
                assert_eq!(theirs["io_bytes"], ours["io_bytes"], "{name} {direction}");
            }
            assert_eq!(theirs["sync"]["total_ios"], ours["sync"]["total_ios"], "{name} syncs");
        }
    }
}

/// A line of text without its figures.
fn shape(line: &str) -> String {
    let line = line.split("pid=").next().unwrap_or_default();
    let mut out = String::new();
    for c in line.chars().filter(|c| !c.is_ascii_digit() && !"., []<".contains(*c)) {
        out.push(c);
    }
    // Prefixes and units follow the figures.
    for unit in ["Ki", "Mi", "Gi", "Ti", "k", "M", "G", "T"] {
        for tail in ["B/s", "B"] {
            out = out.replace(&format!("{unit}{tail}"), tail);
        }
    }
    for unit in ["nsec", "usec", "msec"] {
        out = out.replace(unit, "sec");
    }
    out.replace("IOPS=k", "IOPS=").replace("IOPS=M", "IOPS=").replace("=k", "=")
}

#[test]
fn text_has_the_lines_of_fio() {
    let Some(theirs) = fio("normal") else { return };
    let ours = ours().normal();
    let shapes: Vec<String> = ours.lines().map(shape).collect();
    // What depends on speed, and what is compared as it is below.
    let skip = ["slat", "lat (", "bw (", "iops  ", "(g=", "|"];
    let mut missing = Vec::new();
    for line in theirs.lines().filter(|line| !skip.iter().any(|skip| line.contains(skip))) {
        if !shapes.contains(&shape(line)) {
            missing.push(line);
        }
    }
    assert!(missing.is_empty(), "not here:\n{}\nours:\n{ours}", missing.join("\n"));
    // The lines before the jobs, figures included; only the engine has another name.
    let header = |text: &str| -> Vec<String> {
        let lines = text.lines().take_while(|line| !line.is_empty());
        lines.map(|line| line.replace("ioengine=null", "ioengine=oxblock")).collect()
    };
    assert_eq!(header(&theirs), header(&ours));
}

/// The job files of the experiments.
const EXPERIMENTS: [(&str, &str); 4] = [
    ("submit", include_str!("../../../jobs/submit.fio")),
    ("complete", include_str!("../../../jobs/complete.fio")),
    ("split", include_str!("../../../jobs/split.fio")),
    ("crc", include_str!("../../../jobs/crc.fio")),
];

/// The same jobs on 8 MiB, and to their end instead of for a time.
fn scaled(text: &str) -> String {
    let line = |line: &str| match line.split_once('=') {
        Some(("size", _)) => "size=8m".to_owned(),
        Some(("io_size", _)) => "io_size=16m".to_owned(),
        Some(("bs", "64m")) => "bs=2m".to_owned(),
        Some(("runtime" | "time_based", _)) => String::new(),
        _ => line.to_owned(),
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_experiments_job_files_are_taken_unchanged_by_both() {
    for (name, text) in EXPERIMENTS {
        let file = parse(text, name).unwrap();
        assert!(file.jobs.iter().all(|job| job.name.starts_with(name)), "{name}");
        if let Some(said) = fio_on(text, &["--parse-only", "--filename=f", "--ioengine=io_uring"]) {
            assert!(!said.contains("bad option"), "{name}: {said}");
        }
    }
}

#[test]
fn the_experiments_move_as_much_in_fio_as_here() {
    for (name, text) in EXPERIMENTS {
        let text = scaled(text);
        let args = ["--output-format=json", "--filename=f", "--ioengine=io_uring"];
        let Some(said) = fio_on(&text, &args) else { return };
        // What fio remarks on the jobs comes before the report.
        let begin = said.find('{').unwrap();
        let mut theirs: Value = serde_json::from_str(&said[begin..]).unwrap();
        let file = parse(&text, name).unwrap();
        let mut target = NullTarget::new(64 << 20);
        let ours = run(&file, &mut target, &RunOptions::default()).unwrap().json();
        // Given on the command line, and replaced by the target here.
        let globals = theirs["global options"].as_object_mut().unwrap();
        globals.retain(|option, _| option != "filename" && option != "ioengine");
        // There is a disk below one of them only.
        theirs["disk_util"] = ours["disk_util"].clone();
        let mut wrong = Vec::new();
        compare(name, &theirs, &ours, &mut wrong);
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        assert_eq!(theirs["global options"], ours["global options"], "{name}");
        for (theirs, ours) in
            theirs["jobs"].as_array().unwrap().iter().zip(ours["jobs"].as_array().unwrap())
        {
            let job = ours["jobname"].as_str().unwrap();
            for key in ["jobname", "groupid", "error", "job options", "latency_depth"] {
                assert_eq!(theirs[key], ours[key], "{job} {key}");
            }
            for direction in ["read", "write", "trim"] {
                for key in ["io_bytes", "io_kbytes", "total_ios", "short_ios", "drop_ios"] {
                    let (theirs, ours) = (&theirs[direction][key], &ours[direction][key]);
                    assert_eq!(theirs, ours, "{job} {direction} {key}");
                }
            }
        }
    }
}
