//! Lines, for whoever is no terminal.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;
use oxblock_control::report::{Stats, VolumeStats};
use serde::Serialize;

use super::asker::{Asker, Told};
use super::rates::{Flow, Rates, rates};
use crate::output::{note, print};

/// Lines after which the heading comes again.
const PAGE: u64 = 20;
/// How often signals are looked at.
const STEP: Duration = Duration::from_millis(100);

#[derive(Serialize)]
struct Line<'a> {
    version: u32,
    /// How long the server has been serving, at the end of the interval.
    uptime: u64,
    #[serde(flatten)]
    rates: &'a Rates,
    used: u64,
    size: u64,
    state: &'a str,
    clients: Option<u64>,
}

/// Prints until `count` intervals are over, or `stop` is set.
pub fn run(asker: &Asker, count: Option<u64>, json: bool, stop: &AtomicBool) -> Result<()> {
    let (mut before, mut told, mut lines, mut gone) = (None::<Stats>, 0, 0, false);
    while !stop.load(Ordering::Relaxed) && count.is_none_or(|count| told < count) {
        let now = match asker.next(STEP) {
            None => continue,
            Some(Told::Gone(why)) => {
                if !std::mem::replace(&mut gone, true) {
                    note(&format!("{why}; it is looked for again"));
                }
                before = None;
                continue;
            }
            Some(Told::Look(look)) => look.1,
        };
        gone = false;
        if let Some(all) = before.as_ref().and_then(|before| rates(before, &now)) {
            for (rates, volume) in all.iter().zip(&now.volumes) {
                if json {
                    print(&serde_json::to_string(&line(&now, rates, volume))?)?;
                } else {
                    if lines % PAGE == 0 {
                        print(HEADING)?;
                    }
                    print(&text(&now, rates, volume))?;
                }
                lines += 1;
            }
            told += 1;
        }
        before = Some(now);
    }
    Ok(())
}

fn line<'a>(now: &Stats, rates: &'a Rates, volume: &'a VolumeStats) -> Line<'a> {
    Line {
        version: now.version,
        uptime: now.uptime,
        rates,
        used: volume.used,
        size: volume.size,
        state: volume.state.name(),
        clients: volume.clients,
    }
}

const HEADING: &str =
    "  up s  read/s  MB/s  p50 us  p99 us  write/s  MB/s  p50 us  p99 us  under way  used  export";

fn text(now: &Stats, rates: &Rates, volume: &VolumeStats) -> String {
    let of = |kind: &str| rates.requests.get(kind).copied().unwrap_or_default();
    let (read, write) = (of("read"), of("write"));
    let flow = |flow: &Flow, wide: usize| {
        let (iops, mb) = (flow.iops, flow.bytes / 1_000_000);
        format!("{iops:>wide$} {mb:>5} {:>7} {:>7}", flow.p50 / 1000, flow.p99 / 1000)
    };
    let under_way: u64 = rates.requests.values().map(|flow| flow.in_flight).sum();
    let used = (u128::from(volume.used) * 100).checked_div(u128::from(volume.size)).unwrap_or(0);
    format!(
        "{:>6} {} {} {under_way:>10} {used:>4}%  {}",
        now.uptime / 1_000_000_000,
        flow(&read, 7),
        flow(&write, 8),
        rates.name
    )
}

#[cfg(test)]
mod tests {
    use super::super::rates::tests::stats;
    use super::*;

    #[test]
    fn lines_fit_under_their_heading() {
        let (before, after) = (stats(1, 0, &[]), stats(1_000_000_001, 5000, &[(2000, 5000)]));
        let all = rates(&before, &after).unwrap();
        let line = text(&after, &all[0], &after.volumes[0]);
        assert_eq!(line.find("disk"), HEADING.find("export"), "{HEADING}\n{line}");
        assert_eq!(line.find("5000"), HEADING.find("read/s").map(|at| at + 2), "{HEADING}\n{line}");
        let json = serde_json::to_value(super::line(&after, &all[0], &after.volumes[0])).unwrap();
        assert_eq!(
            (&json["version"], &json["requests"]["read"]["iops"]),
            (&1.into(), &5000.into())
        );
    }
}
