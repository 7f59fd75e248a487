//! What is done with a changed volume: everything that a user can do with one that was found somewhere.
//!
//! It is checked, dumped, repaired on the side (`repaired.rs`), opened for reading, and opened for writing (going back to the state before damage, where it does
//! not open otherwise), written to, closed and opened again. What must hold:
//!
//! - Every call returns, and nothing panics.
//! - A block that is read without an error was written as that, if nothing was changed behind a good checksum.
//! - What was acknowledged by a volume reads back as it was written, or fails.
//! - A volume in which the check finds nothing opens, and all of it can be read.

use oxblock::device::sim::SimDisk;
use oxblock::format::layout::{BLOCK_BYTES, SUPERBLOCK_SIZE};
use oxblock::format::superblock::Superblock;
use oxblock::volume::{ExtentKind, Part, check_on, dump_on};
use oxblock::{Buf, ErrorKind, OpenOptions, RequestKind, Volume};

use super::base::{Base, State, clear, options, run, write};
use super::content::Model;
use super::places::PlaceKind;
use super::repaired::repaired;
use crate::shape::Shape;

/// What may be believed of the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// Checksums were made good after changes: any data may be good now.
    None,
    /// None were: what is read must have been written.
    Data,
}

/// The most bytes of a volume that are read, and of one read.
const MOST_READ: u64 = 16 << 20;
const CHUNK: u64 = 64;

/// Does everything with the volume on `disk`, which is `base` with changes.
///
/// # Errors
/// What did not hold.
pub fn exercise(base: &Base, disk: &SimDisk, trust: Trust) -> Result<Shape, String> {
    let mut shape = Shape::default();
    shape.text(base.state.name());
    let sound = check(disk, &mut shape);
    dump(base, disk, &mut shape);
    let exact = base.state == State::Clean && newest_is_whole(base, disk);
    let mut rules = Rules { trust, exact, sound };
    repaired(base, disk, rules, &mut shape)?;
    match open(disk, true) {
        Ok(mut volume) => {
            shape.text("opens");
            volume.notices().iter().for_each(|notice| shape.text(notice));
            read_all(&mut volume, &base.model, rules, &mut shape)?;
        }
        Err(error) if sound => {
            return Err(format!("nothing is found by the check, and it does not open: {error}"));
        }
        Err(error) => shape.text(&error.to_string()),
    }
    let opened = open(disk, false).or_else(|error| {
        shape.text(&error.to_string());
        // It goes back to an older state then.
        rules.exact = false;
        let options = OpenOptions { rollback: true, ..options(false) };
        Volume::open_on(Box::new(disk.queue()), &options)
    });
    let mut volume = match opened {
        Ok(volume) => volume,
        Err(error) => {
            shape.text(&error.to_string());
            return Ok(shape);
        }
    };
    let mut model = base.model.clone();
    let mut kept = use_it(&mut volume, &mut model, rules, &mut shape)?;
    if base.state == State::Worn && !wear(&mut volume, &mut model, &mut shape)? {
        // Who knows what of it was written.
        kept.clear();
    }
    let closed = volume.close();
    shape.text(closed.as_ref().err().map_or("closed", |error| name(error.kind())));
    // What was not acknowledged is in the model too.
    rules.exact = false;
    rules.sound = false;
    match open(disk, true) {
        Ok(mut volume) => {
            read_all(&mut volume, &model, rules, &mut shape)?;
            let exact = Rules { trust: Trust::Data, exact: true, sound: false };
            for (block, count) in kept.into_iter().filter(|_| closed.is_ok()) {
                read(&mut volume, &model, block, count, exact, &mut shape)?;
            }
        }
        Err(error) if sound && closed.is_ok() && trust == Trust::Data => {
            return Err(format!(
                "it was sound and was closed well, and does not open any more: {error}"
            ));
        }
        Err(error) => shape.text(&error.to_string()),
    }
    Ok(shape)
}

/// Opens the volume on `disk`, which is `base` with changes behind which nothing was made good, and reads it.
///
/// # Errors
/// Wrong data was returned as good.
pub fn read_back(base: &Base, disk: &SimDisk) -> Result<Shape, String> {
    let mut shape = Shape::default();
    let exact = base.state == State::Clean && newest_is_whole(base, disk);
    match open(disk, true) {
        Ok(mut volume) => {
            volume.notices().iter().for_each(|notice| shape.text(notice));
            let rules = Rules { trust: Trust::Data, exact, sound: false };
            read_all(&mut volume, &base.model, rules, &mut shape)?;
        }
        Err(error) => shape.text(&error.to_string()),
    }
    Ok(shape)
}

