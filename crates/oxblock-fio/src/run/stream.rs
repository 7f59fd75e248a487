//! The I/Os of one job, in order: direction, offset, length.
//!
//! A pure generator: it knows neither time nor target, so that the same job and seed give the same
//! stream, and a crash test can work out what write number N was. Random offsets without
//! `norandommap` visit each block once per pass: by a permutation where blocks are of one size,
//! by a bitmap where they are not.

use super::bitmap::Bitmap;
use super::random::{Permutation, Random, Skew, mix};
use crate::jobfile::{BlockSizes, Distribution, JobOptions, gcd};
use crate::num;

/// The direction of an I/O; the order is that of fio's tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the target.
    Read = 0,
    /// To the target.
    Write = 1,
    /// Gives blocks up.
    Trim = 2,
}

impl Direction {
    /// All of them, in their order.
    pub const ALL: [Self; 3] = [Self::Read, Self::Write, Self::Trim];

    /// fio's name of it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Trim => "trim",
        }
    }
}

/// One I/O.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Io {
    pub(crate) direction: Direction,
    /// From the start of the target, bytes.
    pub(crate) offset: u64,
    /// Bytes.
    pub(crate) len: u32,
}

/// Where a job works: a range of the target, a whole number of units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) start: u64,
    pub(crate) len: u64,
}

/// How the next offset is found.
#[derive(Debug, Clone)]
enum Picker {
    Sequential,
    Permutation { order: Permutation, index: u64, pass: u64 },
    Bitmap(Bitmap),
    Even,
    Skewed(Skew),
}

/// The generator.
#[derive(Debug, Clone)]
pub(crate) struct Stream {
    range: Range,
    /// What blocks are laid on, bytes.
    unit: u64,
    sizes: [BlockSizes; 3],
    /// Each block is trimmed, then written.
    trim_then_write: bool,
    /// The only direction, when there is but one.
    only: Option<Direction>,
    rwmixread: u64,
    picker: Picker,
    random: Random,
    seed: u64,
    modifier: u64,
    /// I/Os left of a sequential run at a random offset.
    run_left: u64,
    /// Next sequential offset within the range, per direction.
    next: [u64; 3],
    /// The block that was trimmed and is to be written.
    trimmed: Option<Io>,
    /// Bytes to issue in one loop.
    limit: u64,
    max_ios: u64,
    bytes: u64,
    ios: u64,
}

impl Stream {
    /// The stream of `job` in `range`; `limit` bytes per loop.
    pub(crate) fn new(job: &JobOptions, range: Range, limit: u64, seed: u64) -> Self {
        let only = match job.directions() {
            [true, false, false] => Some(Direction::Read),
            [false, true, false] => Some(Direction::Write),
            [false, false, true] => Some(Direction::Trim),
            _ => None,
        };
        let unit = u64::from(unit_of(job));
        let one_size = {
            let mut sizes = job.used_sizes();
            sizes.all(|size| matches!(size, BlockSizes::Fixed(bytes) if u64::from(*bytes) == unit))
        };
        let blocks = range.len / unit.max(1);
        let picker = match job.distribution {
            _ if !job.rw.random => Picker::Sequential,
            Distribution::Zipf(theta) => Picker::Skewed(Skew::zipf(blocks, theta, seed)),
            Distribution::Pareto(h) => Picker::Skewed(Skew::pareto(blocks, h, seed)),
            // A sequential run at a random offset would leave the pass anyway.
            Distribution::Even if job.norandommap || job.rw_modifier > 1 => Picker::Even,
            Distribution::Even if one_size => {
                let order = Permutation::new(blocks, seed);
                Picker::Permutation { order, index: 0, pass: 0 }
            }
            Distribution::Even => Picker::Bitmap(Bitmap::new(blocks)),
        };
        Self {
            range,
            unit,
            sizes: job.bs.clone(),
            trim_then_write: job.rw.trim_then_write(),
            only,
            rwmixread: u64::from(job.rwmixread),
            picker,
            random: Random::new(seed),
            seed,
            modifier: job.rw_modifier,
            run_left: 0,
            next: [0; 3],
            trimmed: None,
            limit: if job.rw.trim_then_write() { limit.saturating_mul(2) } else { limit },
            max_ios: if job.number_ios == 0 { u64::MAX } else { job.number_ios },
            bytes: 0,
            ios: 0,
        }
    }

    /// Begins the next loop: everything is due once more, at new random places.
    pub(crate) fn restart(&mut self) {
        self.next = [0; 3];
        self.forget();
        match &mut self.picker {
            Picker::Permutation { order, index, pass } if *index > 0 => {
                (*pass, *index) = (*pass + 1, 0);
                *order =
                    Permutation::new(self.range.len / self.unit.max(1), mix(self.seed ^ *pass));
            }
            Picker::Bitmap(map) => map.clear_all(),
            _ => {}
        }
    }

