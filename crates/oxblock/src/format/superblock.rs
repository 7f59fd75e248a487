//! The superblock: a volume's identity and geometry, its devices, and one lane's checkpoint.
//!
//! 16 KiB. Every device keeps an area of 1 MiB at its start and one at its end; in each, every lane has two slots that
//! take turns. A checkpoint writes slot `generation % 2` of both areas of every device, so that a torn write costs the
//! new copy and never the old one. The checksum is BLAKE3 (128 bits kept) whatever the volume uses for its blocks: it
//! must be known before the volume is.

use zerocopy::byteorder::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::features::Features;
use super::is_zero;
use super::layout::{
    ADDRESS_LIMIT, AREA_BYTES, BLOCK_BYTES, BLOCK_LIMIT, BLOCK_SIZE, COUNTER_LIMIT,
    DEVICE_ENTRY_SIZE, DEVICE_PATH_SIZE, LABEL_SIZE, MAX_DEVICES, MAX_LANES, MAX_RESERVE,
    MAX_SEGMENT_BLOCKS, MAX_STREAMS, MIN_SEGMENT_BLOCKS, SEGMENT_ENTRY_SIZE, SUPERBLOCK_MAGIC,
    SUPERBLOCK_SIZE, SUPERBLOCK_SLOTS, VERSION,
};
use super::pointer::{Pointer, PointerWidth};
use super::policy::{RawPolicy, StoredPolicy};
use crate::csum::{CsumKind, strong};
use crate::error::{Error, ErrorKind, Result};

/// How a segment uses its slots. Zero is never valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Profile {
    /// One copy on one device.
    Single = 1,
}

impl Profile {
    /// The profile of a stored byte, if this version can open it.
    pub fn from_byte(byte: u8) -> Option<Self> {
        (byte == 1).then_some(Self::Single)
    }

    /// The name in output and on the command line.
    pub fn name(self) -> &'static str {
        "single"
    }
}

/// Where an append stream goes on: a segment and the next free block in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// The open segment.
    pub segment: u32,
    /// Blocks used in it.
    pub offset: u32,
}

/// One device of the volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceEntry {
    /// Identity of the device.
    pub uuid: [u8; 16],
    /// Its size in bytes when it joined.
    pub size: u64,
    /// Where it was last seen; a hint for finding the others.
    pub path: String,
}

/// The state that recovery starts from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// Counts checkpoints of this lane; picks the slot.
    pub generation: u64,
    /// Records of this epoch, and only of this one, are replayed.
    pub epoch: u64,
    /// All records up to this sequence number are in the trees.
    pub sequence: u64,
    /// All records up to this one, those of the checkpoint itself among them, were durable before the superblock was
    /// written: recovery that does not find them all has met damage, not a power cut.
    pub durable: u64,
    /// Levels of the map (1 = the root is a leaf); follows from the size, kept for checking.
    pub map_height: u8,
    /// Root of the map.
    pub map_root: Pointer,
    /// Levels of the segment table.
    pub table_height: u8,
    /// Root of the segment table.
    pub table_root: Pointer,
    /// Where each stream goes on after `sequence`.
    pub heads: Vec<Option<Head>>,
    /// Segments that may be written before the next checkpoint, in order.
    pub reserve: Vec<u32>,
    /// Logical blocks in use.
    pub used_blocks: u64,
    /// The volume was closed: there is nothing after `sequence`.
    pub clean: bool,
    /// Blocks that failed verification, in the volume's life.
    pub checksum_errors: u64,
}

/// A decoded superblock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Superblock {
    /// Feature flags.
    pub features: Features,
    /// Identity of the volume.
    pub volume: [u8; 16],
    /// Identity of the device that this copy is on.
    pub device: [u8; 16],
    /// Creation time, seconds since 1970.
    pub created: u64,
    /// The lane whose checkpoint this is.
    pub lane: u16,
    /// Lanes of the volume.
    pub lanes: u16,
    /// Index of this copy's device.
    pub device_index: u16,
    /// Checksum type of the volume's blocks.
    pub csum: CsumKind,
    /// Profile of new segments.
    pub profile: Profile,
    /// Append streams in use.
    pub streams: u8,
    /// Logical blocks of the volume.
    pub volume_blocks: u64,
    /// Blocks of a segment.
    pub segment_blocks: u32,
    /// Segments of this lane.
    pub segments: u32,
    /// Where slots begin on each device, in bytes.
    pub data_start: u64,
    /// Label.
    pub label: String,
    /// The devices, by index.
    pub devices: Vec<DeviceEntry>,
    /// The policy that the volume keeps; on the media only with its feature flag.
    pub policy: StoredPolicy,
    /// The lane's checkpoint.
    pub checkpoint: Checkpoint,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone, Copy)]
