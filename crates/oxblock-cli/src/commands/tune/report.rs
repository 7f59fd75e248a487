//! What was measured and chosen, for people and for programs.

use oxblock::Policy;
use oxblock::volume::{BioRead, CsumSpeed};
use serde_json::{Value, json};

use super::reads::Reads;
use super::{Tuned, policy};
use crate::output::nanoseconds;
use crate::size::human;

/// The report as JSON.
pub fn object(tuned: &Tuned) -> Value {
    let machine = &tuned.machine;
    let checksums = machine.checksums.iter().map(|speed| {
        json!({
            "csum": speed.csum.name(),
            "table": speed.table,
            "gb_per_second": hundredths(speed.gb_per_second),
        })
    });
    let reads = tuned.reads.iter().map(|reads| {
        json!({
            "block_size": reads.block_size,
            "depth": reads.depth,
            "count": reads.count,
            "failed": reads.failed,
            "per_second": reads.iops(),
            "bytes_per_second": reads.rate(),
            "median_nanoseconds": nanoseconds(reads.median),
            "p99_nanoseconds": nanoseconds(reads.p99),
        })
    });
    let bios = tuned.bios.as_ref().map(|bios| {
        let limits = bios
            .reads
            .iter()
            .map(|read| json!({ "bio_max_bytes": read.limit, "bytes_per_second": read.rate }));
        json!({ "bytes": bios.len, "failed": bios.failed, "limits": limits.collect::<Vec<_>>() })
    });
    let chosen = policy::values(&tuned.choice.policy);
    let choice: Value = policy::PARTS
        .into_iter()
        .zip(chosen)
        .zip(&tuned.choice.why)
        .map(|((name, value), why)| (name.to_owned(), json!({ "value": value, "why": why })))
        .collect();
    json!({
        "cores": machine.cores,
        "idle_cores": machine.idle_cores.map(hundredths),
        "hand_off_nanoseconds": machine.hand_off_ns,
        "wake_up_nanoseconds": machine.wake_ns,
        "csum": tuned.info.csum,
        "checksums": checksums.collect::<Vec<_>>(),
        "device_call": tuned.info.device_call,
        "reads": reads.collect::<Vec<_>>(),
        "large_read": bios,
        "policy": policy::in_force(&tuned.info.policy, &tuned.info.reasons),
        "choice": choice,
        "stored": policy::object(&tuned.stored),
        "applied": tuned.applied,
    })
}

fn hundredths(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

/// The report in rows of a name and a value.
pub fn rows(tuned: &Tuned) -> Vec<(&'static str, String)> {
    let machine = &tuned.machine;
    let idle = machine.idle_cores.map_or(String::new(), |idle| format!(", {idle:.1} idle"));
    let mut rows = vec![
        ("cores", format!("{} to use{idle}", machine.cores)),
        ("hand-off", micros(machine.hand_off_ns)),
        ("wake-up", micros(machine.wake_ns)),
    ];
    rows.extend(
        machine.checksums.iter().map(|speed| ("checksum", checksum(speed, tuned.info.csum))),
    );
    rows.push(("device call", tuned.info.device_call.clone()));
    if tuned.reads.is_empty() {
        rows.push(("reads", "the volume holds nothing to read".into()));
    }
    rows.extend(tuned.reads.iter().map(|reads| ("reads", one(reads))));
    match &tuned.bios {
        None => rows.push(("large read", "the volume holds no 8 MiB in one piece".into())),
        Some(bios) => {
            rows.extend(bios.reads.iter().map(|read| ("large read", large(bios.len, read))))
        }
    }
    let in_force = policy::lines(&tuned.info.policy, &tuned.info.reasons);
    rows.extend(in_force.into_iter().map(|line| ("in force", line)));
    let chosen = tuned.choice.policy.to_string();
    let choice = chosen.split(',').zip(&tuned.choice.why);
    rows.extend(choice.map(|(part, why)| ("choice", format!("{part} ({why})"))));
    rows.push(("volume", kept(tuned)));
    rows
}

fn micros(ns: u64) -> String {
    format!("{}.{} us", ns / 1000, ns % 1000 / 100)
}

fn checksum(speed: &CsumSpeed, ours: &str) -> String {
    let CsumSpeed { csum, table, gb_per_second } = speed;
    let by = if *table { " by table" } else { "" };
    let ours = if csum.name() == ours && !table { ", this volume's" } else { "" };
    format!("{csum}{by} {gb_per_second:.1} GB/s{ours}")
}

fn one(reads: &Reads) -> String {
    format!(
        "{} at depth {}: {} a second, {}/s, {} in the median, {} for all but a hundredth",
        human(reads.block_size as u64),
        reads.depth,
        reads.iops(),
        human(reads.rate()),
        micros(nanoseconds(reads.median)),
        micros(nanoseconds(reads.p99)),
    )
}

fn large(len: u64, read: &BioRead) -> String {
    let limit = match read.limit {
        None => "as it suits the device".to_owned(),
        Some(0) => "of any size".to_owned(),
        Some(bytes) => format!("of up to {}", human(bytes)),
    };
    format!("{} in bios {limit}: {}/s", human(len), human(read.rate))
}

/// What the volume keeps, and what was changed.
fn kept(tuned: &Tuned) -> String {
    let nothing = tuned.stored == Policy::default();
    match (tuned.applied, nothing) {
        (true, true) => "keeps no policy, since all of it is best left to auto".into(),
        (true, false) => format!("keeps {} from now on", tuned.stored),
        (false, true) => "keeps no policy; nothing was changed ('--apply' keeps the choice)".into(),
        (false, false) => {
            format!("keeps {}; nothing was changed ('--apply' keeps the choice)", tuned.stored)
        }
    }
}
