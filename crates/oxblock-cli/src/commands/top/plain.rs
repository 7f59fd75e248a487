//! Lines, for whoever is no terminal.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Result;
use oxblock_control::report::{Stats, VolumeStats};
use serde::Serialize;

use super::asker::{Asker, Told};
use super::rates::{Flow, Rates, rates};
use super::{named, used};
use crate::output::{nanoseconds, note, print_on};

/// Lines after which the heading comes again.
const PAGE: u64 = 20;
/// How often signals are looked at.
const STEP: Duration = Duration::from_millis(100);

#[derive(Serialize)]
struct Line<'a> {
    version: u32,
    /// The end of the interval, since 1970.
    time: u64,
    /// How long the server had been serving then.
    uptime: u64,
    #[serde(flatten)]
    rates: &'a Rates,
    used: u64,
    size: u64,
    state: &'a str,
    clients: Option<u64>,
}

/// Prints until `count` intervals are over, `stop` is set, or nobody reads any more.
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
            let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            for (rates, volume) in all.iter().zip(&now.volumes) {
                let line = if json {
                    serde_json::to_string(&line(time, &now, rates, volume))?
                } else if lines % PAGE == 0 {
                    format!("{HEADING}\n{}", text(time, rates, volume))
                } else {
                    text(time, rates, volume)
                };
                if !print_on(&line)? {
                    return Ok(());
                }
                lines += 1;
            }
            told += 1;
        }
        before = Some(now);
    }
    Ok(())
}

fn line<'a>(time: Duration, now: &Stats, rates: &'a Rates, volume: &'a VolumeStats) -> Line<'a> {
    Line {
        version: now.version,
        time: nanoseconds(time),
        uptime: now.uptime,
        rates,
        used: volume.used,
        size: volume.size,
        state: volume.state.name(),
        clients: volume.clients,
    }
}

const HEADING: &str = "time UTC   read/s    MB/s  p50 us  p99 us  write/s    MB/s  p50 us  p99 us  in flight  used  export";

fn text(time: Duration, rates: &Rates, volume: &VolumeStats) -> String {
    let seconds = time.as_secs() % 86_400;
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let of = |kind: &str| {
        let Flow { iops, bytes, p50, p99, .. } =
            rates.requests.get(kind).copied().unwrap_or_default();
        let (mega, tenths) = (bytes / 1_000_000, bytes / 100_000 % 10);
        format!("{iops:>7} {mega:>5}.{tenths} {:>7} {:>7}", p50 / 1000, p99 / 1000)
    };
    format!(
        "{hours:02}:{minutes:02}:{seconds:02}  {}  {} {:>10} {:>4}%  {}",
        of("read"),
        of("write"),
        rates.in_flight(),
        used(volume),
        named(&rates.name),
    )
}

#[cfg(test)]
mod tests {
    use super::super::rates::tests::stats;
    use super::*;

    #[test]
    fn lines_fit_under_their_heading() {
        let (before, after) = (stats(1, 0, &[]), stats(1_000_000_001, 5000, &[(2000, 5000)]));
        let (rates, volume) = (&rates(&before, &after).unwrap()[0], &after.volumes[0]);
        let time = Duration::from_secs(86_400 * 3 + 3723);
        let line = text(time, rates, volume);
        assert!(line.starts_with("01:02:03 "), "{line}");
        // Each figure ends where its heading does.
        for (word, figure) in [
            (" read/s", "5000"),
            (" MB/s", "20.4"),
            (" p99 us", "2"),
            (" write/s", "5000"),
            (" in flight", "9"),
            (" used", "50%"),
        ] {
            let end = HEADING.find(word).unwrap() + word.len();
            assert!(line[..end].ends_with(&format!(" {figure}")), "{word}\n{HEADING}\n{line}");
        }
        assert_eq!(line.find("disk"), HEADING.find("export"), "{HEADING}\n{line}");
        let json = serde_json::to_string(&super::line(time, &after, rates, volume)).unwrap();
        assert!(json.starts_with("{\"version\":1,\"time\":262923000000000,"), "{json}");
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["requests"]["read"]["iops"], 5000);
    }
}
