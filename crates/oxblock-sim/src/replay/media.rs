//! What a device may hold at one place of a tape: what is durable for certain, and what may be there besides.
//!
//! The contract of the seam (`oxblock::device`), and nothing of what the engine means by an operation:
//!
//! - A write is volatile from its push until a flush is done that was pushed after the write was done, or, if it has the
//!   durable flag, until it is done itself. Until then each of its sectors may be there or not.
//! - Of two writes to one place, where one was done before the other was pushed, the later one lies on top.
//! - A discard is a write of zeroes, or of noise, by its number.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use oxblock::device::sim::Rng;

use super::event::Event;
use super::tape::Recording;
use crate::content::{BLOCK, BLOCK_LEN, small};

/// Bytes of a sector: what a device writes whole or not at all.
const SECTOR: usize = 512;
/// All sectors of a page.
const WHOLE: u8 = 0xff;

/// The content of 4096 bytes of a device; `None` is zeroes.
pub type Page = Option<Arc<[u8; BLOCK_LEN]>>;

/// Pages that lie over the durable ones.
pub type Overlay = HashMap<u64, Arc<[u8; BLOCK_LEN]>>;

/// Which of the volatile operations are in an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// None: only what is durable.
    Durable,
    /// All of them.
    All,
    /// Any of them, each whole.
    Subset,
    /// Any of them, and of each any blocks of 4096 bytes.
    TornBlocks,
    /// Any of them, and of each any sectors of 512 bytes.
    TornSectors,
    /// All up to one, and of that one only the front.
    Prefix,
}

impl Outcome {
    /// One of those that have something volatile in them.
    pub fn draw(rng: &mut Rng) -> Self {
        match rng.below(8) {
            0 => Self::All,
            1 | 2 => Self::Subset,
            3 | 4 => Self::TornBlocks,
            5 | 6 => Self::TornSectors,
            _ => Self::Prefix,
        }
    }

    /// The name in output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Durable => "only what is durable",
            Self::All => "everything",
            Self::Subset => "some writes",
            Self::TornBlocks => "writes torn at 4096 bytes",
            Self::TornSectors => "writes torn at 512 bytes",
            Self::Prefix => "a prefix of the writes",
        }
    }
}

/// What an operation puts there.
#[derive(Debug, Clone, Copy)]
enum Content {
    /// Bytes on the tape.
    Tape(u64),
    Zeroes,
    Noise(u64),
}

/// An operation that may be lost, in part or as a whole.
#[derive(Debug, Clone, Copy)]
struct Volatile {
    op: u64,
    offset: u64,
    len: u64,
    content: Content,
    durable: bool,
    /// When it was pushed and when it was done, as places on the tape.
    pushed: usize,
    done: Option<usize>,
}

/// See the module.
#[derive(Debug)]
pub struct Media {
    /// What is durable.
    pages: Arc<Vec<Page>>,
    /// For each page, when the last write was pushed that is in it.
    newest: Vec<usize>,
    /// In the order in which they were pushed.
    volatile: Vec<Volatile>,
    /// Flushes that are not done, with when they were pushed.
    flushes: HashMap<u64, usize>,
    ops: u64,
}

impl Media {
    /// A device of `size` bytes, all zero.
    pub fn new(size: u64) -> Self {
        let pages = small(size.div_ceil(BLOCK));
        Self {
            pages: Arc::new(vec![None; pages]),
            newest: vec![0; pages],
            volatile: Vec::new(),
            flushes: HashMap::new(),
            ops: 0,
        }
    }

    /// What is durable. A copy that is kept makes the next change slow, not wrong.
    pub fn durable(&self) -> Arc<Vec<Page>> {
        Arc::clone(&self.pages)
    }

    /// Operations that may be lost.
    pub fn volatile(&self) -> usize {
        self.volatile.len()
    }

    /// Takes the event at place `at` of the tape into account, whose bytes are at `bytes`.
    ///
    /// # Errors
    /// The tape cannot be read.
    pub fn feed(
        &mut self,
        at: usize,
        event: Event,
        bytes: u64,
        tape: &Recording,
    ) -> io::Result<()> {
        let op = self.ops;
        let change = |offset, len, content, durable| Volatile {
            op,
            offset,
            len,
            content,
            durable,
            pushed: at,
            done: None,
        };
        match event {
            Event::Write { offset, len, durable } => {
                self.volatile.push(change(offset, len, Content::Tape(bytes), durable));
            }
            Event::Discard { offset, len } => {
                let content =
                    if op.is_multiple_of(2) { Content::Zeroes } else { Content::Noise(op) };
                self.volatile.push(change(offset, len, content, false));
            }
            Event::Flush => {
                self.flushes.insert(op, at);
            }
            Event::Done { op, well } => return self.done(at, op, well, tape),
            _ => return Ok(()),
        }
        self.ops += 1;
        Ok(())
    }

