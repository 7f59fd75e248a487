//! What is on the screen: drawn from figures alone, for a terminal of any size.

mod list;
mod volume;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use oxblock_control::report::{Stats, Status};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Cell, Paragraph};

use super::rates::{Rates, rates};

/// The smallest terminal on which every figure has its room, in columns and rows.
const SMALLEST: (u16, u16) = (80, 20);
/// How many intervals are remembered.
const REMEMBERED: usize = 600;

/// All that is to be seen.
pub struct Screen {
    /// Where the server is asked.
    pub place: String,
    pub interval: Duration,
    pub paused: bool,
    /// Why the server does not answer, if it does not.
    pub gone: Option<String>,
    status: Option<Status>,
    pub stats: Option<Stats>,
    /// Of each volume; empty before the second look.
    rates: Vec<Rates>,
    /// Requests by second, of each volume, the last one last.
    history: BTreeMap<String, VecDeque<u64>>,
    /// The volume that is shown, by its place.
    pub chosen: usize,
    /// Nobody looked for a while: the next look ends no interval, it begins one.
    stale: bool,
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
            stale: false,
        }
    }

    /// Takes a look in; true when that ends an interval. What is paused stays as it is.
    pub fn take(&mut self, (status, stats): (Status, Stats)) -> bool {
        self.gone = None;
        if self.paused {
            return false;
        }
        let same = self.status.as_ref().is_some_and(|before| before.pid == status.pid);
        let found = self.stats.as_ref().filter(|_| same).and_then(|before| rates(before, &stats));
        let began = std::mem::take(&mut self.stale);
        let ended = found.is_some() && !began;
        match found {
            // The first look at this server.
            None => {
                self.history.clear();
                self.rates.clear();
            }
            Some(_) if began => {}
            Some(rates) => self.rates = rates,
        }
        for volume in self.rates.iter().filter(|_| ended) {
            let history = self.history.entry(volume.name.clone()).or_default();
            history.push_back(volume.iops());
            if history.len() > REMEMBERED {
                history.pop_front();
            }
        }
        self.chosen = self.chosen.min(stats.volumes.len().saturating_sub(1));
        (self.status, self.stats) = (Some(status), Some(stats));
        ended
    }

    /// The server does not answer.
    pub fn lose(&mut self, why: String) {
        self.gone = Some(why);
        self.stale = true;
        if !self.paused {
            self.rates.clear();
        }
    }

    /// Pauses, or goes on.
    pub fn pause(&mut self) {
        self.paused = !self.paused;
        self.stale = true;
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
    let listed = list::rows(screen, area.height);
    let rows = [
        Constraint::Length(1),
        Constraint::Length(listed + u16::from(listed > 0)),
        Constraint::Fill(1),
        Constraint::Length(1),
    ];
    let [head, list, body, foot] = Layout::vertical(rows).areas(area);
    frame.render_widget(headline(screen), head);
    list::draw(screen, listed, frame, list);
    let keys = "q end   up, down volume   + - interval   space pause";
    frame.render_widget(Paragraph::new(keys).style(dim()), foot);
    match screen.stats.as_ref().and_then(|stats| stats.volumes.get(screen.chosen)) {
        Some(volume) => volume::draw(screen, volume, frame, body),
        None => frame.render_widget(Paragraph::new("waiting for the server"), body),
    }
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

fn dim() -> Style {
    Style::new().add_modifier(Modifier::DIM)
}

fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

fn alarm() -> Style {
    Style::new().fg(Color::Red).add_modifier(Modifier::BOLD)
}

/// A figure in its column.
fn figure<'a>(text: impl Into<Text<'a>>) -> Cell<'a> {
    Cell::from(text.into().right_aligned())
}

/// A count in at most six signs: `12345`, `123k`, `99999M`.
fn short(count: u64) -> String {
    let mut left = count;
    for unit in ["", "k", "M", "G", "T", "P"] {
        if left < 100_000 {
            return format!("{left}{unit}");
        }
        left /= 1000;
    }
    format!("{left}E")
}

#[cfg(test)]
mod tests;
