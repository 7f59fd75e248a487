//! fio's JSON: the same keys with the same types, in the same order.

use serde_json::{Map, Value, json};

use super::{FIO_VERSION, JobResult, Report, date};
use crate::jobfile::Given;
use crate::num;
use crate::run::Direction;
use crate::run::stats::{BATCHES, DEPTHS, Latency, Sizes};

/// fio says so when a job is over.
const NO_ETA: u64 = 2_147_483_647;
/// Upper bounds of the latency classes within a unit; a class ends just below its bound.
pub(super) const BOUNDS: [u64; 10] = [2, 4, 10, 20, 50, 100, 250, 500, 750, 1000];
/// The bounds in milliseconds have one more.
pub(super) const LAST_BOUND: u64 = 2000;

/// The whole document.
pub(super) fn document(report: &Report) -> Value {
    let epoch = date::since_epoch(report.finished);
    let jobs: Vec<Value> = report.entries().iter().map(|job| job_value(report, job)).collect();
    json!({
        "fio version": FIO_VERSION,
        "timestamp": epoch.as_secs(),
        "timestamp_ms": u64::try_from(epoch.as_millis()).unwrap_or(u64::MAX),
        "time": date::ctime(report.finished),
        "global options": options(&report.globals),
        "jobs": jobs,
        "disk_util": [],
    })
}

/// Options as written; bare flags have no value and are left out, as in fio.
fn options(given: &[Given]) -> Value {
    let pairs = given
        .iter()
        .filter_map(|option| Some((option.name.to_owned(), Value::from(option.value.clone()?))));
    Value::Object(pairs.collect())
}

fn job_value(report: &Report, job: &JobResult) -> Value {
    let stats = &job.stats;
    let ios = stats.ios();
    let runtime_s = num::float(stats.runtime) / 1e9;
    let share = |seconds: f64| if runtime_s > 0.0 { seconds * 100.0 / runtime_s } else { 0.0 };
    let mut out = Map::new();
    let mut put = |key: &str, value: Value| drop(out.insert(key.to_owned(), value));
    put("jobname", json!(job.name));
    put("groupid", json!(job.group));
    put("error", json!(job.errno));
    put("eta", json!(NO_ETA));
    put("elapsed", json!(job.elapsed.div_ceil(1_000_000_000).max(1)));
    put("job options", options(&job.options));
    for direction in Direction::ALL {
        put(direction.name(), direction_value(report, job, direction));
    }
    let sync = json!({
        "total_ios": stats.sync.moments.count,
        "lat_ns": latency(&stats.sync, stats.sync.moments.count > 0, &job.percentiles),
    });
    put("sync", sync);
    put("job_runtime", json!(stats.runtime / 1_000_000));
    put("usr_cpu", json!(share(job.usage.user)));
    put("sys_cpu", json!(share(job.usage.system)));
    put("ctx", json!(job.usage.switches));
    put("majf", json!(job.usage.major_faults));
    put("minf", json!(job.usage.minor_faults));
    put("iodepth_level", sizes(&DEPTHS, &stats.depth, ios));
    put("iodepth_submit", sizes(&BATCHES, &stats.submit, stats.submit.total));
    put("iodepth_complete", sizes(&BATCHES, &stats.complete, stats.complete.total));
    for (name, classes) in ["latency_ns", "latency_us", "latency_ms"].into_iter().zip(spread(job)) {
        put(name, Value::Object(classes.into_iter().map(|(k, v)| (k, json!(v))).collect()));
    }
    put("latency_depth", json!(job.depth));
    put("latency_target", json!(0));
    put("latency_percentile", json!(100.0));
    put("latency_window", json!(0));
    if let Some(description) = &job.description {
        put("desc", json!(description));
    }
    if job.mismatch_count > 0 {
        let list: Vec<String> = job.mismatches.iter().map(ToString::to_string).collect();
        put("verify_errors", json!(job.mismatch_count));
        put("verify_mismatches", json!(list));
    }
    Value::Object(out)
}

