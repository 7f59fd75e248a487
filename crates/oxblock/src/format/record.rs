//! Records: one append to the log, a header and its payload blocks, valid as a whole or not at all.
//!
//! The header is one to three blocks: 128 fixed bytes, then one entry per payload block (or per range, for records
//! without payload), then, in `relocate` records, the old address of each block. Its checksum is seeded with the
//! header's own address, so a header that landed elsewhere is not valid there.

use zerocopy::byteorder::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::is_zero;
use super::layout::{
    ADDRESS_LIMIT, BLOCK_LIMIT, BLOCK_SIZE, COUNTER_LIMIT, MAX_RECORD_HEADER, MAX_RECORD_PAYLOAD,
    RECORD_HEADER_SIZE, RECORD_MAGIC,
};
use super::pointer::{PointerWidth, identity};
use crate::csum::Csum;

/// What a record does. Zero is never valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// Payload blocks become the content of logical blocks.
    Data = 1,
    /// Payload blocks are tree nodes; nothing changes until a checkpoint points to them.
    Map = 2,
    /// Ranges of logical blocks are given up. No payload.
    Trim = 3,
    /// Ranges of logical blocks become zero. No payload.
    Zero = 4,
    /// Payload blocks take the place of copies at old addresses, where the map still points there.
    Relocate = 5,
    /// Nothing; takes a sequence number.
    Pad = 6,
}

impl Kind {
    /// The kind of a stored byte.
    pub fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            1 => Self::Data,
            2 => Self::Map,
            3 => Self::Trim,
            4 => Self::Zero,
            5 => Self::Relocate,
            6 => Self::Pad,
            _ => return None,
        })
    }

    /// True when entries describe payload blocks one to one.
    pub fn has_payload(self) -> bool {
        matches!(self, Self::Data | Self::Map | Self::Relocate)
    }

    /// The name in output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Data => "data",
            Self::Map => "map",
            Self::Trim => "trim",
            Self::Zero => "zero",
            Self::Relocate => "relocate",
            Self::Pad => "pad",
        }
    }
}

/// Flag: the next record in sequence belongs to the same atomic request; neither counts without the other.
pub const FLAG_CONTINUES: u16 = 1;

/// One entry of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Entry {
    /// The logical block, the node's [`identity`], or the first block of a range.
    pub id: u64,
    /// Checksum of the payload block; 0 for a range.
    pub csum: u128,
    /// Old address for `relocate`, number of blocks for a range, else 0.
    pub aux: u64,
}

/// Everything in a header except its entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// What the record does.
    pub kind: Kind,
    /// The append stream that wrote it.
    pub stream: u8,
    /// [`FLAG_CONTINUES`].
    pub flags: u16,
    /// Blocks of the header.
    pub header_blocks: u16,
    /// Blocks after the header.
    pub payload_blocks: u32,
    /// Entries in the header.
    pub entries: u32,
    /// The volume.
    pub volume: [u8; 16],
    /// The lane.
    pub lane: u16,
    /// Position in the lane's one sequence.
    pub sequence: u64,
    /// Which life of the volume wrote it; recovery begins a new one.
    pub epoch: u64,
    /// All records up to this sequence number were durable when this one was written.
    pub durable: u64,
    /// Physical address of the header.
    pub addr: u64,
    /// Segment that it is in.
    pub segment: u32,
    /// Generation of that segment.
    pub generation: u64,
}

impl Header {
    /// Blocks of the whole record.
    pub fn blocks(&self) -> u32 {
        u32::from(self.header_blocks).saturating_add(self.payload_blocks)
    }

    /// Physical address of the first block after the header.
    pub fn payload_addr(&self) -> u64 {
        self.addr.saturating_add(u64::from(self.header_blocks))
    }
}

/// What the payload block of an entry is checksummed as.
pub fn payload_identity(kind: Kind, entry: &Entry) -> u64 {
    if kind == Kind::Map { entry.id } else { identity::data(entry.id) }
}

/// The fixed bytes of a header (128).
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Raw {
    magic: [u8; 4],
    kind: u8,
    stream: u8,
    flags: U16,
    header_blocks: U16,
    zero0: [u8; 2],
    payload_blocks: U32,
    checksum: [u8; 16],
    volume: [u8; 16],
    lane: U16,
    zero1: [u8; 6],
    sequence: U64,
    epoch: U64,
    durable: U64,
    addr: U64,
    segment: U32,
    entries: U32,
    generation: U64,
    zero2: [u8; 24],
}

