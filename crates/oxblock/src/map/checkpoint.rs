//! Writing the tree as it was at one moment while it goes on changing.
//!
//! [`Map::freeze`] names the nodes to write, [`Map::place`] takes them one by one, children before parents: each gets
//! its address, its bytes and checksum go into a record, and its parent's pointer is set, in the frozen parent and,
//! where the node still lives, in the live one.

use super::cache::{Map, UNWRITTEN};
use super::node::Key;
use crate::format::pointer::Pointer;

/// A frozen node that has got its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placed {
    /// Which node.
    pub key: Key,
    /// Checksum of what was written.
    pub csum: u128,
    /// Where it was before; 0 when nowhere.
    pub old: u64,
    /// It still exists in the live tree, which points to the new place now.
    pub alive: bool,
}

impl Map {
    /// Freezes the tree as it is: all dirty nodes are to be written by the checkpoint that begins.
    pub fn freeze(&mut self) {
        assert!(self.pending.is_empty() && self.copies.is_empty(), "one checkpoint at a time");
        let mut keys = Vec::with_capacity(self.dirty);
        for (_, node) in &mut self.nodes {
            if std::mem::take(&mut node.dirty) {
                node.frozen = true;
                keys.push(node.key);
            }
        }
        self.dirty = 0;
        self.frozen_root = self.root;
        // Taken from the back: leaves first, in logical order.
        keys.sort_unstable_by(|a, b| b.cmp(a));
        self.pending = keys;
    }

    /// Frozen nodes that have no place yet.
    pub fn unplaced(&self) -> usize {
        self.pending.len()
    }

    /// Gives the next frozen node the address `addr` and copies its bytes to `out`; `csum` computes its checksum from
    /// identity and bytes. `None` when all are placed.
    pub fn place(
        &mut self,
        addr: u64,
        out: &mut [u8],
        csum: &mut dyn FnMut(u64, &[u8]) -> u128,
    ) -> Option<Placed> {
        let key = self.pending.pop()?;
        let (old, alive) = if let Some(copy) = self.copies.remove(&key) {
            out.copy_from_slice(&*copy.page);
            if copy.alive
                && let Some(id) = self.find(key)
            {
                let node = self.node_mut(id);
                node.media = addr;
                node.settling = true;
            }
            (copy.media, copy.alive)
        } else {
            let Some(id) = self.find(key) else { unreachable!("frozen node {key:?} is gone") };
            let node = self.node_mut(id);
            assert!(node.frozen, "node {key:?} was placed twice");
            out.copy_from_slice(&*node.page);
            node.frozen = false;
            node.settling = true;
            (std::mem::replace(&mut node.media, addr), true)
        };
        let width = self.width;
        let placed = |slot| width.get(out, slot).addr != UNWRITTEN.addr;
        assert!((0..width.fanout()).all(placed), "a child of {key:?} has no place");
        let pointer = Pointer { addr, csum: csum(key.identity(), out) };
        match self.parent(key) {
            None => {
                self.frozen_root = pointer;
                if alive {
                    self.root = pointer;
                }
            }
            Some((parent, slot)) => self.link(parent, slot, pointer, alive),
        }
        Some(Placed { key, csum: pointer.csum, old, alive })
    }

    fn link(&mut self, parent: Key, slot: usize, pointer: Pointer, alive: bool) {
        let width = self.width;
        let frozen_copy = self.copies.get_mut(&parent);
        let copied = frozen_copy.is_some();
        if let Some(copy) = frozen_copy {
            width.set(&mut *copy.page, slot, pointer);
        }
        let live = self.find(parent).map(|id| self.node_mut(id));
        match live {
            // The live parent's entry belongs to this node only while the node itself lives.
            Some(node) if alive || !copied => {
                assert!(copied || node.frozen, "parent {parent:?} is not frozen");
                node.replace(width, slot, pointer);
            }
            _ => assert!(copied, "parent {parent:?} is gone"),
        }
    }

    /// What was placed at `addr` cannot be read from there: if it is the node as it is now, the next checkpoint writes it.
    /// It is cached still, since it is settling.
    pub fn misplaced(&mut self, key: Key, addr: u64) {
        if let Some(id) = self.find(key)
            && self.node(id).media == addr
        {
            self.mark_dirty(id);
        }
    }

    /// Gives up the frozen tree: what has no place yet is dirty again, and what has one is on the device.
    pub fn unfreeze(&mut self) {
        let pending = std::mem::take(&mut self.pending);
        // What was changed since is dirty already, and its copy is for the checkpoint alone.
        self.copies.clear();
        let mut frozen = Vec::with_capacity(pending.len());
        for key in pending {
            if let Some(id) = self.find(key)
                && std::mem::take(&mut self.node_mut(id).frozen)
            {
                frozen.push(id);
            }
        }
        for id in frozen {
            self.mark_dirty(id);
        }
        self.settled();
    }

    /// All that was placed is on the device: it may leave the cache.
    pub fn settled(&mut self) {
        for (_, node) in &mut self.nodes {
            node.settling = false;
        }
    }

    /// The root that the checkpoint stores, once all nodes are placed.
    pub fn frozen_root(&self) -> Pointer {
        assert!(self.pending.is_empty() && self.copies.is_empty(), "nodes are left to place");
        assert_ne!(self.frozen_root, UNWRITTEN, "a root without a place");
        self.frozen_root
    }
}
