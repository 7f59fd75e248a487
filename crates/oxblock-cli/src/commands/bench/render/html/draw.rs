//! The charts themselves: upright bars, lying bars where the names of the places are long, lines.

use super::frame::{CHARACTER, Frame, index, length};
use super::plot::{Plot, figure};
use super::svg::Anchor;
use crate::commands::bench::model::ChartKind;

/// Names of places up to this many characters stand under upright bars.
const SHORT: f64 = 9.0;
/// Bars of at least this width have their figure above them.
const WIDE: f64 = 34.0;
/// Height of a lying bar, and of the gap between two places.
const BAR: f64 = 15.0;
const GAP: f64 = 10.0;
/// Names of places along the horizontal axis, at most.
const NAMES: usize = 12;

/// The drawing of a plot.
pub fn draw(plot: &Plot) -> String {
    let long = plot.places.iter().any(|place| length(place) > SHORT);
    match plot.kind {
        ChartKind::Lines => lines(plot),
        ChartKind::Bars if long => lying(plot),
        ChartKind::Bars => upright(plot),
    }
}

fn upright(plot: &Plot) -> String {
    let mut frame = Frame::upright(plot);
    let slot = (frame.right - frame.left) / index(plot.places.len().max(1));
    let width = (slot * 0.84 / index(plot.sets.len().max(1))).min(46.0);
    for (number, place) in plot.places.iter().enumerate() {
        let middle = frame.left + slot * (index(number) + 0.5);
        let begin = middle - width * index(plot.sets.len()) / 2.0;
        for (order, set) in plot.sets.iter().enumerate() {
            let Some(spread) = set.values.get(number).copied().flatten() else { continue };
            let (x, y) = (begin + width * index(order), frame.y(spread.median));
            let size = (width - 1.5, frame.bottom - y);
            frame.svg.rect(
                (x, y),
                size,
                &format!("bar {}", set.class),
                &plot.tip(set, number, &spread),
            );
            let center = x + (width - 1.5) / 2.0;
            let (low, high) = (frame.y(spread.min), frame.y(spread.max));
            if spread.min < spread.max {
                frame.svg.line((center, low), (center, high), "whisker");
            }
            if width >= WIDE {
                let text = figure(spread.median, plot.unit);
                frame.svg.text((center, high - 5.0), Anchor::Middle, "tick", &text);
            }
        }
        frame.svg.text((middle, frame.bottom + 17.0), Anchor::Middle, "tick", place);
    }
    frame.svg.finish()
}

fn lying(plot: &Plot) -> String {
    // Only what is there takes room.
    let bars = |number: usize| {
        let sets = plot.sets.iter();
        sets.filter_map(move |set| Some((set, set.values.get(number).copied().flatten()?)))
    };
    let height = |number: usize| BAR * index(bars(number).count()) + GAP;
    let all: f64 = (0..plot.places.len()).map(height).sum();
    let longest = plot.places.iter().map(|place| length(place)).fold(0.0, f64::max);
    let names = (longest * CHARACTER + 14.0).min(270.0);
    let mut frame = Frame::lying(plot, all, names);
    let mut top = frame.top;
    for (number, place) in plot.places.iter().enumerate() {
        let middle = top + height(number) / 2.0;
        frame.svg.text((frame.left - 8.0, middle + 4.0), Anchor::End, "tick", place);
        for (order, (set, spread)) in bars(number).enumerate() {
            let y = top + GAP / 2.0 + BAR * index(order);
            let size = (frame.x(spread.median) - frame.left, BAR - 2.0);
            let at = (frame.left, y);
            frame.svg.rect(
                at,
                size,
                &format!("bar {}", set.class),
                &plot.tip(set, number, &spread),
            );
            let center = y + BAR / 2.0 - 1.0;
            let (low, high) = (frame.x(spread.min), frame.x(spread.max));
            if spread.min < spread.max {
                frame.svg.line((low, center), (high, center), "whisker");
            }
            let text = figure(spread.median, plot.unit);
            frame.svg.text((high + 5.0, center + 4.0), Anchor::Start, "tick", &text);
        }
        top += height(number);
    }
    frame.svg.finish()
}

