//! Nodes: their names, and one node in the cache.

use crate::format::layout::BLOCK_SIZE;
use crate::format::pointer::{Pointer, PointerWidth, identity};

/// Names a node of the map: its level (0 = leaf) and its index among the nodes of that level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// 0 for leaves.
    pub level: u8,
    /// Position within the level.
    pub index: u64,
}

impl Key {
    /// The identity that seeds the node's checksum.
    pub fn identity(self) -> u64 {
        identity::node(false, self.level, self.index)
    }
}

/// The bytes of a node.
pub(super) type Page = Box<[u8; BLOCK_SIZE]>;

/// A fresh page of zeroes.
pub(super) fn empty_page() -> Page {
    Box::new([0; BLOCK_SIZE])
}

/// A node in the cache.
#[derive(Debug)]
pub(super) struct Node {
    pub key: Key,
    pub page: Page,
    /// Where the node is on the media; 0 when it has never been written.
    pub media: u64,
    /// Must be written by the next checkpoint.
    pub dirty: bool,
    /// Must be written by the running checkpoint, as it is now: a change copies it first.
    pub frozen: bool,
    /// Written to its new place by the running checkpoint, whose records may be in flight still: it cannot be read from
    /// there yet.
    pub settling: bool,
    /// Cached children and children being fetched; such a node is not evicted.
    pub children: u32,
    /// Entries that are not null.
    pub used: u32,
    /// Touched since the clock hand last passed.
    pub referenced: bool,
}

impl Node {
    pub fn new(key: Key, page: Page, media: u64, width: PointerWidth) -> Self {
        let used = (0..width.fanout()).filter(|slot| !width.get(&*page, *slot).is_null()).count();
        let used = u32::try_from(used).unwrap_or(u32::MAX);
        Self {
            key,
            page,
            media,
            dirty: false,
            frozen: false,
            settling: false,
            children: 0,
            used,
            referenced: true,
        }
    }

    pub fn get(&self, width: PointerWidth, slot: usize) -> Pointer {
        width.get(&*self.page, slot)
    }

    /// Replaces an entry, keeps count, and returns the old one.
    pub fn replace(&mut self, width: PointerWidth, slot: usize, pointer: Pointer) -> Pointer {
        let old = width.get(&*self.page, slot);
        width.set(&mut *self.page, slot, pointer);
        match (old.is_null(), pointer.is_null()) {
            (true, false) => self.used += 1,
            (false, true) => self.used -= 1,
            _ => {}
        }
        old
    }

    pub fn evictable(&self) -> bool {
        !self.dirty && !self.frozen && !self.settling && self.children == 0
    }
}
