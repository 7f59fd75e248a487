//! Opening a lane: superblocks, segment table, and the state that recovery starts from.

use std::io;
use std::time::Duration;

use zerocopy::FromBytes;

use crate::csum::Csum;
use crate::device::{Action, Buf, IoQueue, Op, device_size};
use crate::error::{Error, ErrorKind, Result};
use crate::format::foreign;
use crate::format::layout::{
    BLOCK_BYTES, BLOCK_SIZE, COUNTER_LIMIT, SEGMENT_ENTRY_SIZE, SEGMENTS_PER_BLOCK,
    SUPERBLOCK_SIZE, SUPERBLOCK_SLOTS,
};
use crate::format::pointer::{Pointer, PointerWidth, identity};
use crate::format::segment::SegmentEntry;
use crate::format::superblock::{Superblock, offsets};
use crate::log::append::STREAMS;
use crate::log::segments::Segments;
use crate::log::table::Table;
use crate::profile;

/// Reads and writes device 0 of a queue that has nothing else to do, one operation at a time, each to its end.
pub(crate) struct Blocking<'a> {
    pub queue: &'a mut dyn IoQueue,
}

impl Blocking<'_> {
    /// Reads `len` bytes at `offset` of device 0.
    pub fn read(&mut self, offset: u64, len: usize) -> io::Result<Buf> {
        let bufs = smallvec::smallvec![Buf::new(len)];
        let mut done = self.run(Op { tag: 0, device: 0, offset, action: Action::Read(bufs) })?;
        done.pop().ok_or_else(|| io::Error::other("a read lost its buffer"))
    }

    /// Writes durably at `offset` of device 0.
    pub fn write(&mut self, offset: u64, buf: Buf) -> io::Result<()> {
        let action = Action::Write { bufs: smallvec::smallvec![buf], durable: true };
        self.run(Op { tag: 0, device: 0, offset, action }).map(drop)
    }

    /// Runs one operation to its end.
    fn run(&mut self, op: Op) -> io::Result<crate::device::Bufs> {
        self.queue.push(op);
        self.queue.submit();
        let mut done = Vec::new();
        loop {
            self.queue.reap(&mut done);
            if let Some(done) = done.pop() {
                return done.result.map(|()| done.bufs);
            }
            self.queue.wait(Some(Duration::from_secs(1)));
        }
    }
}

/// One superblock slot, as found.
#[derive(Debug)]
pub(crate) struct Slot {
    /// Byte offset on the device.
    pub offset: u64,
    /// What is there: nothing of ours, a superblock, or why it is not valid.
    pub found: Result<Option<Superblock>>,
}

/// Reads all slots of lane 0. The second area is where the superblocks of the first say that the device ends, or else at
/// the device's present end.
pub(crate) fn read_slots(queue: &mut dyn IoQueue) -> Vec<Slot> {
    let size = device_size(queue);
    let mut device = Blocking { queue };
    let mut slots: Vec<Slot> = Vec::new();
    for area in 0..2 {
        let recorded = slots.iter().find_map(|slot| {
            let superblock = slot.found.as_ref().ok()?.as_ref()?;
            Some(superblock.devices.first()?.size)
        });
        let size = recorded.unwrap_or(size);
        for generation in 0..SUPERBLOCK_SLOTS {
            let offset = offsets(0, generation, size).get(area).copied().unwrap_or(0);
            let mut look = || match device.read(offset, SUPERBLOCK_SIZE) {
                Ok(bytes) => Superblock::decode(&bytes),
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
                Err(error) => {
                    Err(Error::io(format!("reading the superblock at offset {offset}"), error))
                }
            };
            // Twice, since an older one must not win because a bit flipped on the way.
            let found = look().or_else(|_| look());
            slots.push(Slot { offset, found });
        }
    }
    slots
}

/// The newest valid superblock among `slots`, whatever else is wrong.
///
/// One device decides by itself: a superblock is only written when everything that it points to is durable, so any valid
/// one is complete, and the newest holds the most.
pub(crate) fn newest(slots: &[Slot]) -> Option<&Superblock> {
    let valid = slots.iter().filter_map(|slot| slot.found.as_ref().ok()?.as_ref());
    valid.max_by_key(|superblock| superblock.checkpoint.generation)
}

