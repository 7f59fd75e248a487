//! `csum`: how fast each checksum is by itself, in one thread, without any I/O.

use std::time::Duration;

use anyhow::Result;
use oxblock::csum::{Csum, CsumKind, speed_at};

use crate::commands::bench::lab::Lab;
use crate::commands::bench::model::{
    Cell, Chart, ChartKind, Column, Experiment, Spread, Table, Unit,
};

/// Bytes that one checksum covers.
const SIZES: [(&str, usize); 3] = [("4K", 4 << 10), ("64K", 64 << 10), ("1M", 1 << 20)];

/// The longest that one figure takes.
const BUDGET_MAX: u64 = 200;

pub fn run(lab: &mut Lab) -> Result<Experiment> {
    let seeded = |kind| Csum::new(kind, *b"speed probe only");
    let mut sums = CsumKind::ALL.map(|kind| (kind.name(), seeded(kind))).to_vec();
    sums.push(("crc32c by table", seeded(CsumKind::Crc32c).with_table_crc()));
    lab.ticker.begin("csum", sums.len() * SIZES.len() * lab.rounds);
    let budget = Duration::from_millis(lab.millis.min(BUDGET_MAX) / 4);
    let mut figures = vec![vec![Vec::new(); SIZES.len()]; sums.len()];
    for _ in 0..lab.rounds {
        for ((name, csum), figures) in sums.iter().zip(&mut figures) {
            for ((size, bytes), figures) in SIZES.iter().zip(figures) {
                lab.ticker.tick(&format!("{name} {size}"));
                figures.push(speed_at(csum, *bytes, budget));
            }
        }
    }
    let mut columns = vec![Column::new("", "checksum", Unit::None)];
    columns.extend(SIZES.map(|(size, _)| Column::new("", size, Unit::GbPerSecond)));
    let rows = sums.iter().zip(figures).map(|((name, _), figures)| {
        let mut row = vec![Cell::from(*name)];
        row.extend(figures.into_iter().map(|figures| Cell::from(Spread::of(figures))));
        row
    });
    let chart = Chart {
        kind: ChartKind::Bars,
        title: "Checksum speed in one thread".into(),
        x_label: String::new(),
        columns: (1..=SIZES.len()).collect(),
    };
    let title = "Speed in one thread, by the bytes that one checksum covers".to_owned();
    Ok(Experiment {
        name: "csum",
        question: "How fast is each checksum on this machine?",
        rule: "From 4 GB/s on a checksum counts as fast, and is never worth a hand-off.",
        job: String::new(),
        tables: vec![Table { title, rows: rows.collect(), columns, charts: vec![chart] }],
        series: Vec::new(),
        notes: vec![
            "A volume checksums blocks of 4 KiB; larger sizes show what a call costs by itself."
                .into(),
        ],
    })
}
