//! `complete`: finished operations dealt with by the issuer or by a worker, by depth.

use anyhow::Result;
use oxblock::csum::CsumKind;
use rustix::thread::sched_getaffinity;

use super::{Layout, clients, cores, crowded_note, nothing_then, policy};
use crate::commands::bench::lab::{Grid, Lab, Point, Side};
use crate::commands::bench::model::{Cell, Chart, ChartKind, Column, Experiment, Table, Unit};

/// What the authors measured on a fast NVMe device: depth, IOPS by a worker, IOPS by the issuer.
const THEN: [(u32, [f64; 2]); 5] = [
    (1, [155_000.0, 162_000.0]),
    (2, [290_000.0, 313_000.0]),
    (4, [533_000.0, 597_000.0]),
    (8, [604_000.0, 827_000.0]),
    (16, [615_000.0, 845_000.0]),
];

/// Depths of a first look.
const QUICK: [u32; 3] = [1, 4, 16];

const SIDES: [&str; 3] = ["worker", "issuer", "auto"];

pub fn run(lab: &mut Lab) -> Result<Experiment> {
    let depths: Vec<usize> =
        (0..THEN.len()).filter(|index| !lab.quick || QUICK.contains(&depth(*index))).collect();
    let tables_of_one = depths.len() * (SIDES.len() + 1) * lab.rounds;
    lab.ticker.begin("complete", tables_of_one * places().len() + clients::runs(lab));
    let mut sides = Vec::new();
    for name in SIDES {
        sides.push(Side::volume(name, CsumKind::Crc32c, policy(&format!("complete={name}"))?));
    }
    sides.push(Side::raw());
    let mut tables = Vec::new();
    let mut job = String::new();
    for (rw, what, pinned) in places() {
        let points: Vec<Point> =
            depths.iter().map(|index| point(lab, rw, depth(*index), pinned)).collect();
        if job.is_empty() {
            job = points.first().map(|point| point.job.clone()).unwrap_or_default();
        }
        let place = if pinned { "one core" } else { "all cores" };
        let grid = lab.measure(&points, &sides)?;
        if let Some(tracing) = &mut lab.tracing {
            tracing.add_jobs(&points, &sides, |point, side| {
                format!("depth {}, {what}, {place}, {}", point.label, side.name)
            });
        }
        let title = format!("4 KiB random {what}, {place}");
        // The authors measured writes on one core.
        let compared = rw == "randwrite" && pinned;
        tables.push(table(&title, compared, &depths, &points, &sides, &grid));
    }
    tables.extend(clients::tables(lab)?);
    let mut notes = vec![
        "Then: fast NVMe, XFS overwrites, one core.".to_owned(),
        "On one core the loop is pinned, and its worker shares the core with it, as the kernel's workers did in the original. \
         'All cores' is the same job without the pin: the worker has a core of its own and waits awake. The column \
         'offered to workers' says of which share of the operations 'auto' did so; the issuer may take back what no \
         worker has begun."
            .to_owned(),
        "The original runs for 10 s a depth; the job says for how long here.".to_owned(),
    ];
    crowded_note(&mut notes);
    if cores() > 1 && is_pool(&lab.stage.device_call) {
        notes.push(
            "io_uring is not to be had here, and a pool of threads does the I/O. Those of them that were started while the \
             device was opened are not pinned: in the tables 'one core' they have the other cores."
                .into(),
        );
    }
    Ok(Experiment {
        name: "complete",
        question: "When a device operation is back, should its issuer finish it, or a worker?",
        rule: "The issuer, when it reaps; what would block it goes on as a continuation of its own I/O. 'auto' shares \
               with a worker where that is measured to pay.",
        job,
        tables,
        series: Vec::new(),
        notes,
    })
}

/// Workload, its name, and whether the loop is pinned to one core. Where there is but one, the others would be the same.
fn places() -> Vec<(&'static str, &'static str, bool)> {
    let mut places = Vec::new();
    for (rw, what) in [("randwrite", "writes"), ("randread", "verified reads")] {
        places.push((rw, what, true));
        if cores() > 1 {
            places.push((rw, what, false));
        }
    }
    places
}

