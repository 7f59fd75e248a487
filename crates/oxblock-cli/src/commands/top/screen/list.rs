//! All volumes in a row each, where there are several.

use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::widgets::{Cell, Row, Table};

use super::super::named;
use super::{Screen, alarm, figure, short};
use crate::size::human;
use oxblock_control::report::State;

/// Volumes that are listed at once.
const LISTED: u16 = 6;
/// Rows that everything else needs.
const OTHERS: u16 = 16;

/// Rows of the list on a terminal of so many.
pub fn rows(screen: &Screen, height: u16) -> u16 {
    let count = screen.stats.as_ref().map_or(0, |stats| stats.volumes.len());
    let count = if count > 1 { u16::try_from(count).unwrap_or(u16::MAX) } else { 0 };
    count.min(LISTED).min(height.saturating_sub(OTHERS))
}

/// Draws all of them, or those around the one that is chosen.
pub fn draw(screen: &Screen, rows: u16, frame: &mut Frame<'_>, area: Rect) {
    let Some(stats) = screen.stats.as_ref().filter(|_| rows > 0) else { return };
    let rows = usize::from(rows);
    let first = screen.chosen.saturating_sub(rows - 1);
    let volumes = stats.volumes.iter().enumerate().skip(first).take(rows);
    let rows = volumes.map(|(place, volume)| {
        let rates = screen.rates.get(place);
        let of = |text: Option<String>| figure(text.unwrap_or_else(|| "-".into()));
        let state = Cell::from(volume.state.name());
        let row = Row::new([
            Cell::from(named(&volume.name)),
            if volume.state == State::Failed { state.style(alarm()) } else { state },
            of(rates.map(|rates| format!("{}/s", short(rates.iops())))),
            of(rates.map(|rates| format!("{}/s", human(rates.bytes())))),
            of(rates.map(|rates| format!("queue {}", short(rates.in_flight())))),
            figure(volume.clients.map(|count| format!("clients {count}")).unwrap_or_default()),
        ]);
        let style = Style::new().add_modifier(Modifier::REVERSED);
        if place == screen.chosen { row.style(style) } else { row }
    });
    let widths = [
        Constraint::Fill(1),
        Constraint::Length(9),
        Constraint::Length(8),
        Constraint::Length(11),
        Constraint::Length(12),
        Constraint::Length(12),
    ];
    frame.render_widget(Table::new(rows, widths), area);
}
