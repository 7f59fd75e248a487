//! `crc`: never hand over what is fast: throughput, dips and CPU time of every checksum, inline and on workers.

use anyhow::Result;
use oxblock::csum::CsumKind;

use super::{crowded_note, policy};
use crate::commands::bench::lab::{Figures, Lab, On, Point, Samples, Side, WINDOW};
use crate::commands::bench::model::{
    Cell, Chart, ChartKind, Column, Experiment, Line, Series, Spread, Table, Unit,
};
use crate::commands::bench::num::float;

/// What the authors measured on Optane, in bytes a second: name, throughput, deepest dip, and whether they named one.
const MIB: f64 = 1_048_576.0;
const THEN: [(&str, f64, Option<f64>); 2] =
    [("then, offloaded", 3316.0 * MIB, Some(1100e6)), ("then, inline", 4882.0 * MIB, None)];

const SIDES: [&str; 3] = ["offload", "inline", "auto"];

pub fn run(lab: &mut Lab) -> Result<Experiment> {
    let types = CsumKind::ALL.map(|kind| (kind.name(), kind, "crc=fast"));
    let codes = [
        ("fast crc32c", CsumKind::Crc32c, "crc=fast"),
        ("table crc32c", CsumKind::Crc32c, "crc=table"),
    ];
    lab.ticker.begin("crc", ((codes.len() + types.len()) * SIDES.len() + 2) * lab.rounds);
    let job = point(lab, 0).job;
    let mut tables = Vec::new();
    let mut series = Vec::new();
    for (title, list, then) in [
        ("Fast and slow code of crc32c", &codes[..], &THEN[..]),
        ("Every checksum type", &types[..], &[][..]),
    ] {
        let mut sides = Vec::new();
        for (name, kind, crc) in list {
            for submit in SIDES {
                let policy = policy(&format!("submit={submit},{crc}"))?;
                sides.push(Side::volume(format!("{name}, {submit}"), *kind, policy));
            }
        }
        sides.push(Side::raw());
        // Dips take whole windows to see.
        let point = point(lab, if then.is_empty() { 0 } else { 2 * WINDOW / 1_000_000 + 20 });
        let points = [point];
        let grid = lab.measure(&points, &sides)?;
        if let Some(tracing) = &mut lab.tracing {
            tracing
                .add_jobs(&points, &sides, |point, side| format!("{}, {}", point.label, side.name));
        }
        let samples: Vec<(&Side, Samples)> =
            sides.iter().enumerate().map(|(index, side)| (side, grid.at(0, index))).collect();
        tables.push(table(title, then, &samples));
        tables.push(across(title, list, &samples));
        if !then.is_empty() {
            series.push(over_time(&samples));
        }
    }
    let mut notes = vec![
        "Then: Optane, 200 GiB written, CPU saturated. Here each run writes for the time that the job says.".to_owned(),
        "A dip is the worst of the 100 ms windows of a run. CPU time is that of the whole process, workers included; \
         a worker that spins for work counts as well."
            .to_owned(),
    ];
    crowded_note(&mut notes);
    Ok(Experiment {
        name: "crc",
        question: "Is it worth handing a checksum to workers when the processor computes it by instructions?",
        rule: "Never when the checksum is fast, when the request is synchronous, or for metadata on a zoned device; \
               otherwise yes.",
        job,
        tables,
        series,
        notes,
    })
}

fn point(lab: &Lab, least: u64) -> Point {
    let job = format!(
        "[crc]\nrw=write\nbs=1m\ndirect=1\niodepth=16\nsize={}\n{}",
        lab.stage.size,
        lab.timed(least)
    );
    Point { label: "1 MiB writes".into(), job, reads: false }
}

/// One row for each side.
fn table(title: &str, then: &[(&str, f64, Option<f64>)], samples: &[(&Side, Samples)]) -> Table {
    /// The column of the worst window.
    const DIP: usize = 2;
    let mut columns = vec![
        Column::new("", "side", Unit::None),
        Column::new("", "throughput", Unit::Bandwidth),
        Column::new("", "deepest dip", Unit::Bandwidth),
        Column::new("", "CPU", Unit::CpuPerGib),
        Column::new("", "offered to workers", Unit::Percent),
    ];
    let mut rows: Vec<Vec<Cell>> = then
        .iter()
        .map(|(name, throughput, dip)| {
            let dip = dip.map_or(Cell::Empty, Cell::Value);
            vec![Cell::from(*name), Cell::Value(*throughput), dip, Cell::Empty, Cell::Empty]
        })
        .collect();
    for (side, samples) in samples {
        let dips: Option<Vec<f64>> = samples.0.iter().map(Figures::dip).collect();
        let is_volume = matches!(side.on, On::Volume(..));
        rows.push(vec![
            Cell::Text(if is_volume { side.name.clone() } else { "raw device".into() }),
            samples.cell(|run| run.bandwidth),
            dips.and_then(Spread::of).into(),
            samples.cell(|run| run.cpu_per_gib),
            if is_volume { samples.cell(|run| run.offloaded) } else { Cell::Empty },
        ]);
    }
    // Runs shorter than a window show no dips.
    if rows.iter().all(|row| matches!(row.get(DIP), Some(Cell::Empty))) {
        columns.remove(DIP);
        for row in &mut rows {
            row.remove(DIP);
        }
    }
    let charts = match then {
        [] => Vec::new(),
        _ => vec![Chart {
            kind: ChartKind::Bars,
            title: "Throughput and deepest dip, then and now".into(),
            x_label: String::new(),
            columns: vec![1, 2],
        }],
    };
    Table { title: title.into(), columns, rows, charts }
}

/// The same throughput once more, a row for each checksum, so that the sides stand beside each other.
fn across(title: &str, list: &[(&str, CsumKind, &str)], samples: &[(&Side, Samples)]) -> Table {
    let mut columns = vec![Column::new("", "checksum", Unit::None)];
    columns.extend(SIDES.map(|side| Column::new("now", side, Unit::Bandwidth)));
    columns.push(Column::new("device", "raw", Unit::Bandwidth));
    let raw = samples.last().map_or(Cell::Empty, |(_, samples)| samples.cell(|run| run.bandwidth));
    let rows = list.iter().zip(samples.chunks(SIDES.len())).map(|((name, _, _), sides)| {
        let mut row = vec![Cell::from(*name)];
        row.extend(sides.iter().map(|(_, samples)| samples.cell(|run| run.bandwidth)));
        row.push(raw.clone());
        row
    });
    let chart = Chart {
        kind: ChartKind::Bars,
        title: "Now: throughput of 1 MiB writes".into(),
        x_label: String::new(),
        columns: (1..columns.len()).collect(),
    };
    let title = format!("{title}, side by side");
    let mut table = Table { title, rows: rows.collect(), columns, charts: vec![chart] };
    table.compare_auto(&SIDES);
    table
}

/// Throughput over time, of the middle run of every side.
fn over_time(samples: &[(&Side, Samples)]) -> Series {
    let lines = samples.iter().filter_map(|(side, samples)| {
        let windows = &samples.middle()?.windows;
        let values = windows.iter().map(|bytes| float(*bytes) * 1e9 / float(WINDOW)).collect();
        Some(Line { name: side.name.clone(), values })
    });
    Series {
        title: "Throughput over time, in windows of 100 ms".into(),
        window: WINDOW,
        unit: Unit::Bandwidth,
        lines: lines.collect(),
    }
}
