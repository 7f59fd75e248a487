//! Recovery: every valid record after the checkpoint, in order, up to the first gap.
//!
//! The next record is either where one of the streams goes on, or at the start of a segment of the reserve list that is not
//! far behind the last one that was opened (`starts.rs`); nowhere else. So recovery reads the tail and little but the tail.
//! It applies records with the same code as retirement. An atomic group is applied as a whole or not at all. What follows
//! the gap is dead: the epoch that begins now makes sure that it never comes back.
//!
//! A gap is where power was lost. But if a later record says that the missing one was durable when it was written, then
//! it is not missing because of a power cut: it has been damaged, and going on without it would silently lose what was
//! promised. Such a volume does not open unless the caller accepts to go back to the state before the damage.

use hashbrown::HashMap;

#[cfg(feature = "canary")]
use crate::canary::{self, Canary};
use crate::complete::apply::{Progress, apply};
use crate::device::Buf;
use crate::error::{Error, ErrorKind, Result};
use crate::format::layout::BLOCK_SIZE;
use crate::format::record::{
    Entry, FLAG_CONTINUES, Header, Kind, claimed_blocks, decode, payload_identity,
};
use crate::lane::{Lane, TRIES};
use crate::log::append::{Opened, STREAMS};
use crate::log::load::Blocking;
use crate::log::starts::Starts;
use crate::map::Miss;
use crate::profile;

/// Blocks of one read of the tail, at the most.
const WINDOW: u32 = 512;
/// Blocks of the first read of a segment. Those that follow it double: most tails end soon after they begin, and what is
/// behind the end is read for nothing.
const FIRST_WINDOW: u32 = 32;
/// Blocks behind a gap in which later records are looked for.
const SEARCH: u32 = 4096;
/// Places that cannot be read after which such a search ends: it is for proof, and each takes a device its time.
const PATIENCE: u32 = 8;

/// What recovery did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Replayed {
    /// Records applied.
    pub records: u64,
    /// Of these, records that changed logical blocks.
    pub changes: u64,
    /// Bytes of log that they take.
    pub bytes: u64,
}

/// A record that was found where it must be.
struct Found {
    header: Header,
    entries: Vec<Entry>,
    segment: u32,
    /// It opens the next segment of the reserve list.
    opens: bool,
}

/// Where the streams stand while an atomic group is collected.
#[derive(Clone)]
pub(super) struct Cursor {
    heads: [Option<(u32, u32)>; STREAMS as usize],
    /// Segments of the reserve list that the group has opened, which are not opened yet.
    pub(super) taken: Vec<u32>,
    /// Places of the reserve list up to the last one that was opened.
    pub(super) reach: usize,
    pub(super) sequence: u64,
}

/// Windows on the segments of the tail.
pub(super) struct Windows {
    open: HashMap<u32, (u32, Buf)>,
    /// Blocks of one read, where fewer would do. Less after a read that failed: what fails may be in a part that nobody needs.
    usual: u32,
    /// What cannot be read counts as the end of the log.
    forgiving: bool,
}

impl Windows {
    pub(super) fn new(usual: u32, forgiving: bool) -> Self {
        Self { open: HashMap::new(), usual, forgiving }
    }

    /// Blocks for the next read of a segment.
    fn next(&self, segment: u32) -> u32 {
        let before = self.open.get(&segment).map(|(_, buf)| buf.len() / BLOCK_SIZE);
        let before = before.and_then(|blocks| u32::try_from(blocks).ok());
        before.map_or(FIRST_WINDOW, |blocks| blocks.saturating_mul(2)).min(self.usual)
    }
}

impl Lane {
    /// Replays the tail. `rollback` accepts damage in it.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] for damage to what was durable; [`ErrorKind::Io`] when the tail cannot be read, since what
    /// is there cannot be known then.
    pub fn replay(&mut self, rollback: bool) -> Result<Replayed> {
        let mut replayed = Replayed::default();
        if !rollback {
            self.look_for_later_life()?;
        }
        let mut cursor = self.cursor();
        // Closed: whoever writes after it says so first, in a superblock of a new epoch.
        if !self.point.durable.clean {
            self.replay_tail(rollback, &mut cursor, &mut replayed)?;
        }
        // The checkpoint itself says what was durable when it was written, its own records first of all. So nothing that
        // it points to lies in a segment which is still to be opened.
        let short = self.log.retired < self.point.durable.durable;
        if short || self.segments.reserve().any(|id| self.segments.at(id).holds_any()) {
            if !rollback {
                return Err(self.damaged_tail(cursor.sequence + 1, &cursor));
            }
            self.leave_heads();
        }
        Ok(replayed)
    }

