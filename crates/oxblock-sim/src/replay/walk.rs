//! Along a tape: the images to build, and the judgement of each.
//!
//! Between two **boundaries** (the ends of flushes and of durable writes) what is durable does not change. So each
//! boundary is judged once, just before the next one: by then the caller has been told everything that it is told on the
//! strength of it. Samples of what is volatile lie in between. Where everything is settled the model takes what was read
//! as what there is.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use oxblock::device::sim::{Rng, SimConfig, SimDisk};
use oxblock::device::{Fua, QueueLimits};

use super::event::Event;
use super::examine::{Flipped, Spare, examine, examine_flipped, interrupt_recovery, ranges, seen};
use super::ledger::Ledger;
use super::media::{Media, Outcome};
use super::queue::Image;
use super::tape::Recording;
use crate::model::Violation;

/// Bits that are flipped each time that a volume was opened.
const FLIPS: u64 = 8;

/// One image to be judged.
#[derive(Debug, Clone, Copy)]
pub struct Point {
    /// Events that are behind it.
    pub at: usize,
    /// What it is.
    pub kind: PointKind,
}

/// The kinds of points.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PointKind {
    /// What the boundary before it has made durable.
    Boundary,
    /// A draw of what is volatile.
    Sample,
    /// Everything is settled.
    Settled,
}