    fn done(&mut self, at: usize, op: u64, well: bool, tape: &Recording) -> io::Result<()> {
        if !well {
            return Err(io::Error::other(format!("operation {op} failed on the real device")));
        }
        let pushed = self.flushes.remove(&op);
        let mut sure = Vec::new();
        self.volatile.retain_mut(|change| {
            if change.op == op {
                change.done = Some(at);
            }
            let flushed = pushed.is_some_and(|flush| change.done.is_some_and(|done| done < flush));
            let certain = flushed || (change.op == op && change.durable);
            if certain {
                sure.push(*change);
            }
            !certain
        });
        for change in sure {
            self.keep(&change, tape)?;
        }
        Ok(())
    }

    /// A change is durable.
    fn keep(&mut self, change: &Volatile, tape: &Recording) -> io::Result<()> {
        let bytes = change.bytes(tape)?;
        let pages = Arc::make_mut(&mut self.pages);
        let first = small(change.offset / BLOCK);
        let places = pages.iter_mut().zip(&mut self.newest).skip(first);
        for ((page, newest), bytes) in places.zip(bytes.chunks_exact(BLOCK_LEN)) {
            if change.is_under(*newest) {
                continue;
            }
            *newest = change.pushed;
            *page = bytes.try_into().ok().map(|bytes: &[u8; BLOCK_LEN]| Arc::new(*bytes));
        }
        Ok(())
    }

    /// A bit flipped in a durable page that holds something; nothing when none is found by chance.
    pub fn flip(&self, rng: &mut Rng) -> Overlay {
        let mut overlay = Overlay::new();
        for _ in 0..1000 {
            let page = rng.below(self.pages.len() as u64);
            let Some(Some(bytes)) = self.pages.get(small(page)) else { continue };
            let mut bytes = Arc::clone(bytes);
            if let Some(byte) = Arc::make_mut(&mut bytes).get_mut(small(rng.below(BLOCK))) {
                *byte ^= 1 << rng.below(8);
            }
            overlay.insert(page, bytes);
            break;
        }
        overlay
    }

    /// What lies over the durable pages in one image, and the stretches of the device at which something is torn.
    ///
    /// # Errors
    /// The tape cannot be read.
    pub fn image(
        &self,
        outcome: Outcome,
        rng: &mut Rng,
        tape: &Recording,
    ) -> io::Result<(Overlay, Vec<(u64, u64)>)> {
        let mut overlay = Overlay::new();
        let mut torn = Vec::new();
        if outcome == Outcome::Durable {
            return Ok((overlay, torn));
        }
        let last = small(rng.below(self.volatile.len() as u64));
        for (index, change) in self.volatile.iter().enumerate() {
            let sectors = change.len / SECTOR as u64;
            // The share of it that is there, in eighths; 8 is all.
            let (share, front) = match outcome {
                Outcome::Durable => continue,
                Outcome::All => (8, sectors),
                Outcome::Prefix if index > last => continue,
                Outcome::Prefix if index < last => (8, sectors),
                Outcome::Prefix => (8, rng.below(sectors)),
                Outcome::Subset => (8 * rng.below(2), sectors),
                Outcome::TornBlocks | Outcome::TornSectors => match rng.below(4) {
                    0 => (0, sectors),
                    1 => (8, sectors),
                    2 => (8, rng.below(sectors)),
                    _ => (1 + rng.below(7), sectors),
                },
            };
            if share == 0 {
                continue;
            }
            let by_blocks = outcome == Outcome::TornBlocks;
            let front = if by_blocks { front / 8 * 8 } else { front };
            if share < 8 || front < sectors {
                torn.push((change.offset, change.offset + change.len));
            }
            let bytes = change.bytes(tape)?;
            let pages = change.offset / BLOCK..;
            for ((page, bytes), start) in pages.zip(bytes.chunks_exact(BLOCK_LEN)).zip(0..) {
                let mut mask: u8 = 0;
                let coin = rng.below(8) < share;
                for sector in 0..8 {
                    let hit = if by_blocks || share == 8 { coin } else { rng.below(8) < share };
                    mask |= u8::from(hit && start * 8 + sector < front) << sector;
                }
                let newest = self.newest.get(small(page)).copied().unwrap_or(0);
                if mask != 0 && !change.is_under(newest) {
                    self.put(&mut overlay, page, bytes, mask);
                }
            }
        }
        Ok((overlay, torn))
    }

    /// Puts the sectors of `mask` over a page.
    fn put(&self, overlay: &mut Overlay, page: u64, bytes: &[u8], mask: u8) {
        let below = || match self.pages.get(small(page)) {
            Some(Some(page)) => Arc::clone(page),
            _ => Arc::new([0; BLOCK_LEN]),
        };
        let page = Arc::make_mut(overlay.entry(page).or_insert_with(below));
        if mask == WHOLE {
            page.copy_from_slice(bytes);
            return;
        }
        let sectors = page.chunks_exact_mut(SECTOR).zip(bytes.chunks_exact(SECTOR)).enumerate();
        for (sector, (to, from)) in sectors {
            if mask >> sector & 1 != 0 {
                to.copy_from_slice(from);
            }
        }
    }
}

