//! What blocks are written with, and what the volume may hold.

use std::collections::BTreeMap;

use oxblock::format::layout::BLOCK_SIZE;

/// The bytes of version `version` of a block. Version 0 are zeroes.
pub fn fill(block: u64, version: u64, out: &mut [u8]) {
    if version == 0 {
        out.fill(0);
        return;
    }
    for pair in out.chunks_mut(16) {
        let (low, high) = pair.split_at_mut(8.min(pair.len()));
        low.copy_from_slice(&block.to_le_bytes());
        high.copy_from_slice(&version.to_le_bytes());
    }
}

/// Which version of which block these bytes are; `None` when they are nothing that was ever written.
pub fn version(block: u64, data: &[u8]) -> Option<u64> {
    let version = data.get(8..16)?;
    let version = u64::from_le_bytes(version.try_into().ok()?);
    let mut wanted = [0; BLOCK_SIZE];
    fill(block, version, &mut wanted);
    (wanted == data).then_some(version)
}

/// Every version that each block ever had, the last one last. A block that is not here was never written.
#[derive(Debug, Clone, Default)]
pub struct Model {
    versions: BTreeMap<u64, Vec<u64>>,
    next: u64,
}

impl Model {
    /// A new version for a block; its number.
    pub fn write(&mut self, block: u64) -> u64 {
        self.next += 1;
        self.versions.entry(block).or_insert_with(|| vec![0]).push(self.next);
        self.next
    }

    /// The block became zeroes.
    pub fn clear(&mut self, block: u64) {
        if let Some(versions) = self.versions.get_mut(&block) {
            versions.push(0);
        }
    }

    /// Blocks that were ever written.
    pub fn blocks(&self) -> impl Iterator<Item = u64> {
        self.versions.keys().copied()
    }

    /// Whether a block may be read as `data`: as its last version if `exact`, else as any that it had.
    pub fn allows(&self, block: u64, data: &[u8], exact: bool) -> bool {
        let Some(found) = version(block, data) else { return false };
        match self.versions.get(&block) {
            None => found == 0,
            Some(versions) if exact => versions.last() == Some(&found),
            Some(versions) => versions.contains(&found),
        }
    }
}