/// Why there is no valid superblock: what is wrong with those that are no longer, or what is there instead.
pub(crate) fn explain_none(queue: &mut dyn IoQueue, slots: &[Slot]) -> Error {
    // A version or feature that is unknown says more than damage does.
    let errors: Vec<&Error> = slots.iter().filter_map(|slot| slot.found.as_ref().err()).collect();
    let telling = errors.iter().find(|error| error.kind() == ErrorKind::Unsupported);
    if let Some(error) = telling.or(errors.first()) {
        return (*error).clone().context("no valid superblock is left");
    }
    let what = match describe_foreign(queue) {
        Ok(Some(what)) => format!("this is {what}"),
        Ok(None) => "there is nothing on it".into(),
        Err(error) => return error,
    };
    Error::new(ErrorKind::NotAVolume, format!("not an oxblock volume: {what}"))
}

/// The superblock to open the volume by.
pub(crate) fn choose_superblock(queue: &mut dyn IoQueue, slots: &[Slot]) -> Result<Superblock> {
    let Some(newest) = newest(slots) else { return Err(explain_none(queue, slots)) };
    let size = device_size(queue);
    let recorded = newest.devices.first().map_or(0, |device| device.size);
    if size < recorded {
        return Err(Error::new(
            ErrorKind::Corrupt,
            format!(
                "the device has {size} bytes, but the volume was made on {recorded}; it has been cut short: \
                 restore its full length first"
            ),
        ));
    }
    supported(newest)?;
    if newest.data_start + newest.log_blocks() * BLOCK_BYTES > recorded {
        return Err(Error::new(ErrorKind::Corrupt, "the segments reach beyond the device"));
    }
    Ok(newest.clone())
}

/// Refuses what the format has room for and this version cannot do.
pub(crate) fn supported(superblock: &Superblock) -> Result<()> {
    let what = if superblock.devices.len() != 1 || superblock.lanes != 1 {
        "several devices or lanes".to_owned()
    } else if superblock.streams != STREAMS {
        format!("{} append streams", superblock.streams)
    } else {
        return Ok(());
    };
    let message = format!("the volume has {what}, which this version cannot open");
    Err(Error::new(ErrorKind::Unsupported, message))
}

/// Refuses a superblock whose segment table alone is larger than the device: by it memory would be set aside.
pub(crate) fn table_fits(queue: &dyn IoQueue, superblock: &Superblock) -> Result<()> {
    let size = device_size(queue);
    if u64::from(superblock.segments) * SEGMENT_ENTRY_SIZE as u64 <= size {
        return Ok(());
    }
    let message = format!(
        "the superblock names {} segments, and the device has {size} bytes",
        superblock.segments
    );
    Err(Error::new(ErrorKind::Corrupt, message))
}

/// What a device that is not ours holds.
pub(crate) fn describe_foreign(queue: &mut dyn IoQueue) -> Result<Option<String>> {
    let size = device_size(queue);
    let mut device = Blocking { queue };
    foreign::identify(
        &mut |offset, len| {
            // A device's size is a multiple of the block size; whole blocks are read and cut.
            let whole = len.next_multiple_of(BLOCK_SIZE);
            let bytes = device
                .read(offset, whole)
                .map_err(|error| Error::io(format!("reading at offset {offset}"), error))?;
            Ok(bytes.get(..len).unwrap_or(&bytes).to_vec())
        },
        size,
    )
}

/// Damage that was met while loading; opening for use stops at the first, checking goes on.
#[derive(Debug, Clone)]
pub(crate) struct TableDamage {
    pub level: u8,
    pub index: u32,
    pub pointer: Pointer,
    /// What was read hashes to this.
    pub got: Option<u128>,
    /// It could not be read, so that it may be whole.
    pub error: Option<Error>,
}

