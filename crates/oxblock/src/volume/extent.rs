//! Where a volume holds data: what a copy must read, and nothing else.

use std::time::Duration;

use crate::format::layout::BLOCK_BYTES;
use crate::format::pointer::Pointer;
use crate::map::{Key, Miss};
use crate::volume::poll::Volume;

/// What an [`Extent`] holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExtentKind {
    /// Blocks that were written.
    Data,
    /// Nobody can tell: the map node for these blocks is damaged or cannot be read, or was when they were lost. Reads of it
    /// fail.
    Lost,
}

/// A stretch of a volume, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// First byte, a multiple of 4096.
    pub start: u64,
    /// First byte behind, a multiple of 4096.
    pub end: u64,
    /// What it holds.
    pub kind: ExtentKind,
}

impl Volume {
    /// The first stretch at byte `from` or beyond that does not simply read as zeroes; `None` when there is none. Its cost
    /// follows from the map nodes that exist, never from the size of the volume. A stretch may go on in the next one.
    ///
    /// May be called while requests are in flight; it then drives them too, and their completions wait to be polled. It
    /// works on a volume that takes no more writes, as reads do.
    pub fn next_data(&mut self, from: u64) -> Option<Extent> {
        let from = from.div_ceil(BLOCK_BYTES);
        loop {
            match self.lane.map.next_mapped(from) {
                Ok(None) => return None,
                Ok(Some((block, _))) => return Some(self.run_from(block)),
                Err(miss) if self.lane.fetches.is_lost(miss.key) => {
                    return Some(self.lost(miss.key, from));
                }
                Err(miss) => self.bring(miss),
            }
        }
    }

    /// The mapped blocks from `block` on that are lost, or are not, as it is; to the end of its leaf at most.
    fn run_from(&mut self, block: u64) -> Extent {
        let mut pointers = Vec::new();
        let left = self.lane.geometry.blocks - block;
        // The leaf was just looked at, so it is at hand.
        let found = self.lane.map.get_run(block, left, &mut pointers);
        debug_assert!(found.is_ok(), "a leaf left the cache between two look-ups");
        let lost = pointers.first().is_some_and(Pointer::is_lost);
        let same = |pointer: &&Pointer| !pointer.is_null() && pointer.is_lost() == lost;
        let run = pointers.iter().take_while(same).count().max(1) as u64;
        Extent {
            start: block * BLOCK_BYTES,
            end: (block + run) * BLOCK_BYTES,
            kind: if lost { ExtentKind::Lost } else { ExtentKind::Data },
        }
    }

    fn lost(&self, key: Key, from: u64) -> Extent {
        let blocks = self.lane.map.range_of(key);
        Extent {
            start: blocks.start.max(from) * BLOCK_BYTES,
            end: blocks.end * BLOCK_BYTES,
            kind: ExtentKind::Lost,
        }
    }

    /// Fetches a node and goes on with everything else until it has come, or is lost: a fetch always ends one way or the
    /// other, whatever becomes of writes meanwhile.
    fn bring(&mut self, miss: Miss) {
        self.lane.fetch(miss, None);
        let mut done = Vec::new();
        while self.lane.fetches.flies(miss.key) {
            self.lane.submit();
            self.lane.poll(&mut done);
            if self.lane.fetches.flies(miss.key) {
                self.lane.wait(Some(Duration::from_millis(100)));
            }
        }
        // In the order in which they came, for the caller to poll.
        self.lane.out.extend(done);
    }
}
