//! Random requests.

use oxblock::{Buf, RequestKind};

use crate::content::{self, BLOCK, small};
use crate::history::What;
use crate::model::Violation;
use crate::world::{Pending, World};

const MIB: u64 = 1 << 20;
/// Rounds of wear that fill so many segments that some are discarded when everything is trimmed.
const MUCH_WEAR: u64 = 24;

impl World {
    /// A length in bytes, of any alignment.
    fn draw_len(&mut self) -> u64 {
        let rng = &mut self.rng;
        let blocks = |n: u64| n * BLOCK;
        if self.plan.small && rng.below(20) != 0 {
            return match rng.below(8) {
                0 => 1 + rng.below(2 * BLOCK),
                1 => blocks(1 + rng.below(8)),
                _ => BLOCK,
            };
        }
        match rng.below(16) {
            0..5 => BLOCK,
            5 | 6 => 1 + rng.below(2 * BLOCK),
            7..10 => blocks(1 + rng.below(16)),
            10 => 512 * (1 + rng.below(64)),
            11 => 1 + rng.below(200_000),
            12 => blocks(1 + rng.below(256)),
            13 | 14 => MIB,
            _ => 1 + rng.below(3 * MIB),
        }
    }

    /// A range of the volume that is `len` bytes long, or shorter.
    fn draw_range(&mut self, len: u64) -> (u64, u64) {
        let rng = &mut self.rng;
        let size = self.plan.size;
        let len = len.min(size);
        let everywhere = self.plan.hot.is_empty() || rng.below(8) == 0;
        let mut from = if everywhere {
            rng.below(size - len + 1)
        } else {
            let spot = small(rng.below(self.plan.hot.len() as u64));
            let start = self.plan.hot.get(spot).copied().unwrap_or(0);
            (start + rng.below(self.plan.hot_bytes)).min(size - len)
        };
        if len.is_multiple_of(BLOCK) && rng.below(4) != 0 {
            from -= from % BLOCK;
        } else if rng.below(2) == 0 {
            from -= from % 512;
        }
        (from, from + len)
    }

    /// Writes `from..to`.
    pub fn write(&mut self, from: u64, to: u64, fua: bool) {
        let atomic = to - from <= MIB;
        let (place, id) = self.model.begin(What::Data, from, to, atomic, fua);
        let mut buf = Buf::new(small(to - from));
        content::fill(id, from, &mut buf);
        self.coverage.fua += u64::from(fua);
        self.queue(RequestKind::Write { offset: from, buf, fua }, Pending::Write(place));
    }

    /// Reads `from..to`.
    pub fn read(&mut self, from: u64, to: u64) {
        let submitted = self.model.tick();
        let buf = Buf::new(small(to - from));
        self.queue(RequestKind::Read { offset: from, buf }, Pending::Read { from, submitted });
    }

    /// Flushes.
    pub fn flush(&mut self) {
        let submitted = self.model.tick();
        self.queue(RequestKind::Flush, Pending::Flush(submitted));
    }

    /// Trims `from..to`.
    pub fn trim(&mut self, from: u64, to: u64) {
        let first = from.div_ceil(BLOCK) * BLOCK;
        let last = (to / BLOCK * BLOCK).max(first);
        let (place, _) = self.model.begin(What::Zeroes, first, last, false, false);
        let kind = RequestKind::Discard { offset: from, len: to - from };
        self.queue(kind, Pending::Write(place));
    }

    /// Zeroes `from..to`.
    pub fn zero(&mut self, from: u64, to: u64, fua: bool) {
        let (place, _) = self.model.begin(What::Zeroes, from, to, false, fua);
        let kind = RequestKind::WriteZeroes { offset: from, len: to - from, fua };
        self.queue(kind, Pending::Write(place));
    }

    /// Hands over one random request.
    pub fn request(&mut self) {
        self.step += 1;
        let len = self.draw_len();
        let (from, to) = self.draw_range(len);
        let fua = self.rng.below(16) == 0;
        match self.rng.below(64) {
            0..40 => self.write(from, to, fua),
            40..52 => self.read(from, to),
            52..57 => self.flush(),
            57..60 => self.trim(from, to),
            60..63 => self.zero(from, to, fua),
            _ => {
                // All of a large range, now and then.
                let len = self.rng.below(self.plan.size) + 1;
                let (from, to) = self.draw_range(len);
                match self.rng.below(8) {
                    0 => self.zero(from, to, fua),
                    1 => self.trim(from, to),
                    _ => self.flush(),
                }
            }
        }
    }

    /// Works for up to `requests` requests, the turns from `first` on, or until the power fails or `flushes` flushes are
    /// acknowledged.
    ///
    /// # Errors
    /// What the model refuses.
    pub fn work(&mut self, first: u64, requests: u64, flushes: u64) -> Result<(), Violation> {
        for turn in first..first + requests {
            if self.disk.is_off() || self.flushes >= flushes || self.latched {
                break;
            }
            if !self.mask.has_turn(self.life, turn) {
                continue;
            }
            self.played.push((self.life, turn));
            if turn >= self.leaves {
                self.leaves = u64::MAX;
                self.coverage.leaves += 1;
                self.log(|| "the device is gone".into());
                self.disk.set_gone(0, true);
            }
            self.draw_from(turn);
            self.request();
            let depth = small(self.plan.depth);
            // Sometimes several requests leave together, sometimes each goes alone.
            if self.pending.len() >= depth {
                let left = small(self.rng.below(depth as u64));
                self.drain(left)?;
            } else if self.rng.below(2) == 0 {
                self.pump()?;
            }
        }
        Ok(())
    }

    /// What comes before the first life.
    ///
    /// # Errors
    /// What the model refuses.
    pub fn prepare(&mut self) -> Result<(), Violation> {
        if self.plan.fill {
            self.fill()?;
        }
        self.wear(self.plan.wear)?;
        if self.plan.wear >= MUCH_WEAR {
            // All at once, so that more segments come free than are kept for the next writes.
            self.trim(0, self.plan.size);
            self.drain(0)?;
        }
        Ok(())
    }

    /// Writes the whole volume once.
    fn fill(&mut self) -> Result<(), Violation> {
        let mut from = 0;
        while from < self.plan.size && !self.disk.is_off() && !self.latched {
            let to = (from + MIB).min(self.plan.size);
            self.write(from, to, false);
            from = to;
            self.drain(small(self.plan.depth) - 1)?;
        }
        Ok(())
    }

    /// Leaves something alive in one segment after the other: a block that stays, then writes that do not. Now and then
    /// one of those that stayed is written after all, maybe while cleaning moves it.
    ///
    /// # Errors
    /// What the model refuses.
    pub fn wear(&mut self, rounds: u64) -> Result<(), Violation> {
        let blocks = self.plan.size / BLOCK;
        let half = (blocks / 2).clamp(1, 256);
        for round in 0..rounds {
            for step in 0..512 / (half + 1) {
                if self.disk.is_off() || self.latched {
                    return Ok(());
                }
                let stays = match step {
                    0 => Some(blocks - 1 - round % (blocks - half)),
                    _ if self.rng.below(4) == 0 => Some(half + self.rng.below(blocks - half)),
                    _ => None,
                };
                if let Some(stays) = stays {
                    self.write(stays * BLOCK, (stays + 1) * BLOCK, false);
                }
                self.write(0, half * BLOCK, false);
                self.drain(small(self.plan.depth) - 1)?;
            }
            // So that the model need not keep all of it.
            self.drain(0)?;
            self.flush();
        }
        self.drain(0)
    }
}
