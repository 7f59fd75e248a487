//! What every chart has around its figures: legend, grid, axes with their names.

use super::axis::Axis;
use super::plot::Plot;
use super::svg::{Anchor, Svg};

/// Width of a chart, in units of the drawing. One unit is about a pixel.
pub const WIDTH: f64 = 560.0;
/// Height of the figures' field in charts with upright figures.
const FIELD: f64 = 220.0;
/// Room for the names of the figures on the left, and for whatever follows the last place on the right.
const LEFT: f64 = 62.0;
const RIGHT: f64 = 14.0;
/// Room below for the places and the name of the axis.
const BELOW: f64 = 44.0;
/// Height of a line of the legend.
const LEGEND_LINE: f64 = 18.0;
/// What a character of the legend and of the axes takes, on average.
pub const CHARACTER: f64 = 6.4;

/// A drawing with its frame, and where the figures go in it.
pub struct Frame {
    pub svg: Svg,
    pub axis: Axis,
    pub left: f64,
    pub right: f64,
    pub top: f64,
    pub bottom: f64,
}

impl Frame {
    /// The frame of a chart with upright figures.
    pub fn upright(plot: &Plot) -> Self {
        let axis = Axis::for_largest(plot.largest());
        let top = 10.0 + legend_height(plot);
        let (left, right, bottom) = (LEFT, WIDTH - RIGHT, top + FIELD);
        let mut svg = Svg::new(WIDTH, bottom + BELOW, &plot.title);
        legend(&mut svg, plot);
        for tick in axis.ticks() {
            let y = bottom - axis.share(tick) * FIELD;
            svg.line((left, y), (right, y), "grid");
            svg.text((left - 6.0, y + 4.0), Anchor::End, "tick", &axis.name(tick));
        }
        svg.upright((14.0, (top + bottom) / 2.0), plot.unit.name());
        svg.text(((left + right) / 2.0, bottom + 38.0), Anchor::Middle, "label", &plot.x_label);
        Self { svg, axis, left, right, top, bottom }
    }

    /// The frame of a chart with lying figures, `height` high, and names of the places `names` wide.
    pub fn lying(plot: &Plot, height: f64, names: f64) -> Self {
        let axis = Axis::for_largest(plot.largest());
        let top = 10.0 + legend_height(plot);
        // The figure of the longest bar stands behind it.
        let (left, right, bottom) = (names, WIDTH - 62.0, top + height);
        let mut svg = Svg::new(WIDTH, bottom + BELOW, &plot.title);
        legend(&mut svg, plot);
        for tick in axis.ticks() {
            let x = left + axis.share(tick) * (right - left);
            svg.line((x, top), (x, bottom), "grid");
            svg.text((x, bottom + 16.0), Anchor::Middle, "tick", &axis.name(tick));
        }
        svg.text(((left + right) / 2.0, bottom + 36.0), Anchor::Middle, "label", plot.unit.name());
        Self { svg, axis, left, right, top, bottom }
    }

    /// Where a figure is, from above.
    pub fn y(&self, figure: f64) -> f64 {
        self.bottom - self.axis.share(figure) * (self.bottom - self.top)
    }

    /// Where a figure is, from the left.
    pub fn x(&self, figure: f64) -> f64 {
        self.left + self.axis.share(figure) * (self.right - self.left)
    }
}

/// Where each entry of the legend begins: line and distance from the left.
fn legend_places(plot: &Plot) -> Vec<(f64, f64)> {
    let (mut line, mut x) = (0.0, 8.0);
    let mut places = Vec::new();
    for set in &plot.sets {
        let width = 30.0 + CHARACTER * length(&set.name);
        if x + width > WIDTH && x > 8.0 {
            (line, x) = (line + 1.0, 8.0);
        }
        places.push((line, x));
        x += width;
    }
    places
}

fn legend_height(plot: &Plot) -> f64 {
    legend_places(plot).last().map_or(0.0, |(line, _)| (line + 1.0) * LEGEND_LINE)
}

fn legend(svg: &mut Svg, plot: &Plot) {
    for (set, (line, x)) in plot.sets.iter().zip(legend_places(plot)) {
        let y = 10.0 + line * LEGEND_LINE;
        if set.class.contains("dashed") {
            svg.path(&[(x, y), (x + 14.0, y)], &format!("curve {}", set.class));
        } else {
            svg.rect((x, y - 5.0), (14.0, 10.0), &format!("bar {}", set.class), &set.name);
        }
        svg.text((x + 19.0, y + 4.0), Anchor::Start, "tick", &set.name);
    }
}

/// Characters of a text, as a length.
pub fn length(text: &str) -> f64 {
    f64::from(u32::try_from(text.chars().count()).unwrap_or(u32::MAX))
}

/// An index, as a length.
pub fn index(number: usize) -> f64 {
    f64::from(u32::try_from(number).unwrap_or(u32::MAX))
}
