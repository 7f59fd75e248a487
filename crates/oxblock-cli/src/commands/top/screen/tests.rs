//! Screens of looks that are made up, on a terminal that is none.

use oxblock_control::report::{State, VolumeStats, VolumeStatus};
use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::super::rates::tests::stats;
use super::*;

const SECOND: u64 = 1_000_000_000;

fn status(pid: u32) -> Status {
    let uptime = 3700 * SECOND;
    Status { version: 1, program: "0.1.0".into(), pid, uptime, volumes: Vec::new() }
}

fn screen() -> Screen {
    Screen::new("/run/ox.ctl".into(), Duration::from_secs(1))
}

fn drawn(screen: &Screen, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(screen, frame)).unwrap();
    terminal.backend().to_string()
}

fn has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

/// A server of so many volumes, which do as much as can be.
fn busiest(count: usize, name: &str) -> (Stats, Stats) {
    let mut before = stats(SECOND, 0, &[]);
    let mut after = stats(SECOND + 1, 1, &[(u64::MAX, u64::MAX)]);
    let volume = &mut after.volumes[0];
    (volume.size, volume.used, volume.clients) = (u64::MAX, u64::MAX, Some(u64::MAX));
    for flow in volume.requests.values_mut() {
        (flow.count, flow.bytes, flow.errors) = (u64::MAX, u64::MAX, u64::MAX);
        (flow.in_flight, flow.time) = (u64::MAX, u64::MAX);
    }
    for counter in volume.counters.values_mut() {
        *counter = u64::MAX;
    }
    let segments = &mut volume.segments;
    (segments.free, segments.sealed, segments.damaged) = (u32::MAX, u32::MAX, u32::MAX);
    (volume.map.lookups, volume.map.limit, volume.map.lost) = (u64::MAX, u64::MAX, u64::MAX);
    let device = &mut volume.devices[0];
    (device.reads, device.read_bytes, device.errors) = (u64::MAX, u64::MAX, u64::MAX);
    for stats in [&mut before, &mut after] {
        let volume = stats.volumes[0].clone();
        stats.volumes = (0..count)
            .map(|place| {
                let devices = vec![volume.devices[0].clone(); place];
                VolumeStats { name: format!("{place} {name}"), devices, ..volume.clone() }
            })
            .collect();
    }
    (before, after)
}

#[test]
fn what_is_going_on_is_to_be_seen() {
    let mut screen = screen();
    has(&drawn(&screen, 80, 24), &["waiting for the server"]);
    assert!(!screen.take((status(7), stats(SECOND, 0, &[]))));
    has(&drawn(&screen, 80, 24), &["working", "read              - "]);
    assert!(screen.take((status(7), stats(2 * SECOND, 5000, &[(123_456, 5000)]))));
    for (width, height) in [(80, 20), (80, 24), (200, 50)] {
        let parts = [
            "up 1:01:40  every 1 s  /run/ox.ctl",
            "read           5000  19.5 MiB      1.0      123      123      123      3      0",
            "export    disk",
            "state     working, clients: 2",
            "space     512 MiB of 1 GiB (50 %)",
            "40 free, 10 reserved, 1 open, 8 sealed, 1 pending, 0 damaged",
            "0 B/s moved, 0 segments/s; amplification 1.50; 0 checkpoints/s",
            "5 of 100 nodes in memory, 2 dirty, hits 90.0 %",
            "/dev/disk",
            "at most 15000",
            "q end",
        ];
        has(&drawn(&screen, width, height), &parts);
    }
}

#[test]
fn little_is_not_nothing() {
    let mut screen = screen();
    screen.take((status(7), stats(SECOND, 0, &[])));
    screen.take((status(7), stats(6 * SECOND, 1, &[(2_000_000, 1)])));
    has(&drawn(&screen, 80, 24), &["read            0.2     819 B"]);
}

