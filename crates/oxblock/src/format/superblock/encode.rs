//! To the media.

use zerocopy::byteorder::little_endian::U32;
use zerocopy::{FromZeros, IntoBytes};

use super::super::layout::{
    BLOCK_SIZE, DEVICE_PATH_SIZE, LABEL_SIZE, MAX_DEVICES, MAX_RESERVE, MAX_STREAMS,
    SEGMENT_ENTRY_SIZE, SUPERBLOCK_MAGIC, SUPERBLOCK_SIZE, VERSION,
};
use super::super::pointer::{Pointer, PointerWidth};
use super::super::policy::StoredPolicy;
use super::Superblock;
use super::raw::{NO_HEAD, Raw, RawDevice, RawHead, RawSuperblock, seal};

fn root_bytes(pointer: Pointer) -> [u8; 32] {
    let mut bytes = [0; 32];
    PointerWidth::Wide.set(&mut bytes, 0, pointer);
    bytes
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
}
