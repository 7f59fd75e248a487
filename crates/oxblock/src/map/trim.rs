//! Giving up ranges, at the cost of the nodes that exist in them.

use super::cache::Map;
use super::node::Key;
use super::{Miss, Space};
use crate::format::pointer::Pointer;

impl Map {
    /// The first existing leaf whose blocks reach `from` or beyond, with the first block it covers.
    ///
    /// # Errors
    /// [`Miss`] when a node on the way must be fetched first; only inner nodes and the leaf itself are fetched, never
    /// what is beside them.
    fn next_leaf(&self, from: u64) -> Result<Option<(usize, u64)>, Miss> {
        let shift = self.width.fanout_shift();
        let mut at = from;
        'restart: while at < self.blocks {
            let Some(mut id) = self.locate(self.root_key())? else { return Ok(None) };
            for level in (1..self.height).rev() {
                // Look for the next child of this node, from the one that covers `at`.
                let node = self.node(id);
                let child_span = shift * u32::from(level);
                let first = at >> child_span;
                let wanted = usize::try_from(first & ((1 << shift) - 1)).unwrap_or(0);
                let found = (wanted..self.width.fanout())
                    .find(|slot| !node.get(self.width, *slot).is_null());
                let base = node.key.index << shift;
                let Some(slot) = found else {
                    // Nothing left below this node: go on behind it.
                    at = (node.key.index + 1).checked_shl(child_span + shift).unwrap_or(u64::MAX);
                    continue 'restart;
                };
                let key = Key { level: level - 1, index: base + slot as u64 };
                at = at.max(key.index << child_span);
                match self.locate(key)? {
                    Some(child) => id = child,
                    None => unreachable!("entry of {key:?} is not null"),
                }
            }
            // Behind the end of the volume there is nothing, whatever a node says.
            let start = self.node(id).key.index << shift;
            return Ok((start < self.blocks).then_some((id, start)));
        }
        Ok(None)
    }

    /// Gives up the blocks `from..end`; `from` is `end` then.
    ///
    /// # Errors
    /// [`Miss`], with `from` at the first block that is left. Call again after fetching what was missed.
    pub fn trim(&mut self, from: &mut u64, end: u64, space: &mut dyn Space) -> Result<(), Miss> {
        while *from < end {
            let Some((id, first)) = self.next_leaf(*from)? else {
                *from = end;
                break;
            };
            let span = 1u64 << self.width.fanout_shift();
            if first >= end {
                *from = end;
                break;
            }
            let slots = (*from).max(first) - first..(end - first).min(span);
            for slot in slots.clone() {
                let slot = usize::try_from(slot).unwrap_or(0);
                if !self.node(id).get(self.width, slot).is_null() {
                    self.put(id, slot, Pointer::NULL, space);
                }
            }
            *from = first + slots.end;
            self.remove_empty(id, space);
        }
        Ok(())
    }

    /// How far a trim from `from` may reach, `end` at most, so that it meets no more than `leaves` existing leaves.
    /// What is empty costs nothing.
    ///
    /// # Errors
    /// [`Miss`], with the progress kept in `at` and `leaves`.
    pub fn trim_reach(&self, at: &mut u64, end: u64, leaves: &mut usize) -> Result<u64, Miss> {
        let span = 1u64 << self.width.fanout_shift();
        while *at < end && *leaves > 0 {
            let Some((_, first)) = self.next_leaf(*at)? else { return Ok(end) };
            if first >= end {
                return Ok(end);
            }
            *at = (first + span).min(end);
            *leaves -= 1;
        }
        Ok(*at)
    }

    /// The next mapped block at `from` or beyond and its pointer.
    ///
    /// # Errors
    /// [`Miss`] when a node must be fetched first.
    pub fn next_mapped(&self, from: u64) -> Result<Option<(u64, Pointer)>, Miss> {
        let mut at = from;
        loop {
            let Some((id, first)) = self.next_leaf(at)? else { return Ok(None) };
            let node = self.node(id);
            let start = usize::try_from(at.max(first) - first).unwrap_or(0);
            // What the last leaf holds behind the end of the volume is nobody's.
            let end = usize::try_from(self.blocks - first).unwrap_or(usize::MAX);
            for slot in start..self.width.fanout().min(end) {
                let pointer = node.get(self.width, slot);
                if !pointer.is_null() {
                    return Ok(Some((first + slot as u64, pointer)));
                }
            }
            at = first + (1 << self.width.fanout_shift());
        }
    }
}