    fn replay_tail(
        &mut self,
        rollback: bool,
        cursor: &mut Cursor,
        replayed: &mut Replayed,
    ) -> Result<()> {
        let mut windows = Windows::new(WINDOW, rollback);
        let mut starts = Starts::new(self.segments.reserve());
        let mut group: Vec<Found> = Vec::new();
        let mut ahead = cursor.clone();
        while let Some(found) = self.find_next_twice(&ahead, &mut windows, &mut starts)? {
            ahead.advance(&found, &starts);
            let complete = found.header.flags & FLAG_CONTINUES == 0;
            group.push(found);
            if complete {
                for found in group.drain(..) {
                    self.replay_one(found, replayed)?;
                }
                // What the group took from the reserve list is opened now.
                ahead.taken.clear();
                *cursor = ahead.clone();
            }
        }
        if !rollback {
            // What is there of an atomic group that is cut short is not missing.
            self.look_for_damage(&ahead, &mut windows, &mut starts)?;
        }
        self.segments.put_off(starts.passed(cursor));
        Ok(())
    }

    /// Recovery stopped before it came to all records of the checkpoint. Their nodes are live and lie where the streams
    /// would go on, or in segments of the reserve list: nothing more may be written there.
    fn leave_heads(&mut self) {
        for stream in 0..STREAMS {
            if let Some(head) = self.log.head(stream) {
                self.segments.seal(head);
                self.log.set_head(stream, None);
            }
        }
        self.segments.withdraw_used();
    }

    fn cursor(&self) -> Cursor {
        let mut heads = [None; STREAMS as usize];
        for (head, segment) in heads.iter_mut().zip(self.log.heads) {
            *head = segment.map(|id| (id, self.segments.at(id).written));
        }
        Cursor { heads, taken: Vec::new(), reach: 0, sequence: self.log.retired }
    }

    /// As [`find_next`](Self::find_next), but before it says that there is none, it reads again: what begins now in the
    /// place of the end of the log can never be taken back, so a bit that flipped on the way must not decide that.
    fn find_next_twice(
        &mut self,
        cursor: &Cursor,
        windows: &mut Windows,
        starts: &mut Starts,
    ) -> Result<Option<Found>> {
        let torn = self.counters.torn_records;
        if let Some(found) = self.find_next(cursor, windows, starts)? {
            return Ok(Some(found));
        }
        windows.open.clear();
        starts.forget();
        // A record that is there in part is met again.
        self.counters.torn_records = torn;
        self.find_next(cursor, windows, starts)
    }

    /// The record that follows `cursor`, if it is there and whole.
    ///
    /// A record that was written again elsewhere opens a segment there. Its old place may hold all of it too, but not those
    /// behind it: so what opens a segment comes first, and of these the last one on the list.
    fn find_next(
        &mut self,
        cursor: &Cursor,
        windows: &mut Windows,
        starts: &mut Starts,
    ) -> Result<Option<Found>> {
        let (opening, mut unread) = self.opening(cursor, starts);
        let opening = opening.into_iter().map(|segment| (segment, 0, true));
        let heads =
            cursor.heads.iter().flatten().map(|(segment, offset)| (*segment, *offset, false));
        let places: Vec<_> = opening.chain(heads).collect();
        #[cfg(feature = "canary")]
        let places: Vec<_> = match canary::is(Canary::OldPlaceFirst) {
            true => places.into_iter().rev().collect(),
            false => places,
        };
        for (segment, offset, opens) in places {
            match self.record_at(cursor, segment, offset, opens, windows) {
                Ok(Some(found)) => return Ok(Some(found)),
                Ok(None) => {}
                Err(error) if error.kind() == ErrorKind::Io => unread = unread.or(Some(error)),
                Err(error) => return Err(error),
            }
        }
        // What is there where it should be cannot be known.
        unread.filter(|_| !windows.forgiving).map_or(Ok(None), Err)
    }

