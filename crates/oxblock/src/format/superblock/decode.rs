//! From the media: nothing is believed that is not checked.

use zerocopy::{FromBytes, IntoBytes};

use super::super::features::Features;
use super::super::is_zero;
use super::super::layout::{
    ADDRESS_LIMIT, AREA_BYTES, BLOCK_BYTES, BLOCK_LIMIT, BLOCK_SIZE, COUNTER_LIMIT, MAX_DEVICES,
    MAX_LANES, MAX_RESERVE, MAX_SEGMENT_BLOCKS, MAX_STREAMS, MIN_SEGMENT_BLOCKS,
    SEGMENT_ENTRY_SIZE, SUPERBLOCK_MAGIC, SUPERBLOCK_SIZE, VERSION,
};
use super::super::pointer::PointerWidth;
use super::super::policy::StoredPolicy;
use super::raw::{NO_HEAD, RawSuperblock, seal};
use super::{Checkpoint, DeviceEntry, Head, Profile, Superblock};
use crate::csum::CsumKind;
use crate::error::{Error, ErrorKind, Result};

impl Superblock {
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
            if pointer.addr < capacity { Ok(pointer) } else { Err(corrupt("root out of range")) }
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
