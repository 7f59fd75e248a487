//! `SEEK_DATA` and `SEEK_HOLE`: a few steps at a time, so that a volume full of data keeps nobody waiting.

use oxblock::Volume;

/// A block, in bytes.
const BLOCK: u64 = 4096;

/// Stretches that are looked at in one go.
const STEPS: u32 = 16;

/// A search under way.
#[derive(Debug)]
pub(crate) struct Seek {
    /// Whom the answer is for.
    pub(crate) unique: u64,
    /// Where it began.
    from: u64,
    /// Everything before this is data; a multiple of the block size.
    at: u64,
    hole: bool,
}

/// How a search ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// Here.
    At(u64),
    /// There is no data.
    Nothing,
}

impl Seek {
    /// A search for data, or for a hole, from byte `from` on.
    pub(crate) fn new(unique: u64, from: u64, hole: bool) -> Self {
        Self { unique, from, at: from / BLOCK * BLOCK, hole }
    }

    /// Goes on; `None` when it is not at its end. What cannot be read counts as data: reading it says what is wrong.
    pub(crate) fn step(&mut self, volume: &mut Volume) -> Option<Found> {
        let size = volume.size();
        for _ in 0..STEPS {
            let next = volume.next_data(self.at);
            match next {
                None if self.hole => return Some(Found::At(self.at.max(self.from))),
                None => return Some(Found::Nothing),
                Some(data) if !self.hole => return Some(Found::At(data.start.max(self.from))),
                Some(data) if data.start > self.at => {
                    return Some(Found::At(self.at.max(self.from)));
                }
                // The end of the file counts as a hole.
                Some(data) if data.end >= size => return Some(Found::At(size)),
                Some(data) => self.at = data.end,
            }
        }
        None
    }
}
