//! Rates of looks that are made up.

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
    assert_eq!((flow.count, flow.iops, flow.bytes), (2000, 1000, 4_096_000));
    assert_eq!((flow.in_flight, flow.mean), (3, 1000));
    assert_eq!((volume.iops(), volume.bytes(), volume.in_flight()), (3000, 12_288_000, 9));
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
    assert_eq!(quantile(&[(7, u64::MAX), (8, u64::MAX)], 501), 8);
    let mut most = stats(2 * SECOND, 1, &[(5, u64::MAX), (6, u64::MAX)]);
    for flow in most.volumes[0].requests.values_mut() {
        (flow.count, flow.bytes, flow.time) = (u64::MAX, u64::MAX, u64::MAX);
        flow.in_flight = u64::MAX;
    }
    let volume = rates(&stats(SECOND, 0, &[]), &most).unwrap().remove(0);
    assert_eq!((volume.iops(), volume.bytes(), volume.in_flight()), (u64::MAX, u64::MAX, u64::MAX));
    assert_eq!((volume.requests["read"].p50, volume.requests["read"].p999), (5, 6));
    assert_eq!(part(u64::MAX, 1), Some(f64::from(u32::MAX) / 10_000.0));
}
