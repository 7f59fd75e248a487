//! The walk over the map: every node is read and verified, every pointer is followed.

use super::Check;
use super::headers::Gaps;
use super::reads::Wanted;
use super::report::{Finding, FindingKind};
use crate::format::pointer::Pointer;
use crate::lane::{Lost, TRIES};
use crate::map::{Key, Miss};
use crate::profile;

/// Shown a node, by its name, its place on the media (0: none yet) and its pointers.
pub(super) type Visitor<'v, C> = dyn FnMut(&mut C, Key, u64, &[Pointer]) + 'v;

impl Check<'_, '_> {
    /// Verifies every node and has every data block verified.
    pub(super) fn walk(&mut self) {
        self.tell();
        let root = Key { level: self.lane.map.height() - 1, index: 0 };
        self.walk_nodes(root, true, &mut |check, key, media, pointers| {
            check.report.nodes += 1;
            check.take_in(key, media, pointers);
            if key.level > 0 {
                return;
            }
            let first = key.index << check.lane.geometry.width.fanout_shift();
            for (block, pointer) in (first..).zip(pointers).filter(|(_, to)| to.leads_somewhere()) {
                check.want(Wanted { addr: pointer.addr, block, csum: pointer.csum });
            }
        });
        self.tell_gone();
        self.drain();
    }

    /// Counts a node, what it points to if it is a leaf, and the blocks that are lost.
    pub(super) fn take_in(&mut self, key: Key, media: u64, pointers: &[Pointer]) {
        if media != 0 {
            self.count(media);
        }
        if key.level > 0 {
            return;
        }
        let first = key.index << self.lane.geometry.width.fanout_shift();
        for (block, pointer) in (first..).zip(pointers).filter(|(_, to)| !to.is_null()) {
            self.mapped += 1;
            if pointer.is_lost() {
                self.is_gone(block);
            } else {
                self.count(pointer.addr);
            }
        }
    }

    /// Nobody knows what a block held; such blocks are told in runs.
    fn is_gone(&mut self, block: u64) {
        self.gone += 1;
        match &mut self.gone_run {
            Some((_, end)) if *end == block => *end += 1,
            _ => {
                self.tell_gone();
                self.gone_run = Some((block, block + 1));
            }
        }
    }

    fn tell_gone(&mut self) {
        let Some((from, end)) = self.gone_run.take() else { return };
        let meaning = "a map node was damaged and no record proves what they held; reads of them fail until they are \
                       written or trimmed";
        self.report.add(Finding::new(FindingKind::Lost, meaning).of_blocks(from, end));
    }

    /// Looks once more for what lives in `gaps`; only after damage.
    pub(super) fn walk_gaps(&mut self, gaps: &mut Gaps) {
        let root = Key { level: self.lane.map.height() - 1, index: 0 };
        self.walk_nodes(root, false, &mut |check, key, media, pointers| {
            if media != 0 {
                gaps.hit(media, None);
            }
            if key.level > 0 {
                return;
            }
            let first = key.index << check.lane.geometry.width.fanout_shift();
            for (block, pointer) in (first..).zip(pointers).filter(|(_, to)| to.leads_somewhere()) {
                gaps.hit(pointer.addr, Some(block));
            }
        });
    }

    /// Shows `seen` every node from `top` down that is not lost. Lost ones are counted and told the `first` time.
    pub(super) fn walk_nodes(&mut self, top: Key, first: bool, seen: &mut Visitor<'_, Self>) {
        let mut stack = vec![top];
        let mut pointers = Vec::new();
        while let Some(key) = stack.pop() {
            pointers.clear();
            let Some(media) = self.visit(key, &mut pointers, first) else { continue };
            seen(self, key, media, &pointers);
            if key.level > 0 {
                self.descend(key, &pointers, &mut stack);
            }
        }
    }

    /// Children of an inner node go on the stack, the first on top.
    fn descend(&self, key: Key, pointers: &[Pointer], stack: &mut Vec<Key>) {
        let base = key.index << self.lane.geometry.width.fanout_shift();
        let children = (base..).zip(pointers).filter(|(_, pointer)| !pointer.is_null());
        let from = stack.len();
        stack.extend(children.map(|(index, _)| Key { level: key.level - 1, index }));
        if let Some(new) = stack.get_mut(from..) {
            new.reverse();
        }
    }

    /// The entries of a node and where it is on the media; `None` when it does not exist or is lost. A lost node is told
    /// the `first` time.
    fn visit(&mut self, key: Key, pointers: &mut Vec<Pointer>, first: bool) -> Option<u64> {
        loop {
            match self.lane.map.entries(key, pointers) {
                Ok(media) => return media,
                // Recovery may have met it already; what is wrong with it is found out here.
                Err(miss) if self.lane.fetches.is_lost(miss.key) => {
                    if first {
                        self.lose(miss);
                    }
                    return None;
                }
                Err(miss) => self.fetch(miss),
            }
        }
    }

    /// Brings a node into the cache, or marks it lost.
    pub(super) fn fetch(&mut self, miss: Miss) {
        let mut unread = false;
        for _ in 0..TRIES {
            let page = self.read_now(miss.pointer.addr, 1);
            unread |= page.is_none();
            if let Some(page) = page.filter(|page| self.lane.node_is_good(miss, page)) {
                self.lane.map.begin_fetch(miss);
                self.lane.map.insert(miss, &page);
                return;
            }
        }
        self.failed |= unread;
        // Whichever it is, it is judged once: `lose` reads it again to say what is wrong with it.
        self.lane.fetches.mark_lost(miss.key, Lost::Damaged);
    }

    fn lose(&mut self, miss: Miss) {
        self.lost.push(miss);
        self.count(miss.pointer.addr);
        let page = self.read_now(miss.pointer.addr, 1);
        self.failed |= page.is_none();
        let recovered = page.as_ref().is_some_and(|page| self.lane.node_is_good(miss, page));
        let got = page.map(|page| self.lane.geometry.csum.of(miss.key.identity(), &page));
        let blocks = self.lane.map.range_of(miss.key);
        let meaning = if recovered {
            "the device failed to read it, and does not any more: check again"
        } else if got == Some(miss.pointer.csum) {
            "it points outside the volume, so these blocks cannot be found; reads of them fail"
        } else {
            "these blocks cannot be found any more; reads of them fail"
        };
        self.report.add(
            Finding::new(FindingKind::MapNode, meaning)
                .of_blocks(blocks.start, blocks.end)
                .at(profile::locate(&self.lane.geometry.superblock, miss.pointer.addr).1)
                .values(miss.pointer.csum, got),
        );
    }
}