#[repr(C)]
struct RawHead {
    segment: U32,
    offset: U32,
}

/// A head that is not there.
const NO_HEAD: u32 = u32::MAX;

/// Block 0 of a superblock.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Raw {
    magic: [u8; 8],
    version: U32,
    size: U32,
    checksum: [u8; 16],
    compat: U64,
    ro_compat: U64,
    incompat: U64,
    volume: [u8; 16],
    device: [u8; 16],
    created: U64,
    lane: U16,
    lanes: U16,
    device_index: U16,
    devices: U16,
    csum: u8,
    profile: u8,
    block_shift: u8,
    pointer_size: u8,
    segment_entry_size: U16,
    streams: u8,
    clean: u8,
    volume_blocks: U64,
    segment_blocks: U32,
    segments: U32,
    data_start: U64,
    label: [u8; LABEL_SIZE],
    generation: U64,
    epoch: U64,
    sequence: U64,
    used_blocks: U64,
    checksum_errors: U64,
    map_height: u8,
    table_height: u8,
    zero0: [u8; 2],
    reserve_count: U32,
    map_root: [u8; 32],
    table_root: [u8; 32],
    heads: [RawHead; MAX_STREAMS],
    durable: U64,
    policy: RawPolicy,
    zero1: [u8; BLOCK_SIZE - 400],
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawDevice {
    uuid: [u8; 16],
    size: U64,
    path_len: U16,
    zero: [u8; 22],
    path: [u8; DEVICE_PATH_SIZE],
}

/// A whole superblock as it is on the media.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawSuperblock {
    main: Raw,
    reserve: [U32; MAX_RESERVE],
    devices: [RawDevice; MAX_DEVICES],
}

const _: () = assert!(size_of::<Raw>() == BLOCK_SIZE);
const _: () = assert!(size_of::<RawDevice>() == DEVICE_ENTRY_SIZE);
const _: () = assert!(size_of::<RawSuperblock>() == SUPERBLOCK_SIZE);
const CHECKSUM: std::ops::Range<usize> = 16..32;

/// Where the two copies of a lane's superblock of `generation` are on a device of `device_size` bytes.
pub fn offsets(lane: u16, generation: u64, device_size: u64) -> [u64; 2] {
    let slot = u64::from(lane) * SUPERBLOCK_SLOTS + generation % SUPERBLOCK_SLOTS;
    let within = slot * SUPERBLOCK_SIZE as u64;
    let end = device_size / BLOCK_BYTES * BLOCK_BYTES;
    [within, end.saturating_sub(AREA_BYTES) + within]
}

fn root_bytes(pointer: Pointer) -> [u8; 32] {
    let mut bytes = [0; 32];
    PointerWidth::Wide.set(&mut bytes, 0, pointer);
    bytes
}

/// A superblock's bytes with the checksum field empty, hashed.
fn seal(bytes: &[u8]) -> [u8; 16] {
    let mut unsealed = bytes.to_vec();
    if let Some(slot) = unsealed.get_mut(CHECKSUM) {
        slot.fill(0);
    }
    strong(&unsealed)
}

