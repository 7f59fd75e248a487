//! One simulated device: what each operation does to it, faults included.

use std::io;

use rustix::io::Errno;

use super::cache::{Durability, Media};
use super::config::SimConfig;
use super::fault::{ENOSPC, Fault, OpKind};
use super::hits::Hits;
use super::rng::Rng;
use super::store::{PAGE_BYTES, SECTOR, small};
use crate::device::{Action, Bufs, Op};

/// What a device did so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Reads done, well or not.
    pub reads: u64,
    /// Writes done, well or not.
    pub writes: u64,
    /// Of these, the durable ones.
    pub durable_writes: u64,
    /// Flushes done, well or not.
    pub flushes: u64,
    /// Discards done, well or not.
    pub discards: u64,
    /// Bytes that reads asked for.
    pub read_bytes: u64,
    /// Bytes that writes carried.
    pub written_bytes: u64,
    /// Operations that ended in an error.
    pub errors: u64,
    /// Operations that a [`Fault`] hit, silent ones included.
    pub faults: u64,
    /// Of what kind these were.
    pub hits: Hits,
}

impl Stats {
    /// All operations done.
    pub fn operations(&self) -> u64 {
        self.reads + self.changes()
    }

    /// Operations done that can change what is on the media: all but reads.
    pub fn changes(&self) -> u64 {
        self.writes + self.flushes + self.discards
    }

    /// Sums over devices.
    #[must_use]
    pub(super) fn plus(self, other: &Self) -> Self {
        Self {
            reads: self.reads + other.reads,
            writes: self.writes + other.writes,
            durable_writes: self.durable_writes + other.durable_writes,
            flushes: self.flushes + other.flushes,
            discards: self.discards + other.discards,
            read_bytes: self.read_bytes + other.read_bytes,
            written_bytes: self.written_bytes + other.written_bytes,
            errors: self.errors + other.errors,
            faults: self.faults + other.faults,
            hits: self.hits.plus(&other.hits),
        }
    }
}

/// A device.
pub(super) struct Device {
    pub(super) config: SimConfig,
    pub(super) size: u64,
    pub(super) media: Media,
    pub(super) stats: Stats,
    /// Every operation fails with `ENODEV`.
    pub(super) gone: bool,
    /// How many pages may hold content before writes to fresh ones fail with `ENOSPC`.
    pub(super) limit_pages: Option<u64>,
    /// Writes pushed and not done, so that reads need not look for overlaps in vain.
    pub(super) writes_in_flight: u64,
    /// When the last operation ends, for devices that do not reorder.
    pub(super) last_due: u64,
}

/// The sector at `offset` within buffers whose first byte is at `base`.
pub(super) fn sector_of(bufs: &Bufs, base: u64, offset: u64) -> Option<&[u8]> {
    let mut at = small(offset.checked_sub(base)?);
    for buf in bufs {
        if at < buf.len() {
            return buf.get(at..at + SECTOR);
        }
        at -= buf.len();
    }
    None
}

impl Device {
    pub(super) fn new(config: SimConfig) -> Self {
        Self {
            size: config.limits().size,
            config,
            media: Media::default(),
            stats: Stats::default(),
            gone: false,
            limit_pages: None,
            writes_in_flight: 0,
            last_due: 0,
        }
    }

    /// Refuses what a real device refuses: misaligned operations, and anything beyond the end.
    pub(super) fn validate(&self, op: &Op) -> io::Result<()> {
        let len = op.action.bytes();
        let block = u64::from(self.config.block_size).max(SECTOR as u64);
        let aligned = |n: u64| n.is_multiple_of(block);
        let sound = match &op.action {
            Action::Flush => return Ok(()),
            Action::Discard { .. } => true,
            Action::Read(bufs) | Action::Write { bufs, .. } => bufs
                .iter()
                .all(|buf| aligned(buf.len() as u64) && aligned(buf.as_ptr().addr() as u64)),
        };
        if !sound || !aligned(op.offset) || !aligned(len) {
            return Err(Errno::INVAL.into());
        }
        if op.offset.checked_add(len).is_none_or(|end| end > self.size) {
            return Err(match op.action {
                Action::Read(_) => io::ErrorKind::UnexpectedEof.into(),
                _ => Errno::NOSPC.into(),
            });
        }
        Ok(())
    }

    /// Does what `op` does when it ends. Reads see finished writes only; the machine adds those in
    /// flight. `upto` is the last write that a flush covers.
    pub(super) fn apply(
        &mut self,
        op: &mut Op,
        fault: Option<&Fault>,
        upto: u64,
        rng: &mut Rng,
    ) -> io::Result<()> {
        if self.gone {
            return Err(Errno::NODEV.into());
        }
        match &mut op.action {
            Action::Read(_) => match fault {
                Some(Fault::Fail(errno)) => Err(io::Error::from_raw_os_error(*errno)),
                _ => Ok(()),
            },
            Action::Write { bufs, durable } => {
                let durability = match *durable || !self.config.is_volatile() {
                    true => Durability::Durable,
                    false => Durability::Volatile,
                };
                self.write(op.offset, bufs, durability, fault, rng)
            }
            Action::Flush => match fault {
                Some(Fault::Fail(errno)) => {
                    self.media.abandon(upto);
                    Err(io::Error::from_raw_os_error(*errno))
                }
                Some(Fault::Lost) => Ok(()),
                _ => {
                    self.media.flush(upto);
                    Ok(())
                }
            },
            Action::Discard { len } => {
                let durability = match self.config.is_volatile() {
                    true => Durability::Volatile,
                    false => Durability::Durable,
                };
                let range = op.offset..op.offset + *len;
                match fault {
                    Some(Fault::Fail(errno)) => Err(io::Error::from_raw_os_error(*errno)),
                    Some(Fault::Lost) => Ok(()),
                    other => {
                        self.media.discard(range, self.config.discard, durability, rng);
                        match other {
                            Some(Fault::Torn(errno)) => Err(io::Error::from_raw_os_error(*errno)),
                            _ => Ok(()),
                        }
                    }
                }
            }
        }
    }

