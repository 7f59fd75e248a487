//! fio's text.

use std::fmt::Write;

use super::units::{both, short};
use super::{JobResult, Report, date, header, json};
use crate::num;
use crate::run::Direction;
use crate::run::stats::{BATCHES, DEPTHS, Latency, Moments, Sizes};

/// The whole report.
pub(super) fn text(report: &Report) -> String {
    let mut out = String::new();
    for note in &report.notes {
        line(&mut out, format_args!("oxblock: {note}"));
    }
    header::text(&mut out, &report.planned);
    out.push('\n');
    for job in report.entries() {
        job_text(&mut out, report, &job);
    }
    let mut last = None;
    let groups = report.groups();
    for (group, direction, sum) in &groups {
        if last != Some(*group) {
            last = Some(*group);
            line(&mut out, format_args!("\nRun status group {group} (all jobs):"));
        }
        let range = |a: f64, b: f64| {
            let pair = |binary| {
                let one = |value| short(value, 4, binary, "B/s");
                format!("{}-{}", one(a), one(b))
            };
            format!("{} ({})", pair(true), pair(false))
        };
        let (slow, fast) = (sum.slowest, sum.fastest);
        line(
            &mut out,
            format_args!(
                "{:>7}: bw={}, {}, io={}, run={}-{}msec",
                direction.name().to_ascii_uppercase(),
                both(sum.total, "B/s"),
                range(slow, fast),
                both(num::float(sum.bytes), "B"),
                sum.shortest,
                sum.longest,
            ),
        );
    }
    if groups.is_empty() {
        line(&mut out, format_args!("\nRun status group 0 (all jobs):"));
    }
    out
}

/// Writing to a string cannot fail.
pub(super) fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).ok();
    out.push('\n');
}

fn job_text(out: &mut String, report: &Report, job: &JobResult) {
    let error = match &job.error {
        Some(error) => format!("{:2} ({error})", job.errno),
        None if job.mismatch_count > 0 => {
            format!("{:2} ({} blocks failed verification)", job.errno, job.mismatch_count)
        }
        None => format!("{:2}", job.errno),
    };
    let (pid, when) = (std::process::id(), date::ctime(report.finished));
    let (group, members) = (job.group, job.members);
    line(
        out,
        format_args!(
            "{}: (groupid={group}, jobs={members}): err={error}: pid={pid}: {when}",
            job.name
        ),
    );
    if let Some(description) = &job.description {
        line(out, format_args!("  Description  : [{description}]"));
    }
    for direction in Direction::ALL {
        if job.stats.direction(direction).ios > 0 {
            direction_text(out, report, job, direction);
        }
    }
    for (unit, classes) in ["nsec", "usec", "msec"].into_iter().zip(json::spread(job)) {
        let shown: Vec<String> = classes
            .into_iter()
            .filter(|(_, share)| *share > 0.0)
            .map(|(bound, share)| format!("{bound}={:3.2}%", share.max(0.01)))
            .collect();
        for row in shown.chunks(5) {
            line(out, format_args!("  lat ({unit})   : {}", row.join(", ")));
        }
    }
    if job.stats.sync.moments.count > 0 {
        line(out, format_args!("  fsync/fdatasync/sync_file_range:"));
        latency_line(out, "sync", &job.stats.sync.moments);
        percentile_lines(out, "sync", &job.stats.sync, &job.percentiles);
    }
    totals_text(out, job);
    for mismatch in job.mismatches.iter().take(20) {
        line(out, format_args!("  verify: {mismatch}"));
    }
    if job.mismatch_count > 20 {
        line(out, format_args!("  verify: and {} more", job.mismatch_count - 20));
    }
}

fn direction_text(out: &mut String, report: &Report, job: &JobResult, direction: Direction) {
    let stats = job.stats.direction(direction);
    let name = direction.name();
    let tail = if direction == Direction::Write { "; 0 zone resets" } else { "" };
    line(
        out,
        format_args!(
            "  {name}: IOPS={}, BW={}({}/{}msec){tail}",
            short(stats.iops(), 4, false, ""),
            both(stats.bandwidth_bytes(), "B/s"),
            short(num::float(stats.bytes), 4, true, "B"),
            stats.runtime_ms(),
        ),
    );
    // A request that leaves by itself is submitted as it is queued: there is nothing to show then.
    let has_slat = stats.slat.moments.max > 0;
    if has_slat {
        latency_line(out, "slat", &stats.slat.moments);
    }
    latency_line(out, "clat", &stats.clat.moments);
    latency_line(out, " lat", &stats.lat.moments);
    let shows = [
        ("slat", &stats.slat, job.shows.slat && has_slat),
        ("clat", &stats.clat, job.shows.clat),
        ("lat", &stats.lat, job.shows.lat),
    ];
    for (name, latency, _) in shows.into_iter().filter(|(_, _, shown)| *shown) {
        percentile_lines(out, name, latency, &job.percentiles);
    }
    let bw = &stats.bandwidth;
    if bw.count == 0 {
        return;
    }
    let share = json::group_share(report, job, direction);
    let large = bw.mean() > 1024.0 * 1024.0;
    let (unit, divisor) = if large { ("MiB", 1024.0) } else { ("KiB", 1.0) };
    let scaled = |value: u64| num::floor(num::float(value) / divisor);
    line(
        out,
        format_args!(
            "   bw (  {unit}/s): min={:5}, max={:5}, per={share:3.2}%, avg={:5.2}, stdev={:5.2}, \
             samples={}",
            scaled(bw.min()),
            scaled(bw.max),
            bw.mean() / divisor,
            bw.deviation() / divisor,
            bw.count
        ),
    );
    let rate = &stats.rate;
    line(
        out,
        format_args!(
            "   iops        : min={:5}, max={:5}, avg={:5.2}, stdev={:5.2}, samples={}",
            rate.min(),
            rate.max,
            rate.mean(),
            rate.deviation(),
            rate.count
        ),
    );
}

