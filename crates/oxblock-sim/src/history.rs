//! Writes, and which of them may be what a block holds.

use crate::content::{self, BLOCK, small};

/// A moment: counts what the caller did and saw.
pub type Moment = u64;

/// What a write puts there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// Its own bytes, see [`content::fill`].
    Data,
    /// Zeroes.
    Zeroes,
}

/// One write, trim or zeroing.
#[derive(Debug, Clone)]
pub struct Write {
    /// Unique over the run.
    pub id: u64,
    /// What it writes.
    pub what: What,
    /// First byte that it changes.
    pub from: u64,
    /// The byte behind the last.
    pub to: u64,
    /// When it was handed over.
    pub submitted: Moment,
    /// When it was acknowledged; never when it failed.
    pub acked: Option<Moment>,
    /// It ended with an error: it may be there, or in part, or not.
    pub failed: bool,
    /// Promised to be there whole or not at all.
    pub atomic: bool,
    /// Durable when acknowledged.
    pub fua: bool,
}

impl Write {
    /// True when this write was over before `other` began: it is before it in the log.
    pub fn before(&self, other: &Self) -> bool {
        self.acked.is_some_and(|acked| acked < other.submitted)
    }

    /// True when every byte of `from..to` is changed.
    pub fn covers(&self, from: u64, to: u64) -> bool {
        self.from <= from && to <= self.to
    }

    /// True when the bytes at `offset` are what this write puts there.
    pub fn matches(&self, offset: u64, bytes: &[u8]) -> bool {
        match self.what {
            What::Data => content::matches(self.id, offset, bytes),
            What::Zeroes => content::is_zero(bytes),
        }
    }

    /// Puts the part of it that lies in block `block` into `bytes`.
    pub fn apply(&self, block: u64, bytes: &mut [u8]) {
        let start = block * BLOCK;
        let from = self.from.max(start);
        let to = self.to.min(start + BLOCK);
        if from >= to {
            return;
        }
        let within = small(from - start)..small(to - start);
        let Some(target) = bytes.get_mut(within) else { return };
        match self.what {
            What::Data => content::fill(self.id, from, target),
            What::Zeroes => target.fill(0),
        }
    }
}

/// A block as the model knows it.
#[derive(Debug, Clone, Default)]
pub struct Block {
    /// What it held when nothing was open; `None` is zeroes.
    pub base: Option<Box<[u8]>>,
    /// Writes since then that touch it, in the order in which they were handed over, by their place in the list.
    pub writes: Vec<usize>,
    /// Writes from before, of which it may hold something, since it could not be read when the others became the base.
    pub stray: Vec<Write>,
}

impl Block {
    /// The base has `bytes` from byte `at` of the block on.
    pub fn base_has(&self, at: usize, bytes: &[u8]) -> bool {
        match &self.base {
            Some(base) => base.get(at..at + bytes.len()) == Some(bytes),
            None => content::is_zero(bytes),
        }
    }
}

/// A stretch of a block that no write touches in part, and what it may hold.
#[derive(Debug, Clone)]
pub struct Region {
    /// First byte.
    pub from: u64,
    /// The byte behind the last.
    pub to: u64,
    /// What it held before matches.
    pub base: bool,
    /// Writes that match, by their place in the list.
    pub writers: Vec<usize>,
}

impl Region {
    /// The one write that it can come from, if that is certain.
    pub fn certain(&self) -> Option<usize> {
        match self.writers.as_slice() {
            [one] if !self.base && self.to - self.from >= 8 => Some(*one),
            _ => None,
        }
    }
}
