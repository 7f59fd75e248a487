//! What is on the screen: drawn from figures alone, for a terminal of any size.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use oxblock::trace::Kind;
use oxblock_control::report::{State, Stats, Status, VolumeStats, VolumeStatus};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Paragraph, Row, Sparkline, Table};

use super::rates::{Flow, Rates};
use crate::size::human;

/// The smallest terminal on which this makes sense, in columns and rows.
const SMALLEST: (u16, u16) = (60, 16);
/// Volumes that are listed at once.
const LISTED: u16 = 6;
/// How many intervals are remembered.
pub const REMEMBERED: usize = 600;

/// All that is to be seen.
pub struct Screen {
    /// Where the server is asked.
    pub place: String,
    pub interval: Duration,
    pub paused: bool,
    /// Why the server does not answer, if it does not.
    pub gone: Option<String>,
    pub status: Option<Status>,
    pub stats: Option<Stats>,
    /// Of each volume; empty before the second look.
    pub rates: Vec<Rates>,
    /// Requests by second, of each volume, the last one last.
    pub history: BTreeMap<String, VecDeque<u64>>,
    /// The volume that is shown, by its place.
    pub chosen: usize,
}

impl Screen {
    /// Nothing is known yet of the server at `place`.
    pub fn new(place: String, interval: Duration) -> Self {
        Self {
            place,
            interval,
            paused: false,
            gone: None,
            status: None,
            stats: None,
            rates: Vec::new(),
            history: BTreeMap::new(),
            chosen: 0,
        }
    }
}

/// Draws it.
pub fn draw(screen: &Screen, frame: &mut Frame<'_>) {
    let area = frame.area();
    if area.width < SMALLEST.0 || area.height < SMALLEST.1 {
        let text = format!("needs {} x {}", SMALLEST.0, SMALLEST.1);
        frame.render_widget(Paragraph::new(text), area);
        return;
    }
    let count = screen.stats.as_ref().map_or(0, |stats| stats.volumes.len());
    let listed = if count > 1 { u16::try_from(count).unwrap_or(LISTED).min(LISTED) } else { 0 };
    let rows = [
        Constraint::Length(1),
        Constraint::Length(listed + u16::from(listed > 0)),
        Constraint::Fill(1),
        Constraint::Length(1),
    ];
    let [head, list, body, foot] = Layout::vertical(rows).areas(area);
    frame.render_widget(headline(screen), head);
    if listed > 0 {
        draw_list(screen, usize::from(listed), frame, list);
    }
    let keys = "q end   up, down volume   + - interval   space pause";
    frame.render_widget(Paragraph::new(keys).style(dim()), foot);
    let chosen = |stats: &Stats| stats.volumes.get(screen.chosen).cloned();
    match screen.stats.as_ref().and_then(chosen) {
        Some(volume) => draw_volume(screen, &volume, frame, body),
        None => frame.render_widget(Paragraph::new("waiting for the server"), body),
    }
}

fn dim() -> Style {
    Style::new().add_modifier(Modifier::DIM)
}

fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

fn headline(screen: &Screen) -> Paragraph<'_> {
    let mut spans = vec![Span::styled("oxblock ", bold())];
    if let Some(why) = &screen.gone {
        spans.push(Span::styled(format!("{why}; looking again"), alarm()));
        return Paragraph::new(Line::from(spans));
    }
    if let Some(status) = &screen.status {
        let seconds = status.uptime / 1_000_000_000;
        let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        spans.push(Span::raw(format!("{}  process {}  ", status.program, status.pid)));
        spans.push(Span::raw(format!("up {hours}:{minutes:02}:{seconds:02}  ")));
    }
    spans.push(Span::raw(format!("every {} s  ", screen.interval.as_secs_f64())));
    if screen.paused {
        spans.push(Span::styled("paused  ", bold()));
    }
    spans.push(Span::styled(&screen.place, dim()));
    Paragraph::new(Line::from(spans))
}