macro_rules! counts {
    ($($(#[doc = $doc:literal])* $name:ident: $label:literal),* $(,)?) => {
        /// What a walk has come by.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct Counts {
            $($(#[doc = $doc])* pub $name: u64,)*
        }

        impl Counts {
            /// Adds those of another walk.
            pub fn add(&mut self, other: &Self) {
                $(self.$name += other.$name;)*
            }
        }

        impl std::fmt::Display for Counts {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                $(writeln!(f, "  {:<46}{:>14}", $label, self.$name)?;)*
                Ok(())
            }
        }
    };
}

counts! {
    /// Images of any kind.
    images: "images opened, checked and compared",
    /// Boundaries that are flushes.
    flushes: "flush boundaries",
    /// Boundaries that are durable writes.
    durable: "durable-write boundaries",
    /// Samples.
    samples: "samples between boundaries",
    /// Samples with something torn in them.
    torn: "of them with torn writes",
    /// Operations that could be lost, over all samples.
    volatile: "operations that could be lost, over all samples",
    /// Settled points.
    settled: "settled states",
    /// Images that recovery replayed records of.
    recoveries: "images with records to replay",
    /// Images whose first recovery was cut off.
    interrupted: "images with the power cut during recovery",
    /// Records replayed.
    replayed: "records replayed",
    /// Torn superblock copies that check found and opening passed over.
    torn_copies: "torn superblock copies found by check",
    /// Bits flipped.
    flips: "flipped bits",
    /// Of them, those that keep the volume shut.
    flips_refused: "of them: the volume does not open, and says so",
    /// Of them, those that fail blocks.
    flips_failed: "of them: blocks fail, and only those",
    /// Blocks compared.
    blocks: "blocks compared",
    /// Acknowledged writes that no image must show: lost, as they may be, or written over.
    lost: "acknowledged writes not seen again (not flushed)",
}

/// What was wrong, and where.
#[derive(Debug, Clone)]
pub struct Failure {
    /// The number of the point.
    pub point: u64,
    /// What it was and what was wrong.
    pub what: Violation,
}

/// A tape, ready to be walked along.
#[derive(Debug)]
pub struct Route {
    tape: Recording,
    points: Vec<Point>,
    seed: u64,
    size: u64,
    limits: QueueLimits,
}

/// The operations among events, and which of them end what kind of boundary.
fn boundaries(events: &[(Event, u64)]) -> Vec<Option<Event>> {
    let mut ops = Vec::new();
    let kind = |(event, _): &(Event, u64)| {
        match event {
            Event::Write { .. } | Event::Flush | Event::Discard { .. } => ops.push(*event),
            Event::Done { op, .. } => {
                let op = usize::try_from(*op).ok().and_then(|op| ops.get(op));
                let is_one =
                    |op: &&Event| matches!(op, Event::Flush | Event::Write { durable: true, .. });
                return op.filter(is_one).copied();
            }
            _ => {}
        }
        None
    };
    events.iter().map(kind).collect()
}

impl Route {
    /// The route along `tape` with `samples` draws between two boundaries.
    ///
    /// # Errors
    /// The tape has no beginning.
    pub fn new(tape: Recording, samples: u64) -> Result<Self, Violation> {
        let events = tape.events();
        let Some((Event::Start { seed, size, device, emulated }, _)) = events.first().copied()
        else {
            return Err("the tape has no beginning".to_owned());
        };
        let start = events.iter().position(|(event, _)| *event == Event::Opened);
        let mut rng = Rng::new(seed ^ 0x5a3b_1e00);
        let mut points: Vec<Point> = Vec::new();
        if let Some(start) = start {
            let boundaries = boundaries(events);
            let is_end = |at: &usize| boundaries.get(*at).is_none_or(Option::is_some);
            let mut from = start;
            for end in (start + 1..=events.len()).filter(is_end) {
                let mut drawn: Vec<usize> =
                    (0..samples).map(|_| from + 1 + draw(&mut rng, end - from)).collect();
                drawn.sort_unstable();
                points.extend(drawn.into_iter().map(|at| Point { at, kind: PointKind::Sample }));
                points.push(Point { at: end, kind: PointKind::Boundary });
                from = end;
            }
            let settled = (start + 1..).zip(events.iter().skip(start));
            let settled =
                settled.filter(|(_, (event, _))| matches!(event, Event::Opened | Event::Settled));
            points.extend(settled.map(|(at, _)| Point { at, kind: PointKind::Settled }));
            points.sort_by_key(|point| point.at);
        }
        let mut config = SimConfig::new(device, seed);
        config.fua = if emulated { Fua::Emulated } else { Fua::Native };
        let limits = SimDisk::single(config).limits(0).ok_or("no device")?;
        Ok(Self { tape, points, seed, size, limits })
    }

    /// How many images there are to judge.
    pub fn points(&self) -> u64 {
        self.points.len() as u64
    }

    /// Walks along and judges the points whose number is in `range` and, divided by `of`, leaves `share`; `progress` is
    /// told each. Settled points are judged by everyone, since the model goes by them.
    ///
    /// # Errors
    /// The first point at which something is wrong.
    pub fn walk(
        &self,
        range: Range<u64>,
        (share, of): (u64, u64),
        progress: &dyn Fn(),
    ) -> Result<Counts, Failure> {
        let mut ledger = Ledger::new();
        let mut media = Media::new(self.limits.size);
        let mut counts = Counts::default();
        let mut spare = Spare::default();
        let mut behind = 0;
        let boundaries = boundaries(self.tape.events());
        let mut last = 0;
        for (number, point) in (0..range.end).zip(&self.points) {
            let failed = |what| Failure { point: number, what };
            for at in behind..point.at {
                let Some((event, bytes)) = self.tape.events().get(at).copied() else { break };
                ledger.apply(event).map_err(failed)?;
                media
                    .feed(at, event, bytes, &self.tape)
                    .map_err(|error| failed(format!("the tape: {error}")))?;
                if boundaries.get(at).is_some_and(Option::is_some) {
                    last = at;
                }
            }
            behind = point.at;
            let ours = range.contains(&number) && number % of == share;
            if !ours && point.kind != PointKind::Settled {
                continue;
            }
            let mut found = Counts::default();
            let judged = catch_unwind(AssertUnwindSafe(|| {
                self.judge(number, point, &mut ledger, &media, &mut spare, &mut found)
            }));
            let judged = judged.unwrap_or_else(|_| Err("the engine panicked".to_owned()));
            judged.map_err(|what| failed(format!("{}: {what}", self.describe(point))))?;
            if ours {
                match (point.kind, boundaries.get(last).copied().flatten()) {
                    (PointKind::Boundary, Some(Event::Flush)) => found.flushes += 1,
                    (PointKind::Boundary, Some(_)) => found.durable += 1,
                    _ => {}
                }
                counts.add(&found);
                progress();
            }
        }
        counts.blocks = ledger.checked();
        counts.lost = ledger.lost();
        Ok(counts)
    }

    fn describe(&self, point: &Point) -> String {
        let kind = match point.kind {
            PointKind::Boundary => "what is durable",
            PointKind::Sample => "a sample",
            PointKind::Settled => "a settled state",
        };
        format!("{kind} after {} of {} events", point.at, self.tape.events().len())
    }

    fn judge(
        &self,
        number: u64,
        point: &Point,
        ledger: &mut Ledger,
        media: &Media,
        spare: &mut Spare,
        counts: &mut Counts,
    ) -> Result<(), Violation> {
        let mut rng = Rng::new(self.seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let outcome = match point.kind {
            PointKind::Sample => Outcome::draw(&mut rng),
            PointKind::Boundary | PointKind::Settled => Outcome::Durable,
        };
        let (overlay, torn) = media
            .image(outcome, &mut rng, &self.tape)
            .map_err(|error| format!("the tape: {error}"))?;
        let image = Image::new(media.durable(), overlay, self.limits.clone());
        let ranges = ranges(ledger, self.size, &mut rng);
        let settled = point.kind == PointKind::Settled;
        let interrupted = rng.below(6) == 0;
        if interrupted {
            interrupt_recovery(&image, &mut rng);
        }
        let context = |what| format!("{} of {}: {what}", outcome.name(), media.volatile());
        let examined =
            examine(&image, &ranges, &torn, rng.below(8) == 0, spare).map_err(context)?;
        ledger.judge(&seen(&examined.pieces), settled).map_err(context)?;
        counts.images += 1;
        counts.settled += u64::from(settled);
        counts.samples += u64::from(point.kind == PointKind::Sample);
        counts.torn += u64::from(!torn.is_empty());
        if point.kind == PointKind::Sample {
            counts.volatile += media.volatile() as u64;
        }
        counts.interrupted += u64::from(interrupted);
        counts.recoveries += u64::from(examined.replayed > 0);
        counts.replayed += examined.replayed;
        counts.torn_copies += examined.torn_copies;
        let before = point.at.checked_sub(1).and_then(|at| self.tape.events().get(at));
        if settled && before.is_some_and(|(event, _)| *event == Event::Opened) {
            // Nothing is behind the checkpoint, so that there is no end of a log that may be missing.
            for _ in 0..FLIPS {
                let image = Image::new(media.durable(), media.flip(&mut rng), self.limits.clone());
                let flipped = examine_flipped(&image, &ranges, &examined.pieces, spare)?;
                counts.flips += 1;
                counts.flips_refused += u64::from(flipped == Flipped::Refused);
                counts.flips_failed += u64::from(flipped == Flipped::Failed);
            }
        }
        spare.take_back(examined.pieces);
        Ok(())
    }
}

/// A number below `n`.
fn draw(rng: &mut Rng, n: usize) -> usize {
    usize::try_from(rng.below(n as u64)).unwrap_or(0)
}
