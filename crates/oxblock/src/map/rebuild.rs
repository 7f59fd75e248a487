//! Making nodes anew that were lost, for repair.

use super::Miss;
use super::cache::Map;
use super::node::Key;
use crate::format::pointer::Pointer;

impl Map {
    /// Makes the node `key` of `pointers`, whatever its parent points to now, and the missing nodes above it. What was
    /// there is not given up: whoever repairs counts all blocks anew when it is done.
    ///
    /// # Errors
    /// [`Miss`] when a node above must be fetched first; nothing has changed below it then.
    pub fn rebuild(&mut self, key: Key, pointers: &[Pointer]) -> Result<(), Miss> {
        let shift = self.width.fanout_shift();
        for level in (key.level..self.height).rev() {
            let at = Key { level, index: key.index >> (shift * u32::from(level - key.level)) };
            if self.find(at).is_some() {
                continue;
            }
            match self.locate(at) {
                Err(miss) if at != key => return Err(miss),
                _ => self.create(at),
            };
        }
        let Some(id) = self.find(key) else { unreachable!("{key:?} was just made") };
        let width = self.width;
        for (slot, pointer) in pointers.iter().enumerate().take(width.fanout()) {
            self.node_mut(id).replace(width, slot, *pointer);
        }
        Ok(())
    }

    /// Takes the node `key`, which was lost and holds nothing, out of the tree, and those above it that are empty then.
    ///
    /// # Errors
    /// [`Miss`] when its parent must be fetched first.
    pub fn remove_lost(&mut self, key: Key) -> Result<(), Miss> {
        self.rebuild(key, &[])?;
        if let Some(id) = self.find(key) {
            self.remove_empty(id, &mut Nowhere);
        }
        Ok(())
    }

    /// Takes over how many blocks have content, as somebody has counted them.
    pub fn set_mapped(&mut self, mapped: u64) {
        self.mapped = mapped;
    }
}

/// Told of what nobody needs to know.
struct Nowhere;

impl super::Space for Nowhere {
    fn born(&mut self, _: u64) {}
    fn died(&mut self, _: u64) {}
}
