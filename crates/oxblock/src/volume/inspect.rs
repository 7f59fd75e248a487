//! What checking and dumping share: looking at the media of a lane as it is, without recovery.

use std::io;

use crate::csum::Csum;
use crate::device::{Buf, IoQueue};
use crate::format::layout::{BLOCK_SIZE, MAX_RECORD_HEADER, SUPERBLOCK_SIZE};
use crate::format::pointer::PointerWidth;
use crate::format::record::{Entry, Header, Invalid, decode, payload_identity};
use crate::format::superblock::{Superblock, offsets};
use crate::log::load::{Blocking, Slot};
use crate::profile;

/// The media of one lane. The queue must have nothing else in flight.
pub(crate) struct Media<'a> {
    pub queue: &'a mut dyn IoQueue,
    pub superblock: &'a Superblock,
    pub csum: Csum,
    pub width: PointerWidth,
}

/// Why a record header cannot be shown.
#[derive(Debug)]
pub(crate) enum HeaderFault {
    /// The device failed the read.
    Unreadable(io::Error),
    /// It was read and is no header of this volume for this place.
    Invalid(Invalid),
}

impl std::fmt::Display for HeaderFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unreadable(error) => write!(f, "read error: {error}"),
            Self::Invalid(invalid) => invalid.fmt(f),
        }
    }
}

impl<'a> Media<'a> {
    /// The media that `superblock` describes.
    pub fn new(queue: &'a mut dyn IoQueue, superblock: &'a Superblock) -> Self {
        let csum = Csum::new(superblock.csum, superblock.volume);
        let width = PointerWidth::for_csum(superblock.csum.width());
        Self { queue, superblock, csum, width }
    }

    /// Blocks of the log space; every address is below.
    pub fn limit(&self) -> u64 {
        self.superblock.log_blocks()
    }

    /// Byte offset of an address on its device.
    pub fn offset(&self, addr: u64) -> u64 {
        profile::locate(self.superblock, addr).1
    }

    /// Reads `blocks` blocks from `addr` on.
    pub fn read(&mut self, addr: u64, blocks: usize) -> io::Result<Buf> {
        if addr.saturating_add(blocks as u64) > self.limit() {
            return Err(io::Error::other("the address is beyond the log space"));
        }
        let offset = self.offset(addr);
        Blocking { queue: self.queue }.read(offset, blocks * BLOCK_SIZE)
    }

    /// Reads and verifies the record header at `addr`.
    pub fn header(&mut self, addr: u64) -> Result<(Header, Vec<Entry>), HeaderFault> {
        let segment = u64::from(self.superblock.segment_blocks);
        let room = usize::try_from(segment - addr % segment).unwrap_or(usize::MAX);
        let bytes =
            self.read(addr, room.min(MAX_RECORD_HEADER)).map_err(HeaderFault::Unreadable)?;
        decode(&bytes, addr, self.width, &self.csum).map_err(HeaderFault::Invalid)
    }

    /// The checksums of a record's payload blocks as they are on the media; `None` for a block that cannot be read.
    pub fn payload(&mut self, header: &Header, entries: &[Entry]) -> Vec<Option<u128>> {
        let count = usize::try_from(header.payload_blocks).unwrap_or(0);
        let first = header.payload_addr();
        let whole = self.read(first, count).ok();
        let csum = self.csum;
        let mut sums = Vec::with_capacity(count);
        for (index, (addr, entry)) in (first..).zip(entries).take(count).enumerate() {
            let id = payload_identity(header.kind, entry);
            let at = index * BLOCK_SIZE;
            let sum = match &whole {
                Some(bytes) => bytes.get(at..at + BLOCK_SIZE).map(|data| csum.of(id, data)),
                None => self.read(addr, 1).ok().map(|data| csum.of(id, &data)),
            };
            sums.push(sum);
        }
        sums
    }
}

/// What one superblock slot holds, judged against the newest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SlotState {
    /// A superblock: the newest, or an older one where an older one belongs.
    Good,
    /// A valid superblock that is older than the one which was to be written here.
    Stale,
    /// All zero: never written.
    Blank,
    /// Neither valid nor blank.
    Damaged,
    /// Of another volume, or at odds with its twin.
    Stranger,
}

/// Judges a slot; `newest` is the superblock in force.
pub(crate) fn judge(
    queue: &mut dyn IoQueue,
    slot: &Slot,
    newest: &Superblock,
    size: u64,
) -> SlotState {
    let point = &newest.checkpoint;
    let here = offsets(newest.lane, point.generation, size).contains(&slot.offset);
    match &slot.found {
        Err(_) => SlotState::Damaged,
        Ok(None) if !is_blank(queue, slot.offset) => SlotState::Damaged,
        // The newest was written to both of its places.
        Ok(None) if here => SlotState::Stale,
        Ok(None) => SlotState::Blank,
        Ok(Some(found)) if found.volume != newest.volume => SlotState::Stranger,
        Ok(Some(found)) if here && found.checkpoint.generation < point.generation => {
            SlotState::Stale
        }
        Ok(Some(found)) if here && found != newest => SlotState::Stranger,
        Ok(Some(_)) => SlotState::Good,
    }
}

fn is_blank(queue: &mut dyn IoQueue, offset: u64) -> bool {
    let bytes = Blocking { queue }.read(offset, SUPERBLOCK_SIZE);
    bytes.is_ok_and(|bytes| crate::format::is_zero(&bytes))
}
