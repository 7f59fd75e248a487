//! Which segments of the reserve list the next record may open, for recovery.
//!
//! Segments are opened from the front of the list on, each by the record at its block 0. As long as no write fails, that is
//! the order of the sequence too, and the next one is the first that is left. A record that went elsewhere opens a segment
//! behind others, which later records have opened before it, or which lost the record that opened them. So the next record
//! may open any that is not opened yet, up to [`REPLAY_WINDOW`] places behind the last one that is.

use hashbrown::HashMap;

use super::recovery::{Cursor, Windows};
use crate::error::{Error, ErrorKind};
use crate::format::layout::REPLAY_WINDOW;
use crate::lane::Lane;
use crate::log::segments::State;

/// The reserve list of the checkpoint, and what is known of the beginnings of its segments.
pub(super) struct Starts {
    listed: Vec<u32>,
    /// The number of the record there, if one of this epoch is.
    known: HashMap<u32, Option<u64>>,
}

impl Starts {
    /// A list of which nothing is known.
    pub fn new(reserve: impl Iterator<Item = u32>) -> Self {
        Self { listed: reserve.collect(), known: HashMap::new() }
    }

    /// Everything is read anew.
    pub fn forget(&mut self) {
        self.known.clear();
    }

    /// Where a segment is on the list.
    pub fn place(&self, segment: u32) -> usize {
        self.listed.iter().position(|listed| *listed == segment).unwrap_or(0)
    }

    /// Segments in front of the last one that was opened, opened or not.
    pub fn passed(&self, cursor: &Cursor) -> &[u32] {
        self.listed.get(..cursor.reach).unwrap_or(&[])
    }
}

impl Lane {
    /// Segments that begin with the record that follows `cursor`, as far as its header tells, the last on the list first;
    /// and why it cannot be told of the one that is next in turn.
    pub(super) fn opening(
        &mut self,
        cursor: &Cursor,
        starts: &mut Starts,
    ) -> (Vec<u32>, Option<Error>) {
        let mut opening = Vec::new();
        let unread = self.read_starts(cursor, starts, |segment, number| {
            if number == Some(cursor.sequence + 1) {
                opening.push(segment);
            }
        });
        opening.reverse();
        (opening, unread)
    }

    /// The segment that is next in turn, and those that a record after the missing one has opened.
    pub(super) fn opened_later(&mut self, cursor: &Cursor, starts: &mut Starts) -> Vec<u32> {
        let mut later: Vec<u32> = starts.listed.get(cursor.reach).copied().into_iter().collect();
        self.read_starts(cursor, starts, |segment, number| {
            if number > Some(cursor.sequence + 1) && !later.contains(&segment) {
                later.push(segment);
            }
        });
        later
    }

    /// Tells `each` of the segments that the next record may open, with the number of the record at their beginning. Those
    /// that cannot be read are passed over, since a bad place is why records go elsewhere; but of the one that is next in
    /// turn that is an error.
    fn read_starts(
        &mut self,
        cursor: &Cursor,
        starts: &mut Starts,
        mut each: impl FnMut(u32, Option<u64>),
    ) -> Option<Error> {
        let mut unread = None;
        let Starts { listed, known } = starts;
        let end = listed.len().min(cursor.reach + REPLAY_WINDOW);
        for (place, segment) in listed.iter().copied().enumerate().take(end) {
            let opened = self.segments.at(segment).state != State::Reserved;
            if opened || cursor.taken.contains(&segment) {
                continue;
            }
            if let Some(number) = known.get(&segment) {
                each(segment, *number);
                continue;
            }
            // One block, since most of them hold nothing.
            match self.header_at(segment, 0, &mut Windows::new(1, false)) {
                Ok(found) => {
                    let epoch = self.point.durable.epoch;
                    let ours = found
                        .filter(|(header, _)| header.epoch == epoch && header.segment == segment);
                    let number = ours.map(|(header, _)| header.sequence);
                    known.insert(segment, number);
                    each(segment, number);
                }
                Err(error) if place == cursor.reach && error.kind() == ErrorKind::Io => {
                    unread = Some(error);
                }
                Err(_) => {
                    known.insert(segment, None);
                }
            }
        }
        unread
    }
}
