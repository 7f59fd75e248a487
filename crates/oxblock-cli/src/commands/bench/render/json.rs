//! The report as JSON: integers in base units, and every spread with its ends.

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::Report;
use crate::commands::bench::model::{Cell, Experiment, Series, Table, Unit};
use crate::commands::bench::num::whole;
use crate::commands::bench::quick::Comparison;

/// The document, without its version, which every report gets.
#[derive(Serialize)]
struct Document<'a> {
    place: &'a str,
    in_memory: bool,
    size: u64,
    rounds: usize,
    run_nanoseconds: u64,
    device_call: &'a str,
    machine: &'a str,
    #[serde(flatten)]
    comparison: Option<&'a Comparison>,
    experiments: Vec<Value>,
    nanoseconds: u64,
}

/// The whole report.
pub fn document(report: &Report) -> impl Serialize + '_ {
    Document {
        place: &report.place,
        in_memory: report.in_memory,
        size: report.size,
        rounds: report.rounds,
        run_nanoseconds: report.run_time,
        device_call: &report.device_call,
        machine: &report.machine,
        comparison: report.comparison.as_ref(),
        experiments: report.experiments.iter().map(experiment).collect(),
        nanoseconds: report.taken,
    }
}

fn experiment(experiment: &Experiment) -> Value {
    json!({
        "name": experiment.name,
        "question": experiment.question,
        "rule": experiment.rule,
        "job": experiment.job,
        "tables": experiment.tables.iter().map(table).collect::<Vec<_>>(),
        "series": experiment.series.iter().map(series).collect::<Vec<_>>(),
        "notes": experiment.notes,
    })
}

/// A table: its columns, and a list of cells for each row.
fn table(table: &Table) -> Value {
    let columns: Vec<Value> = table
        .columns
        .iter()
        .map(|column| json!({ "group": column.group, "name": column.name, "unit": unit(column.unit) }))
        .collect();
    let rows: Vec<Vec<Value>> = table
        .rows
        .iter()
        .map(|row| row.iter().zip(&table.columns).map(|(c, column)| cell(c, column.unit)).collect())
        .collect();
    json!({ "title": table.title, "columns": columns, "rows": rows })
}

fn series(series: &Series) -> Value {
    let lines: Vec<Value> = series
        .lines
        .iter()
        .map(|line| {
            let values: Vec<Value> =
                line.values.iter().map(|value| figure(*value, series.unit)).collect();
            json!({ "name": line.name, "values": values })
        })
        .collect();
    json!({
        "title": series.title,
        "window_nanoseconds": series.window,
        "unit": unit(series.unit),
        "lines": lines,
    })
}

/// What figures are in, in base units.
const fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::None => "",
        Unit::Bandwidth => "bytes_per_second",
        Unit::Iops => "operations_per_second",
        Unit::Percent => "percent",
        Unit::CpuPerGib => "cpu_seconds_per_gib",
        Unit::Millis => "nanoseconds",
        Unit::GbPerSecond => "gigabytes_per_second",
    }
}

fn cell(cell: &Cell, unit: Unit) -> Value {
    match cell {
        Cell::Empty => Value::Null,
        Cell::Text(text) => json!(text),
        Cell::Value(value) => figure(*value, unit),
        Cell::Spread(spread) => {
            let ends = [("median", spread.median), ("min", spread.min), ("max", spread.max)];
            let ends = ends.map(|(name, value)| (name.to_owned(), figure(value, unit)));
            Value::Object(Map::from_iter(ends))
        }
    }
}

/// Counts are whole, shares and seconds are not.
fn figure(value: f64, unit: Unit) -> Value {
    match unit {
        Unit::Bandwidth | Unit::Iops | Unit::Millis => json!(whole(value)),
        _ => json!(value),
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    #[test]
    fn figures_are_in_base_units() {
        let value = serde_json::to_value(document(&sample::report())).unwrap();
        let table = &value["experiments"][0]["tables"][0];
        assert_eq!(table["columns"][2]["unit"], "bytes_per_second");
        assert_eq!(table["columns"][2]["group"], "now");
        let cell =
            json!({ "median": 1500_u64 << 20, "min": 1000_u64 << 20, "max": 2000_u64 << 20 });
        assert_eq!(table["rows"][0], json!(["4k", 118_079_488_u64, cell, null]));
        let series = &value["experiments"][0]["series"][0];
        assert_eq!(series["window_nanoseconds"], 100_000_000);
        assert_eq!(series["lines"][0]["values"], json!([0, 400_u64 << 20, 800_u64 << 20]));
    }
}
