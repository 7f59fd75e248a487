//! Looking up and changing single entries.

use super::cache::Map;
use super::node::Key;
use super::{Miss, Space};
#[cfg(feature = "canary")]
use crate::canary::{self, Canary};
use crate::format::pointer::Pointer;

impl Map {
    /// The pointer of a logical block; null when it was never written.
    ///
    /// # Errors
    /// [`Miss`] when a node on the way must be fetched first.
    pub fn get(&mut self, block: u64) -> Result<Pointer, Miss> {
        let (key, slot) = self.leaf(block);
        let found = self.locate(key)?;
        self.lookups += 1;
        match found {
            Some(id) => {
                let width = self.width;
                let node = self.node_mut(id);
                node.referenced = true;
                Ok(node.get(width, slot))
            }
            None => Ok(Pointer::NULL),
        }
    }

    /// Looks up consecutive blocks of one leaf: appends the pointers of `block..` to `out` until the leaf or `count` ends.
    ///
    /// # Errors
    /// [`Miss`] as for [`get`](Self::get); nothing is appended then.
    pub fn get_run(&mut self, block: u64, count: u64, out: &mut Vec<Pointer>) -> Result<(), Miss> {
        let (key, slot) = self.leaf(block);
        let in_leaf = (1u64 << self.width.fanout_shift()) - slot as u64;
        let count = count.min(in_leaf);
        let slots = slot..slot + usize::try_from(count).unwrap_or(0);
        let found = self.locate(key)?;
        self.lookups += 1;
        match found {
            Some(id) => {
                let width = self.width;
                let node = self.node_mut(id);
                node.referenced = true;
                out.extend(slots.map(|slot| node.get(width, slot)));
            }
            None => out.extend(slots.map(|_| Pointer::NULL)),
        }
        Ok(())
    }

    /// The cached node of `key`, or `None` when no such node exists.
    pub(super) fn locate(&self, key: Key) -> Result<Option<usize>, Miss> {
        if let Some(id) = self.find(key) {
            return Ok(Some(id));
        }
        // Climb to the deepest cached ancestor; what is missing first is its child on the way down.
        let mut child = key;
        loop {
            let Some((parent, slot)) = self.parent(child) else {
                // Not even the root is cached; or there is no such node, which the header of a record may yet name.
                return match self.root {
                    root if root.is_null() || child != self.root_key() => Ok(None),
                    root => Err(Miss { key: child, pointer: root }),
                };
            };
            if let Some(id) = self.find(parent) {
                let pointer = self.node(id).get(self.width, slot);
                return match pointer.is_null() {
                    true => Ok(None),
                    false => Err(Miss { key: child, pointer }),
                };
            }
            child = parent;
        }
    }

    /// Points `block` to `pointer` and returns the old pointer, telling `space` of both.
    ///
    /// # Errors
    /// [`Miss`] when a node on the way must be fetched first; nothing has changed then.
    pub fn set(
        &mut self,
        block: u64,
        pointer: Pointer,
        space: &mut dyn Space,
    ) -> Result<Pointer, Miss> {
        let (key, slot) = self.leaf(block);
        let id = match self.locate(key)? {
            Some(id) => id,
            None => self.grow(key),
        };
        Ok(self.put(id, slot, pointer, space))
    }

    /// Points `block` to `pointer` if it points to address `old` now; returns whether it did.
    ///
    /// # Errors
    /// [`Miss`] as for [`set`](Self::set).
    pub fn swap(
        &mut self,
        block: u64,
        old: u64,
        pointer: Pointer,
        space: &mut dyn Space,
    ) -> Result<bool, Miss> {
        let (key, slot) = self.leaf(block);
        let Some(id) = self.locate(key)? else { return Ok(false) };
        let moved = self.node(id).get(self.width, slot).addr != old;
        #[cfg(feature = "canary")]
        let moved = moved && !canary::is(Canary::RelocateBlindly);
        if moved {
            return Ok(false);
        }
        self.put(id, slot, pointer, space);
        Ok(true)
    }

    /// Changes one entry of a cached leaf.
    pub(super) fn put(
        &mut self,
        id: usize,
        slot: usize,
        pointer: Pointer,
        space: &mut dyn Space,
    ) -> Pointer {
        self.thaw(id, true);
        let width = self.width;
        let node = self.node_mut(id);
        node.referenced = true;
        let was_dirty = node.dirty;
        let old = node.replace(width, slot, pointer);
        if !was_dirty {
            self.mark_dirty(id);
        }
        if !old.is_null() {
            // What the checkpoint counts is not proved before all of the map was walked.
            self.mapped = self.mapped.saturating_sub(1);
        }
        if old.leads_somewhere() {
            space.died(old.addr);
        }
        if !pointer.is_null() {
            self.mapped += 1;
        }
        if pointer.leads_somewhere() {
            space.born(pointer.addr);
        }
        old
    }

    /// Makes the missing nodes from the root down to `key`. Only called when `locate` found that the node does not
    /// exist, so every ancestor that does is cached.
    fn grow(&mut self, key: Key) -> usize {
        let mut id = None;
        for level in (0..self.height).rev() {
            let shift = self.width.fanout_shift() * u32::from(level - key.level);
            let at = Key { level, index: key.index >> shift };
            id = Some(match self.find(at) {
                Some(id) => id,
                None => self.create(at),
            });
        }
        match id {
            Some(id) => id,
            None => unreachable!("a tree has at least one level"),
        }
    }

    /// Where the node `key` is on the media now: 0 when it does not exist or was never written.
    ///
    /// # Errors
    /// [`Miss`] when its parent must be fetched first.
    pub fn node_addr(&self, key: Key) -> Result<u64, Miss> {
        if key.level >= self.height {
            return Ok(0);
        }
        if let Some(id) = self.find(key) {
            return Ok(self.node(id).media);
        }
        match self.locate(key) {
            Ok(_) => Ok(0),
            Err(miss) if miss.key == key => Ok(miss.pointer.addr),
            Err(miss) => Err(miss),
        }
    }

    /// Appends the entries of the node `key` to `out` and returns where it is on the media (0: not written yet); `None`
    /// when there is no such node.
    ///
    /// # Errors
    /// [`Miss`] when a node on the way, or it itself, must be fetched first.
    pub(crate) fn entries(&self, key: Key, out: &mut Vec<Pointer>) -> Result<Option<u64>, Miss> {
        let Some(id) = self.locate(key)? else { return Ok(None) };
        let node = self.node(id);
        out.extend((0..self.width.fanout()).map(|slot| node.get(self.width, slot)));
        Ok(Some(node.media))
    }

    /// Makes the next checkpoint write the node `key` to a new place, if it exists.
    ///
    /// # Errors
    /// [`Miss`] when it must be fetched first.
    pub fn rewrite(&mut self, key: Key) -> Result<(), Miss> {
        if let Some(id) = self.locate(key)? {
            self.mark_dirty(id);
        }
        Ok(())
    }
}
