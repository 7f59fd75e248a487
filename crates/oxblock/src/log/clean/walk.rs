//! The walk through the victim, from record to record.

use super::{Open, Victim};
use crate::format::layout::BLOCK_SIZE;
use crate::format::record::{Entry, Header, claimed_blocks, decode};
use crate::lane::Lane;

/// Blocks of a record up to which its neighbours are read with it, and how many blocks at once.
const TINY_RECORD: u32 = 5;
const TINY_WINDOW: u32 = 64;

/// What a step through the victim came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Walk {
    /// Something was done.
    On,
    /// Something must come first: a window, a node, space, a checkpoint.
    Wait,
    /// The victim is walked through.
    End,
}

/// What is at the victim's position.
enum Next {
    /// So many blocks must be read to tell.
    Read(u32),
    Record(Header, Vec<Entry>),
    Nothing,
}

impl Lane {
    /// One step through the victim.
    pub(super) fn walk(&mut self, victim: &mut Victim, budget: &mut usize) -> Walk {
        if victim.reading {
            return Walk::Wait;
        }
        if let Some(mut open) = victim.open.take() {
            let outcome = self.move_live(victim, &mut open, budget);
            victim.open = match outcome {
                Walk::On if open.next >= open.entries.len() => {
                    victim.at += open.header.blocks();
                    None
                }
                _ => Some(open),
            };
            return outcome;
        }
        let live = self.segments.at(victim.segment);
        let empty = !live.holds_any();
        if victim.at >= self.segments.blocks() || empty {
            return Walk::End;
        }
        match self.next_record(victim) {
            Next::Read(blocks) => {
                // Where records are tiny, one read for many of them.
                let wide = if victim.usual <= TINY_RECORD { TINY_WINDOW } else { blocks };
                self.read_window(victim, victim.at, wide, blocks);
                Walk::On
            }
            Next::Record(header, entries) => {
                victim.sequence = header.sequence;
                victim.usual = header.blocks();
                victim.chained = true;
                victim.open = Some(Open { header, entries, next: 0 });
                Walk::On
            }
            Next::Nothing if std::mem::take(&mut victim.chained) && !victim.unreadable => {
                // Mostly the end of what was written. But a bit may have flipped on the way, and a whole record hangs on it.
                self.read_once_more(victim, victim.at);
                Walk::On
            }
            Next::Nothing => {
                // Past the end of what was written, or damage: look for the next header from the next block on.
                *budget -= 1;
                victim.at += 1;
                Walk::On
            }
        }
    }

    /// The record at the victim's position, as far as the window shows it.
    fn next_record(&self, victim: &Victim) -> Next {
        let Some(window) = &victim.window else { return Next::Read(1) };
        let end = victim.start + u32::try_from(window.len() / BLOCK_SIZE).unwrap_or(0);
        let limit = self.segments.blocks();
        if victim.at < victim.start || victim.at >= end {
            return Next::Read(1);
        }
        let bytes = window.get((victim.at - victim.start) as usize * BLOCK_SIZE..).unwrap_or(&[]);
        let Some(claimed) = claimed_blocks(bytes) else { return Next::Nothing };
        if bytes.len() < claimed as usize * BLOCK_SIZE {
            let fits = victim.at.saturating_add(claimed) <= limit;
            return if fits { Next::Read(claimed) } else { Next::Nothing };
        }
        let addr = self.segments.addr(victim.segment, victim.at);
        let Ok((header, entries)) = decode(bytes, addr, self.geometry.width, &self.geometry.csum)
        else {
            return Next::Nothing;
        };
        let follows = self.geometry.owns(&header, victim.at)
            // Others are left from earlier lives of the segment.
            && header.generation == self.segments.at(victim.segment).generation
            && header.sequence > victim.sequence;
        if follows { Next::Record(header, entries) } else { Next::Nothing }
    }
}