impl Volatile {
    /// What was pushed at `newest` lies on top of it.
    fn is_under(&self, newest: usize) -> bool {
        self.done.is_some_and(|done| done < newest)
    }

    fn bytes(&self, tape: &Recording) -> io::Result<Vec<u8>> {
        match self.content {
            Content::Tape(at) => tape.bytes(at, self.len),
            Content::Zeroes => Ok(vec![0; small(self.len)]),
            Content::Noise(op) => {
                let mut bytes = vec![0; small(self.len)];
                Rng::new(op).fill(&mut bytes);
                Ok(bytes)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tape::Tape;
    use super::*;

    const START: Event = Event::Start { seed: 0, size: 0, device: 1 << 20, emulated: false };

    /// Feeds events; a write fills its blocks with its number, counted from 1.
    fn fed(events: &[Event]) -> (Media, Recording) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tape");
        let tape = Tape::create(&path).unwrap();
        tape.add(START);
        let mut writes = 0;
        for event in events {
            let bytes = match event {
                Event::Write { len, .. } => {
                    writes += 1;
                    vec![writes; small(*len)]
                }
                _ => Vec::new(),
            };
            tape.add_op(*event, std::iter::once(bytes.as_slice()));
        }
        tape.finish().unwrap();
        let recording = Recording::load(&path).unwrap();
        let mut media = Media::new(1 << 20);
        for (at, (event, bytes)) in recording.events().iter().enumerate() {
            media.feed(at, *event, *bytes, &recording).unwrap();
        }
        (media, recording)
    }

    /// The first byte of each of the first pages of an image.
    fn image(media: &Media, tape: &Recording, outcome: Outcome, seed: u64) -> [u8; 4] {
        let (overlay, _) = media.image(outcome, &mut Rng::new(seed), tape).unwrap();
        let durable = media.durable();
        [0, 1, 2, 3].map(|page| match (overlay.get(&page), &durable[small(page)]) {
            (Some(page), _) => page[0],
            (None, Some(page)) => page[0],
            (None, None) => 0,
        })
    }

    fn write(page: u64, durable: bool) -> Event {
        Event::Write { offset: page * BLOCK, len: BLOCK, durable }
    }

    fn done(op: u64) -> Event {
        Event::Done { op, well: true }
    }

    #[test]
    fn a_flush_covers_what_was_done_before_it_was_pushed_and_nothing_else() {
        let pushed = [write(0, false), write(1, false), done(0), Event::Flush, done(1), done(2)];
        let (media, tape) = fed(&pushed);
        assert_eq!(image(&media, &tape, Outcome::Durable, 0), [1, 0, 0, 0]);
        assert_eq!(image(&media, &tape, Outcome::All, 0), [1, 2, 0, 0]);
        let (media, tape) = fed(&pushed[..5]);
        assert_eq!(image(&media, &tape, Outcome::Durable, 0), [0; 4]);
    }

    #[test]
    fn a_durable_write_is_durable_alone_and_only_when_it_is_done() {
        let pushed = [write(0, false), done(0), write(1, true), done(1)];
        let (media, tape) = fed(&pushed);
        assert_eq!(image(&media, &tape, Outcome::Durable, 0), [0, 2, 0, 0]);
        let (media, tape) = fed(&pushed[..3]);
        assert_eq!(image(&media, &tape, Outcome::Durable, 0), [0; 4]);
    }

    #[test]
    fn what_was_done_before_a_durable_write_never_lies_over_it() {
        let (media, tape) = fed(&[write(0, false), done(0), write(0, true), done(1)]);
        for seed in 0..20 {
            assert_eq!(image(&media, &tape, Outcome::Subset, seed), [2, 0, 0, 0]);
        }
        // Two that were under way together may lie either way.
        let (media, tape) = fed(&[write(0, false), write(0, true), done(1), done(0)]);
        assert_eq!(image(&media, &tape, Outcome::All, 0), [1, 0, 0, 0]);
    }

    #[test]
    fn every_subset_comes_up_and_torn_writes_are_said_to_be() {
        let (media, tape) = fed(&[write(0, false), write(1, false), done(0)]);
        let mut seen: Vec<[u8; 4]> =
            (0..64).map(|seed| image(&media, &tape, Outcome::Subset, seed)).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen, [[0, 0, 0, 0], [0, 2, 0, 0], [1, 0, 0, 0], [1, 2, 0, 0]]);
        let torn = (0..64).filter(|seed| {
            let mut rng = Rng::new(*seed);
            let (overlay, torn) = media.image(Outcome::TornSectors, &mut rng, &tape).unwrap();
            let mixed = |page: &Arc<[u8; BLOCK_LEN]>| page.iter().any(|byte| *byte != page[0]);
            let is_mixed = overlay.values().any(mixed);
            assert!(!is_mixed || !torn.is_empty());
            is_mixed
        });
        assert!(torn.count() > 10);
    }
}
