//! `split`: how large one device I/O may grow.

use anyhow::Result;
use oxblock::csum::CsumKind;

use super::delay::first_submission_delay;
use super::policy;
use crate::commands::bench::lab::{Lab, On, Point, Side, in_turn};
use crate::commands::bench::model::{
    Cell, Chart, ChartKind, Column, Experiment, Spread, Table, Unit,
};
use crate::size::human;

/// What the authors measured, in MB/s, without a limit and with one of 1 MiB.
const THEN: [(&str, [f64; 2]); 2] = [
    ("then, SCSI disk", [630e6, 645e6]),
    ("then, RAM disk (ext4 on a loop device)", [2749e6, 3068e6]),
];

/// What they traced: nanoseconds before the first submission, for 32 MB and for 1 MiB.
const THEN_DELAY: [f64; 2] = [834_000.0, 27_000.0];

/// Name and policy.
const SIDES: [(&str, &str); 3] =
    [("no limit", "bio_max_bytes=0"), ("1 MiB limit", "bio_max_bytes=1M"), ("auto", "")];

/// Bytes of a request, and of the file, in the original.
const REQUEST: u64 = 64 << 20;
const FILE: u64 = 512 << 20;

pub fn run(lab: &mut Lab) -> Result<Experiment> {
    // Each volume once more for the delay.
    lab.ticker.begin("split", (2 * SIDES.len() + 1) * lab.rounds);
    let size = lab.stage.size.min(FILE);
    let request = REQUEST.min(size / 8) & !4095;
    let job = format!(
        "[split]\nrw=read\nbs={request}\nsize={size}\ndirect=1\niodepth=1\n{}",
        lab.timed(0)
    );
    let point = Point { label: "now".into(), job: job.clone(), reads: true };
    let mut sides = Vec::new();
    for (name, text) in SIDES {
        sides.push(Side::volume(name, CsumKind::Crc32c, policy(text)?));
    }
    sides.push(Side::raw());
    let grid = lab.measure(&[point], &sides)?;

    let mut columns = vec![Column::new("", "device", Unit::None)];
    columns.extend(sides.iter().map(|side| Column::new("", side.name.clone(), Unit::Bandwidth)));
    let mut rows: Vec<Vec<Cell>> = THEN
        .iter()
        .map(|(name, figures)| {
            let mut row = vec![Cell::from(*name)];
            row.extend(figures.iter().map(|figure| Cell::Value(*figure)));
            row.extend([Cell::Empty, Cell::Empty]);
            row
        })
        .collect();
    let mut row = vec![Cell::from(if lab.stage.in_memory { "now, main memory" } else { "now" })];
    row.extend((0..sides.len()).map(|side| grid.at(0, side).cell(|run| run.bandwidth)));
    rows.push(row);
    let chart = Chart {
        kind: ChartKind::Bars,
        title: "Bandwidth, then and now".into(),
        x_label: String::new(),
        columns: (1..=sides.len()).collect(),
    };
    let title = format!("Reads of {} each", human(request));
    let mut table = Table { title, columns, rows, charts: vec![chart] };
    table.compare_auto(&["no limit", "1 MiB limit"]);
    let mut tables = vec![table];
    tables.extend(delays(lab, &sides, request)?);
    if let Some(tracing) = &mut lab.tracing {
        tracing.add_reads(request, &sides, |side| format!("{}, {}", human(request), side.name));
    }
    let mut notes = Vec::new();
    if (request, size) != (REQUEST, FILE) {
        notes.push(format!(
            "Scaled: the original reads a file of 512 MiB in requests of 64 MiB; here it is {} in requests of {}.",
            human(size),
            human(request)
        ));
    }
    notes.push("The job reads the file again and again for the time that it says.".into());
    Ok(Experiment {
        name: "split",
        question: "How large may one device I/O grow before it is sent?",
        rule: "Up to the device's optimal I/O size, and never below 1 MiB: a full one leaves while the rest of its \
               request is still being prepared.",
        job,
        tables,
        series: Vec::new(),
        notes,
    })
}

/// The delay before the first submission, where there is a figure.
fn delays(lab: &mut Lab, sides: &[Side], request: u64) -> Result<Option<Table>> {
    let mut volumes = Vec::new();
    for side in sides {
        if let On::Volume(csum, policy) = side.on {
            volumes.push((&side.name, csum, policy, Vec::new()));
        }
    }
    for round in 0..lab.rounds {
        for (name, csum, policy, figures) in in_turn(round, &mut volumes) {
            lab.ticker.tick(&format!("delay {name}"));
            match first_submission_delay(&mut lab.stage, *csum, policy, request)? {
                Some(delay) => figures.push(delay),
                None => return Ok(None),
            }
        }
    }
    let mut columns = vec![Column::new("", "", Unit::None)];
    let mut row = vec![Cell::Text(format!("now, requests of {}", human(request)))];
    for (name, _, _, figures) in volumes {
        columns.push(Column::new("", name.clone(), Unit::Millis));
        row.push(Spread::of(figures).into());
    }
    let mut then = vec![Cell::from("then, 32 MB and 1 MiB")];
    then.extend(THEN_DELAY.map(Cell::Value));
    then.resize(row.len(), Cell::Empty);
    let chart = Chart {
        kind: ChartKind::Bars,
        title: "Delay before the first device operation".into(),
        x_label: String::new(),
        columns: (1..columns.len()).collect(),
    };
    let title = "From the request to the first device operation".to_owned();
    Ok(Some(Table { title, columns, rows: vec![then, row], charts: vec![chart] }))
}
