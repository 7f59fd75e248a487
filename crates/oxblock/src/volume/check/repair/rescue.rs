//! Moving what is live out of the stretches of segments that cleaning cannot see, because a record header is damaged.

use std::collections::HashSet;

use super::super::Check;
use super::super::headers::Gaps;
use super::Stop;
use crate::csum::Csum;
use crate::format::layout::BLOCK_SIZE;
use crate::format::pointer::{Pointer, identity};
use crate::lane::Lane;
use crate::map::Key;

/// The most blocks that are moved before a checkpoint makes their space free.
const BATCH: usize = 1 << 14;
/// Checkpoints that are made for room before there is said to be none.
const PATIENCE: u32 = 4;

/// Something live in a gap.
#[derive(Debug, Clone, Copy)]
enum Hit {
    Block(u64, Pointer),
    Node(Key, u64),
}

impl Check<'_, '_> {
    /// Moves all that can be moved; returns how many blocks that were.
    pub(super) fn rescue(&mut self) -> Result<u64, Stop> {
        let count = self.lane.segments.count();
        let mut stuck = HashSet::new();
        let (mut moved, mut begin) = (0, 0);
        self.recount();
        // Nothing is moved twice, unless the device damages what was just written: then it ends here.
        let live: u64 = self.live.iter().map(|live| u64::from(*live)).sum();
        let most = live + self.lane.table.addresses().count() as u64;
        while begin < count && moved < most {
            let mut segments = begin..count;
            let mut gaps = self.find_gaps(&mut segments);
            let hits = self.hits(&mut gaps, &stuck);
            let before = stuck.len();
            let now = self.move_nodes(&mut gaps, &hits)? + self.move_blocks(&hits, &mut stuck)?;
            moved += now;
            if now == 0 {
                // Blocks that are stuck may have kept others out of what was looked at.
                if stuck.len() == before {
                    begin = segments.start;
                }
                continue;
            }
            // The second one frees what the first has taken nodes out of.
            self.checkpoint()?;
            self.checkpoint()?;
            self.recount();
        }
        Ok(moved)
    }

    /// What lives in the gaps, without blocks that are `stuck`.
    fn hits(&mut self, gaps: &mut Gaps, stuck: &HashSet<u64>) -> Vec<Hit> {
        let mut hits = Vec::new();
        if gaps.is_empty() {
            return hits;
        }
        let root = Key { level: self.lane.map.height() - 1, index: 0 };
        self.walk_nodes(root, false, &mut |check, key, media, pointers| {
            if hits.len() < BATCH && media != 0 && gaps.hit(media, None) {
                hits.push(Hit::Node(key, media));
            }
            if key.level > 0 {
                return;
            }
            let first = key.index << check.lane.geometry.width.fanout_shift();
            for (block, to) in (first..).zip(pointers).filter(|(_, to)| to.leads_somewhere()) {
                if hits.len() < BATCH && gaps.hit(to.addr, Some(block)) && !stuck.contains(&block) {
                    hits.push(Hit::Block(block, *to));
                }
            }
        });
        hits
    }

    /// Has the next checkpoint write nodes of the map and blocks of the table elsewhere.
    fn move_nodes(&mut self, gaps: &mut Gaps, hits: &[Hit]) -> Result<u64, Stop> {
        let mut moved = 0;
        for level in 0..self.lane.table.height() {
            let places = self.lane.table.level(level).to_vec();
            for (index, to) in (0u64..).zip(places) {
                if !to.is_null() && gaps.hit(to.addr, None) {
                    moved +=
                        u64::from(self.rescue_node(identity::node(true, level, index), to.addr));
                }
            }
        }
        for hit in hits {
            if let Hit::Node(key, addr) = hit {
                moved += u64::from(self.rescue_node(key.identity(), *addr));
            }
        }
        Ok(moved)
    }

    fn rescue_node(&mut self, id: u64, addr: u64) -> bool {
        loop {
            match self.lane.rescue_node(id, addr) {
                Ok(marked) => return marked,
                Err(miss) if self.lane.fetches.is_lost(miss.key) => return false,
                Err(miss) => self.fetch(miss),
            }
        }
    }

    /// Copies blocks to the end of the log, in the order in which they lie on the device. Those that do not verify stay
    /// where they are, and are `stuck`.
    fn move_blocks(&mut self, hits: &[Hit], stuck: &mut HashSet<u64>) -> Result<u64, Stop> {
        let mut blocks: Vec<(u64, Pointer)> = hits
            .iter()
            .filter_map(|hit| match hit {
                Hit::Block(block, to) => Some((*block, *to)),
                Hit::Node(..) => None,
            })
            .collect();
        blocks.sort_unstable_by_key(|(_, to)| to.addr);
        let csum = self.lane.geometry.csum;
        let mut moved = 0;
        for (block, to) in blocks {
            let Some(data) = self.verified(block, to, &csum) else {
                stuck.insert(block);
                continue;
            };
            if !self.with_room(&mut |lane| lane.rescue_block(block, to, &data))? {
                break;
            }
            moved += 1;
        }
        if !self.with_room(&mut Lane::rescue_rest)? {
            moved -= self.lane.rescue_forget();
        }
        Ok(moved)
    }

    /// Does what may need room, which checkpoints bring; false when they do not. Nothing is under way after it, so that
    /// something else can be read.
    fn with_room(&mut self, what: &mut dyn FnMut(&mut Lane) -> bool) -> Result<bool, Stop> {
        for _ in 0..PATIENCE {
            let done = what(&mut self.lane);
            self.drive()?;
            if done {
                return Ok(true);
            }
            self.checkpoint()?;
        }
        Ok(false)
    }

    /// What a block holds, if it is what its pointer says.
    fn verified(&mut self, block: u64, to: Pointer, csum: &Csum) -> Option<crate::device::Buf> {
        let look = |check: &mut Self| {
            let data = check.read_now(to.addr, 1)?;
            let fits = data.len() == BLOCK_SIZE && csum.of(identity::data(block), &data) == to.csum;
            fits.then_some(data)
        };
        look(self).or_else(|| look(self))
    }
}
