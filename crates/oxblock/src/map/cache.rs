//! The cache of nodes: index, clock eviction, dirty and frozen bookkeeping.

use std::ops::Range;

use hashbrown::HashMap;
use slab::Slab;

use super::node::{Key, Node, Page, empty_page};
use super::{Miss, Space};
use crate::format::layout::ADDRESS_LIMIT;
use crate::format::pointer::{Pointer, PointerWidth};

/// A frozen node that was changed or removed while its checkpoint runs: the content that the checkpoint must write.
#[derive(Debug)]
pub(super) struct Frozen {
    pub page: Page,
    pub media: u64,
    /// The node still exists in the live tree, so that its new place counts there too.
    pub alive: bool,
}

/// Counters of the map, for `info` and the metrics.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Nodes in memory, copies for a checkpoint included.
    pub cached: usize,
    /// Nodes that the next checkpoint must write.
    pub dirty: usize,
    /// Nodes that the running checkpoint has yet to write.
    pub frozen: usize,
    /// Pointers, or runs of them, that were looked up and found to be there or not to be.
    pub lookups: u64,
    /// Nodes read from the device, as a look-up or a change could not go on without.
    pub fetched: u64,
    /// Nodes dropped to make room.
    pub evicted: u64,
}

/// The map of one lane. See the module's invariants.
#[derive(Debug)]
pub struct Map {
    pub(super) width: PointerWidth,
    /// Levels of the tree; the root is at `height - 1`.
    pub(super) height: u8,
    pub(super) blocks: u64,
    /// Where the root is on the media, valid while it is not dirty.
    pub(super) root: Pointer,
    pub(super) nodes: Slab<Node>,
    index: HashMap<Key, usize>,
    /// What the running checkpoint must still write, leaves last in the vector so that they are taken first.
    pub(super) pending: Vec<Key>,
    pub(super) copies: HashMap<Key, Frozen>,
    /// Root of the running checkpoint as far as it is known.
    pub(super) frozen_root: Pointer,
    limit: usize,
    hand: usize,
    pub(super) dirty: usize,
    pub(super) mapped: u64,
    pub(super) lookups: u64,
    fetched: u64,
    evicted: u64,
}

/// What a parent holds for a child that has no place on the media yet. Such a child is dirty, hence cached, and gets
/// its place before its parent is written, so this never reaches the media.
pub(super) const UNWRITTEN: Pointer = Pointer { addr: ADDRESS_LIMIT - 1, csum: 0 };

/// The fewest nodes that a cache can work with.
pub const MIN_NODES: usize = 64;

impl Map {
    /// An empty cache over a tree of `blocks` logical blocks, `mapped` of them in use, whose root is at `root`; it holds
    /// up to `limit` nodes.
    pub fn new(width: PointerWidth, blocks: u64, root: Pointer, mapped: u64, limit: usize) -> Self {
        Self {
            width,
            height: height(width, blocks),
            blocks,
            root,
            nodes: Slab::new(),
            index: HashMap::new(),
            pending: Vec::new(),
            copies: HashMap::new(),
            frozen_root: root,
            limit: limit.max(MIN_NODES),
            hand: 0,
            dirty: 0,
            mapped,
            lookups: 0,
            fetched: 0,
            evicted: 0,
        }
    }

    /// The first block behind those that a node covers.
    pub fn end_of(&self, key: Key) -> u64 {
        let shift = self.width.fanout_shift() * (u32::from(key.level) + 1);
        (key.index + 1).checked_shl(shift).unwrap_or(u64::MAX)
    }

    /// The blocks of the volume that a node covers.
    pub fn range_of(&self, key: Key) -> Range<u64> {
        let first = key.index.checked_sub(1).map_or(0, |index| self.end_of(Key { index, ..key }));
        first..self.end_of(key).min(self.blocks)
    }

    /// Logical blocks that have content.
    pub fn mapped(&self) -> u64 {
        self.mapped
    }

