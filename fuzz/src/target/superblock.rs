//! The superblock's decoder. Input: a byte of switches (bit 0: the checksum is made good), then up to 16 KiB.
//!
//! What decodes must say the same after it was encoded and decoded again. What was changed without making the checksum
//! good must not decode to anything but what it was.

use std::sync::OnceLock;

use oxblock::csum::{CsumKind, strong};
use oxblock::device::sim::Rng;
use oxblock::format::features::Features;
use oxblock::format::layout::{AREA_BYTES, BLOCK_BYTES, SUPERBLOCK_SIZE};
use oxblock::format::pointer::Pointer;
use oxblock::format::policy::StoredPolicy;
use oxblock::format::superblock::{self, DeviceEntry, Head, Profile};

use super::{Target, padded, switched, with_switches};
use crate::shape::Shape;
use crate::{mutate, spec};

/// The target.
pub struct Superblock;

const SEALED: u8 = 1;

impl Target for Superblock {
    fn name(&self) -> &'static str {
        "superblock"
    }

    fn seeds(&self) -> Vec<Vec<u8>> {
        let all = good()
            .iter()
            .flat_map(|good| [0, SEALED].map(|flags| with_switches(flags, &good.encode())));
        all.collect()
    }

    fn mutate(&self, rng: &mut Rng, input: &mut Vec<u8>) {
        let (mut flags, rest) = switched(input);
        let mut bytes = rest.to_vec();
        if rng.below(8) == 0 {
            flags ^= SEALED;
        }
        mutate::structure(rng, &mut bytes, spec::superblock(), SUPERBLOCK_SIZE);
        *input = with_switches(flags, &bytes);
    }

    fn run(&self, input: &[u8]) -> Result<Shape, String> {
        let (flags, bytes) = switched(input);
        let mut bytes = padded(bytes, SUPERBLOCK_SIZE);
        if flags & SEALED != 0 {
            seal(&mut bytes);
        }
        let mut shape = Shape::default();
        match superblock::Superblock::decode(&bytes) {
            Ok(Some(found)) => {
                shape.size(found.features.compat);
                shape.size(found.checkpoint.reserve.len() as u64);
                shape.size(found.devices.len() as u64);
                shape.size(found.lanes.into());
                shape.size(u64::from(found.checkpoint.heads.iter().flatten().count() as u32));
                if flags & SEALED == 0 && !good().contains(&found) {
                    return Err("a damaged superblock passes for a good one".into());
                }
                again(&found)?;
            }
            Ok(None) => shape.text("none"),
            Err(error) => shape.text(&error.to_string()),
        }
        Ok(shape)
    }

    fn memory(&self) -> usize {
        1 << 20
    }

    fn smoke_runs(&self) -> u64 {
        100_000
    }
}

/// Makes the checksum good.
pub fn seal(bytes: &mut [u8]) {
    bytes[16..32].fill(0);
    let sum = strong(bytes);
    bytes[16..32].copy_from_slice(&sum);
}

/// Encodes and decodes once more.
fn again(found: &superblock::Superblock) -> Result<(), String> {
    // Texts that are no UTF-8 are shown with replacements, which may not fit when they are written.
    let texts = found.devices.iter().map(|device| &device.path).chain([&found.label]);
    if texts.into_iter().any(|text| text.contains(char::REPLACEMENT_CHARACTER)) {
        return Ok(());
    }
    match superblock::Superblock::decode(&found.encode()) {
        Ok(Some(twice)) if twice == *found => Ok(()),
        Ok(Some(twice)) => Err(format!("encoding changes {found:?} to {twice:?}")),
        Ok(None) => Err("what was decoded is encoded as nothing".into()),
        Err(error) => {
            Err(format!("what was decoded is encoded so that it does not decode: {error}"))
        }
    }
}

/// Superblocks that are whole.
fn good() -> &'static [superblock::Superblock] {
    static GOOD: OnceLock<Vec<superblock::Superblock>> = OnceLock::new();
    GOOD.get_or_init(|| {
        let mut all: Vec<_> = CsumKind::ALL.into_iter().map(one).collect();
        let mut busy = one(CsumKind::Crc32c);
        busy.label = "fuzz".into();
        busy.features.compat = 1;
        busy.policy = StoredPolicy { submit: 2, complete: 1, crc: 1, bio_max_bytes: 1 << 20 };
        let point = &mut busy.checkpoint;
        point.heads = vec![
            Some(Head { segment: 3, offset: 100 }),
            None,
            Some(Head { segment: 4, offset: 512 }),
        ];
        point.reserve = vec![9, 8, 7, 6];
        point.map_root = Pointer { addr: 3 * 512 + 7, csum: 77 };
        point.table_root = Pointer { addr: 3 * 512 + 8, csum: 78 };
        all.push(busy);
        all
    })
}

fn one(csum: CsumKind) -> superblock::Superblock {
    let segments = 30;
    superblock::Superblock {
        features: Features::CURRENT,
        volume: [7; 16],
        device: [8; 16],
        created: 1,
        lane: 0,
        lanes: 1,
        device_index: 0,
        csum,
        profile: Profile::Single,
        streams: 3,
        volume_blocks: 4096,
        segment_blocks: 512,
        segments,
        data_start: AREA_BYTES,
        label: String::new(),
        devices: vec![DeviceEntry {
            uuid: [8; 16],
            size: 2 * AREA_BYTES + u64::from(segments) * 512 * BLOCK_BYTES,
            path: "fuzz".into(),
        }],
        policy: StoredPolicy::default(),
        checkpoint: superblock::Checkpoint {
            generation: 5,
            epoch: 2,
            sequence: 40,
            durable: 44,
            map_height: 2,
            map_root: Pointer::NULL,
            table_height: 1,
            table_root: Pointer::NULL,
            heads: vec![None; 3],
            reserve: vec![0, 1, 2],
            used_blocks: 0,
            clean: true,
            checksum_errors: 0,
        },
    }
}
