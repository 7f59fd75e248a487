//! A report for the renderers' tests.

use super::Report;
use crate::commands::bench::model::{
    Cell, Chart, ChartKind, Column, Experiment, Line, Series, Spread, Table, Unit,
};

const MIB: f64 = 1_048_576.0;

/// A report with everything that there can be in one.
pub fn report() -> Report {
    let spread = Spread { median: 1500.0 * MIB, min: 1000.0 * MIB, max: 2000.0 * MIB };
    let chart = |kind| Chart {
        kind,
        title: "Bandwidth <by> size".into(),
        x_label: "block size".into(),
        columns: vec![1, 2, 3],
    };
    let bandwidth = Table {
        title: "Bandwidth".into(),
        columns: vec![
            Column::new("", "bs", Unit::None),
            Column::new("then", "async", Unit::Bandwidth),
            Column::new("now", "inline", Unit::Bandwidth),
            Column::new("device", "raw", Unit::Bandwidth),
        ],
        rows: vec![
            vec!["4k".into(), Cell::Value(118_079_488.0), Cell::Spread(spread), Cell::Empty],
            vec!["512k".into(), Cell::Value(118_654_976.0), Cell::Spread(spread), Cell::Value(MIB)],
        ],
        charts: vec![chart(ChartKind::Bars), chart(ChartKind::Lines)],
    };
    let mixed = Table {
        title: "Mixed".into(),
        columns: vec![
            Column::new("", "side", Unit::None),
            Column::new("", "throughput", Unit::Bandwidth),
            Column::new("", "CPU", Unit::CpuPerGib),
        ],
        rows: vec![vec!["inline".into(), Cell::Value(MIB), Cell::Value(0.25)]],
        charts: Vec::new(),
    };
    let series = Series {
        title: "Over time".into(),
        window: 100_000_000,
        unit: Unit::Bandwidth,
        lines: vec![Line { name: "inline".into(), values: vec![0.0, 400.0 * MIB, 800.0 * MIB] }],
    };
    Report {
        place: "/dev/shm".into(),
        in_memory: true,
        size: 512 << 20,
        rounds: 3,
        run_time: 1_000_000_000,
        device_call: "inline system calls".into(),
        machine: "2 cores, Some & Other".into(),
        taken: 5_000_000_000,
        comparison: None,
        experiments: vec![Experiment {
            name: "submit",
            question: "Inline or not?",
            rule: "Sometimes.",
            job: "[submit]\nrw=write\nbs=4k\n".into(),
            tables: vec![bandwidth, mixed],
            series: vec![series],
            notes: vec!["A note.".into()],
        }],
    }
}
