//! `submit`: checksums inline or on workers, by block size.

use anyhow::Result;
use oxblock::csum::CsumKind;

use super::{Layout, crowded_note, nothing_then, policy};
use crate::commands::bench::lab::{Lab, Point, Side};
use crate::commands::bench::model::{Chart, ChartKind, Experiment, Table, Unit};

/// What the authors measured on a hard disk: KiB, then KB/s with and without workers, then IOPS likewise.
const THEN: [(u64, [f64; 2], [f64; 2]); 8] = [
    (4, [115_312.0, 115_480.0], [28_827.6, 28_869.6]),
    (8, [114_381.0, 115_586.0], [14_297.4, 14_447.6]),
    (16, [115_393.0, 116_290.0], [7_211.4, 7_267.6]),
    (32, [114_268.0, 116_589.0], [3_570.4, 3_643.0]),
    (64, [115_421.0, 113_417.0], [1_803.0, 1_771.8]),
    (128, [115_545.0, 112_585.0], [902.0, 879.0]),
    (256, [115_178.0, 111_521.0], [449.2, 435.0]),
    (512, [115_874.0, 111_620.0], [226.0, 217.6]),
];

/// Sizes of a first look, in KiB.
const QUICK: [u64; 3] = [4, 64, 512];

/// Title, checksum type, code of it.
const CSUMS: [(&str, CsumKind, &str); 3] = [
    ("crc32c by instructions", CsumKind::Crc32c, "crc=fast"),
    ("crc32c by table", CsumKind::Crc32c, "crc=table"),
    ("sha256", CsumKind::Sha256, "crc=fast"),
];

/// The order of the columns; `auto` is the default.
const SIDES: [&str; 4] = ["offload", "inline", "rules", "auto"];

pub fn run(lab: &mut Lab) -> Result<Experiment> {
    let sizes: Vec<usize> =
        (0..THEN.len()).filter(|index| !lab.quick || QUICK.contains(&kib(*index))).collect();
    let points: Vec<Point> = sizes.iter().map(|index| point(lab, kib(*index))).collect();
    let runs = points.len() * CSUMS.len() * (SIDES.len() + 1) * lab.rounds;
    lab.ticker.begin("submit", runs);
    let mut tables = Vec::new();
    for (title, kind, crc) in CSUMS {
        let mut sides = Vec::new();
        for name in SIDES {
            sides.push(Side::volume(name, kind, policy(&format!("submit={name},{crc}"))?));
        }
        sides.push(Side::raw());
        let grid = lab.measure(&points, &sides)?;
        if let Some(tracing) = &mut lab.tracing {
            let name =
                |point: &Point, side: &Side| format!("{}, {title}, {}", point.label, side.name);
            tracing.add_jobs(&points, &sides, name);
        }
        let rate = |row: usize| figures(&sizes, row, |then| then.1.map(|kb| kb * 1024.0));
        let operations = |row: usize| figures(&sizes, row, |then| then.2);
        let layout =
            |then| Layout { points: &points, sides: &sides, grid: &grid, first: "bs", then };
        let columns: &[&str] = &["async", "sync"];
        let mut bandwidth =
            layout((columns, &rate))
                .table(format!("Bandwidth, {title}"), Unit::Bandwidth, |run| run.bandwidth);
        bandwidth.charts = charts(&bandwidth, title, tables.is_empty());
        bandwidth.compare_auto(&SIDES);
        tables.push(bandwidth);
        tables.push(layout((columns, &operations)).table(
            format!("Operations a second, {title}"),
            Unit::Iops,
            |run| run.iops,
        ));
        let mut shares = Layout {
            sides: sides.get(..SIDES.len()).unwrap_or_default(),
            ..layout((&[], &nothing_then))
        }
        .table(
            format!("Blocks whose checksum was offered to workers, {title}"),
            Unit::Percent,
            |run| run.offloaded,
        );
        shares.charts.clear();
        tables.push(shares);
    }
    let mut notes = vec![
        "'async' then is 'offload' now, 'sync' then is 'inline' now. Then: hard disk, 4 CPUs, 8 GB.".to_owned(),
        "The original job writes 8 GiB or for 30 s, whichever ends first; here it writes for the time that the job \
         says, over a smaller range, from its start again where need be."
            .to_owned(),
    ];
    crowded_note(&mut notes);
    Ok(Experiment {
        name: "submit",
        question: "Should the issuer of a write compute its checksums, or hand them to workers?",
        rule: "Workers only for writes that are split, or that are at least 64 KiB long with the 'single' profile, and \
               never when the checksum is fast; 'auto' compares what was measured here.",
        job: points.first().map(|point| point.job.clone()).unwrap_or_default(),
        tables,
        series: Vec::new(),
        notes,
    })
}

fn kib(index: usize) -> u64 {
    THEN.get(index).map_or(0, |then| then.0)
}

fn figures(
    sizes: &[usize],
    row: usize,
    which: impl Fn(&(u64, [f64; 2], [f64; 2])) -> [f64; 2],
) -> Vec<f64> {
    let then = sizes.get(row).and_then(|index| THEN.get(*index));
    then.map(|then| which(then).to_vec()).unwrap_or_default()
}

fn point(lab: &Lab, kib: u64) -> Point {
    let job = format!(
        "[submit]\nrw=write\nbs={kib}k\ndirect=1\niodepth=64\niodepth_batch=64\niodepth_batch_complete=64\n\
         iodepth_low=64\nsize={}\nsync=0\ngroup_reporting\nfallocate=posix\ninvalidate=1\n{}",
        lab.stage.size,
        lab.timed(0)
    );
    Point { label: format!("{kib}k"), job, reads: false }
}

/// Pictures of bandwidth now, and beside the first of them of bandwidth then.
fn charts(table: &Table, title: &str, first: bool) -> Vec<Chart> {
    let chart = |when: &str, columns: Vec<usize>| Chart {
        kind: ChartKind::Bars,
        title: format!("{when}: bandwidth by block size"),
        x_label: "block size".into(),
        columns,
    };
    let now = table.of_group("now").chain(table.of_group("device")).collect();
    let then = first.then(|| chart("Then, hard disk", table.of_group("then").collect()));
    then.into_iter().chain([chart(&format!("Now, {title}"), now)]).collect()
}
