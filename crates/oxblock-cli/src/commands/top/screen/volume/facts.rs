//! How a volume is, in a few lines with a name in front.

use oxblock_control::report::{State, VolumeStats, VolumeStatus};
use ratatui::style::{Color, Style};
use ratatui::text::{Line, Span};

use super::super::super::rates::Rates;
use super::super::super::{named, used};
use super::super::{alarm, bold};
use super::by_second;
use crate::size::human;

/// Columns of the names.
const NAMES: u16 = 10;
/// Lines that one of them may take.
const FOLDED: usize = 4;

/// Those of `volume`; with its name when it is `alone` and no list has it.
pub fn facts(
    volume: &VolumeStats,
    status: Option<&VolumeStatus>,
    rates: Option<&Rates>,
    alone: bool,
    width: u16,
) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    let room = usize::from(width.saturating_sub(NAMES));
    let mut line = |name: &'static str, text: String, style: Style| {
        let names = std::iter::once(name).chain(std::iter::repeat(""));
        lines.extend(fold(&text, room).into_iter().zip(names).take(FOLDED).map(|(part, name)| {
            let name = Span::styled(format!("{name:<0$}", usize::from(NAMES)), bold());
            Line::from(vec![name, Span::styled(part, style)])
        }));
    };
    if alone {
        let what = if volume.clients.is_some() { "export" } else { "mounted" };
        line(what, named(&volume.name), Style::new());
    }
    let (text, good) = state(volume, status);
    line("state", text, if good { Style::new().fg(Color::Green) } else { alarm() });
    let space = format!("{} of {} ({} %)", human(volume.used), human(volume.size), used(volume));
    line("space", space, Style::new());
    let damaged = volume.segments.damaged > 0;
    let style = if damaged { alarm() } else { Style::new() };
    line("segments", volume.segments.to_string(), style);
    line("cleaning", rates.map_or_else(|| "-".into(), cleaning), Style::new());
    let map = &volume.map;
    let hits = rates.and_then(|rates| rates.map_hits);
    let hits = hits.map_or("-".into(), |part| format!("{:.1} %", part * 100.0));
    let text = format!(
        "{} of {} nodes in memory, {} dirty, hits {hits}",
        map.cached, map.limit, map.dirty
    );
    line("map", text, Style::new());
    lines
}

/// The state in words, and whether that is all well.
fn state(volume: &VolumeStats, status: Option<&VolumeStatus>) -> (String, bool) {
    let why = status.and_then(|status| status.failed.as_deref());
    let why = why.map(|why| format!(": {why}")).unwrap_or_default();
    let clients = volume.clients.map(|count| format!(", clients: {count}")).unwrap_or_default();
    let mut text = format!("{}{why}{clients}", volume.state.name());
    let errors = status.map_or(0, |status| status.checksum_errors);
    if errors > 0 {
        text.push_str(&format!(", {errors} blocks failed verification"));
    }
    if volume.map.lost > 0 {
        text.push_str(&format!(", {} map nodes are lost", volume.map.lost));
    }
    let good = volume.state != State::Failed && errors == 0 && volume.map.lost == 0;
    (text, good)
}

fn cleaning(rates: &Rates) -> String {
    format!(
        "{}/s moved, {} segments/s; amplification {}; {} checkpoints/s",
        human(rates.cleaning_bytes),
        by_second(rates.cleaned_segments, rates.interval),
        rates.amplification.map_or("-".into(), |times| format!("{times:.2}")),
        by_second(rates.checkpoints, rates.interval)
    )
}

/// `text` in lines of at most `width` signs, between words where that can be.
fn fold(text: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let (mut lines, mut line, mut length) = (Vec::new(), String::new(), 0);
    for word in text.split(' ') {
        let mut word: Vec<char> = word.chars().collect();
        if length > 0 && length + 1 + word.len() > width {
            lines.push(std::mem::take(&mut line));
            length = 0;
        } else if length > 0 {
            line.push(' ');
            length += 1;
        }
        while word.len() > width {
            lines.push(word.drain(..width).collect());
        }
        length += word.len();
        line.extend(word);
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_folded() {
        assert_eq!(fold("", 5), [""]);
        assert_eq!(fold("one two", 7), ["one two"]);
        assert_eq!(fold("one two", 6), ["one", "two"]);
        assert_eq!(fold("a abcdefgh ij", 3), ["a", "abc", "def", "gh", "ij"]);
        assert_eq!(fold("äöü äöü", 3), ["äöü", "äöü"]);
        assert_eq!(fold("ab", 0), ["a", "b"]);
    }
}
