//! The map: a radix tree from logical block to block pointer, paged, with a hard limit on memory.
//!
//! Level 0 are the leaves, whose pointers are data blocks; every node is itself reached by a block pointer, up to the
//! root in the superblock. Nodes are read on demand. Invariants:
//!
//! - The parent of a cached node is cached, and so is the parent of a node that is being fetched.
//! - A node whose content differs from the media, or that has such a descendant, is *dirty* and is never evicted.
//! - A node without entries does not exist: it is removed from its parent at once.
//! - While a checkpoint runs, the tree as it was at [`Map::freeze`] stays available node by node: a frozen node that is
//!   about to change is copied first.
//!
//! Nothing here does I/O. A call that needs a node that is not cached returns [`Miss`], and the caller fetches it,
//! verifies it, hands it in with [`Map::insert`] and calls again.

mod cache;
mod checkpoint;
mod node;
mod rebuild;
mod tree;
mod trim;

pub use cache::{MIN_NODES, Map, Stats, height};
pub use node::Key;

use crate::format::pointer::Pointer;

/// A node that must be fetched before the call can go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Miss {
    /// Which node.
    pub key: Key,
    /// Where it is on the media and what it must hash to.
    pub pointer: Pointer,
}

/// Told of every block that the map starts or stops pointing to, data and nodes alike.
pub trait Space {
    /// A block became live.
    fn born(&mut self, addr: u64);
    /// A block is no longer pointed to by the live tree.
    fn died(&mut self, addr: u64);
}

#[cfg(test)]
mod tests;
