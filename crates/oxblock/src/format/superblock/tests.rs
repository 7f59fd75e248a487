//! Encoding and decoding, damage, and fields that lie behind a good checksum.

use super::super::layout::{COMPAT_POLICY, MAX_LANES};
use super::raw::{CHECKSUM, seal};
use super::*;
use crate::error::ErrorKind;

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
        policy: StoredPolicy::default(),
        devices: vec![DeviceEntry { uuid: [2; 16], size: 2 << 30, path: "disk.ox".into() }],
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