    fn record_at(
        &mut self,
        cursor: &Cursor,
        segment: u32,
        offset: u32,
        opens: bool,
        windows: &mut Windows,
    ) -> Result<Option<Found>> {
        let Some((header, entries)) = self.header_at(segment, offset, windows)? else {
            return Ok(None);
        };
        let stream = cursor.heads.get(usize::from(header.stream)).copied();
        let here = match stream {
            None => false,
            Some(head) => opens || head == Some((segment, offset)),
        };
        if header.sequence != cursor.sequence + 1
            || header.epoch != self.point.durable.epoch
            || header.segment != segment
            || !here
        {
            return Ok(None);
        }
        let bytes = self.bytes_at(segment, offset, header.blocks(), windows)?;
        let payload = bytes.get(usize::from(header.header_blocks) * BLOCK_SIZE..).unwrap_or(&[]);
        // A node of the checkpoint itself was durable, and a repair makes it anew: its record changes nothing.
        let own = header.kind == Kind::Map && header.sequence <= self.point.durable.durable;
        let whole = !header.kind.has_payload()
            || (own && self.makes_nodes_anew)
            || payload.chunks_exact(BLOCK_SIZE).zip(&entries).all(|(data, entry)| {
                self.geometry.csum.of(payload_identity(header.kind, entry), data) == entry.csum
            });
        #[cfg(feature = "canary")]
        let whole = whole || canary::is(Canary::ReplayUnverified);
        self.counters.torn_records += u64::from(!whole);
        Ok(whole.then_some(Found { header, entries, segment, opens }))
    }

    /// A whole header of this volume at a place.
    pub(super) fn header_at(
        &mut self,
        segment: u32,
        offset: u32,
        windows: &mut Windows,
    ) -> Result<Option<(Header, Vec<Entry>)>> {
        let limit = self.segments.blocks();
        if offset >= limit {
            return Ok(None);
        }
        let addr = self.segments.addr(segment, offset);
        let width = self.geometry.width;
        let csum = self.geometry.csum;
        let Some(claimed) = claimed_blocks(self.bytes_at(segment, offset, 1, windows)?) else {
            return Ok(None);
        };
        if offset.saturating_add(claimed) > limit {
            return Ok(None);
        }
        let bytes = self.bytes_at(segment, offset, claimed, windows)?;
        let Ok((header, entries)) = decode(bytes, addr, width, &csum) else { return Ok(None) };
        let ours = self.geometry.owns(&header, offset) && self.entries_in_range(&header, &entries);
        Ok(ours.then_some((header, entries)))
    }

    fn entries_in_range(&self, header: &Header, entries: &[Entry]) -> bool {
        let blocks = self.geometry.blocks;
        entries.iter().all(|entry| match header.kind {
            Kind::Data | Kind::Relocate => entry.id < blocks,
            Kind::Trim | Kind::Zero => entry.id + entry.aux <= blocks,
            Kind::Map | Kind::Pad => true,
        })
    }

