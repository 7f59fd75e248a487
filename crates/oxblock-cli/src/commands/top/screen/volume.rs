//! The volume that is chosen: its requests, how it is, its devices, and how it went.

mod facts;

use oxblock::trace::Kind;
use oxblock_control::report::VolumeStats;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::widgets::{Cell, Paragraph, Row, Sparkline, Table};

use super::super::rates::{Flow, Rates};
use super::{Screen, alarm, bold, dim, figure, short};
use crate::size::human;

/// Devices that are shown.
const DEVICES: u16 = 8;

/// Draws it. Where there is no room for all, devices and then the past are what is left out.
pub fn draw(screen: &Screen, volume: &VolumeStats, frame: &mut Frame<'_>, area: Rect) {
    let status = screen.status.as_ref().and_then(|status| status.volumes.get(screen.chosen));
    let rates = screen.rates.get(screen.chosen);
    let alone = screen.stats.as_ref().is_some_and(|stats| stats.volumes.len() == 1);
    let facts = facts::facts(volume, status, rates, alone, area.width);
    let length = |count: usize| u16::try_from(count).unwrap_or(u16::MAX);
    // Each takes what the one before has left.
    let mut left = area.height;
    let mut take = |rows: u16| {
        let taken = rows.min(left);
        left -= taken;
        taken
    };
    let rows = [
        take(1 + length(Kind::ALL.len())),
        take(length(facts.len())),
        take(1 + length(volume.devices.len()).min(DEVICES)),
    ];
    let [first, second, third] = rows.map(Constraint::Length);
    let rows = [first, second, third, Constraint::Fill(1)];
    let [flows, middle, devices, rest] = Layout::vertical(rows).areas(area);
    draw_flows(volume, rates, frame, flows);
    frame.render_widget(Paragraph::new(facts), middle);
    draw_devices(volume, rates, frame, devices);
    draw_past(screen, volume, frame, rest);
}

fn draw_flows(volume: &VolumeStats, rates: Option<&Rates>, frame: &mut Frame<'_>, area: Rect) {
    let figures = ["IOPS", "B/s", "mean us", "p50 us", "p99 us", "p99.9 us", "queue", "errors"];
    let heading = std::iter::once(Cell::from("")).chain(figures.map(figure));
    let kinds = Kind::ALL.iter().map(|kind| kind.name());
    let rows = kinds.filter_map(|kind| volume.requests.get_key_value(kind)).map(|(kind, all)| {
        let now = rates.and_then(|rates| Some((rates.requests.get(kind)?, rates.interval)));
        let of = |text: fn(&Flow, u64) -> String| {
            figure(now.map_or_else(|| "-".into(), |(flow, interval)| text(flow, interval)))
        };
        let errors = figure(short(all.errors));
        let row = Row::new([
            Cell::from(kind.replace('_', " ")),
            of(|flow, interval| by_second(flow.count, interval)),
            of(|flow, _| human(flow.bytes)),
            of(|flow, _| micros(flow.mean)),
            of(|flow, _| micros(flow.p50)),
            of(|flow, _| micros(flow.p99)),
            of(|flow, _| micros(flow.p999)),
            figure(short(all.in_flight)),
            if all.errors > 0 { errors.style(alarm()) } else { errors },
        ]);
        let busy = all.in_flight > 0 || now.is_some_and(|(flow, _)| flow.count > 0);
        if busy { row } else { row.style(dim()) }
    });
    let widths = [Constraint::Length(12), Constraint::Length(7), Constraint::Length(10)]
        .into_iter()
        .chain([Constraint::Length(9); 4])
        .chain([Constraint::Length(7); 2]);
    let table = Table::new(rows, widths).column_spacing(0).header(Row::new(heading).style(bold()));
    frame.render_widget(table, area);
}

/// `count` in `interval` nanoseconds, by second; with tenths where they are most of it.
fn by_second(count: u64, interval: u64) -> String {
    let tenths = u128::from(count) * 10_000_000_000 / u128::from(interval.max(1));
    match u64::try_from(tenths).unwrap_or(u64::MAX) {
        0 => "0".into(),
        tenths @ 1..100 => format!("{}.{}", tenths / 10, tenths % 10),
        tenths => short(tenths / 10),
    }
}

/// Microseconds, with tenths where they matter; seconds where those would be many.
fn micros(nanos: u64) -> String {
    match nanos {
        0 => "0".into(),
        1..100_000 => format!("{}.{}", nanos / 1000, nanos / 100 % 10),
        100_000..100_000_000_000 => (nanos / 1000).to_string(),
        _ => format!("{} s", short(nanos / 1_000_000_000)),
    }
}

fn draw_devices(volume: &VolumeStats, rates: Option<&Rates>, frame: &mut Frame<'_>, area: Rect) {
    let rows = volume.devices.iter().enumerate().map(|(place, device)| {
        let now = rates.and_then(|rates| rates.devices.get(place));
        let of = |text: Option<String>| figure(text.unwrap_or_else(|| "-".into()));
        let errors = figure(short(device.errors));
        Row::new([
            Cell::from(device.path.as_str()),
            of(now.map(|now| short(now.reads))),
            of(now.map(|now| human(now.read_bytes))),
            of(now.map(|now| short(now.writes))),
            of(now.map(|now| human(now.written_bytes))),
            figure(short(device.in_flight)),
            if device.errors > 0 { errors.style(alarm()) } else { errors },
        ])
    });
    let widths = [8, 10, 9, 10, 7, 7].map(Constraint::Length);
    let widths = std::iter::once(Constraint::Fill(1)).chain(widths);
    let figures = ["reads/s", "B/s", "writes/s", "B/s", "queue", "errors"];
    let heading = std::iter::once(Cell::from("device")).chain(figures.map(figure));
    let table = Table::new(rows, widths).column_spacing(0).header(Row::new(heading).style(bold()));
    frame.render_widget(table, area);
}

fn draw_past(screen: &Screen, volume: &VolumeStats, frame: &mut Frame<'_>, area: Rect) {
    let history = screen.history.get(&volume.name).filter(|_| area.height > 1);
    let Some(history) = history else { return };
    let rows = [Constraint::Length(1), Constraint::Fill(1)];
    let [title, bars] = Layout::vertical(rows).areas(area);
    let older = history.len().saturating_sub(usize::from(bars.width));
    let shown: Vec<u64> = history.iter().copied().skip(older).collect();
    let most = shown.iter().copied().max().unwrap_or(0);
    let text = format!("requests by second, at most {most}");
    frame.render_widget(Paragraph::new(text).style(dim()), title);
    frame.render_widget(Sparkline::default().data(&shown).max(most.max(1)), bars);
}