    /// Counts from here: what was issued so far was ramp-up.
    pub(crate) fn forget(&mut self) {
        (self.bytes, self.ios) = (0, 0);
    }

    /// Bytes issued in this loop, and bytes due.
    pub(crate) fn progress(&self) -> (u64, u64) {
        (self.bytes, self.limit)
    }

    /// The next I/O; `None` when the loop is complete.
    pub(crate) fn next(&mut self) -> Option<Io> {
        if self.bytes >= self.limit || self.ios >= self.max_ios {
            return None;
        }
        let io = match self.trimmed.take() {
            Some(trimmed) => Io { direction: Direction::Write, ..trimmed },
            None => self.generate(),
        };
        if io.direction == Direction::Trim && self.trim_then_write {
            self.trimmed = Some(io);
        }
        self.bytes += u64::from(io.len);
        self.ios += 1;
        Some(io)
    }

    fn generate(&mut self) -> Io {
        let direction = match self.only {
            Some(direction) => direction,
            None if self.trim_then_write => Direction::Trim,
            None if self.random.below(100) < self.rwmixread => Direction::Read,
            None => Direction::Write,
        };
        let mut len = self.length(direction);
        let offset = match &mut self.picker {
            Picker::Sequential => {
                let offset = self.sequential(direction, &mut len);
                self.advance(direction, offset + u64::from(len) + self.modifier);
                offset
            }
            Picker::Permutation { order, index, pass } => {
                let blocks = self.range.len / self.unit.max(1);
                if *index >= blocks {
                    (*pass, *index) = (*pass + 1, 0);
                    *order = Permutation::new(blocks, mix(self.seed ^ *pass));
                }
                let block = order.at(*index);
                *index += 1;
                block * self.unit
            }
            Picker::Bitmap(map) => {
                let blocks = self.range.len / self.unit.max(1);
                let wanted = u64::from(len) / self.unit.max(1);
                let from = self.random.below(blocks);
                let block = map.next_clear(from).unwrap_or_else(|| {
                    map.clear_all();
                    from
                });
                // What is left between two visited blocks may be shorter than what was drawn.
                let run = map.clear_run(block, wanted).max(1);
                map.set(block, run, true);
                len = num::narrow(run * self.unit);
                block * self.unit
            }
            Picker::Even | Picker::Skewed(_) if self.run_left > 0 => {
                self.run_left -= 1;
                let offset = self.sequential(direction, &mut len);
                self.advance(direction, offset + u64::from(len));
                offset
            }
            Picker::Even => {
                let room = self.range.len.saturating_sub(u64::from(len)) / self.unit.max(1) + 1;
                let offset = self.random.below(room) * self.unit;
                self.begin_run(direction, offset + u64::from(len));
                offset
            }
            Picker::Skewed(skew) => {
                let last = self.range.len.saturating_sub(u64::from(len));
                let offset = (skew.draw(&mut self.random) * self.unit).min(last);
                self.begin_run(direction, offset + u64::from(len));
                offset
            }
        };
        Io { direction, offset: self.range.start + offset, len }
    }

    /// The next sequential offset; wraps at the end, where a block may also be cut short.
    fn sequential(&self, direction: Direction, len: &mut u32) -> u64 {
        let next = self.next.get(direction as usize).copied().unwrap_or(0);
        let left = self.range.len.saturating_sub(next);
        if left < self.unit {
            return 0;
        }
        *len = (*len).min(num::narrow(left - left % self.unit.max(1)));
        next
    }

    fn advance(&mut self, direction: Direction, to: u64) {
        if let Some(next) = self.next.get_mut(direction as usize) {
            *next = to;
        }
    }

    fn begin_run(&mut self, direction: Direction, end: u64) {
        self.run_left = self.modifier.saturating_sub(1);
        self.advance(direction, end);
    }

    fn length(&mut self, direction: Direction) -> u32 {
        match self.sizes.get(direction as usize) {
            Some(BlockSizes::Fixed(bytes)) => *bytes,
            Some(BlockSizes::Range { min, max }) => {
                let steps = u64::from(max.checked_div(*min).unwrap_or(1));
                min.saturating_mul(num::narrow(self.random.below(steps) + 1))
            }
            Some(BlockSizes::Split(parts)) => {
                let mut ticket = self.random.below(100);
                for (bytes, share) in parts {
                    match ticket.checked_sub(u64::from(*share)) {
                        Some(rest) => ticket = rest,
                        None => return *bytes,
                    }
                }
                parts.last().map_or(4096, |(bytes, _)| *bytes)
            }
            None => 4096,
        }
    }
}

/// What all block sizes of a job are multiples of, bytes.
pub(crate) fn unit_of(job: &JobOptions) -> u32 {
    job.used_sizes().fold(0, |unit, sizes| gcd(unit, sizes.unit())).max(1)
}