/// One latency with the unit that fits it.
fn latency_line(out: &mut String, name: &str, moments: &Moments) {
    let (mut min, mut max) = (num::float(moments.min()), num::float(moments.max));
    let (mut mean, mut deviation) = (moments.mean(), moments.deviation());
    let mut unit = "nsec";
    for (next, least) in [("usec", 1.0), ("msec", 1000.0)] {
        if num::float(moments.min()) > 2000.0 * least
            && num::float(moments.max) > 99_999.0 * least
            && moments.deviation() > 1000.0 * least
        {
            unit = next;
            (min, max) = (min / 1000.0, max / 1000.0);
            (mean, deviation) = (mean / 1000.0, deviation / 1000.0);
        }
    }
    let (min, max) = (short(min, 6, false, ""), short(max, 6, false, ""));
    line(
        out,
        format_args!(
            "    {name} ({unit}): min={min:>5}, max={max:>5}, avg={mean:5.2}, \
             stdev={deviation:5.2}"
        ),
    );
}

/// The percentiles of one latency, as many to a line as fio puts there.
fn percentile_lines(out: &mut String, name: &str, latency: &Latency, list: &[f64]) {
    let values: Vec<u64> =
        list.iter().map(|percent| latency.percentile(*percent).unwrap_or(0)).collect();
    let least = values.iter().min().copied().unwrap_or(0);
    let most = values.iter().max().copied().unwrap_or(0);
    let (unit, divisor) = match (least, most) {
        (2_000_001.., 100_000_000..) => ("msec", 1_000_000),
        (2_001.., 100_000..) => ("usec", 1_000),
        _ => ("nsec", 1),
    };
    let decimals = list.iter().map(|percent| decimals(*percent)).max().unwrap_or(0);
    let widest = (most / divisor).max(1).ilog10() as usize + 1;
    let (value_width, name_width) = (widest.max(5), 3 + decimals);
    let per_line = (73 / (decimals + 10 + value_width)).max(1);
    line(out, format_args!("    {name} percentiles ({unit}):"));
    let cells: Vec<String> = list
        .iter()
        .zip(&values)
        .map(|(percent, value)| {
            let value = value.div_ceil(divisor);
            format!(" {percent:name_width$.decimals$}th=[{value:value_width$}]")
        })
        .collect();
    let rows: Vec<String> = cells.chunks(per_line).map(|row| row.join(",")).collect();
    line(out, format_args!("     |{}", rows.join(",\n     |")));
}

/// Decimals that a percentile needs, 2 at most.
fn decimals(percent: f64) -> usize {
    let hundredths = num::floor(percent * 100.0 + 0.5);
    match (hundredths % 100, hundredths % 10) {
        (0, _) => 0,
        (_, 0) => 1,
        _ => 2,
    }
}

fn totals_text(out: &mut String, job: &JobResult) {
    let (stats, usage) = (&job.stats, &job.usage);
    let seconds = num::float(stats.runtime) / 1e9;
    let share = |cpu: f64| if seconds > 0.0 { cpu * 100.0 / seconds } else { 0.0 };
    line(
        out,
        format_args!(
            "  cpu          : usr={:3.2}%, sys={:3.2}%, ctx={}, majf={}, minf={}",
            share(usage.user),
            share(usage.system),
            usage.switches,
            usage.major_faults,
            usage.minor_faults
        ),
    );
    let row = |names: [&str; 7], sizes: &Sizes, whole: u64| {
        let cells = names.iter().zip(sizes.percent_of(whole));
        cells.map(|(name, share)| format!("{name}={share:3.1}%")).collect::<Vec<_>>().join(", ")
    };
    let ios = stats.ios();
    line(out, format_args!("  IO depths    : {}", row(DEPTHS, &stats.depth, ios)));
    let submit = row(BATCHES, &stats.submit, stats.submit.total);
    line(out, format_args!("     submit    : {submit}"));
    let complete = row(BATCHES, &stats.complete, stats.complete.total);
    line(out, format_args!("     complete  : {complete}"));
    let [read, write, trim] = &stats.directions;
    line(
        out,
        format_args!(
            "     issued rwts: total={},{},{},{} short=0,0,0,0 dropped=0,0,0,0",
            read.ios, write.ios, trim.ios, stats.sync.moments.count
        ),
    );
    let depth = job.depth;
    line(
        out,
        format_args!("     latency   : target=0, window=0, percentile=100.00%, depth={depth}"),
    );
}
