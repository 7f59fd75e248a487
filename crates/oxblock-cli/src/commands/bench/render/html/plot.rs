//! What is drawn, before it is known how: places along one axis, sets of figures along the other.

use crate::commands::bench::model::{Cell, Chart, ChartKind, Series, Spread, Table, Unit};

/// The figures of one column, in the units that are shown.
pub struct Set {
    pub name: String,
    /// Style of its shapes.
    pub class: String,
    pub values: Vec<Option<Spread>>,
}

/// A picture's content.
pub struct Plot {
    pub kind: ChartKind,
    pub title: String,
    pub x_label: String,
    pub unit: Unit,
    pub places: Vec<String>,
    pub sets: Vec<Set>,
}

impl Plot {
    /// That of a table's chart. Places without a figure are left out.
    pub fn of_chart(table: &Table, chart: &Chart) -> Self {
        let column = |index: &usize| table.columns.get(*index);
        let unit = chart.columns.first().and_then(column).map_or(Unit::None, |column| column.unit);
        let rows = || {
            let has_figure = |row: &&Vec<Cell>| {
                chart
                    .columns
                    .iter()
                    .any(|index| row.get(*index).is_some_and(|cell| spread(cell, unit).is_some()))
            };
            table.rows.iter().filter(has_figure)
        };
        let place = |row: &Vec<Cell>| match row.first() {
            Some(Cell::Text(text)) => text.clone(),
            _ => String::new(),
        };
        let sets = chart.columns.iter().enumerate().filter_map(|(order, index)| {
            let name = column(index)?.name.clone();
            let values = rows().map(|row| spread(row.get(*index)?, unit)).collect();
            Some(Set { class: class(&name, order), name, values })
        });
        Self {
            kind: chart.kind,
            title: chart.title.clone(),
            x_label: chart.x_label.clone(),
            unit,
            places: rows().map(place).collect(),
            sets: sets.collect(),
        }
    }

    /// That of a series: time along the horizontal axis.
    pub fn of_series(series: &Series) -> Self {
        let seconds = |index: usize| {
            let window = std::time::Duration::from_nanos(series.window).as_secs_f64();
            f64::from(u32::try_from(index + 1).unwrap_or(u32::MAX)) * window
        };
        let longest = series.lines.iter().map(|line| line.values.len()).max().unwrap_or(0);
        let sets = series.lines.iter().enumerate().map(|(order, line)| {
            let values =
                line.values.iter().map(|value| spread(&Cell::Value(*value), series.unit)).collect();
            Set { class: class(&line.name, order), name: line.name.clone(), values }
        });
        Self {
            kind: ChartKind::Lines,
            title: series.title.clone(),
            x_label: "seconds".into(),
            unit: series.unit,
            places: (0..longest).map(|index| format!("{:.1}", seconds(index))).collect(),
            sets: sets.collect(),
        }
    }

    /// The largest figure, spreads included.
    pub fn largest(&self) -> f64 {
        let all = self.sets.iter().flat_map(|set| set.values.iter().flatten());
        all.fold(0.0, |largest: f64, spread| largest.max(spread.max))
    }

    /// What is said of a figure under the pointer.
    pub fn tip(&self, set: &Set, place: usize, spread: &Spread) -> String {
        let place = self.places.get(place).map_or("", String::as_str);
        let figure = |value: f64| figure(value, self.unit);
        let ends = match spread.min < spread.max {
            true => format!(" ({} to {})", figure(spread.min), figure(spread.max)),
            false => String::new(),
        };
        format!("{}, {place}: {} {}{ends}", set.name, figure(spread.median), self.unit.name())
    }
}

/// A figure that is in the unit that is shown already.
pub fn figure(shown: f64, unit: Unit) -> String {
    let scale = unit.shown(1.0);
    unit.text(if scale > 0.0 { shown / scale } else { shown })
}

/// The figure of a cell in the unit that is shown.
fn spread(cell: &Cell, unit: Unit) -> Option<Spread> {
    let same = |value| Spread { median: value, min: value, max: value };
    let spread = match cell {
        Cell::Empty | Cell::Text(_) => return None,
        Cell::Value(value) => same(*value),
        Cell::Spread(spread) => *spread,
    };
    let [median, min, max] = [spread.median, spread.min, spread.max].map(|value| unit.shown(value));
    Some(Spread { median, min, max })
}

/// The style of a side: the same wherever it appears, whatever checksum is named before it. Slow code is dashed.
fn class(name: &str, order: usize) -> String {
    let side = name.rsplit_once(", ").map_or(name, |(_, side)| side);
    let colour = match side {
        "inline" | "issuer" | "sync" | "1 MiB limit" => 1,
        "offload" | "worker" | "async" | "no limit" => 2,
        "auto" | "volume" => 3,
        "rules" => 4,
        "raw" | "bare file" => 5,
        _ => order % 5 + 1,
    };
    let dashed = if name.starts_with("table") { " dashed" } else { "" };
    format!("c{colour}{dashed}")
}

#[cfg(test)]
mod tests {
    use super::super::super::sample;
    use super::*;

    #[test]
    fn figures_are_in_shown_units_and_sides_keep_their_colours() {
        let report = sample::report();
        let table = &report.experiments[0].tables[0];
        let plot = Plot::of_chart(table, &table.charts[0]);
        assert_eq!(plot.places, ["4k", "512k"]);
        assert_eq!(plot.sets[1].values[0].unwrap().median, 1500.0);
        assert_eq!(plot.sets[2].values[0], None);
        assert_eq!((plot.sets[1].class.as_str(), plot.sets[2].class.as_str()), ("c1", "c5"));
        assert_eq!(plot.largest(), 2000.0);
        let tip = plot.tip(&plot.sets[1], 0, &plot.sets[1].values[0].unwrap());
        assert_eq!(tip, "inline, 4k: 1,500 MiB/s (1,000 to 2,000)");
    }

    #[test]
    fn time_is_in_seconds() {
        let report = sample::report();
        let plot = Plot::of_series(&report.experiments[0].series[0]);
        assert_eq!(plot.places, ["0.1", "0.2", "0.3"]);
        assert_eq!(class("table crc32c, offload", 0), "c2 dashed");
    }
}