/// Reads the segment table of `superblock`; blocks that do not verify are listed and count as empty.
pub(crate) fn load_table(
    queue: &mut dyn IoQueue,
    superblock: &Superblock,
    csum: &Csum,
) -> Result<(Table, Vec<SegmentEntry>, Vec<TableDamage>)> {
    table_fits(queue, superblock)?;
    let width = PointerWidth::for_csum(superblock.csum.width());
    let mut table = Table::new(width, superblock.segments);
    let point = &superblock.checkpoint;
    if table.height() != point.table_height {
        return Err(Error::new(ErrorKind::Corrupt, "the segment table has the wrong height"));
    }
    let mut damage = Vec::new();
    let mut device = Blocking { queue };
    let top = table.height() - 1;
    table.set(top, 0, point.table_root);
    let mut entries = vec![SegmentEntry::default(); superblock.segments as usize];
    let limit = superblock.log_blocks();
    for level in (0..=top).rev() {
        let pointers: Vec<Pointer> = table.level(level).to_vec();
        for (index, pointer) in (0u32..).zip(pointers) {
            if pointer.is_null() {
                continue;
            }
            let id = identity::node(true, level, u64::from(index));
            let (_, offset) = profile::locate(superblock, pointer.addr);
            if pointer.addr >= limit {
                damage.push(TableDamage { level, index, pointer, got: None, error: None });
                continue;
            }
            let mut look = || match device.read(offset, BLOCK_SIZE) {
                Ok(bytes) => match csum.of(id, &bytes) {
                    sum if sum == pointer.csum => Ok(bytes),
                    sum => Err((Some(sum), None)),
                },
                Err(error) => {
                    let what = format!("reading the segment table at offset {offset}");
                    Err((None, Some(Error::io(what, error))))
                }
            };
            // Twice, since without the table nothing opens.
            let bytes = match look().or_else(|_| look()) {
                Ok(bytes) => bytes,
                Err((got, error)) => {
                    damage.push(TableDamage { level, index, pointer, got, error });
                    continue;
                }
            };
            if level > 0 {
                table.decode(level, index, &bytes);
                continue;
            }
            let first = index as usize * SEGMENTS_PER_BLOCK;
            if let Ok(stored) = <[SegmentEntry]>::ref_from_bytes(&bytes) {
                for (slot, entry) in entries.iter_mut().skip(first).zip(stored) {
                    *slot = *entry;
                }
            }
        }
    }
    Ok((table, entries, damage))
}

/// The segments in the state of the checkpoint.
pub(crate) fn build_segments(
    superblock: &Superblock,
    table: &Table,
    entries: Vec<SegmentEntry>,
) -> Result<Segments> {
    let point = &superblock.checkpoint;
    let limit = superblock.segment_blocks;
    let counts_too_much = |entry: &SegmentEntry| {
        entry.live.get() > limit
            || entry.written.get() > limit
            || entry.generation.get() >= COUNTER_LIMIT
            || entry.sealed.get() >= COUNTER_LIMIT
    };
    if entries.iter().any(counts_too_much) {
        return Err(Error::new(ErrorKind::Corrupt, "the segment table counts more than fits"));
    }
    let mut used = vec![false; superblock.segments as usize];
    let named =
        point.reserve.iter().copied().chain(point.heads.iter().flatten().map(|h| h.segment));
    for id in named {
        let seen = used.get_mut(id as usize).map(|used| std::mem::replace(used, true));
        if seen != Some(false) {
            return Err(Error::new(ErrorKind::Corrupt, "the checkpoint names a segment twice"));
        }
    }
    check_accounts(superblock, &entries)?;
    let mut segments = Segments::new(entries, superblock.segment_blocks.trailing_zeros());
    for addr in table.addresses() {
        segments.table_moved(0, addr);
    }
    for head in point.heads.iter().flatten() {
        segments.set_open(head.segment, head.offset);
    }
    segments.set_reserve(&point.reserve);
    segments.settle();
    Ok(segments)
}

/// What a checkpoint and its segment table must say alike, as far as it can be told without walking the map.
fn check_accounts(superblock: &Superblock, entries: &[SegmentEntry]) -> Result<()> {
    let point = &superblock.checkpoint;
    let corrupt =
        |what: String| Err(Error::new(ErrorKind::Corrupt, format!("{what}; run 'oxblock check'")));
    if point.table_root.is_null() && !point.map_root.is_null() {
        return corrupt("the checkpoint has a map and no segment table".into());
    }
    let live: u64 = entries.iter().map(|entry| u64::from(entry.live.get())).sum();
    // Blocks that are lost are in use and live nowhere.
    if live < point.used_blocks && !superblock.features.has_lost() {
        return corrupt(format!(
            "the segment table counts {live} live blocks, but {} are in use",
            point.used_blocks
        ));
    }
    // What a checkpoint wrote after the records that it covers may lie beyond its heads and in its reserve; with nothing
    // to replay there is no such thing.
    if point.durable > point.sequence {
        return Ok(());
    }
    for head in point.heads.iter().flatten() {
        let written = entries.get(head.segment as usize).map_or(0, |entry| entry.written.get());
        if written > head.offset {
            return corrupt(format!(
                "segment {} holds {written} blocks, but would be written from block {} on",
                head.segment, head.offset
            ));
        }
    }
    for id in &point.reserve {
        if entries.get(*id as usize).is_some_and(|entry| entry.live.get() > 0) {
            return corrupt(format!("segment {id} is on the reserve list and in use"));
        }
    }
    Ok(())
}