/// What is demanded of reads.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rules {
    pub trust: Trust,
    /// Of each block only the last version is right.
    pub exact: bool,
    /// No read may fail.
    pub sound: bool,
}

impl Rules {
    /// Whether a block may be read as `data`.
    fn judge(&self, model: &Model, block: u64, data: &[u8]) -> Result<(), String> {
        if self.trust == Trust::Data && !model.allows(block, data, self.exact) {
            let start = data.get(..16).unwrap_or(data);
            return Err(format!(
                "wrong data is returned as good: block {block} begins with {start:02x?}"
            ));
        }
        Ok(())
    }
}

pub(super) fn open(disk: &SimDisk, read_only: bool) -> oxblock::Result<Volume> {
    Volume::open_on(Box::new(disk.queue()), &options(read_only))
}

/// One copy of the superblock in force is as it was.
fn newest_is_whole(base: &Base, disk: &SimDisk) -> bool {
    let whole = |at: &u64| {
        let found = Superblock::decode(&disk.read_raw(0, *at, SUPERBLOCK_SIZE));
        found.is_ok_and(|found| found.as_ref() == Some(&base.places.newest))
    };
    base.places.copies(false).iter().any(whole)
}

fn check(disk: &SimDisk, shape: &mut Shape) -> bool {
    match check_on(Box::new(disk.queue()), &options(true), &mut |_, _| {}) {
        Ok(report) => {
            let mut kinds: Vec<&str> =
                report.findings.iter().map(|finding| finding.kind.name()).collect();
            kinds.dedup();
            kinds.truncate(8);
            kinds.iter().for_each(|kind| shape.text(kind));
            report.notes.iter().for_each(|note| shape.text(note));
            report.is_sound()
        }
        Err(error) => {
            shape.text(&error.to_string());
            false
        }
    }
}

fn dump(base: &Base, disk: &SimDisk, shape: &mut Shape) {
    let header =
        |number: u64| base.places.get(PlaceKind::Header, number).map_or(0, |place| place.addr);
    let segment = u64::from(base.places.newest.segments);
    let parts = [
        Part::Superblock,
        Part::Checkpoint,
        Part::Segment(0),
        Part::Segment(1),
        Part::Segment(segment - 1),
        Part::Record(header(0)),
        Part::Record(header(1)),
        Part::Record(header(2)),
        Part::Record(header(base.places.count(PlaceKind::Header).saturating_sub(1))),
        Part::Map(1001),
    ];
    for part in parts {
        match dump_on(Box::new(disk.queue()), part, &options(true)) {
            Ok(fields) => shape.size(fields.len() as u64),
            Err(error) => shape.text(name(error.kind())),
        }
    }
}

/// Reads what the map says is there, and what was once written.
pub(super) fn read_all(
    volume: &mut Volume,
    model: &Model,
    rules: Rules,
    shape: &mut Shape,
) -> Result<(), String> {
    let mut from = 0;
    let mut left = MOST_READ / BLOCK_BYTES;
    let mut extents = 0_u64;
    while let Some(extent) = volume.next_data(from) {
        if extent.end <= from || extents > 100_000 {
            return Err(format!("the map does not come to an end: {extent:?} from {from}"));
        }
        extents += 1;
        if extent.start >= volume.size() || left == 0 {
            break;
        }
        let end = extent.end.min(volume.size());
        let mut at = extent.start;
        while at < end && left > 0 && extent.kind == ExtentKind::Data {
            let blocks = ((end - at) / BLOCK_BYTES).min(CHUNK).min(left);
            read(volume, model, at / BLOCK_BYTES, blocks, rules, shape)?;
            left -= blocks;
            at += blocks * BLOCK_BYTES;
        }
        from = extent.end;
    }
    shape.size(extents);
    let blocks: Vec<u64> = model.blocks().collect();
    for run in blocks.chunk_by(|one, next| one + 1 == *next) {
        for part in run.chunks(CHUNK as usize) {
            if part[0] + part.len() as u64 <= volume.size() / BLOCK_BYTES {
                read(volume, model, part[0], part.len() as u64, rules, shape)?;
            }
        }
    }
    Ok(())
}

