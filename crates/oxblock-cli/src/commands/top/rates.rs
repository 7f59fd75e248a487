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
    /// Requests that ended.
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
    let all: u64 = buckets.iter().map(|(_, count)| count).sum();
    let rank = (u128::from(all) * u128::from(thousandths)).div_ceil(1000);
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
pub mod tests {
    use oxblock_control::report::{MapCache, Segments, State};

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    pub fn stats(uptime: u64, count: u64, buckets: &[(u64, u64)]) -> Stats {
        let flow = Requests {
            count,
            bytes: count * 4096,
            errors: 0,
            in_flight: 3,
            time: count * 1000,
            latency: BTreeMap::new(),
            buckets: buckets.to_vec(),
        };
        let counters = [("log_blocks", count * 3), ("written_blocks", count * 2)];
        let volume = VolumeStats {
            name: "disk".into(),
            size: 1 << 30,
            used: 1 << 29,
            state: State::Working,
            requests: ["read", "write", "flush"].map(|kind| (kind.into(), flow.clone())).into(),
            counters: counters.map(|(name, value)| (name.into(), value)).into(),
            segments: Segments {
                size: 1 << 21,
                count: 60,
                free: 40,
                reserved: 10,
                open: 1,
                sealed: 8,
                pending: 1,
                damaged: 0,
            },
            map: MapCache {
                cached: 5,
                limit: 100,
                dirty: 2,
                lost: 0,
                lookups: count * 10,
                fetched: count,
                evicted: 0,
            },
            devices: vec![DeviceStats {
                path: "/dev/disk".into(),
                size: 1 << 31,
                reads: count,
                read_bytes: count * 4096,
                writes: 0,
                written_bytes: 0,
                flushes: 0,
                discards: 0,
                errors: 0,
                in_flight: 1,
            }],
            clients: Some(2),
        };
        Stats { version: 1, uptime, volumes: vec![volume] }
    }

    #[test]
    fn rates_are_those_of_the_interval() {
        let before = stats(SECOND, 1000, &[(100, 900), (200, 100)]);
        let after = stats(3 * SECOND, 3000, &[(100, 900), (200, 1100), (5000, 990), (9000, 10)]);
        let rates = rates(&before, &after).unwrap();
        let [volume] = &rates[..] else { unreachable!() };
        let flow = volume.requests["read"];
        assert_eq!((flow.iops, flow.bytes, flow.in_flight, flow.mean), (1000, 4_096_000, 3, 1000));
        assert_eq!((flow.p50, flow.p99, flow.p999), (200, 5000, 9000));
        assert_eq!((volume.amplification, volume.map_hits), (Some(1.5), Some(0.9)));
        assert_eq!((volume.devices[0].reads, volume.devices[0].in_flight), (1000, 1));
    }

    #[test]
    fn nothing_is_made_of_nothing() {
        let still = stats(SECOND, 10, &[(100, 10)]);
        let later = Stats { uptime: 2 * SECOND, ..still.clone() };
        let volume = rates(&still, &later).unwrap().remove(0);
        let flow = volume.requests["read"];
        assert_eq!((flow.iops, flow.mean, flow.p50, flow.p999), (0, 0, 0, 0));
        assert_eq!((volume.amplification, volume.map_hits), (None, None));
        // No time has passed.
        assert_eq!(rates(&still, &still), None);
    }

    #[test]
    fn another_server_begins_anew() {
        let before = stats(SECOND, 1000, &[(100, 1000)]);
        // It has been up for longer than the first had, and has done less.
        assert_eq!(rates(&before, &stats(2 * SECOND, 10, &[(100, 10)])), None);
        assert_eq!(rates(&stats(2 * SECOND, 10, &[]), &stats(SECOND, 20, &[])), None);
        let mut renamed = stats(2 * SECOND, 2000, &[]);
        renamed.volumes[0].name = "other".into();
        assert_eq!(rates(&before, &renamed), None);
        renamed.volumes.clear();
        assert_eq!(rates(&before, &renamed), None);
    }

    #[test]
    fn large_figures_stay_figures() {
        assert_eq!(by_second(u64::MAX, 1), u64::MAX);
        assert_eq!(quantile(&[(7, u64::MAX / 2)], 999), 7);
        assert_eq!(part(u64::MAX, 1), Some(f64::from(u32::MAX) / 10_000.0));
    }
}