impl Superblock {
    /// The bytes for the media, sealed.
    ///
    /// # Panics
    /// When a list is longer than the format allows: creation and checkpoints keep within it.
    pub fn encode(&self) -> Vec<u8> {
        let point = &self.checkpoint;
        assert!(point.reserve.len() <= MAX_RESERVE, "reserve list too long");
        assert!(point.heads.len() <= MAX_STREAMS, "too many streams");
        assert!(self.devices.len() <= MAX_DEVICES, "too many devices");
        let count = |n: usize| U32::new(u32::try_from(n).unwrap_or(u32::MAX));
        let mut label = [0; LABEL_SIZE];
        for (to, from) in label.iter_mut().zip(self.label.as_bytes()) {
            *to = *from;
        }
        let mut heads = [RawHead { segment: NO_HEAD.into(), offset: 0.into() }; MAX_STREAMS];
        for (raw, head) in heads.iter_mut().zip(&point.heads) {
            if let Some(head) = head {
                *raw = RawHead { segment: head.segment.into(), offset: head.offset.into() };
            }
        }
        let width = PointerWidth::for_csum(self.csum.width());
        let policy = if self.features.has_policy() { self.policy } else { StoredPolicy::default() };
        let mut out = RawSuperblock {
            main: Raw {
                magic: SUPERBLOCK_MAGIC,
                version: VERSION.into(),
                size: count(SUPERBLOCK_SIZE),
                checksum: [0; 16],
                compat: self.features.compat.into(),
                ro_compat: self.features.ro_compat.into(),
                incompat: self.features.incompat.into(),
                volume: self.volume,
                device: self.device,
                created: self.created.into(),
                lane: self.lane.into(),
                lanes: self.lanes.into(),
                device_index: self.device_index.into(),
                devices: u16::try_from(self.devices.len()).unwrap_or(u16::MAX).into(),
                csum: self.csum.id(),
                profile: self.profile as u8,
                block_shift: u8::try_from(BLOCK_SIZE.trailing_zeros()).unwrap_or(0),
                pointer_size: u8::try_from(width.size()).unwrap_or(0),
                segment_entry_size: u16::try_from(SEGMENT_ENTRY_SIZE).unwrap_or(0).into(),
                streams: self.streams,
                clean: point.clean.into(),
                volume_blocks: self.volume_blocks.into(),
                segment_blocks: self.segment_blocks.into(),
                segments: self.segments.into(),
                data_start: self.data_start.into(),
                label,
                generation: point.generation.into(),
                epoch: point.epoch.into(),
                sequence: point.sequence.into(),
                used_blocks: point.used_blocks.into(),
                checksum_errors: point.checksum_errors.into(),
                map_height: point.map_height,
                table_height: point.table_height,
                zero0: [0; 2],
                reserve_count: count(point.reserve.len()),
                map_root: root_bytes(point.map_root),
                table_root: root_bytes(point.table_root),
                heads,
                durable: point.durable.into(),
                policy: policy.into(),
                zero1: [0; BLOCK_SIZE - 400],
            },
            reserve: [U32::ZERO; MAX_RESERVE],
            devices: std::array::from_fn(|_| RawDevice::new_zeroed()),
        };
        for (raw, segment) in out.reserve.iter_mut().zip(&point.reserve) {
            *raw = (*segment).into();
        }
        for (raw, device) in out.devices.iter_mut().zip(&self.devices) {
            raw.uuid = device.uuid;
            raw.size = device.size.into();
            // A path that does not fit is left out: it is only a hint.
            if device.path.len() <= DEVICE_PATH_SIZE {
                raw.path_len = u16::try_from(device.path.len()).unwrap_or(0).into();
                for (to, from) in raw.path.iter_mut().zip(device.path.as_bytes()) {
                    *to = *from;
                }
            }
        }
        out.main.checksum = seal(out.as_bytes());
        out.as_bytes().to_vec()
    }

