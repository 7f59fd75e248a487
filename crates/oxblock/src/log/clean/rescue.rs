//! Moving single blocks and nodes for a repair, by the same records as cleaning.

use crate::format::pointer::Pointer;
use crate::lane::Lane;
use crate::map::Miss;

use super::relocate::Moved;

impl Lane {
    /// Collects a verified block to be moved; false when there is no room for it now: what is under way, and a checkpoint,
    /// must come first.
    pub fn rescue_block(&mut self, block: u64, from: Pointer, data: &[u8]) -> bool {
        self.collect(block, from, data)
    }

    /// Sends what has been collected; true when nothing is left.
    pub fn rescue_rest(&mut self) -> bool {
        while self.send_moved() {}
        self.cleaner.entries.is_empty()
    }

    /// Has the next checkpoint write the node with this identity to another place; false when it is not at `addr`, or when
    /// there is no room for it before that checkpoint.
    ///
    /// # Errors
    /// [`Miss`] when a node must be fetched first.
    pub fn rescue_node(&mut self, id: u64, addr: u64) -> Result<bool, Miss> {
        Ok(matches!(self.mark_node(id, addr)?, Moved::Yes))
    }
}