    /// Levels of the tree.
    pub fn height(&self) -> u8 {
        self.height
    }

    /// Counters.
    pub fn stats(&self) -> Stats {
        Stats {
            cached: self.nodes.len() + self.copies.len(),
            dirty: self.dirty,
            frozen: self.pending.len(),
            lookups: self.lookups,
            fetched: self.fetched,
            evicted: self.evicted,
        }
    }

    /// The most nodes in memory.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Nodes of the tree when all blocks are mapped.
    pub fn most_nodes(&self) -> usize {
        let shift = self.width.fanout_shift();
        let level = |level: u8| {
            let span = 1u64.checked_shl(shift * (u32::from(level) + 1)).unwrap_or(u64::MAX);
            usize::try_from(self.blocks.div_ceil(span)).unwrap_or(usize::MAX)
        };
        (0..self.height).map(level).fold(0, usize::saturating_add)
    }

    /// Dirty nodes at which a checkpoint should begin.
    pub fn dirty_target(&self) -> usize {
        self.limit / 16 * 5
    }

    /// Dirty nodes, counting those that records in flight may dirty, from which on no record may be written until a
    /// checkpoint has frozen them.
    pub fn dirty_limit(&self) -> usize {
        self.limit / 8 * 3
    }

    /// The most leaves that one record may touch, so that applying it stays within the limits.
    pub fn record_leaves(&self) -> usize {
        self.limit / 8 / usize::from(self.height).max(1)
    }

    pub(super) fn root_key(&self) -> Key {
        Key { level: self.height - 1, index: 0 }
    }

    pub(super) fn parent(&self, key: Key) -> Option<(Key, usize)> {
        if key.level + 1 >= self.height {
            return None;
        }
        let shift = self.width.fanout_shift();
        let slot = usize::try_from(key.index & ((1 << shift) - 1)).unwrap_or(0);
        Some((Key { level: key.level + 1, index: key.index >> shift }, slot))
    }

    pub(super) fn leaf(&self, block: u64) -> (Key, usize) {
        let shift = self.width.fanout_shift();
        let slot = usize::try_from(block & ((1 << shift) - 1)).unwrap_or(0);
        (Key { level: 0, index: block >> shift }, slot)
    }

    /// The cached node of `key`.
    pub(super) fn find(&self, key: Key) -> Option<usize> {
        self.index.get(&key).copied()
    }

    pub(super) fn node(&self, id: usize) -> &Node {
        match self.nodes.get(id) {
            Some(node) => node,
            None => unreachable!("node {id} left the cache while in use"),
        }
    }

    pub(super) fn node_mut(&mut self, id: usize) -> &mut Node {
        match self.nodes.get_mut(id) {
            Some(node) => node,
            None => unreachable!("node {id} left the cache while in use"),
        }
    }

    /// Marks a fetch of `miss` as begun: its parent stays until [`insert`](Self::insert) or
    /// [`abandon`](Self::abandon).
    pub fn begin_fetch(&mut self, miss: Miss) {
        if let Some(parent) = self.parent(miss.key).and_then(|(key, _)| self.find(key)) {
            self.node_mut(parent).children += 1;
        }
    }

    /// A fetch has failed; nothing changes.
    pub fn abandon(&mut self, key: Key) {
        if let Some(parent) = self.parent(key).and_then(|(key, _)| self.find(key)) {
            self.node_mut(parent).children -= 1;
        }
    }

    /// Takes in a fetched and verified node, making room for it.
    pub fn insert(&mut self, miss: Miss, bytes: &[u8]) {
        let mut page = empty_page();
        page.copy_from_slice(bytes);
        self.fetched += 1;
        self.make_room();
        assert!(self.find(miss.key).is_none(), "node fetched twice");
        // The child count of the parent was taken by `begin_fetch`.
        let node = Node::new(miss.key, page, miss.pointer.addr, self.width);
        let id = self.nodes.insert(node);
        self.index.insert(miss.key, id);
    }

