//! Opening a volume, reading all of it, and what the media say about themselves.

use std::collections::{BTreeSet, HashSet};

use oxblock::device::sim::Rng;
use oxblock::volume::{Costs, check_on};
use oxblock::{Buf, ErrorKind, OpenOptions, Request, RequestKind, Volume};

use super::ledger::Ledger;
use super::queue::Image;
use crate::content::{BLOCK, BLOCK_LEN, small};
use crate::model::{Seen, Violation};
use crate::verify::runs;

/// Blocks of one read.
const CHUNK: u64 = 256;
/// Reads under way together.
const DEPTH: usize = 4;
/// Volumes up to this many blocks are read from end to end, others where something may be.
const WHOLE: u64 = 64 << 8;

/// Blocks that were read: the first of them, and their content.
pub type Piece = (u64, Buf);

/// How images are opened: nothing is measured for each of them.
pub fn options() -> OpenOptions {
    let costs = Costs { block_ns: 300, hand_off_ns: 1_000_000, wake_ns: 1_000_000 };
    OpenOptions { costs: Some(costs), map_cache_bytes: 1 << 20, ..OpenOptions::default() }
}

/// The stretches of a volume of `size` bytes that are to be read.
pub fn ranges(ledger: &Ledger, size: u64, rng: &mut Rng) -> Vec<(u64, u64)> {
    let end = size.div_ceil(BLOCK);
    if end <= WHOLE {
        return vec![(0, end)];
    }
    let mut blocks: BTreeSet<u64> = ledger.touched().collect();
    for _ in 0..16 {
        let at = rng.below(end);
        blocks.extend(at..(at + 1 + rng.below(64)).min(end));
    }
    runs(blocks.into_iter())
}

/// Reads the blocks of `ranges`. Every block must verify.
///
/// # Errors
/// The engine fails a read.
pub fn read(volume: &mut Volume, ranges: &[(u64, u64)]) -> Result<Vec<Piece>, oxblock::Error> {
    read_with(volume, ranges, &mut Spare::default(), &mut |error| Err(error))
}

/// Buffers of earlier reads: making new ones for each image would take longer than to fill them.
#[derive(Debug, Default)]
pub struct Spare(Vec<Buf>);

impl Spare {
    /// Takes back what was read.
    pub fn take_back(&mut self, pieces: Vec<Piece>) {
        let usual = small(CHUNK) * BLOCK_LEN;
        self.0.extend(pieces.into_iter().map(|(_, buf)| buf).filter(|buf| buf.len() == usual));
    }

    fn buf(&mut self, len: usize) -> Buf {
        match self.0.pop_if(|buf| buf.len() == len) {
            Some(buf) => buf,
            None => Buf::new(len),
        }
    }
}

/// As [`read`], with `failed` to say what becomes of reads that fail.
fn read_with(
    volume: &mut Volume,
    ranges: &[(u64, u64)],
    spare: &mut Spare,
    failed: &mut dyn FnMut(oxblock::Error) -> Result<(), oxblock::Error>,
) -> Result<Vec<Piece>, oxblock::Error> {
    let pieces = ranges.iter().flat_map(|(from, to)| {
        (*from..*to).step_by(small(CHUNK)).map(move |at| (at, (at + CHUNK).min(*to)))
    });
    let mut pieces = pieces.peekable();
    let mut found: Vec<Piece> = Vec::new();
    let mut done = Vec::new();
    let mut flying = 0;
    while flying > 0 || pieces.peek().is_some() {
        while let Some((from, to)) = pieces.next_if(|_| flying < DEPTH) {
            let buf = spare.buf(small(to - from) * BLOCK_LEN);
            volume.queue(Request {
                tag: from,
                kind: RequestKind::Read { offset: from * BLOCK, buf },
            });
            flying += 1;
        }
        volume.submit();
        if volume.poll(&mut done) == 0 {
            volume.wait(Some(std::time::Duration::from_millis(100)));
        }
        for done in done.drain(..) {
            flying -= 1;
            done.result.or_else(&mut *failed)?;
            found.extend(done.buf.map(|buf| (done.tag, buf)));
        }
    }
    found.sort_unstable_by_key(|(first, _)| *first);
    Ok(found)
}

/// What was read, block by block, as the model wants it.
pub fn seen(pieces: &[Piece]) -> Vec<(u64, Seen<'_>)> {
    let blocks = pieces.iter().flat_map(|(first, buf)| (*first..).zip(buf.chunks_exact(BLOCK_LEN)));
    blocks.map(|(at, bytes)| (at, Seen::Bytes(bytes))).collect()
}

/// What an image has in it.
pub struct Examined {
    /// The blocks.
    pub pieces: Vec<Piece>,
    /// Records that recovery replayed.
    pub replayed: u64,
    /// Findings of `check` about superblock copies whose write was torn.
    pub torn_copies: u64,
}