    /// Verifies and decodes a superblock; `Ok(None)` when the bytes do not even begin like one.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] when they do but are damaged or contradict themselves; [`ErrorKind::Unsupported`] for a
    /// version, checksum type, profile or feature that this version does not know.
    pub fn decode(bytes: &[u8]) -> Result<Option<Self>> {
        let corrupt = |what: &str| Error::new(ErrorKind::Corrupt, format!("superblock: {what}"));
        let unsupported = |what: String| {
            Error::new(ErrorKind::Unsupported, format!("{what}; use a newer oxblock"))
        };
        let Ok((raw, _)) = RawSuperblock::ref_from_prefix(bytes) else { return Ok(None) };
        let main = &raw.main;
        if main.magic != SUPERBLOCK_MAGIC {
            return Ok(None);
        }
        let got = seal(raw.as_bytes());
        if got != main.checksum {
            let (expected, got) = (u128::from_le_bytes(main.checksum), u128::from_le_bytes(got));
            return Err(corrupt(&format!("expected checksum {expected:x}, got {got:x}")));
        }
        if main.version.get() != VERSION {
            return Err(unsupported(format!("the volume has format version {}", main.version)));
        }
        let features = Features {
            compat: main.compat.get(),
            ro_compat: main.ro_compat.get(),
            incompat: main.incompat.get(),
        };
        features.check(false)?;
        let csum = CsumKind::from_id(main.csum)
            .ok_or_else(|| unsupported(format!("checksum type {} is unknown", main.csum)))?;
        let profile = Profile::from_byte(main.profile)
            .ok_or_else(|| unsupported(format!("profile {} is unknown", main.profile)))?;
        let width = PointerWidth::for_csum(csum.width());
        let counts = (usize::from(main.devices.get()), usize::from(main.streams));
        let reserve = usize::try_from(main.reserve_count.get()).unwrap_or(usize::MAX);
        let segment_blocks = main.segment_blocks.get();
        let sound = usize::try_from(main.size.get()) == Ok(SUPERBLOCK_SIZE)
            && u32::from(main.block_shift) == BLOCK_SIZE.trailing_zeros()
            && usize::from(main.pointer_size) == width.size()
            && usize::from(main.segment_entry_size.get()) == SEGMENT_ENTRY_SIZE
            && (1..=MAX_LANES).contains(&main.lanes.get())
            && main.lane.get() < main.lanes.get()
            && (1..=MAX_DEVICES).contains(&counts.0)
            && main.device_index.get() < main.devices.get()
            && (1..=MAX_STREAMS).contains(&counts.1)
            && reserve <= MAX_RESERVE
            && (MIN_SEGMENT_BLOCKS..=MAX_SEGMENT_BLOCKS).contains(&segment_blocks)
            && segment_blocks.is_power_of_two()
            && (1..=BLOCK_LIMIT).contains(&main.volume_blocks.get())
            && u64::from(main.segments.get()) * u64::from(segment_blocks) < ADDRESS_LIMIT
            && main.data_start.get() == AREA_BYTES
            && main.clean <= 1;
        if !sound {
            return Err(corrupt("a field is out of range"));
        }
        let capacity = u64::from(main.segments.get()) * u64::from(segment_blocks);
        let counters = [main.generation.get(), main.epoch.get(), main.sequence.get()];
        let plausible = main.volume_blocks.get() <= capacity
            && main.used_blocks.get() <= main.volume_blocks.get()
            && counters.iter().all(|counter| *counter < COUNTER_LIMIT)
            && (0..COUNTER_LIMIT).contains(&main.durable.get());
        if !plausible {
            return Err(corrupt("a count is out of range"));
        }
        let only = raw.devices.first().filter(|_| counts.0 == 1 && main.lanes.get() == 1);
        if only.is_some_and(|d| 2 * AREA_BYTES + capacity * BLOCK_BYTES > d.size.get()) {
            return Err(corrupt("the segments reach beyond the device"));
        }
        let spare_heads = main.heads.iter().skip(counts.1);
        let policy_is_zero = features.has_policy() || is_zero(main.policy.as_bytes());
        let unused_is_zero = is_zero(&main.zero0)
            && (features.may_use_padding() || (is_zero(&main.zero1) && policy_is_zero))
            && raw.reserve.iter().skip(reserve).all(|id| id.get() == 0)
            && raw.devices.iter().skip(counts.0).all(|device| is_zero(device.as_bytes()))
            && raw.devices.iter().all(|device| is_zero(&device.zero))
            && spare_heads.clone().all(|head| head.segment.get() == NO_HEAD)
            && main.heads.iter().all(|h| h.segment.get() != NO_HEAD || h.offset.get() == 0);
        if !unused_is_zero {
            return Err(corrupt("padding is not zero"));
        }
        let segment = |id: u32| {
            if id < main.segments.get() { Ok(id) } else { Err(corrupt("segment out of range")) }
        };
        let mut heads = Vec::with_capacity(counts.1);
        for head in main.heads.iter().take(counts.1) {
            heads.push(match head.segment.get() {
                NO_HEAD => None,
                id if head.offset.get() <= segment_blocks => {
                    Some(Head { segment: segment(id)?, offset: head.offset.get() })
                }
                _ => return Err(corrupt("head out of range")),
            });
        }
        let root = |bytes: &[u8; 32]| {
            let pointer = PointerWidth::Wide.get(bytes, 0);
            let limit = u64::from(main.segments.get()) * u64::from(segment_blocks);
            if pointer.addr < limit { Ok(pointer) } else { Err(corrupt("root out of range")) }
        };
        let mut devices = Vec::with_capacity(counts.0);
        for device in raw.devices.iter().take(counts.0) {
            let path = device.path.get(..usize::from(device.path_len.get()));
            let path = path.ok_or_else(|| corrupt("device path too long"))?;
            devices.push(DeviceEntry {
                uuid: device.uuid,
                size: device.size.get(),
                path: String::from_utf8_lossy(path).into_owned(),
            });
        }
        let label: Vec<u8> = main.label.iter().copied().take_while(|byte| *byte != 0).collect();
        if !is_zero(main.label.get(label.len()..).unwrap_or(&[])) {
            return Err(corrupt("padding is not zero"));
        }
        Ok(Some(Self {
            features,
            volume: main.volume,
            device: main.device,
            created: main.created.get(),
            lane: main.lane.get(),
            lanes: main.lanes.get(),
            device_index: main.device_index.get(),
            csum,
            profile,
            streams: main.streams,
            volume_blocks: main.volume_blocks.get(),
            segment_blocks,
            segments: main.segments.get(),
            data_start: main.data_start.get(),
            label: String::from_utf8_lossy(&label).into_owned(),
            devices,
            policy: match features.has_policy() {
                true => main.policy.into(),
                false => StoredPolicy::default(),
            },
            checkpoint: Checkpoint {
                generation: main.generation.get(),
                epoch: main.epoch.get(),
                sequence: main.sequence.get(),
                durable: main.durable.get(),
                map_height: main.map_height,
                map_root: root(&main.map_root)?,
                table_height: main.table_height,
                table_root: root(&main.table_root)?,
                heads,
                reserve: raw
                    .reserve
                    .iter()
                    .take(reserve)
                    .map(|id| segment(id.get()))
                    .collect::<Result<_>>()?,
                used_blocks: main.used_blocks.get(),
                clean: main.clean == 1,
                checksum_errors: main.checksum_errors.get(),
            },
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::layout::COMPAT_POLICY;

    fn sample() -> Superblock {
        Superblock {
            features: Features::CURRENT,
            volume: [1; 16],
            device: [2; 16],
            created: 1_700_000_000,
            lane: 0,
            lanes: 1,
            device_index: 0,
            csum: CsumKind::Crc32c,
            profile: Profile::Single,
            streams: 3,
            volume_blocks: 1 << 18,
            segment_blocks: 2048,
            segments: 160,
            data_start: AREA_BYTES,
            label: "scratch".into(),
            devices: vec![DeviceEntry { uuid: [2; 16], size: 2 << 30, path: "disk.ox".into() }],
            policy: StoredPolicy::default(),
            checkpoint: Checkpoint {
                generation: 12,
                epoch: 3,
                sequence: 1000,
                durable: 1010,
                map_height: 3,
                map_root: Pointer { addr: 77, csum: 0x1234 },
                table_height: 2,
                table_root: Pointer { addr: 78, csum: 0x5678 },
                heads: vec![
                    Some(Head { segment: 3, offset: 20 }),
                    None,
                    Some(Head { segment: 4, offset: 2048 }),
                ],
                reserve: vec![9, 8, 7],
                used_blocks: 55,
                clean: true,
                checksum_errors: 2,
            },
        }
    }

    #[test]
    fn a_superblock_survives() {
        let superblock = sample();
        assert_eq!(Superblock::decode(&superblock.encode()).unwrap(), Some(superblock));
    }

    #[test]
    fn a_kept_policy_survives_and_needs_its_flag() {
        let policy = StoredPolicy { submit: 3, complete: 200, crc: 1, bio_max_bytes: u64::MAX };
        let mut superblock = Superblock { policy, ..sample() };
        let forgotten = Superblock::decode(&superblock.encode()).unwrap().unwrap();
        assert_eq!(forgotten.policy, StoredPolicy::default());
        superblock.features.compat = COMPAT_POLICY;
        assert_eq!(Superblock::decode(&superblock.encode()).unwrap(), Some(superblock));
    }

    #[test]
    fn fields_of_unknown_compatible_features_are_passed_over() {
        let mut superblock = sample();
        let with = |superblock: &Superblock, at: usize| {
            let mut bytes = superblock.encode();
            bytes[at] = 7;
            bytes[CHECKSUM].fill(0);
            let sum = seal(&bytes);
            bytes[CHECKSUM].copy_from_slice(&sum);
            Superblock::decode(&bytes)
        };
        for at in [384, 400, 4000] {
            assert_eq!(with(&superblock, at).unwrap_err().kind(), ErrorKind::Corrupt, "{at}");
        }
        superblock.features.compat = 1 << 40;
        for at in [384, 400, 4000] {
            assert_eq!(with(&superblock, at).unwrap(), Some(superblock.clone()), "{at}");
        }
    }

    #[test]
    fn damage_is_named_and_foreign_bytes_are_not_ours() {
        let mut bytes = sample().encode();
        for at in [8, 100, 300, 5000, 9000, SUPERBLOCK_SIZE - 1] {
            bytes[at] ^= 1;
            assert_eq!(Superblock::decode(&bytes).unwrap_err().kind(), ErrorKind::Corrupt);
            bytes[at] ^= 1;
        }
        bytes[0] ^= 1;
        assert_eq!(Superblock::decode(&bytes).unwrap(), None);
        assert_eq!(Superblock::decode(&[0; 100]).unwrap(), None);
    }

    #[test]
    fn hostile_fields_behind_a_good_checksum_are_refused() {
        let reseal = |change: &dyn Fn(&mut Superblock)| {
            let mut superblock = sample();
            change(&mut superblock);
            Superblock::decode(&superblock.encode()).unwrap_err().kind()
        };
        assert_eq!(reseal(&|s| s.segment_blocks = 3), ErrorKind::Corrupt);
        assert_eq!(reseal(&|s| s.checkpoint.reserve = vec![160]), ErrorKind::Corrupt);
        assert_eq!(reseal(&|s| s.checkpoint.map_root.addr = 1 << 40), ErrorKind::Corrupt);
        assert_eq!(reseal(&|s| s.lane = 1), ErrorKind::Corrupt);
        assert_eq!(reseal(&|s| s.segments = u32::MAX), ErrorKind::Corrupt);
        assert_eq!(reseal(&|s| s.devices[0].size = 2 << 20), ErrorKind::Corrupt);
        assert_eq!(reseal(&|s| s.volume_blocks = 1 << 20), ErrorKind::Corrupt);
        assert_eq!(reseal(&|s| s.checkpoint.used_blocks = u64::MAX), ErrorKind::Corrupt);
        assert_eq!(reseal(&|s| s.checkpoint.generation = u64::MAX - 1), ErrorKind::Corrupt);
        assert_eq!(reseal(&|s| s.checkpoint.sequence = u64::MAX), ErrorKind::Corrupt);
        assert_eq!(reseal(&|s| s.volume_blocks = 0), ErrorKind::Corrupt);
        assert_eq!(reseal(&|s| s.features.incompat = 1 << 63), ErrorKind::Unsupported);
    }

    #[test]
    fn copies_and_slots_never_overlap() {
        let size = 64 << 20;
        let mut seen = std::collections::BTreeSet::new();
        for lane in 0..MAX_LANES {
            for generation in 0..2 {
                for offset in offsets(lane, generation, size) {
                    assert!(seen.insert(offset));
                    assert!(offset + SUPERBLOCK_SIZE as u64 <= size);
                    assert!(offset < AREA_BYTES || offset >= size - AREA_BYTES);
                }
            }
        }
    }
}