    /// Counts what went wrong with an operation that is done.
    pub(super) fn count(&mut self, kind: OpKind, fault: Option<&Fault>, result: &io::Result<()>) {
        self.stats.faults += u64::from(fault.is_some());
        self.stats.errors += u64::from(result.is_err());
        let hits = &mut self.stats.hits;
        let errno = result.as_ref().err().and_then(io::Error::raw_os_error);
        match fault {
            _ if self.gone => hits.gone += 1,
            Some(fault) => hits.count(kind, fault),
            None => hits.full += u64::from(kind == OpKind::Write && errno == Some(ENOSPC)),
        }
    }

    /// Stores a write as its fault says.
    pub(super) fn write(
        &mut self,
        offset: u64,
        bufs: &Bufs,
        durability: Durability,
        fault: Option<&Fault>,
        rng: &mut Rng,
    ) -> io::Result<()> {
        let len: u64 = bufs.iter().map(|buf| buf.len() as u64).sum();
        match fault {
            Some(Fault::Fail(errno)) => return Err(io::Error::from_raw_os_error(*errno)),
            Some(Fault::Lost) => return Ok(()),
            _ if !self.has_room(offset, len) => {
                return Err(io::Error::from_raw_os_error(ENOSPC));
            }
            _ => self.media.begin_write(),
        }
        match fault {
            Some(Fault::Torn(errno)) => {
                self.store_sectors(offset, bufs, durability, rng);
                return Err(io::Error::from_raw_os_error(*errno));
            }
            Some(Fault::Misdirected(to)) => {
                let to = to.unwrap_or_else(|| self.elsewhere(offset, len, rng));
                self.store(to.min(self.size.saturating_sub(len)), bufs, durability);
            }
            Some(Fault::BitFlip) => {
                self.store(offset, bufs, durability);
                let sector = offset + rng.below(len / SECTOR as u64) * SECTOR as u64;
                if let Some(bytes) = sector_of(bufs, offset, sector) {
                    let mut bytes = bytes.to_vec();
                    flip_one(&mut bytes, rng);
                    self.media.store_part(sector, &bytes, durability);
                }
            }
            Some(Fault::Stored(errno)) => {
                self.store(offset, bufs, durability);
                return Err(io::Error::from_raw_os_error(*errno));
            }
            _ => self.store(offset, bufs, durability),
        }
        Ok(())
    }

    fn store(&mut self, mut offset: u64, bufs: &Bufs, durability: Durability) {
        for buf in bufs {
            self.media.store_part(offset, buf, durability);
            offset += buf.len() as u64;
        }
    }

    /// Stores an arbitrary part of the sectors.
    fn store_sectors(&mut self, offset: u64, bufs: &Bufs, how: Durability, rng: &mut Rng) {
        let sectors = bufs.iter().flat_map(|buf| buf.chunks(SECTOR));
        for (at, sector) in (offset..).step_by(SECTOR).zip(sectors) {
            if rng.below(2) == 0 {
                self.media.store_part(at, sector, how);
            }
        }
    }

    /// Where a misdirected write lands: on a page that holds something if the seed finds one that
    /// is not its own, else at the address with one bit wrong.
    fn elsewhere(&self, offset: u64, len: u64, rng: &mut Rng) -> u64 {
        let own = offset..offset.saturating_add(len.max(1));
        for _ in 0..4 {
            let page = self.media.store().some_page(rng.next_u64()).map(|page| page * PAGE_BYTES);
            if let Some(found) = page.filter(|page| !own.contains(page)) {
                return found;
            }
        }
        let bits = u64::from(self.size.max(PAGE_BYTES).ilog2().saturating_sub(12)) + 1;
        offset ^ (PAGE_BYTES << rng.below(bits))
    }

    fn has_room(&self, offset: u64, len: u64) -> bool {
        let Some(limit) = self.limit_pages else { return true };
        let touched = offset / PAGE_BYTES..offset.saturating_add(len).div_ceil(PAGE_BYTES);
        let store = self.media.store();
        let fresh = touched.filter(|page| store.get(*page).is_none()).count() as u64;
        fresh == 0 || store.allocated() + fresh <= limit
    }

    /// Flips one bit of some page that holds content.
    pub(super) fn rot(&mut self, rng: &mut Rng) {
        if let Some(page) = self.media.store().some_page(rng.next_u64()) {
            let offset = page * PAGE_BYTES + rng.below(PAGE_BYTES);
            let mut byte = [0];
            self.media.store().read(offset, &mut byte);
            flip_one(&mut byte, rng);
            self.media.set_raw(offset, &byte);
        }
    }
}

/// Flips one bit of `bytes`.
pub(super) fn flip_one(bytes: &mut [u8], rng: &mut Rng) {
    let bit = rng.below(bytes.len() as u64 * 8);
    if let Some(byte) = bytes.get_mut(small(bit / 8)) {
        *byte ^= 1 << (bit % 8);
    }
}