#[test]
fn a_server_that_goes_and_comes_is_told() {
    let mut screen = screen();
    screen.take((status(7), stats(SECOND, 0, &[])));
    screen.take((status(7), stats(2 * SECOND, 5000, &[(100, 5000)])));
    screen.lose("the server does not answer".into());
    // What was there is there, but nothing goes on.
    has(&drawn(&screen, 80, 24), &["does not answer; looking again", "read              - "]);
    // The same one: it has a past, and no interval yet.
    assert!(!screen.take((status(7), stats(9 * SECOND, 5001, &[(100, 5001)]))));
    assert!(screen.gone.is_none() && screen.rates.is_empty() && screen.history.len() == 1);
    assert!(screen.take((status(7), stats(10 * SECOND, 5002, &[(100, 5002)]))));
    // Another one, which has been up for longer and has done more.
    screen.lose("the server does not answer".into());
    assert!(!screen.take((status(8), stats(20 * SECOND, 9000, &[(100, 9000)]))));
    assert!(screen.history.is_empty());
    // One that counts anew.
    assert!(screen.take((status(8), stats(21 * SECOND, 9001, &[(100, 9001)]))));
    assert!(!screen.take((status(8), stats(22 * SECOND, 3, &[]))));
    assert!(screen.rates.is_empty() && screen.history.is_empty());
}

#[test]
fn a_pause_is_no_interval() {
    let mut screen = screen();
    screen.take((status(7), stats(SECOND, 0, &[])));
    screen.take((status(7), stats(2 * SECOND, 5000, &[(100, 5000)])));
    screen.pause();
    has(&drawn(&screen, 80, 24), &["paused"]);
    screen.lose("the server does not answer".into());
    assert!(!screen.take((status(7), stats(3 * SECOND, 5001, &[(100, 5001)]))));
    assert!(screen.gone.is_none());
    assert_eq!(screen.rates[0].requests["read"].iops, 5000);
    screen.pause();
    assert!(!screen.take((status(7), stats(100 * SECOND, 5002, &[(100, 5002)]))));
    assert_eq!(screen.rates[0].requests["read"].iops, 5000);
    assert!(screen.take((status(7), stats(101 * SECOND, 5012, &[(100, 5012)]))));
    assert_eq!(screen.rates[0].requests["read"].iops, 10);
    assert_eq!(screen.history["disk"], [15000, 30]);
}

#[test]
fn why_a_volume_has_failed_is_folded() {
    let (mut screen, mut look) = (screen(), stats(SECOND, 0, &[]));
    look.volumes[0].state = State::Failed;
    look.volumes[0].map.lost = 12;
    let why =
        "writing the record at 1234567 failed, and the one that was tried in its place ".repeat(2);
    let failed: VolumeStatus = serde_json::from_value(serde_json::json!({
        "name": "disk", "uuid": "", "label": "", "size": 0, "used": 0, "capacity": 0, "state": "failed",
        "failed": why.trim_end(), "profile": "single", "csum": "crc32c", "checksum_errors": 3,
        "generation": 1, "segments": look.volumes[0].segments, "map": look.volumes[0].map,
        "device_call": "", "devices": [], "clients": null,
    }))
    .unwrap();
    screen.take((Status { volumes: vec![failed], ..status(7) }, look));
    let text = drawn(&screen, 80, 20);
    has(
        &text,
        &["failed: writing", "3 blocks failed verification,", "12 map nodes are lost", "q end"],
    );
}

#[test]
fn every_size_and_every_figure_can_be_drawn() {
    for (count, name) in [(0, ""), (1, ""), (1, "disk"), (2, ""), (50, "long name ")] {
        let mut screen = screen();
        let (before, after) = busiest(count, &name.repeat(30));
        screen.take((status(7), before));
        for look in 0..2 {
            for chosen in [0, 1, 20, 49] {
                screen.chosen = chosen;
                for (width, height) in
                    [(1, 1), (3, 300), (79, 20), (80, 19), (80, 20), (80, 24), (200, 50), (300, 3)]
                {
                    let text = drawn(&screen, width, height);
                    if (width, height) == (79, 20) {
                        has(&text, &["needs 80 x 20"]);
                    }
                    if count > chosen && width == 80 && height >= 20 {
                        has(&text, &["IOPS", "flush", "state", "segments", "hits", "q end"]);
                    }
                }
            }
            if look == 0 {
                screen.chosen = 0;
                assert!(screen.take((status(7), after.clone())));
            }
        }
    }
}

#[test]
fn the_volume_that_is_chosen_is_in_the_list() {
    let mut screen = screen();
    let (before, after) = busiest(50, "");
    screen.take((status(7), before));
    screen.take((status(7), after));
    for chosen in [0, 3, 6, 49] {
        screen.chosen = chosen;
        let text = drawn(&screen, 80, 24);
        let rows = text.lines().filter(|line| line.contains("queue 18"));
        assert_eq!(rows.count(), 6, "{text}");
        has(&text, &[&format!("\"{chosen} ")]);
    }
}