fn direction_value(report: &Report, job: &JobResult, direction: Direction) -> Value {
    let stats = job.stats.direction(direction);
    let bandwidth = num::floor(stats.bandwidth_bytes());
    let shown = |wanted: bool| wanted && stats.ios > 0;
    let bw = &stats.bandwidth;
    let iops = &stats.rate;
    json!({
        "io_bytes": stats.bytes,
        "io_kbytes": stats.bytes / 1024,
        "bw_bytes": bandwidth,
        "bw": bandwidth / 1024,
        "iops": stats.iops(),
        "runtime": stats.runtime_ms(),
        "total_ios": stats.ios,
        "short_ios": 0,
        "drop_ios": 0,
        "slat_ns": latency(&stats.slat, shown(job.shows.slat), &job.percentiles),
        "clat_ns": latency(&stats.clat, shown(job.shows.clat), &job.percentiles),
        "lat_ns": latency(&stats.lat, shown(job.shows.lat), &job.percentiles),
        "bw_min": bw.min(),
        "bw_max": bw.max,
        "bw_agg": group_share(report, job, direction),
        "bw_mean": bw.mean(),
        "bw_dev": bw.deviation(),
        "bw_samples": bw.count,
        "iops_min": iops.min(),
        "iops_max": iops.max,
        "iops_mean": iops.mean(),
        "iops_stddev": iops.deviation(),
        "iops_samples": iops.count,
    })
}

/// A job's mean bandwidth in percent of its group's.
pub(super) fn group_share(report: &Report, job: &JobResult, direction: Direction) -> f64 {
    let groups = report.groups();
    let sum = groups.iter().find(|(group, other, _)| *group == job.group && *other == direction);
    let Some((_, _, sum)) = sum else { return 0.0 };
    let kib = sum.total / 1024.0;
    // The mean is per job, the group's figure is for all of them.
    let mean = job.stats.direction(direction).bandwidth.mean() * f64::from(job.members);
    if kib > 0.0 { (mean * 100.0 / kib).min(100.0) } else { 0.0 }
}

fn latency(latency: &Latency, percentiles: bool, list: &[f64]) -> Value {
    let moments = &latency.moments;
    let mut out = json!({
        "min": moments.min(),
        "max": moments.max,
        "mean": moments.mean(),
        "stddev": moments.deviation(),
        "N": moments.count,
    });
    if percentiles {
        let values = list.iter().map(|percent| {
            (format!("{percent:.6}"), json!(latency.percentile(*percent).unwrap_or(0)))
        });
        if let Value::Object(map) = &mut out {
            map.insert("percentile".to_owned(), Value::Object(values.collect()));
        }
    }
    out
}

fn sizes(names: &[&str; 7], sizes: &Sizes, whole: u64) -> Value {
    let values = names.iter().zip(sizes.percent_of(whole));
    Value::Object(values.map(|(name, value)| ((*name).to_owned(), json!(value))).collect())
}

/// Completion latencies by class, in percent of all I/Os: nanoseconds, microseconds, milliseconds.
pub(super) fn spread(job: &JobResult) -> [Vec<(String, f64)>; 3] {
    let whole = job.stats.ios();
    let mut counts = [[0u64; 12]; 3];
    let histograms = job.stats.directions.iter().filter_map(|d| d.clat.histogram.as_ref());
    for (nanos, count) in histograms.flat_map(|histogram| histogram.iter()) {
        let (unit, value) = match nanos {
            0..1_000 => (0, nanos),
            1_000..1_000_000 => (1, nanos / 1_000),
            _ => (2, nanos / 1_000_000),
        };
        let mut bounds = BOUNDS.iter().chain(&[LAST_BOUND]);
        let class = bounds.position(|bound| value < *bound).unwrap_or(11);
        if let Some(slot) = counts.get_mut(unit).and_then(|classes| classes.get_mut(class)) {
            *slot += count;
        }
    }
    let mut unit = 0;
    counts.map(|classes| {
        unit += 1;
        let mut names: Vec<String> = BOUNDS.iter().map(ToString::to_string).collect();
        if unit == 3 {
            names.extend([LAST_BOUND.to_string(), format!(">={LAST_BOUND}")]);
        }
        let shares = classes.into_iter().map(|count| num::percent(count, whole));
        names.into_iter().zip(shares).collect()
    })
}