const _: () = assert!(size_of::<Raw>() == RECORD_HEADER_SIZE);
/// Where the checksum is in the header.
const CHECKSUM: std::ops::Range<usize> = 16..32;

/// Why bytes are not the record that was looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// No record begins here.
    #[error("no record header")]
    Magic,
    /// The header does not match its own checksum.
    #[error("header checksum mismatch: expected {expected:x}, got {got:x}")]
    Checksum {
        /// Stored in the header.
        expected: u128,
        /// Of the bytes.
        got: u128,
    },
    /// The checksum holds, but a field makes no sense.
    #[error("header field {0} is not valid")]
    Field(&'static str),
    /// The header is longer than the bytes given.
    #[error("header is cut short")]
    Short,
}

/// Header blocks needed for `entries` entries of a `kind` record.
pub fn header_blocks(kind: Kind, entries: usize, width: PointerWidth) -> usize {
    let old = if kind == Kind::Relocate { entries * 8 } else { 0 };
    (RECORD_HEADER_SIZE + entries * width.size() + old).div_ceil(BLOCK_SIZE)
}

/// Writes header and entries into `out`, whose length is the header's blocks, and seals it with the checksum.
///
/// # Panics
/// When `out` has the wrong size: a header that lies about its length must never reach the media.
pub fn encode(
    header: &Header,
    entries: &[Entry],
    width: PointerWidth,
    csum: &Csum,
    out: &mut [u8],
) {
    let blocks = header_blocks(header.kind, entries.len(), width);
    assert_eq!(out.len(), blocks * BLOCK_SIZE, "header buffer");
    assert_eq!(usize::from(header.header_blocks), blocks, "header length");
    assert!(usize::try_from(header.entries).is_ok_and(|count| count == entries.len()), "entries");
    let raw = Raw {
        magic: RECORD_MAGIC,
        kind: header.kind as u8,
        stream: header.stream,
        flags: header.flags.into(),
        header_blocks: header.header_blocks.into(),
        zero0: [0; 2],
        payload_blocks: header.payload_blocks.into(),
        checksum: [0; 16],
        volume: header.volume,
        lane: header.lane.into(),
        zero1: [0; 6],
        sequence: header.sequence.into(),
        epoch: header.epoch.into(),
        durable: header.durable.into(),
        addr: header.addr.into(),
        segment: header.segment.into(),
        entries: header.entries.into(),
        generation: header.generation.into(),
        zero2: [0; 24],
    };
    let (fixed, rest) = out.split_at_mut(RECORD_HEADER_SIZE);
    fixed.copy_from_slice(raw.as_bytes());
    let (table, mut tail) = rest.split_at_mut(entries.len() * width.size());
    for (slot, entry) in table.chunks_exact_mut(width.size()).zip(entries) {
        let (id, value) = slot.split_at_mut(8);
        id.copy_from_slice(&entry.id.to_le_bytes());
        let csum = if header.kind.has_payload() { entry.csum } else { u128::from(entry.aux) };
        let csum = csum.to_le_bytes();
        match width {
            PointerWidth::Narrow => value.copy_from_slice(csum.split_at(8).0),
            PointerWidth::Wide => {
                let (zero, value) = value.split_at_mut(8);
                zero.fill(0);
                value.copy_from_slice(&csum);
            }
        }
    }
    if header.kind == Kind::Relocate {
        let (old, after) = tail.split_at_mut(entries.len() * 8);
        for (slot, entry) in old.chunks_exact_mut(8).zip(entries) {
            slot.copy_from_slice(&entry.aux.to_le_bytes());
        }
        tail = after;
    }
    tail.fill(0);
    let sum = csum.of(identity::record(header.addr), out).to_le_bytes();
    if let Some(slot) = out.get_mut(CHECKSUM) {
        slot.copy_from_slice(&sum);
    }
}

/// Reads only how long the header at the start of `block` claims to be, in blocks, if a record may begin there.
pub fn claimed_blocks(block: &[u8]) -> Option<u32> {
    let (raw, _) = Raw::ref_from_prefix(block).ok()?;
    let blocks = raw.header_blocks.get();
    let fits = (1..=MAX_RECORD_HEADER).contains(&usize::from(blocks));
    (raw.magic == RECORD_MAGIC && fits).then_some(u32::from(blocks))
}

