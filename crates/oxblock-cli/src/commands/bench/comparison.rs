//! The quick comparison as tables, for reports that draw.

use super::model::{Cell, Chart, ChartKind, Column, Experiment, Table, Unit};
use super::num::float;
use super::quick::{Comparison, Row};

impl Comparison {
    /// The same in the shape of the experiments.
    pub fn experiment(&self) -> Experiment {
        let verdict = match self.verify_failures {
            0 => "every block that was written at random was read back and is right".to_owned(),
            failures => format!("{failures} blocks are not what was written"),
        };
        Experiment {
            name: "comparison",
            question: "What does a volume cost, or gain, beside the bare file?",
            rule: "The volume checksums and verifies every block and survives a power cut; the bare file does neither.",
            job: String::new(),
            tables: vec![
                self.table("Sequential, 1 MiB", "bytes", Unit::Bandwidth),
                self.table("Random, 4 KiB", "operations", Unit::Iops),
            ],
            series: Vec::new(),
            notes: vec![format!("At the end {verdict}.")],
        }
    }

    fn table(&self, title: &str, kind: &str, unit: Unit) -> Table {
        let columns = vec![
            Column::new("", "job", Unit::None),
            Column::new("", "volume", unit),
            Column::new("", "bare file", unit),
            Column::new("", "ratio", Unit::None),
        ];
        let rows = self.jobs.iter().filter(|row| row.unit == kind);
        let chart = Chart {
            kind: ChartKind::Bars,
            title: title.into(),
            x_label: String::new(),
            columns: vec![1, 2],
        };
        Table { title: title.into(), columns, rows: rows.map(cells).collect(), charts: vec![chart] }
    }
}

fn cells(row: &Row) -> Vec<Cell> {
    let figure = |value| Cell::Value(float(value));
    vec![Cell::from(row.name), figure(row.volume), figure(row.raw), Cell::Value(row.ratio)]
}
