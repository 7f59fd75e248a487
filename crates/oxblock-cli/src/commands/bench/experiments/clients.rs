//! Several client threads on one volume, each in its own blocking calls: with `issuer` each verifies what it reads itself.

use std::fs::File;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use oxblock::Buf;
use oxblock::csum::CsumKind;
use oxblock::volume::Handle;
use rustix::fs::OFlags;

use super::policy;
use crate::commands::bench::lab::{Lab, in_turn};
use crate::commands::bench::model::{Cell, Chart, ChartKind, Column, Spread, Table, Unit};
use crate::commands::bench::num::float;
use crate::size::human;

/// Threads.
const CLIENTS: [usize; 3] = [1, 2, 4];

const SIDES: [&str; 4] = ["worker", "issuer", "auto", "raw"];

/// What is read: the volume's checksum, bytes of a read, and whether a first look has it. Of a slow checksum
/// sixteen blocks may be worth a hand-off where one is not.
const READS: [(CsumKind, u64, bool); 3] = [
    (CsumKind::Crc32c, 4 << 10, true),
    (CsumKind::Sha256, 4 << 10, false),
    (CsumKind::Sha256, 64 << 10, true),
];

fn reads(lab: &Lab) -> impl Iterator<Item = (CsumKind, u64)> + use<> {
    let quick = lab.quick;
    let shown = READS.into_iter().filter(move |(_, _, first)| *first || !quick);
    shown.map(|(csum, bytes, _)| (csum, bytes))
}

/// Runs that the tables take.
pub fn runs(lab: &Lab) -> usize {
    reads(lab).count() * CLIENTS.len() * SIDES.len() * lab.rounds
}

/// Random reads by several threads, a table for each checksum and size.
pub fn tables(lab: &mut Lab) -> Result<Vec<Table>> {
    reads(lab).map(|(csum, bytes)| table(lab, csum, bytes)).collect()
}

fn table(lab: &mut Lab, csum: CsumKind, bytes: u64) -> Result<Table> {
    let mut columns = vec![Column::new("", "clients", Unit::None)];
    for side in SIDES {
        columns.push(Column::new(if side == "raw" { "device" } else { "now" }, side, Unit::Iops));
    }
    let mut rows = Vec::new();
    for clients in CLIENTS {
        let mut figures = vec![Vec::new(); SIDES.len()];
        for round in 0..lab.rounds {
            for (side, figures) in in_turn(round, SIDES.into_iter().zip(&mut figures)) {
                lab.ticker.tick(&format!("{} {clients} clients {side}", csum.name()));
                figures.push(measure(lab, side, csum, bytes, clients)?);
            }
        }
        let mut row = vec![Cell::Text(clients.to_string())];
        row.extend(figures.into_iter().map(|figures| Cell::from(Spread::of(figures))));
        rows.push(row);
    }
    let title = format!("{} random reads by several client threads, {}", human(bytes), csum.name());
    let chart = Chart {
        kind: ChartKind::Lines,
        title: format!("Now: {title}"),
        x_label: "client threads".into(),
        columns: (1..=SIDES.len()).collect(),
    };
    let mut table = Table { title, columns, rows, charts: vec![chart] };
    table.compare_auto(&SIDES);
    Ok(table)
}

/// Reads a second.
fn measure(lab: &mut Lab, side: &str, csum: CsumKind, bytes: u64, clients: usize) -> Result<f64> {
    let places = (lab.stage.size / bytes).max(1);
    let bytes = usize::try_from(bytes)?;
    let time = Duration::from_millis(lab.millis);
    if side == "raw" {
        let direct = OFlags::DIRECT.bits().cast_signed();
        let path = lab.stage.raw_path();
        let file = File::options().read(true).custom_flags(direct).open(path);
        // Where it is not to be had, the volume does without as well.
        let file = file.or_else(|_| File::open(path)).context("open the bare device")?;
        return crowd(clients, places, bytes, time, |offset, mut buf| {
            file.read_exact_at(&mut buf, offset)?;
            Ok(buf)
        });
    }
    let handle = lab.stage.handle(csum, &policy(&format!("complete={side}"))?)?;
    let read = |handle: &Handle, offset, buf| {
        Ok(handle.read_at(offset, buf).map_err(|failed| failed.error)?)
    };
    let result = crowd(clients, places, bytes, time, |offset, buf| read(&handle, offset, buf));
    handle.close()?;
    result
}

/// Lets `clients` threads read `bytes` bytes each time, at random one of so many places, for `time`, and counts what they
/// did together.
fn crowd(
    clients: usize,
    places: u64,
    bytes: usize,
    time: Duration,
    read: impl Fn(u64, Buf) -> Result<Buf> + Sync,
) -> Result<f64> {
    let begin = Instant::now();
    let client = |number: usize| -> Result<u64> {
        let mut random = seed(number);
        let mut buf = Buf::new(bytes);
        let mut reads = 0;
        // At least one, however long the thread took to start.
        while reads == 0 || begin.elapsed() < time {
            random = next(random);
            buf = read((random >> 16) % places * bytes as u64, buf)?;
            reads += 1;
        }
        Ok(reads)
    };
    let reads: Result<Vec<u64>> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..clients).map(|number| scope.spawn(move || client(number))).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, Result<u64>>| {
            thread.join().unwrap_or_else(|_| Err(anyhow::anyhow!("a client thread panicked")))
        };
        threads.into_iter().map(join).collect()
    });
    Ok(float(reads?.iter().sum()) / begin.elapsed().as_secs_f64())
}

/// A start for each client of its own.
fn seed(number: usize) -> u64 {
    0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(number as u64 + 1)
}

/// A linear congruential generator (Knuth, MMIX): its upper bits are good enough to choose places.
fn next(random: u64) -> u64 {
    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407)
}