    fn bytes_at<'a>(
        &mut self,
        segment: u32,
        offset: u32,
        blocks: u32,
        windows: &'a mut Windows,
    ) -> Result<&'a [u8]> {
        let held = windows.open.get(&segment).is_some_and(|(start, buf)| {
            let end = start + u32::try_from(buf.len() / BLOCK_SIZE).unwrap_or(0);
            *start <= offset && offset + blocks <= end
        });
        if !held {
            let wanted = windows.next(segment);
            let buf = self.read_log(segment, offset, blocks, wanted, &mut windows.usual)?;
            if windows.open.len() > 16 {
                windows.open.clear();
            }
            windows.open.insert(segment, (offset, buf));
        }
        let Some((start, buf)) = windows.open.get(&segment) else {
            unreachable!("the window was just read")
        };
        let from = (offset - start) as usize * BLOCK_SIZE;
        Ok(buf.get(from..from + blocks as usize * BLOCK_SIZE).unwrap_or(&[]))
    }

    /// Reads `wanted` blocks where the device lets it, at the least the `blocks` that are needed. What the device fails to
    /// read lowers what is `usual`.
    fn read_log(
        &mut self,
        segment: u32,
        offset: u32,
        blocks: u32,
        mut wanted: u32,
        usual: &mut u32,
    ) -> Result<Buf> {
        let (_, at) =
            profile::locate(&self.geometry.superblock, self.segments.addr(segment, offset));
        let mut again = true;
        loop {
            let count = wanted.max(blocks).min(self.segments.blocks() - offset);
            let mut device = Blocking { queue: self.queue.as_mut() };
            match device.read(at, count as usize * BLOCK_SIZE) {
                Ok(buf) => return Ok(buf),
                Err(_) if count > blocks => {
                    wanted = count / 2;
                    *usual = wanted;
                }
                // Nothing is decided by one failure.
                Err(_) if std::mem::take(&mut again) => {}
                Err(error) => {
                    return Err(Error::io(format!("reading the log at offset {at}"), error));
                }
            }
        }
    }

    /// Takes one record into the log's state and applies it.
    fn replay_one(&mut self, found: Found, replayed: &mut Replayed) -> Result<()> {
        let Found { header, entries, segment, opens } = found;
        if opens {
            if let Some(old) = self.log.head(header.stream) {
                self.segments.seal(old);
            }
            self.segments.replay_open(segment);
            self.log.set_head(header.stream, Some(segment));
            let sequence = header.sequence;
            self.log.opened.push_back(Opened { sequence, segment, left: false });
        }
        self.segments.adopt_generation(segment, header.generation);
        let blocks = header.blocks();
        self.segments.append(segment, blocks, header.sequence);
        self.log.appended += u64::from(blocks);
        self.log.retired = header.sequence;
        self.log.next = header.sequence + 1;
        replayed.records += 1;
        replayed.changes += u64::from(!matches!(header.kind, Kind::Map | Kind::Pad));
        replayed.bytes += u64::from(blocks) * BLOCK_SIZE as u64;
        let payload = header.payload_addr();
        let mut progress = Progress::default();
        loop {
            let (map, segments) = (&mut self.map, &mut self.segments);
            let result = apply(header.kind, &entries, payload, &mut progress, map, segments);
            match result {
                Ok(()) => return Ok(()),
                Err(miss) if self.fetches.is_lost(miss.key) => {
                    self.geometry.superblock.features.set_passed_over();
                    progress.skip(header.kind, miss, &self.map);
                }
                Err(miss) => self.try_fetch(miss)?,
            }
        }
    }

    /// Fetches a node and waits for it, or marks it lost.
    pub fn fetch_now(&mut self, miss: Miss) {
        if self.try_fetch(miss).is_err() {
            self.lose(miss.key, true);
        }
    }

    /// Fetches a node and waits for it; one that is damaged for sure is marked lost.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] when it cannot be read. Replay must not go on without it then: what it skips would be gone for
    /// good when the device reads again.
    fn try_fetch(&mut self, miss: Miss) -> Result<()> {
        let (_, offset) = profile::locate(&self.geometry.superblock, miss.pointer.addr);
        let mut failed = None;
        for attempt in 0..TRIES {
            self.counters.second_reads += u64::from(attempt > 0);
            match (Blocking { queue: self.queue.as_mut() }).read(offset, BLOCK_SIZE) {
                Ok(page) if self.node_is_good(miss, &page) => {
                    self.map.begin_fetch(miss);
                    self.map.insert(miss, &page);
                    return Ok(());
                }
                Ok(_) => {}
                Err(error) => failed = Some(error),
            }
        }
        if let Some(error) = failed {
            return Err(Error::io(format!("reading a map node at offset {offset}"), error));
        }
        self.lose(miss.key, false);
        Ok(())
    }

    /// Looks where the next records would be for one of a later epoch. Before the first such record its epoch was made
    /// durable, in a superblock of which no copy is left then: this one is out of date, and what was written since is not
    /// reachable from it. (Nodes do not count: a recovery that was cut short leaves them.)
    fn look_for_later_life(&mut self) -> Result<()> {
        let mut windows = Windows::new(1, false);
        let heads = self.cursor().heads;
        let reserve = self.segments.reserve().take(usize::from(STREAMS));
        let places: Vec<(u32, u32)> =
            heads.into_iter().flatten().chain(reserve.map(|segment| (segment, 0))).collect();
        for (segment, offset) in places {
            // What cannot be read proves nothing.
            let Ok(Some((header, ..))) = self.header_at(segment, offset, &mut windows) else {
                continue;
            };
            if header.epoch > self.point.durable.epoch && header.kind != Kind::Map {
                return Err(Error::new(
                    ErrorKind::Corrupt,
                    format!(
                        "both copies of the newest superblock are damaged: there are records of epoch {}, \
                         and the superblock that is left is of epoch {}. Open it with --rollback to accept the older state",
                        header.epoch, self.point.durable.epoch
                    ),
                ));
            }
        }
        Ok(())
    }

    /// Looks behind the gap for a record that proves the missing one was durable.
    fn look_for_damage(
        &mut self,
        cursor: &Cursor,
        windows: &mut Windows,
        starts: &mut Starts,
    ) -> Result<()> {
        let limit = self.segments.blocks();
        let heads =
            cursor.heads.iter().flatten().map(|(segment, offset)| {
                (*segment, *offset, offset.saturating_add(SEARCH).min(limit))
            });
        // Where the next segment would be opened, and where one was, by a later record.
        let next = self.opened_later(cursor, starts).into_iter();
        let next = next.map(|segment| (segment, 1, SEARCH.min(limit)));
        let wide: Vec<(u32, u32, u32)> = heads.chain(next).collect();
        // Of the reserve list there is one block to see in each segment, not a window.
        let firsts: Vec<(u32, u32, u32)> =
            self.segments.reserve().map(|segment| (segment, 0, 1)).collect();
        self.search(cursor, firsts, &mut Windows::new(1, false))?;
        self.search(cursor, wide, windows)
    }

    /// Looks for such a record at the blocks from the second number up to the third, of the segments that are the first.
    fn search(
        &mut self,
        cursor: &Cursor,
        places: Vec<(u32, u32, u32)>,
        windows: &mut Windows,
    ) -> Result<()> {
        let missing = cursor.sequence + 1;
        for (segment, from, end) in places {
            let mut unreadable = 0;
            for offset in from..end {
                // What cannot be read proves nothing.
                let Ok(found) = self.header_at(segment, offset, windows) else {
                    unreadable += 1;
                    if unreadable == PATIENCE {
                        break;
                    }
                    continue;
                };
                let Some((header, ..)) = found else { continue };
                if header.epoch == self.point.durable.epoch
                    && header.sequence > missing
                    && header.durable >= missing
                {
                    return Err(self.damaged_tail(missing, cursor));
                }
            }
        }
        Ok(())
    }

    fn damaged_tail(&self, missing: u64, cursor: &Cursor) -> Error {
        // Where it was looked for: a head that is full has no room for it.
        let heads = cursor.heads.iter().flatten().copied();
        let heads = heads.filter(|(_, offset)| *offset < self.segments.blocks());
        let mut next = self.segments.reserve().filter(|segment| !cursor.taken.contains(segment));
        let next = next.next().map(|segment| (segment, 0));
        let places: Vec<String> = heads
            .chain(next)
            .map(|(segment, offset)| {
                let addr = self.segments.addr(segment, offset);
                profile::locate(&self.geometry.superblock, addr).1.to_string()
            })
            .collect();
        Error::new(
            ErrorKind::Corrupt,
            format!(
                "log record {missing} was durable and no longer verifies (expected at device offset {}); \
                 what it and later records wrote is lost. Open it with --rollback to accept the state before it",
                places.join(" or ")
            ),
        )
    }
}

impl Cursor {
    fn advance(&mut self, found: &Found, starts: &Starts) {
        let start = match found.opens {
            true => {
                self.taken.push(found.segment);
                self.reach = self.reach.max(starts.place(found.segment) + 1);
                0
            }
            false => self
                .heads
                .get(usize::from(found.header.stream))
                .copied()
                .flatten()
                .map_or(0, |(_, offset)| offset),
        };
        if let Some(head) = self.heads.get_mut(usize::from(found.header.stream)) {
            *head = Some((found.segment, start + found.header.blocks()));
        }
        self.sequence = found.header.sequence;
    }
}
