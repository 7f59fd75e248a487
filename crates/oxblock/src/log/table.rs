//! The segment table on the media: blocks of entries under a radix tree of pointers, written like the map.
//!
//! The tree is small (a pointer for every 128 segments), so its pointers stay in memory. Where its own blocks are is not
//! part of what it stores: a segment's live blocks of the table follow from these pointers, so writing the table never
//! changes the table.

use crate::format::layout::{BLOCK_SIZE, SEGMENTS_PER_BLOCK};
use crate::format::pointer::{Pointer, PointerWidth};

/// Pointers of the table tree: level 0 points to blocks of entries, the last level has one pointer, the root.
#[derive(Debug)]
pub struct Table {
    width: PointerWidth,
    levels: Vec<Vec<Pointer>>,
}

impl Table {
    /// The tree for `segments` segments, all pointers null.
    pub fn new(width: PointerWidth, segments: u32) -> Self {
        let mut levels = Vec::new();
        let mut nodes = (segments as usize).div_ceil(SEGMENTS_PER_BLOCK).max(1);
        loop {
            levels.push(vec![Pointer::NULL; nodes]);
            if nodes == 1 {
                break;
            }
            nodes = nodes.div_ceil(width.fanout());
        }
        Self { width, levels }
    }

    /// Levels, the blocks of entries being level 0.
    pub fn height(&self) -> u8 {
        u8::try_from(self.levels.len()).unwrap_or(u8::MAX)
    }

    /// Pointers of one level.
    pub fn level(&self, level: u8) -> &[Pointer] {
        self.levels.get(usize::from(level)).map_or(&[], Vec::as_slice)
    }

    /// The root.
    pub fn root(&self) -> Pointer {
        self.levels.last().and_then(|level| level.first()).copied().unwrap_or_default()
    }

    /// Replaces a pointer and returns the old one.
    pub fn set(&mut self, level: u8, index: usize, pointer: Pointer) -> Pointer {
        match self.levels.get_mut(usize::from(level)).and_then(|level| level.get_mut(index)) {
            Some(slot) => std::mem::replace(slot, pointer),
            None => unreachable!("table node {level}/{index} out of range"),
        }
    }

    /// The nodes above the given ones of `level`.
    pub fn parents(&self, nodes: &[u32]) -> Vec<u32> {
        let fanout = u32::try_from(self.width.fanout()).unwrap_or(1);
        let mut parents: Vec<u32> = nodes.iter().map(|index| index / fanout).collect();
        parents.dedup();
        parents
    }

    /// The bytes of pointer node `index` of `level` (above 0).
    pub fn encode(&self, level: u8, index: u32, out: &mut [u8]) {
        out.fill(0);
        let children = self.level(level - 1);
        let fanout = self.width.fanout();
        let first = index as usize * fanout;
        for (slot, pointer) in children.iter().skip(first).take(fanout).enumerate() {
            self.width.set(out, slot, *pointer);
        }
    }

    /// Takes in the bytes of pointer node `index` of `level` (above 0).
    pub fn decode(&mut self, level: u8, index: u32, bytes: &[u8]) {
        debug_assert_eq!(bytes.len(), BLOCK_SIZE);
        let fanout = self.width.fanout();
        let first = index as usize * fanout;
        let width = self.width;
        if let Some(children) = self.levels.get_mut(usize::from(level - 1)) {
            for (slot, pointer) in children.iter_mut().skip(first).take(fanout).enumerate() {
                *pointer = width.get(bytes, slot);
            }
        }
    }

    /// Every block that the table occupies.
    pub fn addresses(&self) -> impl Iterator<Item = u64> {
        self.levels.iter().flatten().map(|pointer| pointer.addr).filter(|addr| *addr != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_is_as_high_as_its_segments_need() {
        let height = |width, segments| Table::new(width, segments).height();
        let narrow = [1, 128, 129, 128 * 256, 128 * 256 + 1];
        assert_eq!(narrow.map(|segments| height(PointerWidth::Narrow, segments)), [1, 1, 2, 2, 3]);
        let wide = [128, 129, 128 * 128, 128 * 128 + 1];
        assert_eq!(wide.map(|segments| height(PointerWidth::Wide, segments)), [1, 2, 2, 3]);
    }

    #[test]
    fn what_is_encoded_is_decoded_and_the_root_is_the_last_level() {
        for width in [PointerWidth::Narrow, PointerWidth::Wide] {
            let mut table = Table::new(width, 128 * 300);
            for index in (0..300).step_by(7) {
                let pointer = Pointer { addr: 1000 + index as u64, csum: 5 };
                assert!(table.set(0, index, pointer).is_null());
            }
            let mut copy = Table::new(width, 128 * 300);
            for node in 0..u32::try_from(table.level(1).len()).unwrap() {
                let mut bytes = vec![0xaa; BLOCK_SIZE];
                table.encode(1, node, &mut bytes);
                copy.decode(1, node, &bytes);
            }
            assert_eq!(copy.level(0), table.level(0));
            assert_eq!(table.addresses().count(), 43);
            let top = table.height() - 1;
            let root = Pointer { addr: 9, csum: 8 };
            table.set(top, 0, root);
            assert_eq!(table.root(), root);
            assert_eq!(table.set(top, 0, Pointer::NULL), root);
        }
    }

    #[test]
    fn every_node_above_is_named_once() {
        let table = Table::new(PointerWidth::Narrow, 128 * 600);
        assert_eq!(table.parents(&[0, 3, 255, 256, 599]), [0, 1, 2]);
    }
}