fn alarm() -> Style {
    Style::new().fg(Color::Red).add_modifier(Modifier::BOLD)
}

/// All volumes, or those around the one that is chosen.
fn draw_list(screen: &Screen, listed: usize, frame: &mut Frame<'_>, area: Rect) {
    let Some(stats) = &screen.stats else { return };
    let first = screen.chosen.saturating_sub(listed - 1);
    let volumes = stats.volumes.iter().enumerate().skip(first).take(listed);
    let rows = volumes.map(|(place, volume)| {
        let of = |kind: &str| screen.rates.get(place)?.requests.get(kind).copied();
        let (read, write) = (of("read").unwrap_or_default(), of("write").unwrap_or_default());
        let row = Row::new([
            volume.name.clone(),
            volume.state.name().to_owned(),
            format!("{}/s", read.iops + write.iops),
            format!("{}/s", human(read.bytes.saturating_add(write.bytes))),
            volume.clients.map(|count| format!("clients {count}")).unwrap_or_default(),
        ]);
        let style = Style::new().add_modifier(Modifier::REVERSED);
        if place == screen.chosen { row.style(style) } else { row }
    });
    let widths = [
        Constraint::Fill(1),
        Constraint::Length(9),
        Constraint::Length(12),
        Constraint::Length(14),
        Constraint::Length(14),
    ];
    frame.render_widget(Table::new(rows, widths), area);
}

fn draw_volume(screen: &Screen, volume: &VolumeStats, frame: &mut Frame<'_>, area: Rect) {
    let status = screen.status.as_ref().and_then(|status| status.volumes.get(screen.chosen));
    let rates = screen.rates.get(screen.chosen);
    let notes = notes(volume, status, rates);
    let kinds = u16::try_from(volume.requests.len()).unwrap_or(0);
    let rows = [
        Constraint::Length(1 + kinds),
        Constraint::Length(u16::try_from(notes.len()).unwrap_or(0)),
        Constraint::Length(1 + u16::try_from(volume.devices.len()).unwrap_or(u16::MAX).min(8)),
        Constraint::Fill(1),
    ];
    let [flows, facts, devices, rest] = Layout::vertical(rows).areas(area);
    draw_flows(volume, rates, frame, flows);
    frame.render_widget(Paragraph::new(notes), facts);
    draw_devices(volume, rates, frame, devices);
    if let Some(history) = screen.history.get(&volume.name).filter(|_| rest.height > 1) {
        let [title, bars] =
            Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(rest);
        let width = usize::from(bars.width);
        let shown: Vec<u64> =
            history.iter().copied().skip(history.len().saturating_sub(width)).collect();
        let most = shown.iter().copied().max().unwrap_or(0);
        let text = format!("requests by second, at most {most}");
        frame.render_widget(Paragraph::new(text).style(dim()), title);
        frame.render_widget(Sparkline::default().data(&shown).max(most.max(1)), bars);
    }
}

fn draw_flows(volume: &VolumeStats, rates: Option<&Rates>, frame: &mut Frame<'_>, area: Rect) {
    let heading = ["", "IOPS", "B/s", "mean us", "p50 us", "p99 us", "p99.9 us", "queue", "errors"];
    let kinds = Kind::ALL.iter().map(|kind| kind.name());
    let rows =
        kinds.filter_map(|kind| volume.requests.get_key_value(kind)).map(|(kind, requests)| {
            let flow = rates.and_then(|rates| rates.requests.get(kind)).copied();
            let flow = flow.unwrap_or(Flow { in_flight: requests.in_flight, ..Flow::default() });
            let busy = flow.iops > 0 || flow.in_flight > 0;
            let row = Row::new(
                [
                    kind.replace('_', " "),
                    flow.iops.to_string(),
                    human(flow.bytes),
                    micros(flow.mean),
                    micros(flow.p50),
                    micros(flow.p99),
                    micros(flow.p999),
                    flow.in_flight.to_string(),
                    requests.errors.to_string(),
                ]
                .map(Cell::from),
            );
            if busy { row } else { row.style(dim()) }
        });
    let widths = [Constraint::Length(13), Constraint::Length(8)]
        .into_iter()
        .chain([Constraint::Length(9); 5])
        .chain([Constraint::Length(6); 2]);
    let table = Table::new(rows, widths).column_spacing(0).header(Row::new(heading).style(bold()));
    frame.render_widget(table, area);
}

