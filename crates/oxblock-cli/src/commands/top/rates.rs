//! From two looks at a server to what it did in between.

use std::collections::BTreeMap;

use oxblock_control::report::{DeviceStats, Requests, Stats, VolumeStats};
use serde::Serialize;

/// What a volume did in an interval, and how it is at the end of it. Rates are by second; times nanoseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Rates {
    /// The name of the export, or where it is mounted.
    pub name: String,
    /// The interval.
    pub interval: u64,
    /// Requests by kind, in the order of reports.
    pub requests: BTreeMap<String, Flow>,
    /// Bytes that cleaning moved.
    pub cleaning_bytes: u64,
    /// Segments that it emptied in the interval.
    pub cleaned_segments: u64,
    /// Blocks written to the log for each block of a request; nothing where no request wrote.
    pub amplification: Option<f64>,
    /// Checkpoints made in the interval.
    pub checkpoints: u64,
    /// Which part of the look-ups in the map needed no read; nothing where there was none.
    pub map_hits: Option<f64>,
    /// The devices.
    pub devices: Vec<Device>,
}

/// Requests of one kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Flow {
    /// Requests that ended in the interval.
    pub count: u64,
    /// The same by second.
    pub iops: u64,
    /// Bytes of those that went well.
    pub bytes: u64,
    /// Requests that failed in the interval.
    pub errors: u64,
    /// Requests under way at its end.
    pub in_flight: u64,
    /// How long those that ended took.
    pub mean: u64,
    /// Half of them at most this.
    pub p50: u64,
    /// 99 of 100.
    pub p99: u64,
    /// 999 of 1000.
    pub p999: u64,
}

/// Operations of one device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Device {
    pub path: String,
    pub reads: u64,
    pub read_bytes: u64,
    pub writes: u64,
    pub written_bytes: u64,
    pub in_flight: u64,
    /// All that failed since the volume was opened.
    pub errors: u64,
}

impl Rates {
    /// Requests of all kinds together.
    pub fn iops(&self) -> u64 {
        self.sum(|flow| flow.iops)
    }

    /// Bytes of them.
    pub fn bytes(&self) -> u64 {
        self.sum(|flow| flow.bytes)
    }

    /// Those under way.
    pub fn in_flight(&self) -> u64 {
        self.sum(|flow| flow.in_flight)
    }

    // No server gets this far, but what comes by the socket must not end the view.
    fn sum(&self, of: fn(&Flow) -> u64) -> u64 {
        self.requests.values().map(of).fold(0, u64::saturating_add)
    }
}

/// What each volume did between two looks; nothing when the second is of another server than the first.
pub fn rates(before: &Stats, after: &Stats) -> Option<Vec<Rates>> {
    let interval = after.uptime.checked_sub(before.uptime).filter(|interval| *interval > 0)?;
    if before.volumes.len() != after.volumes.len() {
        return None;
    }
    let pairs = before.volumes.iter().zip(&after.volumes);
    pairs.map(|(before, after)| of_volume(before, after, interval)).collect()
}

fn of_volume(before: &VolumeStats, after: &VolumeStats, interval: u64) -> Option<Rates> {
    if before.name != after.name {
        return None;
    }
    let mut requests = BTreeMap::new();
    for (kind, flow) in &after.requests {
        let old = before.requests.get(kind)?;
        requests.insert(kind.clone(), of_requests(old, flow, interval)?);
    }
    let counted = |name: &str| {
        let of = |stats: &VolumeStats| stats.counters.get(name).copied().unwrap_or_default();
        of(after).checked_sub(of(before))
    };
    let (log, written) = (counted("log_blocks")?, counted("written_blocks")?);
    let lookups = after.map.lookups.checked_sub(before.map.lookups)?;
    let fetched = after.map.fetched.checked_sub(before.map.fetched)?;
    let devices = before.devices.iter().zip(&after.devices);
    Some(Rates {
        name: after.name.clone(),
        interval,
        requests,
        cleaning_bytes: by_second(counted("relocated_blocks")?.saturating_mul(4096), interval),
        cleaned_segments: counted("cleaned_segments")?,
        amplification: part(log, written),
        checkpoints: counted("checkpoints")?,
        map_hits: part(lookups.saturating_sub(fetched), lookups),
        devices: devices
            .map(|(before, after)| of_device(before, after, interval))
            .collect::<Option<_>>()?,
    })
}

fn of_requests(before: &Requests, after: &Requests, interval: u64) -> Option<Flow> {
    let count = after.count.checked_sub(before.count)?;
    let old: BTreeMap<u64, u64> = before.buckets.iter().copied().collect();
    let buckets: Vec<(u64, u64)> = after
        .buckets
        .iter()
        .map(|(end, count)| (*end, count.saturating_sub(old.get(end).copied().unwrap_or(0))))
        .collect();
    let time = after.time.saturating_sub(before.time);
    Some(Flow {
        count,
        iops: by_second(count, interval),
        bytes: by_second(after.bytes.checked_sub(before.bytes)?, interval),
        errors: after.errors.checked_sub(before.errors)?,
        in_flight: after.in_flight,
        mean: time.checked_div(count).unwrap_or(0),
        p50: quantile(&buckets, 500),
        p99: quantile(&buckets, 990),
        p999: quantile(&buckets, 999),
    })
}

fn of_device(before: &DeviceStats, after: &DeviceStats, interval: u64) -> Option<Device> {
    let rate =
        |of: fn(&DeviceStats) -> u64| Some(by_second(of(after).checked_sub(of(before))?, interval));
    Some(Device {
        path: after.path.clone(),
        reads: rate(|device| device.reads)?,
        read_bytes: rate(|device| device.read_bytes)?,
        writes: rate(|device| device.writes)?,
        written_bytes: rate(|device| device.written_bytes)?,
        in_flight: after.in_flight,
        errors: after.errors,
    })
}

/// `count` in `interval` nanoseconds, by second.
fn by_second(count: u64, interval: u64) -> u64 {
    let rate = u128::from(count) * 1_000_000_000 / u128::from(interval.max(1));
    u64::try_from(rate).unwrap_or(u64::MAX)
}

fn part(part: u64, whole: u64) -> Option<f64> {
    let ten_thousandths = (u128::from(part) * 10_000).checked_div(u128::from(whole))?;
    Some(f64::from(u32::try_from(ten_thousandths).unwrap_or(u32::MAX)) / 10_000.0)
}

/// The end of the bucket into which the request falls that so many thousandths of them do not exceed.
fn quantile(buckets: &[(u64, u64)], thousandths: u64) -> u64 {
    let all: u128 = buckets.iter().map(|(_, count)| u128::from(*count)).sum();
    let rank = (all * u128::from(thousandths)).div_ceil(1000);
    let mut seen = 0;
    for (end, count) in buckets {
        seen += u128::from(*count);
        if seen >= rank && *count > 0 {
            return *end;
        }
    }
    0
}

#[cfg(test)]
pub mod tests;
