//! Block pointers, and the identities that checksums are seeded with.
//!
//! A pointer holds the physical address of a block and the checksum of what is there. Addresses count blocks in the
//! lane's log space: `segment * segment_blocks + block within the segment`. Address 0 is always a record header, which
//! nothing points to, so an all-zero pointer is the null pointer.

use super::layout::{
    ADDRESS_LIMIT, BLOCK_SIZE, LOST_ADDRESS, NARROW_POINTER_SIZE, WIDE_POINTER_SIZE,
};

/// Where a block is and what it must hash to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pointer {
    /// Physical block address in the lane's log space; 0 for the null pointer.
    pub addr: u64,
    /// Checksum of the block, seeded with the volume and the block's [`identity`].
    pub csum: u128,
}

impl Pointer {
    /// Points nowhere: the block was never written, or was trimmed.
    pub const NULL: Self = Self { addr: 0, csum: 0 };

    /// The block had content, or may have had, and nobody knows where it is: reads of it fail until it is written or given
    /// up. Only in leaves of the map, and only with the feature that says so.
    pub const LOST: Self = Self { addr: LOST_ADDRESS, csum: 0 };

    /// True for the null pointer.
    pub fn is_null(&self) -> bool {
        self.addr == 0
    }

    /// True for the pointer of a lost block.
    pub fn is_lost(&self) -> bool {
        *self == Self::LOST
    }

    /// True when there is a block that it points to.
    pub fn leads_somewhere(&self) -> bool {
        !self.is_null() && !self.is_lost()
    }
}

/// What a checksummed block is, so that a block in the wrong place never verifies. The two top bits name the domain.
pub mod identity {
    const RECORD: u64 = 1 << 62;
    const NODE: u64 = 2 << 62;
    const LEVEL_SHIFT: u32 = 56;
    const TREE_BIT: u64 = 1 << 61;

    /// A data block of the volume.
    pub fn data(block: u64) -> u64 {
        block
    }

    /// A record header at a physical address.
    pub fn record(addr: u64) -> u64 {
        RECORD | addr
    }

    /// A tree node: `table` tells the segment table from the map; level 0 are the leaves.
    pub fn node(table: bool, level: u8, index: u64) -> u64 {
        NODE | if table { TREE_BIT } else { 0 } | u64::from(level) << LEVEL_SHIFT | index
    }

    /// Takes a node identity apart: `(table, level, index)`; `None` when it is not one.
    pub fn parse_node(id: u64) -> Option<(bool, u8, u64)> {
        let level = u8::try_from(id >> LEVEL_SHIFT & 0x1f).ok()?;
        (id >> 62 == 2).then_some((id & TREE_BIT != 0, level, id & ((1 << LEVEL_SHIFT) - 1)))
    }
}

/// How pointers are laid out in a node: narrow with checksums of up to 64 bits, wide with 128.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PointerWidth {
    /// 16 bytes: address, checksum.
    Narrow,
    /// 32 bytes: address, zero, checksum.
    Wide,
}

impl PointerWidth {
    /// The width for a checksum that is kept in `bytes` bytes.
    pub fn for_csum(bytes: usize) -> Self {
        if bytes <= 8 { Self::Narrow } else { Self::Wide }
    }

    /// Bytes of a pointer.
    pub fn size(self) -> usize {
        match self {
            Self::Narrow => NARROW_POINTER_SIZE,
            Self::Wide => WIDE_POINTER_SIZE,
        }
    }

    /// log2 of the pointers in one 4 KiB node.
    pub fn fanout_shift(self) -> u32 {
        (BLOCK_SIZE / self.size()).trailing_zeros()
    }

    /// Pointers in one 4 KiB node.
    pub fn fanout(self) -> usize {
        BLOCK_SIZE / self.size()
    }

    /// Reads the pointer at `slot` of a node or of any array of pointers; null beyond the end. Flag bits are part of the
    /// address here, and fail its range check but for [`Pointer::LOST`].
    pub fn get(self, node: &[u8], slot: usize) -> Pointer {
        let at = slot * self.size();
        let word = |from: usize| {
            let bytes =
                node.get(at + from..at + from + 8).and_then(|b| <[u8; 8]>::try_from(b).ok());
            u64::from_le_bytes(bytes.unwrap_or_default())
        };
        match self {
            Self::Narrow => Pointer { addr: word(0), csum: u128::from(word(8)) },
            Self::Wide => {
                Pointer { addr: word(0), csum: u128::from(word(16)) | u128::from(word(24)) << 64 }
            }
        }
    }

    /// Writes the pointer at `slot`.
    ///
    /// # Panics
    /// When `slot` is beyond the node or the address is out of range: both are faults of the caller that would damage
    /// the media.
    pub fn set(self, node: &mut [u8], slot: usize, pointer: Pointer) {
        let fits = pointer.addr < ADDRESS_LIMIT || pointer.is_lost();
        assert!(fits, "address {} out of range", pointer.addr);
        let at = slot * self.size();
        let Some(bytes) = node.get_mut(at..at + self.size()) else {
            unreachable!("pointer slot {slot} beyond its node")
        };
        let (addr, rest) = bytes.split_at_mut(8);
        addr.copy_from_slice(&pointer.addr.to_le_bytes());
        let csum = pointer.csum.to_le_bytes();
        let (low, high) = csum.split_at(8);
        match self {
            Self::Narrow => {
                assert!(high.iter().all(|byte| *byte == 0), "checksum too wide for its pointer");
                rest.copy_from_slice(low);
            }
            Self::Wide => {
                let (zero, value) = rest.split_at_mut(8);
                zero.fill(0);
                value.copy_from_slice(&csum);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_survive_both_layouts() {
        for (width, csum) in [(PointerWidth::Narrow, 7 << 60), (PointerWidth::Wide, u128::MAX - 5)]
        {
            let mut node = [0u8; BLOCK_SIZE];
            let pointer = Pointer { addr: ADDRESS_LIMIT - 1, csum };
            let last = width.fanout() - 1;
            width.set(&mut node, last, pointer);
            assert_eq!(width.get(&node, last), pointer);
            assert!(width.get(&node, last - 1).is_null());
            width.set(&mut node, 3, Pointer::LOST);
            assert!(width.get(&node, 3).is_lost() && !width.get(&node, 3).leads_somewhere());
            assert_eq!(1 << width.fanout_shift(), width.fanout());
        }
    }

    #[test]
    fn identities_of_different_domains_never_meet() {
        let all = [
            identity::data(5),
            identity::record(5),
            identity::node(false, 0, 5),
            identity::node(false, 1, 5),
            identity::node(true, 0, 5),
        ];
        for (i, a) in all.iter().enumerate() {
            for b in &all[i + 1..] {
                assert_ne!(a, b);
            }
        }
        assert_eq!(identity::parse_node(identity::node(true, 3, 99)), Some((true, 3, 99)));
        assert_eq!(identity::parse_node(identity::record(3)), None);
    }
}