fn read(
    volume: &mut Volume,
    model: &Model,
    block: u64,
    blocks: u64,
    rules: Rules,
    shape: &mut Shape,
) -> Result<(), String> {
    let buf = Buf::new((blocks * BLOCK_BYTES) as usize);
    let done = run(volume, RequestKind::Read { offset: block * BLOCK_BYTES, buf })?;
    let bad: Vec<u64> = match &done.result {
        Ok(()) => Vec::new(),
        Err(error) if rules.sound => {
            return Err(format!("nothing is found by the check, and a read fails: {error}"));
        }
        Err(error) => {
            shape.text(name(error.kind()));
            error.blocks().iter().map(|bad| bad.block).collect()
        }
    };
    if done.result.is_err() && bad.is_empty() {
        return Ok(());
    }
    let Some(buf) = done.buf else { return Err("a read lost its buffer".into()) };
    for (at, data) in (block..).zip(buf.chunks(BLOCK_BYTES as usize)) {
        if !bad.contains(&at) {
            rules.judge(model, at, data)?;
        } else if data.iter().any(|byte| *byte != 0) {
            return Err(format!("block {at} is bad and is not zeroed"));
        }
    }
    Ok(())
}

/// Writes, discards, flushes, and reads back what was acknowledged. Returns which blocks were written.
fn use_it(
    volume: &mut Volume,
    model: &mut Model,
    rules: Rules,
    shape: &mut Shape,
) -> Result<Vec<(u64, u64)>, String> {
    let blocks = volume.size() / BLOCK_BYTES;
    let mut kept = Vec::new();
    for (block, count) in [(3, 5), (1000, 40), (blocks.saturating_sub(9), 9), (600, 200)] {
        if block + count > blocks {
            continue;
        }
        let done = write(volume, model, block, count)?;
        shape.text(if done { "written" } else { "refused" });
        if done {
            let exact = Rules { trust: Trust::Data, exact: true, sound: false };
            read(volume, model, block, count, exact, shape)?;
            kept.push((block, count));
        }
    }
    if blocks > 40 {
        let done = clear(volume, model, 8, 20)?;
        if done {
            let exact = Rules { trust: Trust::Data, exact: true, sound: false };
            let known: Vec<u64> = model.blocks().filter(|block| (8..28).contains(block)).collect();
            for block in known {
                read(volume, model, block, 1, exact, shape)?;
            }
        }
    }
    let flushed = run(volume, RequestKind::Flush)?.result;
    shape.text(flushed.err().map_or("flushed", |error| name(error.kind())));
    let later = Rules { exact: false, sound: false, ..rules };
    read_all(volume, model, later, shape)?;
    Ok(kept)
}

/// Writes so much that segments must be cleaned. Returns whether all of it was acknowledged.
fn wear(volume: &mut Volume, model: &mut Model, shape: &mut Shape) -> Result<bool, String> {
    let blocks = (volume.size() / BLOCK_BYTES).min(800);
    let mut all = true;
    for step in 0..150 {
        let block = step * 61 % blocks.max(1);
        let count = 16.min(blocks.saturating_sub(block));
        if count == 0 || !write(volume, model, block, count)? {
            shape.text("worn no more");
            all = false;
            break;
        }
    }
    shape.size(volume.counters().cleaned_segments);
    shape.size(volume.counters().damaged_segments);
    Ok(all)
}

pub(super) fn name(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Checksum => "checksum",
        ErrorKind::Corrupt => "corrupt",
        ErrorKind::InvalidInput => "invalid",
        ErrorKind::Io => "device",
        ErrorKind::Latched => "latched",
        ErrorKind::NoSpace => "no space",
        _ => "another error",
    }
}

#[cfg(test)]
mod tests {
    use oxblock::csum::CsumKind;

    use super::*;

    #[test]
    fn every_volume_passes_as_it_was_left() {
        for state in State::ALL {
            let base = Base::get(CsumKind::Crc32c, state);
            exercise(base, &base.disk(), Trust::Data).unwrap();
        }
    }

    #[test]
    fn data_that_was_never_written_is_found() {
        let mut base = Base::make(CsumKind::Xxh3, State::Clean);
        base.model.write(11);
        let found = exercise(&base, &base.disk(), Trust::Data).unwrap_err();
        assert!(found.starts_with("wrong data is returned as good: block 11 "), "{found}");
    }
}