/// Verifies and decodes the header that begins `bytes` and must be at `addr`.
///
/// # Errors
/// [`Invalid`], saying what does not hold. Whether volume, epoch, sequence and place are the expected ones is for the
/// caller to judge: here the header is only known to be whole.
pub fn decode(
    bytes: &[u8],
    addr: u64,
    width: PointerWidth,
    csum: &Csum,
) -> Result<(Header, Vec<Entry>), Invalid> {
    let blocks = match claimed_blocks(bytes) {
        Some(blocks) => blocks as usize,
        // Something is there, and it is no stranger.
        None if bytes.starts_with(&RECORD_MAGIC) => return Err(Invalid::Field("header blocks")),
        None => return Err(Invalid::Magic),
    };
    let bytes = bytes.get(..blocks * BLOCK_SIZE).ok_or(Invalid::Short)?;
    let (raw, rest) = Raw::ref_from_prefix(bytes).map_err(|_| Invalid::Short)?;
    let expected = u128::from_le_bytes(raw.checksum);
    let mut unsealed = bytes.to_vec();
    if let Some(slot) = unsealed.get_mut(CHECKSUM) {
        slot.fill(0);
    }
    let got = csum.of(identity::record(addr), &unsealed);
    if got != expected {
        return Err(Invalid::Checksum { expected, got });
    }
    let kind = Kind::from_byte(raw.kind).ok_or(Invalid::Field("kind"))?;
    let header = Header {
        kind,
        stream: raw.stream,
        flags: raw.flags.get(),
        header_blocks: raw.header_blocks.get(),
        payload_blocks: raw.payload_blocks.get(),
        entries: raw.entries.get(),
        volume: raw.volume,
        lane: raw.lane.get(),
        sequence: raw.sequence.get(),
        epoch: raw.epoch.get(),
        durable: raw.durable.get(),
        addr: raw.addr.get(),
        segment: raw.segment.get(),
        generation: raw.generation.get(),
    };
    let count = usize::try_from(header.entries).map_err(|_| Invalid::Field("entries"))?;
    let payload = usize::try_from(header.payload_blocks).map_err(|_| Invalid::Field("payload"))?;
    let wanted = if kind.has_payload() { count } else { 0 };
    if count > MAX_RECORD_PAYLOAD || header_blocks(kind, count, width) != blocks {
        return Err(Invalid::Field("entries"));
    }
    if payload != wanted {
        return Err(Invalid::Field("payload blocks"));
    }
    if header.addr != addr {
        return Err(Invalid::Field("address"));
    }
    let counters = [header.sequence, header.epoch, header.durable, header.generation];
    if counters.iter().any(|counter| *counter >= COUNTER_LIMIT) {
        return Err(Invalid::Field("counter"));
    }
    if header.flags & !FLAG_CONTINUES != 0 {
        return Err(Invalid::Field("flags"));
    }
    if !is_zero(&raw.zero0) || !is_zero(&raw.zero1) || !is_zero(&raw.zero2) {
        return Err(Invalid::Field("padding"));
    }
    let (table, tail) = rest.split_at_checked(count * width.size()).ok_or(Invalid::Short)?;
    let old_size = if kind == Kind::Relocate { count * 8 } else { 0 };
    let (old, padding) = tail.split_at_checked(old_size).ok_or(Invalid::Short)?;
    if !is_zero(padding) {
        return Err(Invalid::Field("padding"));
    }
    let mut entries = Vec::with_capacity(count);
    for slot in 0..count {
        let raw = width.get(table, slot);
        let mut entry = Entry { id: raw.addr, csum: raw.csum, aux: 0 };
        if kind == Kind::Relocate {
            let bytes = old.get(slot * 8..slot * 8 + 8).and_then(|b| <[u8; 8]>::try_from(b).ok());
            entry.aux = u64::from_le_bytes(bytes.unwrap_or_default());
            if entry.aux >= ADDRESS_LIMIT {
                return Err(Invalid::Field("old address"));
            }
        }
        if !kind.has_payload() {
            entry.aux = u64::try_from(entry.csum).map_err(|_| Invalid::Field("range"))?;
            entry.csum = 0;
            if entry.id.checked_add(entry.aux).is_none_or(|end| end > BLOCK_LIMIT) {
                return Err(Invalid::Field("range"));
            }
        }
        if kind == Kind::Map {
            identity::parse_node(entry.id).ok_or(Invalid::Field("node"))?;
        } else if entry.id >= BLOCK_LIMIT {
            return Err(Invalid::Field("block"));
        }
        entries.push(entry);
    }
    Ok((header, entries))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::csum::CsumKind;

    fn header(kind: Kind, entries: usize, width: PointerWidth) -> Header {
        Header {
            kind,
            stream: 1,
            flags: FLAG_CONTINUES,
            header_blocks: header_blocks(kind, entries, width).try_into().unwrap(),
            payload_blocks: if kind.has_payload() { entries.try_into().unwrap() } else { 0 },
            entries: entries.try_into().unwrap(),
            volume: [7; 16],
            lane: 2,
            sequence: 99,
            epoch: 3,
            durable: 98,
            addr: 4096,
            segment: 8,
            generation: 5,
        }
    }

    fn entries(kind: Kind, count: usize, width: PointerWidth) -> Vec<Entry> {
        (0..count as u64)
            .map(|i| Entry {
                id: if kind == Kind::Map { identity::node(false, 1, i) } else { i * 3 },
                csum: match (kind.has_payload(), width) {
                    (false, _) => 0,
                    (true, PointerWidth::Narrow) => u128::from(u64::MAX - i),
                    (true, PointerWidth::Wide) => u128::MAX - u128::from(i),
                },
                aux: match kind {
                    Kind::Relocate => i + 77,
                    Kind::Trim | Kind::Zero => i + 1,
                    _ => 0,
                },
            })
            .collect()
    }

    #[test]
    fn every_kind_and_size_survives() {
        for kind in [Kind::Data, Kind::Map, Kind::Trim, Kind::Zero, Kind::Relocate, Kind::Pad] {
            for csum_kind in [CsumKind::Crc32c, CsumKind::Blake3] {
                let csum = Csum::new(csum_kind, [7; 16]);
                let width = PointerWidth::for_csum(csum_kind.width());
                for count in [0, 1, 16, 247, 248, 249, 256] {
                    let header = header(kind, count, width);
                    let entries = entries(kind, count, width);
                    let mut out = vec![0xaa; usize::from(header.header_blocks) * BLOCK_SIZE];
                    encode(&header, &entries, width, &csum, &mut out);
                    assert_eq!(decode(&out, 4096, width, &csum), Ok((header, entries)));
                    assert!(matches!(
                        decode(&out, 4097, width, &csum),
                        Err(Invalid::Checksum { .. })
                    ));
                }
            }
        }
    }

    #[test]
    fn a_flipped_bit_anywhere_is_refused() {
        let csum = Csum::new(CsumKind::Crc32c, [7; 16]);
        let width = PointerWidth::Narrow;
        let header = header(Kind::Data, 16, width);
        let mut out = vec![0; BLOCK_SIZE];
        encode(&header, &entries(Kind::Data, 16, width), width, &csum, &mut out);
        for bit in 0..BLOCK_SIZE * 8 {
            out[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(&out, 4096, width, &csum).is_err(), "bit {bit}");
            out[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn hostile_fields_behind_a_good_checksum_are_refused() {
        let csum = Csum::new(CsumKind::Crc32c, [7; 16]);
        let width = PointerWidth::Narrow;
        let good = header(Kind::Data, 16, width);
        for (at, value) in [
            (4, 0u8),
            (4, 9),
            (6, 8),
            (8, 0),
            (8, 4),
            (10, 1),
            (12, 3),
            (12, 255),
            (63, 64),
            (71, 64),
            (79, 64),
            (92, 255),
            (103, 64),
            (104, 1),
            (4000, 1),
        ] {
            let mut out = vec![0; BLOCK_SIZE];
            encode(&good, &entries(Kind::Data, 16, width), width, &csum, &mut out);
            out[at] = value;
            out[16..32].fill(0);
            let sum = csum.of(identity::record(4096), &out).to_le_bytes();
            out[16..32].copy_from_slice(&sum);
            assert!(
                matches!(decode(&out, 4096, width, &csum), Err(Invalid::Field(_))),
                "byte {at}"
            );
        }
    }
}