/// Whether threads do the I/O that the queue started as it was opened, before a job pinned the loop to its core.
fn is_pool(device_call: &str) -> bool {
    device_call.contains("pool of")
}

fn depth(index: usize) -> u32 {
    THEN.get(index).map_or(0, |then| then.0)
}

fn point(lab: &Lab, rw: &str, depth: u32, pinned: bool) -> Point {
    let cpu = if pinned { format!("cpus_allowed={}\n", first_cpu()) } else { String::new() };
    let job = format!(
        "[complete]\nrw={rw}\nbs=4096\niodepth={depth}\nnorandommap\nbuffered=0\nsize={}\n{cpu}{}",
        lab.stage.size,
        lab.timed(0)
    );
    Point { label: depth.to_string(), job, reads: rw == "randread" }
}

/// The first CPU that this process may use.
fn first_cpu() -> usize {
    let set = sched_getaffinity(None).ok();
    set.and_then(|set| (0..1024).find(|cpu| set.is_set(*cpu))).unwrap_or(0)
}

fn table(
    title: &str,
    compared: bool,
    depths: &[usize],
    points: &[Point],
    sides: &[Side],
    grid: &Grid,
) -> Table {
    let then = |row: usize| -> Vec<f64> {
        let then = depths.get(row).and_then(|index| THEN.get(*index));
        then.map(|then| then.1.to_vec()).unwrap_or_default()
    };
    let layout = Layout {
        points,
        sides,
        grid,
        first: "depth",
        then: if compared { (&["worker", "issuer"], &then) } else { (&[], &nothing_then) },
    };
    let mut table = layout.table(title, Unit::Iops, |run| run.iops);
    let chart = |when: String, columns| Chart {
        kind: ChartKind::Lines,
        title: when,
        x_label: "depth".into(),
        columns,
    };
    if compared {
        let columns = table.of_group("then").collect();
        table.charts.push(chart("Then, NVMe: IOPS by depth".into(), columns));
    }
    let now = table.of_group("now").chain(table.of_group("device")).collect();
    table.charts.push(chart(format!("Now: {title}"), now));
    table.compare_auto(&SIDES);
    if compared {
        gain(&mut table, "then", |row| {
            let pair = then(row);
            Some((*pair.first()?, *pair.get(1)?))
        });
    }
    gain(&mut table, "now", |row| {
        let median = |side: usize| grid.at(row, side).median(|run| run.iops);
        Some((median(0), median(1)))
    });
    table.columns.push(Column::new("offered to workers", "auto", Unit::Percent));
    for (row, cells) in table.rows.iter_mut().enumerate() {
        cells.push(grid.at(row, SIDES.len() - 1).cell(|run| run.worker_ends));
    }
    table
}

/// A column of what the issuer gains over the worker, in percent.
fn gain(table: &mut Table, when: &str, pair: impl Fn(usize) -> Option<(f64, f64)>) {
    table.columns.push(Column::new("issuer's gain", when, Unit::Percent));
    for (row, cells) in table.rows.iter_mut().enumerate() {
        let gain =
            pair(row).filter(|pair| pair.0 > 0.0).map(|pair| (pair.1 / pair.0 - 1.0) * 100.0);
        cells.push(gain.map_or(Cell::Empty, Cell::Value));
    }
}

#[cfg(test)]
mod tests {
    use oxblock::device::{DeviceCall, DeviceOptions, open_devices};

    use super::*;

    #[test]
    fn a_pool_of_threads_is_known_by_what_the_queue_says_of_itself() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(1 << 20).unwrap();
        let describe = |call| {
            let options = DeviceOptions { call, ..DeviceOptions::default() };
            open_devices(&[file.path().to_owned()], &options).unwrap().queue.describe()
        };
        assert!(is_pool(&describe(DeviceCall::Threads)));
        assert!(!is_pool(&describe(DeviceCall::Inline)));
        assert!(!is_pool("io_uring, single issuer, deferred (direct)"));
    }
}
