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

    /// Forgets what has been collected and could not be sent; returns how many blocks that were. They stay where they are.
    pub fn rescue_forget(&mut self) -> u64 {
        self.cleaner.payload = None;
        std::mem::take(&mut self.cleaner.entries).len() as u64
    }

    /// Has the next checkpoint write the node with this identity, which is at `addr`, to another place; false when there is
    /// no room in memory for it before that checkpoint.
    ///
    /// # Errors
    /// [`Miss`] when a node must be fetched first.
    pub fn rescue_node(&mut self, id: u64, addr: u64) -> Result<bool, Miss> {
        Ok(matches!(self.mark_node(id, addr)?, Moved::Yes))
    }
}
