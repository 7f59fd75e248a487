use proptest::prelude::*;

use super::*;
use crate::format::layout::BLOCK_SIZE;

const VOLUME: [u8; 16] = *b"\x01\x23\x45\x67\x89\xab\xcd\xef\xfe\xdc\xba\x98\x76\x54\x32\x10";

fn all() -> impl Iterator<Item = Csum> {
    CsumKind::ALL.into_iter().map(|kind| Csum::new(kind, VOLUME))
}

/// Bytes that look like data, the same in every run.
fn bytes(len: usize) -> Vec<u8> {
    (0_u64..).map(|at| (mix(at) >> 56) as u8).take(len).collect()
}

/// RFC 3720, appendix B.4, and the check value of the CRC catalogue, for the accelerated version.
#[test]
fn crc32c_known_answers() {
    let ascending: Vec<u8> = (0..32).collect();
    let descending: Vec<u8> = (0..32).rev().collect();
    assert_eq!(crc_fast::crc32_iscsi(b"123456789"), 0xE306_9283);
    assert_eq!(crc_fast::crc32_iscsi(&[0; 32]), 0x8A91_36AA);
    assert_eq!(crc_fast::crc32_iscsi(&[0xFF; 32]), 0x62A8_AB43);
    assert_eq!(crc_fast::crc32_iscsi(&ascending), 0x46DD_794E);
    assert_eq!(crc_fast::crc32_iscsi(&descending), 0x113F_DB5C);
}

/// The sanity values that are published with the reference implementation of XXH3: a pseudo-random buffer, two seeds.
#[test]
fn xxh3_known_answers() {
    const PRIME32: u64 = 0x9E37_79B1;
    const PRIME64: u64 = 0x9E37_79B1_85EB_CA8D;
    let mut state = PRIME32;
    let buffer: Vec<u8> = std::iter::repeat_with(|| {
        let byte = (state >> 56) as u8;
        state = state.wrapping_mul(PRIME64);
        byte
    })
    .take(2048)
    .collect();
    for (len, plain, seeded) in [
        (0, 0x2D06_8005_38D3_94C2_u64, 0xA8A6_B918_B2F0_364A_u64),
        (1, 0xC44B_DFF4_074E_ECDB, 0x032B_E332_DD76_6EF8),
        (6, 0x27B5_6A84_CD2D_7325, 0x8458_9C11_6AB5_9AB9),
        (403, 0xCDEB_804D_65C6_DEA4, 0x6259_F6EC_FD64_43FD),
        (2048, 0xDD59_E2C3_A5F0_38E0, 0x66F8_1670_669A_BABC),
    ] {
        let data = &buffer[..len];
        assert_eq!(twox_hash::XxHash3_64::oneshot(data), plain, "length {len}");
        assert_eq!(twox_hash::XxHash3_64::oneshot_with_seed(PRIME64, data), seeded, "length {len}");
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// FIPS 180-4 examples.
#[test]
fn sha256_known_answers() {
    assert_eq!(
        hex(&sha2::Sha256::digest(b"abc")),
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    );
    assert_eq!(
        hex(&sha2::Sha256::digest(b"")),
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    );
}

/// The empty input and "abc", and through them `strong`.
#[test]
fn blake3_known_answers() {
    assert_eq!(
        hex(blake3::hash(b"").as_bytes()),
        "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"
    );
    assert_eq!(hex(&strong(b"")), "af1349b9f5f9a1a6a0404dea36dcc949");
    assert_eq!(hex(&strong(b"abc")), "6437b3ac38465133ffb63b75273a8db5");
}

/// The values that are on media. A change here makes every existing volume unreadable.
#[test]
fn values_on_media_never_change() {
    let data = bytes(BLOCK_SIZE);
    let got: Vec<String> = all().map(|csum| format!("{:x}", csum.of(42, &data))).collect();
    assert_eq!(got, PINNED);
}

/// Volume [`VOLUME`], identity 42, one block of [`bytes`]. The first and the last were also computed without
/// this crate, from the table in the module's documentation.
const PINNED: [&str; 4] = [
    "490ae447",
    "ae25d5acc7270678",
    "117e7b22f18b2b1d619c4b04a60761dd",
    "7169c55ab1e51c6d3694b343c888d217",
];

#[test]
fn a_checksum_is_no_wider_than_its_kind_says() {
    let data = bytes(BLOCK_SIZE);
    for csum in all() {
        let seen = (0..64).fold(0, |seen, identity| seen | csum.of(identity, &data));
        let used = 16 - (seen.leading_zeros() / 8) as usize;
        assert_eq!(used, csum.kind().width(), "{}", csum.kind());
    }
}

#[test]
fn every_single_bit_flip_is_seen() {
    let mut data = bytes(BLOCK_SIZE);
    for csum in all() {
        let good = csum.of(7, &data);
        for bit in 0..BLOCK_SIZE * 8 {
            data[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(csum.of(7, &data), good, "{} misses a flip of bit {bit}", csum.kind());
            data[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

/// The same data, all zero and otherwise, at 2^14 neighbouring places and some far ones: no two alike beyond chance.
#[test]
fn neighbours_differ() {
    for data in [vec![0; 512], bytes(512)] {
        for csum in all() {
            let places =
                (0..1 << 14).chain((0..64).map(|bit| 1 << bit).filter(|at| *at >= 1 << 14));
            let count = 16384 + 50;
            let seen: std::collections::HashSet<u128> =
                places.map(|identity| csum.of(identity, &data)).collect();
            // 32 bits over 16 Ki places: 0.03 collisions are expected, so one more than none is already rare.
            assert!(seen.len() >= count - 1, "{}: {} of {count}", csum.kind(), seen.len());
        }
    }
}

#[test]
fn the_table_version_keeps_kind_and_leaves_others_alone() {
    let data = bytes(1000);
    for csum in all() {
        assert_eq!(csum.with_table_crc().kind(), csum.kind());
        assert_eq!(csum.with_table_crc().of(3, &data), csum.of(3, &data));
    }
}

proptest! {
    #[test]
    fn accelerated_and_table_agree(
        data in proptest::collection::vec(any::<u8>(), 0..9000), skip in 0_usize..64, identity: u64, volume: [u8; 16],
    ) {
        // `skip` varies the alignment of the data.
        let data = &data[skip.min(data.len())..];
        let csum = Csum::new(CsumKind::Crc32c, volume);
        prop_assert_eq!(csum.of(identity, data), csum.with_table_crc().of(identity, data));
    }

    #[test]
    fn a_flip_another_place_and_another_volume_are_seen(
        data in proptest::collection::vec(any::<u8>(), 1..5000),
        identity: u64, other: u64, volume: [u8; 16], stranger: [u8; 16], flip: proptest::sample::Index, bit in 0_u32..8,
    ) {
        prop_assume!(identity != other && volume != stranger);
        let mut flipped = data.clone();
        flipped[flip.index(data.len())] ^= 1_u8 << bit;
        for kind in CsumKind::ALL {
            let csum = Csum::new(kind, volume);
            let good = csum.of(identity, &data);
            prop_assert_eq!(csum.of(identity, &data), good);
            prop_assert_ne!(csum.of(identity, &flipped), good);
            prop_assert_ne!(csum.of(other, &data), good);
            prop_assert_ne!(Csum::new(kind, stranger).of(identity, &data), good);
        }
    }
}
