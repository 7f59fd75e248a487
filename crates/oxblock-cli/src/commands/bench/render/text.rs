//! The report as plain text, for a terminal.

use super::Report;
use crate::commands::bench::model::{Cell, Experiment, Series, Table, Unit};
use crate::commands::bench::quick;

/// Heights of a small drawing, from the lowest.
const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The whole report.
pub fn text(report: &Report) -> String {
    let mut parts = vec![report.facts().join("\n")];
    parts.extend(report.comparison.as_ref().map(quick::table));
    parts.extend(report.experiments.iter().map(experiment));
    parts.join("\n\n")
}

fn experiment(experiment: &Experiment) -> String {
    let mut parts =
        vec![format!("{}: {}\nrule: {}", experiment.name, experiment.question, experiment.rule)];
    if !experiment.job.is_empty() {
        let options: Vec<&str> =
            experiment.job.lines().filter(|line| !line.starts_with('[')).collect();
        parts.push(format!("job: {}", options.join(" ")));
    }
    parts.extend(experiment.tables.iter().map(table));
    parts.extend(experiment.series.iter().map(series));
    if !experiment.notes.is_empty() {
        parts.push(experiment.notes.join("\n"));
    }
    parts.join("\n\n")
}

/// The text of a cell.
fn cell(cell: &Cell, unit: Unit) -> String {
    match cell {
        Cell::Empty => "-".into(),
        Cell::Text(text) => text.clone(),
        Cell::Value(figure) => unit.text(*figure),
        Cell::Spread(spread) => {
            let ends = unit.ends(spread).map(|ends| format!(" ({ends})"));
            unit.text(spread.median) + &ends.unwrap_or_default()
        }
    }
}

fn table(table: &Table) -> String {
    let columns: Vec<Vec<String>> = table
        .columns
        .iter()
        .enumerate()
        .map(|(index, column)| {
            let empty = Cell::Empty;
            let cells =
                table.rows.iter().map(|row| cell(row.get(index).unwrap_or(&empty), column.unit));
            [column.group.to_owned(), table.name_of(column)].into_iter().chain(cells).collect()
        })
        .collect();
    let widths: Vec<usize> = columns
        .iter()
        .map(|column| column.iter().map(|text| text.chars().count()).max().unwrap_or(0))
        .collect();
    let mut lines = vec![table.heading()];
    // Without groups their line is left out.
    let first = usize::from(table.columns.iter().all(|column| column.group.is_empty()));
    for line in first..table.rows.len() + 2 {
        let mut text = String::new();
        for (number, (column, width)) in columns.iter().zip(&widths).enumerate() {
            let cell = column.get(line).map_or("", String::as_str);
            match number {
                0 => text.push_str(&format!("{cell:<width$}")),
                _ => text.push_str(&format!("  {cell:>width$}")),
            }
        }
        lines.push(text.trim_end().to_owned());
    }
    lines.join("\n")
}

/// One small drawing for each line, all on one scale.
fn series(series: &Series) -> String {
    let lines = series.lines.iter();
    let top =
        lines.clone().flat_map(|line| &line.values).fold(0.0_f64, |top, value| top.max(*value));
    let width = lines.clone().map(|line| line.name.chars().count()).max().unwrap_or(0);
    let mut text =
        vec![format!("{} (0 to {} {})", series.title, series.unit.text(top), series.unit.name())];
    for line in lines {
        let drawing: String = line.values.iter().map(|value| level(*value, top)).collect();
        let lowest = line.values.iter().copied().reduce(f64::min).unwrap_or(0.0);
        let lowest = series.unit.text(lowest);
        text.push(format!("{:<width$}  {drawing}  lowest {lowest}", line.name));
    }
    text.join("\n")
}

fn level(value: f64, top: f64) -> char {
    let share = if top > 0.0 { value / top } else { 0.0 };
    let thresholds = LEVELS.iter().zip(1_u32..);
    let found = thresholds.filter(|(_, step)| share * 8.0 > f64::from(*step) - 1.0).last();
    found.map_or('▁', |(level, _)| *level)
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    #[test]
    fn a_table_has_its_groups_its_spread_and_its_units() {
        let text = text(&sample::report());
        for expected in [
            "submit: Inline or not?\nrule: Sometimes.",
            "job: rw=write bs=4k",
            "Bandwidth (MiB/s)\n",
            "       then                   now  device\n",
            "bs    async                inline     raw\n",
            "4k      113  1,500 (1,000..2,000)       -\n",
            "Mixed\n",
            "CPU, s/GiB",
            "A note.",
            "inline  ▁▄█  lowest 0.0",
        ] {
            assert!(text.contains(expected), "'{expected}' is not in\n{text}");
        }
    }

    #[test]
    fn drawings_use_the_whole_scale() {
        assert_eq!([0.0, 4.0, 8.0].map(|value| level(value, 8.0)), ['▁', '▄', '█']);
        assert_eq!(level(0.0, 0.0), '▁');
    }
}
