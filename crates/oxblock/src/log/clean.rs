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

use std::collections::VecDeque;

use smallvec::smallvec;

use crate::device::{Action, Buf, Done, Op};
use crate::format::layout::{BLOCK_SIZE, MAX_RECORD_PAYLOAD};
use crate::format::pointer::identity;
use crate::format::record::{Entry, Header, Kind, claimed_blocks, decode};
use crate::lane::{Class, Lane, Waiter, tag};
use crate::log::append::{Draft, STREAM_DATA, STREAM_RELOCATE};
use crate::log::checkpoint::REFILL;
use crate::log::segments::State;
use crate::map::{Key, Miss};
use crate::profile;

/// Entries looked at in one step of the lane, so that requests are not held up.
const ENTRIES_PER_STEP: usize = 1024;

/// Blocks of a record up to which its neighbours are read with it, and how many blocks at once.
const TINY_RECORD: u32 = 5;
const TINY_WINDOW: u32 = 64;

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
    /// What the first record says; others in the segment are left from earlier lives.
    generation: Option<u64>,
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
    /// Segments that can be written sooner or later without cleaning, in blocks.
    fn available(&self) -> u64 {
        let segments = self.segments.reserved() + self.segments.free() + self.segments.pending();
        segments as u64 * u64::from(self.segments.blocks()) + u64::from(self.room(STREAM_DATA))
    }

    /// Available blocks below which writes wait for cleaning, and those from which it has nothing to do.
    fn watermarks(&self) -> (u64, u64) {
        let low = (self.reserve_kept() + REFILL) as u64;
        let span = u64::from(self.segments.count() / 16).max(REFILL as u64 + 2);
        let blocks = u64::from(self.segments.blocks());
        (low * blocks, (low + span) * blocks)
    }

    /// Blocks went to the log that cleaning did not put there: it owes its share.
    pub fn pace_spend(&mut self, blocks: u64) {
        let (low, high) = self.watermarks();
        let available = self.available();
        if available >= high {
            self.cleaner.owed = 0.0;
            return;
        }
        #[expect(clippy::cast_precision_loss, reason = "a ratio, far from the limits of f64")]
        let (pressure, blocks, segment) = (
            (high - available.max(low)) as f64 / (high - low) as f64,
            blocks as f64,
            f64::from(self.segments.blocks()),
        );
        let live =
            self.cleaner.victim.as_ref().map_or(0.5, |victim| f64::from(victim.live) / segment);
        let cost = live / (1.0 - live).max(0.05);
        let owed = self.cleaner.owed + blocks * cost.max(0.1) * 2.0 * pressure;
        self.cleaner.owed = owed.min(2.0 * segment);
    }

    /// Whether a write may go on, or waits for cleaning.
    pub fn pace_allows(&self) -> bool {
        let (low, _) = self.watermarks();
        // Without a victim nothing pays the debt: what was walked through waits for a checkpoint, not the other way round.
        self.available() > low || self.cleaner.owed < 1024.0 || self.cleaner.victim.is_none()
    }

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
        if self.geometry.read_only || self.latched.is_some() || !self.begun() {
            return false;
        }
        if self.is_closing() {
            // What is collected and not sent stays where it is.
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
                generation: None,
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

    /// One step through the victim.
    fn walk(&mut self, victim: &mut Victim, budget: &mut usize) -> Walk {
        if victim.reading {
            return Walk::Wait;
        }
        if let Some(mut open) = victim.open.take() {
            let outcome = self.move_live(victim, &mut open, budget);
            victim.open = match outcome {
                Walk::On if open.next >= open.entries.len() => {
                    let header = u32::from(open.header.header_blocks);
                    victim.at += header + open.header.payload_blocks;
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
                victim.generation = Some(header.generation);
                victim.sequence = header.sequence;
                victim.usual = u32::from(header.header_blocks) + header.payload_blocks;
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
        if bytes.len() < claimed * BLOCK_SIZE {
            let claimed = u32::try_from(claimed).unwrap_or(u32::MAX);
            let fits = victim.at.saturating_add(claimed) <= limit;
            return if fits { Next::Read(claimed) } else { Next::Nothing };
        }
        let addr = self.segments.addr(victim.segment, victim.at);
        let Ok((header, entries)) = decode(bytes, addr, self.geometry.width, &self.geometry.csum)
        else {
            return Next::Nothing;
        };
        let ours = header.volume == self.geometry.superblock.volume
            && header.lane == self.geometry.superblock.lane
            && victim.generation.is_none_or(|generation| generation == header.generation)
            && header.sequence > victim.sequence;
        let blocks = usize::from(header.header_blocks) + header.payload_blocks as usize;
        if !ours || victim.at as usize + blocks > limit as usize {
            return Next::Nothing;
        }
        Next::Record(header, entries)
    }

    /// Reads `blocks` blocks of the victim from block `start` on, of which `needed` are really needed; more where small
    /// reads do not pay, and no more than those after a read that failed.
    fn read_window(&mut self, victim: &mut Victim, start: u32, blocks: u32, needed: u32) {
        let wide = self.tuning.window_blocks.max(blocks).min(victim.most).max(needed);
        (victim.needed, victim.again) = (needed, false);
        self.send_window(victim, start, wide.min(self.segments.blocks() - start));
    }

    /// Reads one block of the victim again, before anything is decided on what the first read gave.
    fn read_once_more(&mut self, victim: &mut Victim, start: u32) {
        (victim.needed, victim.again) = (1, true);
        self.send_window(victim, start, 1);
    }

    fn send_window(&mut self, victim: &mut Victim, start: u32, count: u32) {
        let buf = self.window_buf(victim, count as usize * BLOCK_SIZE);
        victim.start = start;
        victim.reading = true;
        self.segments.pin(victim.segment);
        let addr = self.segments.addr(victim.segment, start);
        let (device, offset) = profile::locate(&self.geometry.superblock, addr);
        self.queue.push(Op {
            tag: tag(Class::Clean, 0),
            device,
            offset,
            action: Action::Read(smallvec![buf]),
        });
    }

    /// A buffer for a window, cut from memory that windows use again and again.
    fn window_buf(&mut self, victim: &mut Victim, len: usize) -> Buf {
        let (window, rest) = (victim.window.take(), self.cleaner.rest.take());
        let mut whole = match (window, rest) {
            (Some(mut window), Some(rest)) => match window.join(rest) {
                Ok(()) => window,
                Err(_) => unreachable!("window and rest are one buffer"),
            },
            (window, rest) => window.or(rest).unwrap_or_else(|| Buf::new(0)),
        };
        if whole.len() < len {
            whole = Buf::new(len.max(MAX_RECORD_PAYLOAD * BLOCK_SIZE));
        }
        self.cleaner.rest = Some(whole.split_off(len));
        whole
    }

    /// The window has come. One that failed is read again, smaller, and what is really needed twice. If that fails too it
    /// looks like nothing: what is live there stays, and the segment is left alone.
    pub fn window_read(&mut self, mut done: Done) {
        let Some(mut victim) = self.cleaner.victim.take() else {
            unreachable!("a window without a victim")
        };
        self.segments.unpin(victim.segment);
        victim.reading = false;
        victim.unreadable = done.result.is_err();
        let mut window = done.bufs.pop().unwrap_or_else(|| Buf::new(0));
        let (start, blocks) =
            (victim.start, u32::try_from(window.len() / BLOCK_SIZE).unwrap_or(u32::MAX));
        let wide = blocks > victim.needed;
        if victim.unreadable && !wide && victim.again {
            window.fill(0);
        }
        victim.window = Some(window);
        if victim.unreadable && (wide || !victim.again) {
            self.counters.second_reads += 1;
            (victim.most, victim.again) = ((blocks / 2).max(1), !wide);
            let blocks = victim.most.max(victim.needed);
            self.send_window(&mut victim, start, blocks);
        }
        self.cleaner.victim = Some(victim);
    }

    /// Moves what is live of the open record.
    fn move_live(&mut self, victim: &mut Victim, open: &mut Open, budget: &mut usize) -> Walk {
        let first =
            self.segments.addr(victim.segment, victim.at) + u64::from(open.header.header_blocks);
        while let Some(entry) = open.entries.get(open.next) {
            if *budget == 0 {
                return Walk::Wait;
            }
            let addr = first + open.next as u64;
            let moved = match open.header.kind {
                Kind::Data | Kind::Relocate => self.move_block(victim, entry.id, addr),
                Kind::Map => self.mark_node(entry.id, addr),
                Kind::Trim | Kind::Zero | Kind::Pad => Ok(Moved::Yes),
            };
            match moved {
                Ok(Moved::Yes) => {}
                Ok(Moved::Later) => return Walk::Wait,
                Ok(Moved::Unread) => {
                    let run = self.live_run(&open.entries, open.next, addr);
                    self.read_window(victim, self.segments.offset(addr), run, 1);
                    return Walk::Wait;
                }
                Ok(Moved::Doubtful) => {
                    victim.doubted = Some(addr);
                    self.counters.second_reads += 1;
                    self.read_once_more(victim, self.segments.offset(addr));
                    return Walk::Wait;
                }
                Err(miss) if self.fetches.is_lost(miss.key) => {}
                Err(miss) => {
                    self.fetch(miss, Waiter::Loop);
                    return Walk::Wait;
                }
            }
            *budget -= 1;
            open.next += 1;
        }
        Walk::On
    }

    /// Blocks from `addr` on, those of `entries` from `from` on, that are live and can be read together.
    fn live_run(&mut self, entries: &[Entry], from: usize, addr: u64) -> u32 {
        let live = |(place, entry): &(u64, &Entry)| {
            self.map.get(entry.id).is_ok_and(|pointer| pointer.addr == *place)
        };
        let run = (addr..).zip(entries.iter().skip(from)).take_while(live).count();
        u32::try_from(run).unwrap_or(1).max(1)
    }

    /// Collects one data block if it is live.
    fn move_block(&mut self, victim: &Victim, block: u64, addr: u64) -> Result<Moved, Miss> {
        let pointer = self.map.get(block)?;
        if pointer.addr != addr {
            return Ok(Moved::Yes);
        }
        let window = victim.window.as_ref().map_or(&[][..], |window| &**window);
        let data = self
            .segments
            .offset(addr)
            .checked_sub(victim.start)
            .map(|block| block as usize * BLOCK_SIZE)
            .and_then(|at| window.get(at..at + BLOCK_SIZE));
        let Some(data) = data else { return Ok(Moved::Unread) };
        if self.geometry.csum.of(identity::data(block), data) != pointer.csum {
            if !victim.unreadable && victim.doubted != Some(addr) {
                return Ok(Moved::Doubtful);
            }
            // Stays where it is: reads of it fail with its address, and nothing else is lost.
            self.counters.checksum_errors += u64::from(!victim.unreadable);
            self.give_up(victim.segment);
            return Ok(Moved::Yes);
        }
        let full = self.cleaner.entries.len() >= MAX_RECORD_PAYLOAD.min(self.move_leaves());
        if full && !self.send_moved() {
            return Ok(Moved::Later);
        }
        let cleaner = &mut self.cleaner;
        let payload = cleaner.payload.get_or_insert_with(|| self.log.payload_buf());
        let at = cleaner.entries.len() * BLOCK_SIZE;
        if let Some(target) = payload.get_mut(at..at + BLOCK_SIZE) {
            target.copy_from_slice(data);
        }
        cleaner.entries.push(Entry { id: block, csum: pointer.csum, aux: addr });
        cleaner.owed -= 1.0;
        Ok(Moved::Yes)
    }

    /// Blocks of a relocation when each is in a leaf of its own.
    fn move_leaves(&self) -> usize {
        self.map.record_leaves().max(1)
    }

    /// Has the next checkpoint move a node if it is live.
    fn mark_node(&mut self, id: u64, addr: u64) -> Result<Moved, Miss> {
        let Some((table, level, index)) = identity::parse_node(id) else { return Ok(Moved::Yes) };
        if table {
            let index = usize::try_from(index).unwrap_or(usize::MAX);
            let place = self.table.level(level).get(index).map(|pointer| pointer.addr);
            if place == Some(addr) {
                // Writing any block of entries rewrites the pointers above it.
                let shift = self.geometry.width.fanout_shift() * u32::from(level);
                self.segments.rewrite_table(index << shift);
            }
            return Ok(Moved::Yes);
        }
        let key = Key { level, index };
        if self.map.node_addr(key)? != addr {
            return Ok(Moved::Yes);
        }
        if self.map.stats().dirty >= self.map.dirty_limit() {
            return Ok(Moved::Later);
        }
        self.map.rewrite(key)?;
        Ok(Moved::Yes)
    }

    /// Sends what has been collected; true when something was sent.
    fn send_moved(&mut self) -> bool {
        let count = self.cleaner.entries.len();
        if count == 0 {
            return false;
        }
        let prepared = self.prepare(STREAM_RELOCATE, Kind::Relocate, count);
        self.cleaner.starved = prepared.is_none() && !self.may_open(STREAM_RELOCATE);
        let Some(fit) = prepared else { return false };
        let mut entries = std::mem::take(&mut self.cleaner.entries);
        let Some(mut payload) = self.cleaner.payload.take() else {
            unreachable!("moved blocks without a payload")
        };
        let sent = fit.min(count);
        let tail = payload.split_off(sent * BLOCK_SIZE);
        if sent < count {
            let mut next = self.log.payload_buf();
            let len = (count - sent) * BLOCK_SIZE;
            if let (Some(to), Some(from)) = (next.get_mut(..len), tail.get(..len)) {
                to.copy_from_slice(from);
            }
            self.cleaner.payload = Some(next);
            self.cleaner.entries = entries.split_off(sent);
        }
        self.counters.relocated_blocks += entries.len() as u64;
        let parts = self.log.parts();
        self.cleaner.moved = self.append(Draft {
            kind: Kind::Relocate,
            stream: STREAM_RELOCATE,
            continues: false,
            durable: false,
            entries,
            parts,
            payload: smallvec![payload],
            rest: Some(tail),
            summing: None,
        });
        true
    }

    /// Marks a segment in which something lives that cannot be moved; it counts once.
    fn give_up(&mut self, segment: u32) {
        self.counters.damaged_segments += u64::from(!self.segments.at(segment).damaged);
        self.segments.set_damaged(segment);
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

/// What a step through the victim came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Walk {
    /// Something was done.
    On,
    /// Something must come first: a window, a node, space, a checkpoint.
    Wait,
    /// The victim is walked through.
    End,
}

/// What came of one entry of the victim.
enum Moved {
    /// It is dealt with.
    Yes,
    /// Something else must come first.
    Later,
    /// It is live, and its content is not in the window.
    Unread,
    /// It is live, and what is in the window does not verify: that may have happened on the way.
    Doubtful,
}

/// What is at the victim's position.
enum Next {
    /// So many blocks must be read to tell.
    Read(u32),
    Record(Header, Vec<Entry>),
    Nothing,
}