/// Microseconds, with tenths where they matter.
fn micros(nanos: u64) -> String {
    match nanos {
        0..100_000 => format!("{}.{}", nanos / 1000, nanos / 100 % 10),
        _ => (nanos / 1000).to_string(),
    }
}

fn percent(part: Option<f64>) -> String {
    part.map_or("-".into(), |part| format!("{:.1} %", part * 100.0))
}

fn notes<'a>(
    volume: &VolumeStats,
    status: Option<&'a VolumeStatus>,
    rates: Option<&Rates>,
) -> Vec<Line<'a>> {
    let label = |name: &'static str| Span::styled(format!("{name:<10}"), bold());
    let line = |name, text: String| Line::from(vec![label(name), Span::raw(text)]);
    let mut lines = Vec::new();
    let clients = volume.clients.map(|count| format!(", clients: {count}")).unwrap_or_default();
    let damage = status.map_or(0, |status| status.checksum_errors);
    let damage =
        if damage > 0 { format!(", {damage} blocks failed verification") } else { String::new() };
    let why = status.and_then(|status| status.failed.clone()).map(|why| format!(": {why}"));
    let text = format!("{}{}{clients}{damage}", volume.state.name(), why.unwrap_or_default());
    let good = volume.state == State::Working && damage.is_empty();
    let style = if good { Style::new().fg(Color::Green) } else { alarm() };
    lines.push(Line::from(vec![label("state"), Span::styled(text, style)]));
    let used = (u128::from(volume.used) * 100).checked_div(u128::from(volume.size)).unwrap_or(0);
    lines.push(line(
        "space",
        format!("{} of {} ({used} %)", human(volume.used), human(volume.size)),
    ));
    lines.push(line("segments", volume.segments.to_string()));
    let cleaning = rates.map_or_else(String::new, |rates| {
        format!(
            "{}/s moved, {} segments cleaned, {} checkpoints, amplification {}",
            human(rates.cleaning_bytes),
            rates.cleaned_segments,
            rates.checkpoints,
            rates.amplification.map_or("-".into(), |times| format!("{times:.2}"))
        )
    });
    lines.push(line("log", cleaning));
    let map = &volume.map;
    let hits = percent(rates.and_then(|rates| rates.map_hits));
    let text = format!(
        "{} of {} nodes in memory, {} dirty, hits {hits}",
        map.cached, map.limit, map.dirty
    );
    lines.push(line("map", text));
    lines
}

fn draw_devices(volume: &VolumeStats, rates: Option<&Rates>, frame: &mut Frame<'_>, area: Rect) {
    let rows = volume.devices.iter().enumerate().map(|(place, device)| {
        let now = rates.and_then(|rates| rates.devices.get(place));
        let of = |text: Option<String>| text.unwrap_or_else(|| "-".into());
        Row::new([
            device.path.clone(),
            of(now.map(|now| now.reads.to_string())),
            of(now.map(|now| human(now.read_bytes))),
            of(now.map(|now| now.writes.to_string())),
            of(now.map(|now| human(now.written_bytes))),
            device.in_flight.to_string(),
            device.errors.to_string(),
        ])
    });
    let widths = [Constraint::Fill(1)]
        .into_iter()
        .chain([
            Constraint::Length(8),
            Constraint::Length(9),
            Constraint::Length(8),
            Constraint::Length(9),
        ])
        .chain([Constraint::Length(6); 2]);
    let heading = ["device", "reads/s", "B/s", "writes/s", "B/s", "queue", "errors"];
    let table = Table::new(rows, widths).header(Row::new(heading).style(bold()));
    frame.render_widget(table, area);
}