fn lines(plot: &Plot) -> String {
    let mut frame = Frame::upright(plot);
    let count = plot.places.len();
    let slot = (frame.right - frame.left) / index(count.max(1));
    let every = count.div_ceil(NAMES).max(1);
    for (number, place) in plot.places.iter().enumerate().skip(every - 1).step_by(every) {
        let x = frame.left + slot * (index(number) + 0.5);
        frame.svg.text((x, frame.bottom + 17.0), Anchor::Middle, "tick", place);
    }
    // Spreads of several sides stand beside each other, not on each other.
    let apart = (slot * 0.5 / index(plot.sets.len().max(1))).min(6.0);
    for (order, set) in plot.sets.iter().enumerate() {
        let shift = match count {
            0..=NAMES => apart * (index(order) - (index(plot.sets.len()) - 1.0) / 2.0),
            _ => 0.0,
        };
        let known =
            set.values.iter().enumerate().filter_map(|(number, value)| Some((number, (*value)?)));
        let placed: Vec<_> = known
            .map(|(number, spread)| {
                let x = frame.left + slot * (index(number) + 0.5) + shift;
                (number, spread, (x, frame.y(spread.median)))
            })
            .collect();
        let points: Vec<(f64, f64)> = placed.iter().map(|(_, _, point)| *point).collect();
        frame.svg.path(&points, &format!("curve {}", set.class));
        for (number, spread, point) in &placed {
            if spread.min < spread.max {
                let class = format!("error {}", set.class);
                let (low, high) = (frame.y(spread.min), frame.y(spread.max));
                frame.svg.line((point.0, low), (point.0, high), &class);
                for y in [low, high] {
                    frame.svg.line((point.0 - 3.0, y), (point.0 + 3.0, y), &class);
                }
            }
            if count <= NAMES {
                let class = format!("dot {}", set.class);
                frame.svg.dot(*point, &class, &plot.tip(set, *number, spread));
            }
        }
    }
    frame.svg.finish()
}

#[cfg(test)]
mod tests {
    use super::super::super::sample;
    use super::*;

    #[test]
    fn every_figure_is_drawn_with_its_spread() {
        let report = sample::report();
        let table = &report.experiments[0].tables[0];
        let [bars, curves] = [0, 1].map(|chart| draw(&Plot::of_chart(table, &table.charts[chart])));
        // Three sides at two sizes, of which one has no figure; and the legend.
        assert_eq!(bars.matches("<rect").count(), 5 + 3, "{bars}");
        assert_eq!(bars.matches("whisker").count(), 2);
        assert_eq!(curves.matches("<polyline").count(), 3);
        assert_eq!(curves.matches("<circle").count(), 5);
        assert_eq!(curves.matches("class=\"error").count(), 6);
        for text in ["MiB/s", "block size", "512k", "Bandwidth &lt;by&gt; size"] {
            assert!(bars.contains(text) && curves.contains(text), "{text}");
        }
        assert!(!bars.contains("NaN") && !curves.contains("NaN"));
    }

    #[test]
    fn long_names_make_bars_lie() {
        let report = sample::report();
        let mut table = report.experiments[0].tables[0].clone();
        table.rows[0][0] = "a device with a name".into();
        let drawing = draw(&Plot::of_chart(&table, &table.charts[0]));
        assert!(drawing.contains("text-anchor=\"end\">a device with a name"), "{drawing}");
    }

    #[test]
    fn nothing_to_draw_is_no_panic() {
        let report = sample::report();
        let mut table = report.experiments[0].tables[0].clone();
        table.rows.clear();
        for chart in &table.charts {
            assert!(draw(&Plot::of_chart(&table, chart)).ends_with("</svg>"));
        }
    }
}