    /// Adds an empty node that is not on the media yet and links it to its parent, which must be cached.
    pub(super) fn create(&mut self, key: Key) -> usize {
        if let Some((parent, slot)) = self.parent(key) {
            let Some(parent) = self.find(parent) else {
                unreachable!("parent of a new node is cached")
            };
            // Held before making room, so that the parent is not what makes it.
            self.node_mut(parent).children += 1;
            self.thaw(parent, true);
            let width = self.width;
            self.node_mut(parent).replace(width, slot, UNWRITTEN);
            self.mark_dirty(parent);
        }
        self.make_room();
        let id = self.nodes.insert(Node::new(key, empty_page(), 0, self.width));
        self.index.insert(key, id);
        self.mark_dirty(id);
        id
    }

    /// Evicts until there is room for one more node, or nothing can go.
    fn make_room(&mut self) {
        let mut left = 1024;
        while self.nodes.len() + self.copies.len() >= self.limit && left > 0 {
            left -= 1;
            self.hand = (self.hand + 1) % self.nodes.capacity().max(1);
            let Some(node) = self.nodes.get_mut(self.hand) else { continue };
            if !node.evictable() {
                continue;
            }
            if std::mem::take(&mut node.referenced) {
                continue;
            }
            self.evicted += 1;
            self.forget(self.hand);
        }
    }

    /// Drops a node from memory.
    pub(super) fn forget(&mut self, id: usize) {
        let node = self.nodes.remove(id);
        self.index.remove(&node.key);
        if let Some(parent) = self.parent(node.key).and_then(|(key, _)| self.find(key)) {
            self.node_mut(parent).children -= 1;
        }
    }

    /// Marks a node and its ancestors dirty.
    pub(super) fn mark_dirty(&mut self, id: usize) {
        let mut at = Some(id);
        while let Some(id) = at {
            let node = self.node_mut(id);
            if node.dirty {
                return;
            }
            node.dirty = true;
            let key = node.key;
            self.dirty += 1;
            at = self.parent(key).and_then(|(key, _)| self.find(key));
        }
    }

    /// Must come before any change to a node's content: keeps the frozen content for the running checkpoint.
    pub(super) fn thaw(&mut self, id: usize, alive: bool) {
        let node = self.node_mut(id);
        if !std::mem::take(&mut node.frozen) {
            return;
        }
        let frozen = Frozen { page: node.page.clone(), media: node.media, alive };
        let key = node.key;
        self.copies.insert(key, frozen);
    }

    /// Removes a node that has lost its last entry, and empty ancestors with it.
    pub(super) fn remove_empty(&mut self, id: usize, space: &mut dyn Space) {
        let mut id = id;
        loop {
            let node = self.node(id);
            if node.used > 0 {
                return;
            }
            let (key, media) = (node.key, node.media);
            debug_assert_eq!(node.children, 0, "an empty node has no children");
            self.thaw(id, false);
            // A copy made earlier belongs to a node that is now gone.
            if let Some(copy) = self.copies.get_mut(&key) {
                copy.alive = false;
            }
            if self.node(id).dirty {
                self.dirty -= 1;
            }
            if media != 0 {
                space.died(media);
            }
            self.forget(id);
            let Some((parent_key, slot)) = self.parent(key) else {
                self.root = Pointer::NULL;
                return;
            };
            let Some(parent) = self.find(parent_key) else {
                unreachable!("parent of a cached node is cached")
            };
            self.thaw(parent, true);
            let width = self.width;
            self.node_mut(parent).replace(width, slot, Pointer::NULL);
            self.mark_dirty(parent);
            id = parent;
        }
    }
}

/// Levels of a tree over `blocks` blocks; at least one.
pub fn height(width: PointerWidth, blocks: u64) -> u8 {
    let mut height = 1;
    let mut reach = 1u64 << width.fanout_shift();
    while reach < blocks {
        reach = reach.saturating_mul(1 << width.fanout_shift());
        height += 1;
    }
    height
}
