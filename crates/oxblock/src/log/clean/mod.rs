//! Cleaning: moving what is live out of a segment so that it can be reused.
//!
//! The victim is the sealed segment with the least in it. Its records are walked front to back; a block is live where the
//! map still points to it. Live data blocks are copied into `relocate` records, which carry the old address and take
//! effect, live and at replay, only where the map still points there: a write that came meanwhile wins. Live nodes are
//! not copied: they are marked, and the next checkpoint writes them to a new place anyway.
//!
//! Cleaning keeps pace with writing. For every block written it owes as many moved blocks as the victim's fill says it
//! takes to win a block back, times a factor that grows as free space shrinks. There is an equilibrium, so throughput is
//! steady: writes wait only if the debt is not paid while space is at its minimum.

mod pace;
mod relocate;
mod rescue;
mod walk;
mod window;

use std::collections::VecDeque;

use crate::device::Buf;
use crate::format::record::{Entry, Header};
use crate::lane::Lane;
use crate::log::checkpoint::REFILL;
use crate::log::segments::State;
use walk::Walk;

/// Entries looked at in one step of the lane, so that requests are not held up.
const ENTRIES_PER_STEP: usize = 1024;

/// A record of the victim that is being looked through.
#[derive(Debug)]
struct Open {
    header: Header,
    entries: Vec<Entry>,
    next: usize,
}

/// The segment being cleaned.
#[derive(Debug)]
struct Victim {
    segment: u32,
    /// What was live in it when it was chosen, in blocks.
    live: u32,
    /// Next block to look at.
    at: u32,
    /// What has been read of it, from block `start` on.
    window: Option<Buf>,
    start: u32,
    reading: bool,
    /// Of the read under way, the blocks without which nothing goes on.
    needed: u32,
    /// It is the second one for the same blocks.
    again: bool,
    /// The window could not be read, and is zero.
    unreadable: bool,
    /// The most blocks of a read, where more are not needed. Less after one that failed: that may be for a part that
    /// nobody needs.
    most: u32,
    /// The data block that was read once more by itself.
    doubted: Option<u64>,
    /// The position is where a record ends, or the start: the next one is expected there.
    chained: bool,
    /// Number of the last record.
    sequence: u64,
    /// Blocks of the last record.
    usual: u32,
    open: Option<Open>,
}

/// The cleaner of a lane.
#[derive(Debug, Default)]
pub(crate) struct Cleaner {
    victim: Option<Victim>,
    /// Blocks to move before writes are even with cleaning again.
    owed: f64,
    /// Live blocks collected for the next record.
    entries: Vec<Entry>,
    payload: Option<Buf>,
    /// Segments walked through, with the last record that moved something out of them, and the checkpoint that was
    /// durable then. Like the victim they are pinned: until what was moved is applied, nothing else may come to be at
    /// the old addresses, or a relocation could pass its comparison for the wrong block.
    walked: VecDeque<(u32, u64, u64)>,
    /// The last record that moved something.
    moved: u64,
    /// What is collected cannot leave, because no segment is to be had.
    starved: bool,
    /// Memory of a victim's window that the window does not use now.
    rest: Option<Buf>,
}

impl Cleaner {
    /// The segment being cleaned, and the blocks that were live in it when it was chosen.
    pub fn victim(&self) -> Option<(u32, u32)> {
        self.victim.as_ref().map(|victim| (victim.segment, victim.live))
    }
}

impl Lane {
    /// True when segments that were walked through wait for a checkpoint to take the last nodes out of them, and nothing
    /// else can win space meanwhile.
    pub fn walked_waits(&self) -> bool {
        (self.cleaner.victim.is_none() || self.cleaner.starved) && !self.cleaner.walked.is_empty()
    }

    /// True when the cleaner cannot go on without a segment for what it moves.
    pub fn cleaner_starves(&self) -> bool {
        self.cleaner.starved
    }

    /// True when the cleaner has something to work on.
    pub fn cleaning(&self) -> bool {
        self.cleaner.victim.is_some() || !self.cleaner.walked.is_empty()
    }

    /// Cleans as much as is owed, or can be done now; true when anything was.
    pub fn advance_cleaner(&mut self) -> bool {
        let held = self.latched.is_some() || self.log.elsewhere.holds();
        if self.geometry.read_only || held || !self.begun() {
            return false;
        }
        if self.is_closing() && self.writes.open() == 0 {
            // Nobody waits for space any more. What is collected and not sent stays where it is.
            return false;
        }
        let mut any = self.settle_walked();
        let (low, high) = self.watermarks();
        let available = self.available();
        if self.cleaner.victim.is_none() {
            if available >= high {
                return any;
            }
            let chosen = self.choose_victim();
            if let Some(segment) = chosen {
                self.segments.pin(segment);
            }
            self.cleaner.victim = chosen.map(|segment| Victim {
                segment,
                live: self.segments.at(segment).live,
                at: 0,
                window: None,
                start: 0,
                reading: false,
                needed: 0,
                again: false,
                unreadable: false,
                most: u32::MAX,
                doubted: None,
                chained: true,
                sequence: 0,
                usual: u32::MAX,
                open: None,
            });
        }
        let Some(mut victim) = self.cleaner.victim.take() else { return any };
        let mut budget = ENTRIES_PER_STEP;
        while (self.cleaner.owed > 0.0 || available <= low) && budget > 0 {
            match self.walk(&mut victim, &mut budget) {
                Walk::On => any = true,
                Walk::Wait => break,
                // What is left over leaves in a record of its own, and the segment's account is closed.
                Walk::End if self.cleaner.entries.is_empty() => {
                    let point = self.point.durable.generation;
                    self.cleaner.walked.push_back((victim.segment, self.cleaner.moved, point));
                    return true;
                }
                Walk::End if self.send_moved() => any = true,
                Walk::End => break,
            }
        }
        self.cleaner.victim = Some(victim);
        any
    }

    /// The sealed segment with the least in it, if emptying it wins anything.
    fn choose_victim(&self) -> Option<u32> {
        let limit = self.segments.blocks() / 16 * 15;
        self.segments
            .iter()
            .filter(|(id, segment)| {
                segment.state == State::Sealed
                    && !segment.damaged
                    && segment.sealed <= self.log.retired
                    && segment.live + segment.table <= limit
                    && !self.cleaner.walked.iter().any(|(walked, ..)| walked == id)
            })
            .min_by_key(|(_, segment)| segment.live + segment.table)
            .map(|(id, _)| id)
    }

    /// Judges walked segments once all that was moved out of them is applied: what still lives there then is nodes that
    /// the next checkpoint moves, or blocks that cannot be moved. True when one was judged.
    fn settle_walked(&mut self) -> bool {
        let waiting = self.cleaner.walked.len();
        for _ in 0..waiting {
            let Some((segment, moved, point)) = self.cleaner.walked.pop_front() else { break };
            let state = self.segments.at(segment);
            let empty = !state.holds_any();
            // A checkpoint that froze before the walk was over may not have moved the nodes: the second has.
            let late = self.point.durable.generation >= point + 2;
            if self.log.retired < moved || !(empty || late) {
                self.cleaner.walked.push_back((segment, moved, point));
                continue;
            }
            self.segments.unpin(segment);
            if empty {
                self.counters.cleaned_segments += 1;
            } else {
                self.give_up(segment);
            }
        }
        self.cleaner.walked.len() < waiting
    }
}