/// Opens an image and cuts the power while recovery is at work, or just behind it.
pub fn interrupt_recovery(image: &Image, rng: &mut Rng) {
    image.cut_after(rng.below(12));
    // It may come up before the power fails, or not; what counts is what the next opening finds.
    drop(Volume::open_on(image.queue(), &options()));
    image.power_cut(rng);
}

/// Checks an image, opens it for use, reads all of `ranges`, and with `twice` lets go of it and does it again, since what
/// recovery made of it must stay. `torn` are the stretches in which a write is there in part.
///
/// # Errors
/// Damage, a volume that does not open, or one that changes by being opened.
pub fn examine(
    image: &Image,
    ranges: &[(u64, u64)],
    torn: &[(u64, u64)],
    twice: bool,
    spare: &mut Spare,
) -> Result<Examined, Violation> {
    let options = options();
    let looking = OpenOptions { read_only: true, ..options.clone() };
    let report = check_on(image.queue(), &looking, &mut |_, _| {})
        .map_err(|error| format!("check: {error}"))?;
    // A copy that was torn while it was written is told of, and no harm.
    let in_torn = |offset: u64| torn.iter().any(|(from, to)| (*from..*to).contains(&offset));
    let is_torn_copy = |finding: &oxblock::volume::Finding| {
        finding.kind == oxblock::volume::FindingKind::Superblock
            && finding.offset.is_some_and(in_torn)
    };
    let torn_copies = report.findings.iter().filter(|finding| is_torn_copy(finding)).count() as u64;
    if report.total_findings > torn_copies {
        let findings = report.findings.iter().filter(|finding| !is_torn_copy(finding));
        let lines: Vec<String> = findings.take(5).map(ToString::to_string).collect();
        return Err(format!("check: {} findings: {}", report.total_findings, lines.join("; ")));
    }
    let open = |options: &OpenOptions| {
        Volume::open_on(image.queue(), options).map_err(|error| format!("open: {error}"))
    };
    let again = |error: oxblock::Error| format!("read: {error}");
    let mut volume = open(&options)?;
    let replayed = volume.replayed().records;
    let mut strict = Err;
    let pieces = read_with(&mut volume, ranges, spare, &mut strict).map_err(again)?;
    drop(volume);
    if twice {
        let mut volume = open(&looking)?;
        let second = read_with(&mut volume, ranges, spare, &mut strict).map_err(again)?;
        let same = pieces.iter().zip(&second).all(|(one, two)| one.0 == two.0 && *one.1 == *two.1);
        if !same || pieces.len() != second.len() {
            return Err("a second opening finds something else than the first".to_owned());
        }
        spare.take_back(second);
    }
    Ok(Examined { pieces, replayed, torn_copies })
}

/// What a volume made of a flipped bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flipped {
    /// It does not open.
    Refused,
    /// Some blocks cannot be read, and the others are as they were.
    Failed,
    /// All blocks are as they were.
    Harmless,
}

/// Opens an image in which a bit was flipped, and reads `ranges`. What comes back as data must be what was there before.
///
/// # Errors
/// Wrong data, or an error that does not speak of damage.
pub fn examine_flipped(
    image: &Image,
    ranges: &[(u64, u64)],
    before: &[Piece],
    spare: &mut Spare,
) -> Result<Flipped, Violation> {
    let is_damage =
        |error: &oxblock::Error| matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Checksum);
    let looking = OpenOptions { read_only: true, ..options() };
    let mut volume = match Volume::open_on(image.queue(), &looking) {
        Ok(volume) => volume,
        Err(error) if is_damage(&error) => return Ok(Flipped::Refused),
        Err(error) => return Err(format!("open after a flipped bit: {error}")),
    };
    let mut bad = HashSet::new();
    let mut failed = |error: oxblock::Error| match is_damage(&error) && !error.blocks().is_empty() {
        true => {
            bad.extend(error.blocks().iter().map(|bad| bad.block));
            Ok(())
        }
        false => Err(error),
    };
    let pieces = read_with(&mut volume, ranges, spare, &mut failed)
        .map_err(|error| format!("read after a flipped bit: {error}"))?;
    let blocks =
        |pieces: &'_ [Piece]| -> Vec<u64> { pieces.iter().map(|(first, _)| *first).collect() };
    if blocks(&pieces) != blocks(before) {
        return Err("reads after a flipped bit are not all there".to_owned());
    }
    for ((at, now), (_, then)) in seen(&pieces).iter().zip(&seen(before)) {
        if let (Seen::Bytes(now), Seen::Bytes(then)) = (now, then)
            && now != then
            && !bad.contains(at)
        {
            return Err(format!("block {at}: a flipped bit comes back as data"));
        }
    }
    spare.take_back(pieces);
    Ok(if bad.is_empty() { Flipped::Harmless } else { Flipped::Failed })
}
