//! Holds `docs/format.md` and the code together: every constant and every byte table, in both directions.
//!
//! The tables are read from the document. Structures are encoded with a distinct value in every field, and the bytes at
//! the documented place must be that value; tables must cover their structure without gap or overlap. So neither the
//! document nor the code can change alone.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a test fails by panicking; this one has no product code in it"
)]

use std::collections::BTreeMap;

use oxblock::csum::{Csum, CsumKind};
use oxblock::format::features::Features;
use oxblock::format::layout::{self, BLOCK_SIZE};
use oxblock::format::pointer::{Pointer, PointerWidth, identity};
use oxblock::format::policy::StoredPolicy;
use oxblock::format::record::{self, Entry, FLAG_CONTINUES, Header, Kind};
use oxblock::format::segment::{FLAG_DAMAGED, SegmentEntry};
use oxblock::format::superblock::{Checkpoint, DeviceEntry, Head, Profile, Superblock, offsets};
use zerocopy::IntoBytes;

const DOCUMENT: &str = include_str!("../../../docs/format.md");
const LAYOUT: &str = include_str!("../src/format/layout.rs");

/// The rows of table `nth` under `heading`, without its head; cells trimmed, code marks removed.
fn table(heading: &str, nth: usize) -> Vec<Vec<String>> {
    let mut lines = DOCUMENT.lines();
    let found =
        lines.any(|line| line.starts_with('#') && line.trim_start_matches('#').trim() == heading);
    assert!(found, "docs/format.md has no heading '{heading}'");
    let mut tables: Vec<Vec<Vec<String>>> = Vec::new();
    let mut inside = false;
    for line in lines.take_while(|line| !line.starts_with('#')) {
        if !line.starts_with('|') {
            inside = false;
            continue;
        }
        if !inside {
            tables.push(Vec::new());
            inside = true;
        }
        let cells = line.trim().trim_matches('|').split('|');
        let cells = cells.map(|cell| cell.trim().replace('`', "")).collect();
        tables.last_mut().unwrap().push(cells);
    }
    let rows = tables.get(nth).unwrap_or_else(|| panic!("'{heading}' has no table {nth}"));
    rows[2..].to_vec()
}

/// A documented field: where it is and how long.
#[derive(Debug, Clone, Copy)]
struct Field {
    at: usize,
    size: usize,
}

/// A byte table, checked to cover `0..total` in order, without gap or overlap.
fn fields(heading: &str, nth: usize, total: usize) -> BTreeMap<String, Field> {
    let mut end = 0;
    let mut fields = BTreeMap::new();
    for row in table(heading, nth) {
        let (at, size): (usize, usize) = (row[0].parse().unwrap(), row[1].parse().unwrap());
        assert_eq!(at, end, "{heading}: field {} does not follow the one before it", row[2]);
        end = at + size;
        assert!(fields.insert(row[2].clone(), Field { at, size }).is_none(), "{} twice", row[2]);
    }
    assert_eq!(end, total, "{heading}: the table does not end with the structure");
    fields
}

/// Compares `bytes` with the documented fields: `expected` names each field's bytes, and names all fields.
fn compare(
    what: &str,
    fields: &BTreeMap<String, Field>,
    bytes: &[u8],
    expected: &[(&str, Vec<u8>)],
) {
    for (name, value) in expected {
        let field = fields.get(*name).unwrap_or_else(|| panic!("{what}: {name} is not documented"));
        assert_eq!(field.size, value.len(), "{what}: size of {name}");
        let got = &bytes[field.at..field.at + field.size];
        assert_eq!(got, value, "{what}: bytes of {name} at {}", field.at);
    }
    for name in fields.keys() {
        assert!(
            expected.iter().any(|(known, _)| known == name),
            "{what}: {name} is not in the code"
        );
    }
}

fn le(value: u64, size: usize) -> Vec<u8> {
    assert!(value.to_le_bytes()[size..].iter().all(|byte| *byte == 0));
    value.to_le_bytes()[..size].to_vec()
}

fn padded(bytes: &[u8], size: usize) -> Vec<u8> {
    let mut padded = bytes.to_vec();
    padded.resize(size, 0);
    padded
}

const VOLUME: [u8; 16] = *b"volume-uuid-0001";

#[test]
fn every_constant_is_documented_with_its_value() {
    let bytes =
        |value: &[u8]| value.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ");
    let code: Vec<(&str, String)> = vec![
        ("BLOCK_SIZE", layout::BLOCK_SIZE.to_string()),
        ("BLOCK_BYTES", layout::BLOCK_BYTES.to_string()),
        ("VERSION", layout::VERSION.to_string()),
        ("SUPERBLOCK_MAGIC", bytes(&layout::SUPERBLOCK_MAGIC)),
        ("SUPERBLOCK_SIZE", layout::SUPERBLOCK_SIZE.to_string()),
        ("SUPERBLOCK_SLOTS", layout::SUPERBLOCK_SLOTS.to_string()),
        ("AREA_BYTES", layout::AREA_BYTES.to_string()),
        ("MAX_LANES", layout::MAX_LANES.to_string()),
        ("MAX_DEVICES", layout::MAX_DEVICES.to_string()),
        ("DEVICE_ENTRY_SIZE", layout::DEVICE_ENTRY_SIZE.to_string()),
        ("DEVICE_PATH_SIZE", layout::DEVICE_PATH_SIZE.to_string()),
        ("MAX_RESERVE", layout::MAX_RESERVE.to_string()),
        ("REPLAY_WINDOW", layout::REPLAY_WINDOW.to_string()),
        ("REPLAY_LEAP", layout::REPLAY_LEAP.to_string()),
        ("ROLLBACK_LEAP", layout::ROLLBACK_LEAP.to_string()),
        ("MAX_STREAMS", layout::MAX_STREAMS.to_string()),
        ("LABEL_SIZE", layout::LABEL_SIZE.to_string()),
        ("STORED_POLICY_SIZE", layout::STORED_POLICY_SIZE.to_string()),
        ("RECORD_MAGIC", bytes(&layout::RECORD_MAGIC)),
        ("RECORD_HEADER_SIZE", layout::RECORD_HEADER_SIZE.to_string()),
        ("MAX_RECORD_PAYLOAD", layout::MAX_RECORD_PAYLOAD.to_string()),
        ("MAX_RECORD_HEADER", layout::MAX_RECORD_HEADER.to_string()),
        ("MIN_SEGMENT_BLOCKS", layout::MIN_SEGMENT_BLOCKS.to_string()),
        ("MAX_SEGMENT_BLOCKS", layout::MAX_SEGMENT_BLOCKS.to_string()),
        ("SEGMENT_ENTRY_SIZE", layout::SEGMENT_ENTRY_SIZE.to_string()),
        ("SEGMENTS_PER_BLOCK", layout::SEGMENTS_PER_BLOCK.to_string()),
        ("NARROW_POINTER_SIZE", layout::NARROW_POINTER_SIZE.to_string()),
        ("WIDE_POINTER_SIZE", layout::WIDE_POINTER_SIZE.to_string()),
        ("ADDRESS_LIMIT", layout::ADDRESS_LIMIT.to_string()),
        ("LOST_ADDRESS", layout::LOST_ADDRESS.to_string()),
        ("BLOCK_LIMIT", layout::BLOCK_LIMIT.to_string()),
        ("COUNTER_LIMIT", layout::COUNTER_LIMIT.to_string()),
        ("COMPAT_POLICY", layout::COMPAT_POLICY.to_string()),
        ("COMPAT_REFUSED", layout::COMPAT_REFUSED.to_string()),
        ("COMPAT_PASSED_OVER", layout::COMPAT_PASSED_OVER.to_string()),
        ("INCOMPAT_LOST", layout::INCOMPAT_LOST.to_string()),
        ("KNOWN_COMPAT", layout::KNOWN_COMPAT.to_string()),
        ("KNOWN_RO_COMPAT", layout::KNOWN_RO_COMPAT.to_string()),
        ("KNOWN_INCOMPAT", layout::KNOWN_INCOMPAT.to_string()),
    ];
    let documented: Vec<(String, String)> =
        table("Constants", 0).into_iter().map(|row| (row[0].clone(), row[1].clone())).collect();
    let code: Vec<(String, String)> =
        code.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    assert_eq!(documented, code);
    // And the list above is all that the module has.
    let declared: Vec<&str> = LAYOUT
        .lines()
        .filter_map(|line| line.strip_prefix("pub const ")?.split(':').next())
        .collect();
    let listed: Vec<&str> = code.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(declared, listed);
}

fn superblock() -> Superblock {
    Superblock {
        features: Features { compat: 0xa1a2_a3a4_a5a6_a7a9, ro_compat: 0xb1, incompat: 0 },
        volume: VOLUME,
        device: *b"device-uuid-0002",
        created: 0x1122_3344_5566,
        lane: 3,
        lanes: 7,
        device_index: 1,
        csum: CsumKind::Blake3,
        profile: Profile::Single,
        streams: 3,
        volume_blocks: 0x7654_3201,
        segment_blocks: 2048,
        segments: 0x0012_3456,
        data_start: layout::AREA_BYTES,
        label: "a label".into(),
        devices: vec![
            DeviceEntry { uuid: [0x44; 16], size: 0x5555_6666_7777, path: "first".into() },
            DeviceEntry { uuid: [0x45; 16], size: 0x5555_6666_8888, path: "the second".into() },
        ],
        policy: StoredPolicy {
            submit: 3,
            complete: 2,
            crc: 1,
            bio_max_bytes: 0x5152_5354_5556_5758,
        },
        checkpoint: Checkpoint {
            generation: 0x0101_0202_0303_0404,
            epoch: 0x1111_2222_3333_4444,
            sequence: 0x2122_2324_2526_2728,
            durable: 0x3152_5354_5556_5758,
            map_height: 5,
            map_root: Pointer {
                addr: 0x1234_5678,
                csum: 0x00ff_eedd_ccbb_aa99_8877_6655_4433_2211,
            },
            table_height: 4,
            table_root: Pointer { addr: 0x2345_6789, csum: u128::MAX / 3 },
            heads: vec![
                Some(Head { segment: 0x0001_0203, offset: 0x0405 }),
                None,
                Some(Head { segment: 0x0006_0708, offset: 2048 }),
            ],
            reserve: vec![0x0009_0a0b, 0x000c_0d0e, 1],
            used_blocks: 0x3132_3334,
            clean: true,
            checksum_errors: 0x4142_4344_4546_4748,
        },
    }
}

fn root(pointer: Pointer) -> Vec<u8> {
    let mut bytes = vec![0; 32];
    PointerWidth::Wide.set(&mut bytes, 0, pointer);
    bytes
}

#[test]
fn superblock_fields_are_where_the_document_says() {
    let superblock = superblock();
    let point = superblock.checkpoint.clone();
    let bytes = superblock.encode();
    assert_eq!(bytes.len(), layout::SUPERBLOCK_SIZE);
    let mut unsealed = bytes.clone();
    unsealed[16..32].fill(0);
    let seal = blake3::hash(&unsealed).as_bytes()[..16].to_vec();
    let head = |segment: u64, offset: u64| [le(segment, 4), le(offset, 4)].concat();
    let absent = head(u64::from(u32::MAX), 0);
    let mut heads = [head(0x0001_0203, 0x0405), absent.clone(), head(0x0006_0708, 2048)].concat();
    heads.extend(absent.repeat(5));
    let policy = [vec![3, 2, 1], vec![0; 5], le(0x5152_5354_5556_5758, 8)].concat();
    let expected = [
        ("magic", layout::SUPERBLOCK_MAGIC.to_vec()),
        ("version", le(1, 4)),
        ("size", le(16384, 4)),
        ("checksum", seal),
        ("compat", le(superblock.features.compat, 8)),
        ("ro_compat", le(superblock.features.ro_compat, 8)),
        ("incompat", le(0, 8)),
        ("volume", VOLUME.to_vec()),
        ("device", superblock.device.to_vec()),
        ("created", le(superblock.created, 8)),
        ("lane", le(3, 2)),
        ("lanes", le(7, 2)),
        ("device_index", le(1, 2)),
        ("devices", le(2, 2)),
        ("csum", vec![3]),
        ("profile", vec![1]),
        ("block_shift", vec![12]),
        ("pointer_size", vec![32]),
        ("segment_entry_size", le(32, 2)),
        ("streams", vec![3]),
        ("clean", vec![1]),
        ("volume_blocks", le(superblock.volume_blocks, 8)),
        ("segment_blocks", le(2048, 4)),
        ("segments", le(0x0012_3456, 4)),
        ("data_start", le(1_048_576, 8)),
        ("label", padded(b"a label", 64)),
        ("generation", le(point.generation, 8)),
        ("epoch", le(point.epoch, 8)),
        ("sequence", le(point.sequence, 8)),
        ("used_blocks", le(point.used_blocks, 8)),
        ("checksum_errors", le(point.checksum_errors, 8)),
        ("durable", le(point.durable, 8)),
        ("map_height", vec![5]),
        ("table_height", vec![4]),
        ("zero0", vec![0; 2]),
        ("reserve_count", le(3, 4)),
        ("map_root", root(point.map_root)),
        ("table_root", root(point.table_root)),
        ("heads", heads),
        ("policy", policy.clone()),
        ("zero1", vec![0; 3696]),
    ];
    let documented = fields("Superblock fields", 0, BLOCK_SIZE);
    compare("superblock", &documented, &bytes, &expected);

    let head_fields = fields("Head", 0, 8);
    let first = documented["heads"].at;
    compare(
        "head",
        &head_fields,
        &bytes[first..],
        &[("segment", le(0x0001_0203, 4)), ("offset", le(0x0405, 4))],
    );

    let policy_at = documented["policy"].at;
    compare(
        "stored policy",
        &fields("Stored policy", 0, layout::STORED_POLICY_SIZE),
        &bytes[policy_at..],
        &[
            ("submit", vec![3]),
            ("complete", vec![2]),
            ("crc", vec![1]),
            ("zero", vec![0; 5]),
            ("bio_max_bytes", le(0x5152_5354_5556_5758, 8)),
        ],
    );

    assert!(DOCUMENT.contains("At offset 4096: 1024 segment numbers of 4 bytes"));
    let reserve = [le(0x0009_0a0b, 4), le(0x000c_0d0e, 4), le(1, 4)].concat();
    assert_eq!(bytes[4096..8192], padded(&reserve, 4096));

    assert!(DOCUMENT.contains("At offset 8192: 32 entries of 256 bytes"));
    let device = fields("Device table", 0, 256);
    for (index, (uuid, size, path)) in
        [([0x44; 16], 0x5555_6666_7777, "first"), ([0x45; 16], 0x5555_6666_8888, "the second")]
            .into_iter()
            .enumerate()
    {
        compare(
            "device entry",
            &device,
            &bytes[8192 + index * 256..],
            &[
                ("uuid", uuid.to_vec()),
                ("size", le(size, 8)),
                ("path_len", le(path.len() as u64, 2)),
                ("zero", vec![0; 22]),
                ("path", padded(path.as_bytes(), 208)),
            ],
        );
    }
    assert!(bytes[8192 + 2 * 256..].iter().all(|byte| *byte == 0));
}

#[test]
fn every_superblock_check_of_the_document_is_made() {
    let good = superblock();
    let policy = StoredPolicy::default();
    let good = Superblock { features: Features::CURRENT, policy, ..good };
    assert_eq!(Superblock::decode(&good.encode()).unwrap(), Some(good.clone()));
    let documented = fields("Superblock fields", 0, BLOCK_SIZE);
    // For each field with a check, bytes that must be refused although the checksum holds.
    let bad: [(&str, Vec<u8>); 28] = [
        ("version", le(2, 4)),
        ("size", le(16385, 4)),
        ("incompat", le(1 << 63, 8)),
        ("lane", le(7, 2)),
        ("lanes", le(17, 2)),
        ("lanes", le(0, 2)),
        ("device_index", le(2, 2)),
        ("devices", le(33, 2)),
        ("csum", vec![0]),
        ("csum", vec![5]),
        ("profile", vec![0]),
        ("profile", vec![2]),
        ("block_shift", vec![13]),
        ("pointer_size", vec![16]),
        ("segment_entry_size", le(64, 2)),
        ("streams", vec![0]),
        ("streams", vec![9]),
        ("clean", vec![2]),
        ("volume_blocks", le(0, 8)),
        ("volume_blocks", le((1 << 48) + 1, 8)),
        ("segment_blocks", le(2049, 4)),
        ("segment_blocks", le(65536, 4)),
        ("data_start", le(4096, 8)),
        ("zero0", vec![1, 0]),
        // Without its flag.
        ("policy", [vec![1], vec![0; 15]].concat()),
        ("reserve_count", le(1025, 4)),
        ("map_root", root(Pointer { addr: 0x0012_3456 * 2048, csum: 0 })),
        ("table_root", root(Pointer { addr: 0x0012_3456 * 2048, csum: 0 })),
    ];
    for (name, value) in bad {
        let field = documented[name];
        let mut bytes = good.encode();
        bytes[field.at..field.at + field.size].copy_from_slice(&value);
        bytes[16..32].fill(0);
        let seal = blake3::hash(&bytes).as_bytes()[..16].to_vec();
        bytes[16..32].copy_from_slice(&seal);
        assert!(Superblock::decode(&bytes).is_err(), "{name} = {value:x?} was accepted");
    }
}

#[test]
fn superblocks_are_where_the_document_says() {
    assert!(DOCUMENT.contains("`(l * 2 + g % 2) * 16384` in both areas"));
    for (lane, generation, size) in [(0, 1, 64 << 20), (5, 8, (64 << 20) + 5000), (15, 9, 1 << 40)]
    {
        let within = (u64::from(lane) * 2 + generation % 2) * 16384;
        let end = size / 4096 * 4096;
        assert_eq!(offsets(lane, generation, size), [within, end - (1 << 20) + within]);
    }
}

fn header(kind: Kind, entries: usize, width: PointerWidth) -> Header {
    Header {
        kind,
        stream: 1,
        flags: FLAG_CONTINUES,
        header_blocks: record::header_blocks(kind, entries, width) as u16,
        payload_blocks: if kind.has_payload() { entries as u32 } else { 0 },
        entries: entries as u32,
        volume: VOLUME,
        lane: 0x0a0b,
        sequence: 0x0102_0304_0506_0708,
        epoch: 0x1112_1314_1516_1718,
        durable: 0x2122_2324_2526_2728,
        addr: 0x3132_3334_3536,
        segment: 0x4142_4344,
        generation: 0x5152_5354_5556_5758,
    }
}

fn encode(kind: Kind, entries: &[Entry], csum: CsumKind) -> Vec<u8> {
    let width = PointerWidth::for_csum(csum.width());
    let header = header(kind, entries.len(), width);
    let mut out = vec![0xee; usize::from(header.header_blocks) * BLOCK_SIZE];
    record::encode(&header, entries, width, &Csum::new(csum, VOLUME), &mut out);
    out
}

#[test]
fn record_header_fields_are_where_the_document_says() {
    let entries: Vec<Entry> = (0..20)
        .map(|i| Entry { id: 0x900 + i, csum: 0x77 + u128::from(i), aux: 0x333 + i })
        .collect();
    let bytes = encode(Kind::Relocate, &entries, CsumKind::Crc32c);
    let header = header(Kind::Relocate, 20, PointerWidth::Narrow);
    let mut unsealed = bytes.clone();
    unsealed[16..32].fill(0);
    let seal = Csum::new(CsumKind::Crc32c, VOLUME).of(1 << 62 | header.addr, &unsealed);
    let documented = fields("Record header", 0, layout::RECORD_HEADER_SIZE);
    compare(
        "record",
        &documented,
        &bytes,
        &[
            ("magic", layout::RECORD_MAGIC.to_vec()),
            ("kind", vec![5]),
            ("stream", vec![1]),
            ("flags", le(1, 2)),
            ("header_blocks", le(1, 2)),
            ("zero0", vec![0; 2]),
            ("payload_blocks", le(20, 4)),
            ("checksum", seal.to_le_bytes().to_vec()),
            ("volume", VOLUME.to_vec()),
            ("lane", le(0x0a0b, 2)),
            ("zero1", vec![0; 6]),
            ("sequence", le(header.sequence, 8)),
            ("epoch", le(header.epoch, 8)),
            ("durable", le(header.durable, 8)),
            ("address", le(header.addr, 8)),
            ("segment", le(0x4142_4344, 4)),
            ("entries", le(20, 4)),
            ("generation", le(header.generation, 8)),
            ("zero2", vec![0; 24]),
        ],
    );
    // Entries, then the old addresses, then zeroes.
    let old = 128 + 20 * 16;
    for (i, entry) in entries.iter().enumerate() {
        assert_eq!(bytes[old + i * 8..old + i * 8 + 8], entry.aux.to_le_bytes());
    }
    assert!(bytes[old + 20 * 8..].iter().all(|byte| *byte == 0));
}

#[test]
fn entries_are_as_the_document_says_in_both_widths() {
    let narrow = fields("Entries", 0, layout::NARROW_POINTER_SIZE);
    let wide = fields("Entries", 1, layout::WIDE_POINTER_SIZE);
    let value = 0x1f2f_3f4f_5f6f_7f8f_u128;
    for kind in [Kind::Data, Kind::Map, Kind::Relocate, Kind::Trim, Kind::Zero] {
        let id = if kind == Kind::Map { identity::node(true, 2, 99) } else { 0x0a0b_0c0d };
        let entry = match kind.has_payload() {
            true => Entry { id, csum: value, aux: 5 },
            false => Entry { id, csum: 0, aux: value as u64 },
        };
        let bytes = encode(kind, &[entry], CsumKind::Xxh3);
        let expected = [("id", le(id, 8)), ("value", le(value as u64, 8))];
        compare(kind.name(), &narrow, &bytes[128..], &expected);
        let bytes = encode(kind, &[entry], CsumKind::Sha256);
        let expected =
            [("id", le(id, 8)), ("zero", vec![0; 8]), ("value", value.to_le_bytes().to_vec())];
        compare(kind.name(), &wide, &bytes[128..], &expected);
    }
    // The lengths that the text names for 256 entries.
    let blocks = |kind, width| record::header_blocks(kind, 256, width);
    assert_eq!(blocks(Kind::Data, PointerWidth::Narrow), 2);
    assert_eq!(blocks(Kind::Relocate, PointerWidth::Narrow), 2);
    assert_eq!(blocks(Kind::Data, PointerWidth::Wide), 3);
    assert_eq!(blocks(Kind::Relocate, PointerWidth::Wide), 3);
}

#[test]
fn kinds_are_numbered_as_documented() {
    let documented: Vec<(u8, String, bool)> = table("Record kinds", 0)
        .into_iter()
        .map(|row| (row[0].parse().unwrap(), row[1].clone(), row[3] != "none"))
        .collect();
    let code: Vec<(u8, String, bool)> = (0..=u8::MAX)
        .filter_map(|byte| Some((byte, Kind::from_byte(byte)?)))
        .map(|(byte, kind)| (byte, kind.name().to_owned(), kind.has_payload()))
        .collect();
    assert_eq!(documented, code);
}

#[test]
fn pointers_are_as_documented() {
    let pointer = Pointer { addr: 0x0000_8877_6655_4433, csum: 0x0102_0304_0506_0708 };
    let mut node = vec![0xcc; BLOCK_SIZE];
    PointerWidth::Narrow.set(&mut node, 3, pointer);
    compare(
        "narrow pointer",
        &fields("Narrow pointer", 0, 16),
        &node[48..],
        &[("address", le(pointer.addr, 8)), ("checksum", le(0x0102_0304_0506_0708, 8))],
    );
    let pointer = Pointer { csum: u128::MAX - 77, ..pointer };
    PointerWidth::Wide.set(&mut node, 3, pointer);
    compare(
        "wide pointer",
        &fields("Wide pointer", 0, 32),
        &node[96..],
        &[
            ("address", le(pointer.addr, 8)),
            ("zero", vec![0; 8]),
            ("checksum", pointer.csum.to_le_bytes().to_vec()),
        ],
    );
    assert!(
        DOCUMENT.contains("256 narrow (8 bits of the block number a level), 128 wide (7 bits)")
    );
    assert_eq!((PointerWidth::Narrow.fanout(), PointerWidth::Narrow.fanout_shift()), (256, 8));
    assert_eq!((PointerWidth::Wide.fanout(), PointerWidth::Wide.fanout_shift()), (128, 7));
}

#[test]
fn segment_entries_are_as_documented() {
    let entry = SegmentEntry {
        generation: 0x0102_0304_0506_0708.into(),
        sealed: 0x1112_1314_1516_1718.into(),
        live: 0x2122_2324.into(),
        written: 0x3132_3334.into(),
        flags: FLAG_DAMAGED.into(),
        device: 0x4142.into(),
        slot: 0x5152_5354.into(),
    };
    compare(
        "segment entry",
        &fields("Segment entry", 0, 32),
        entry.as_bytes(),
        &[
            ("generation", le(0x0102_0304_0506_0708, 8)),
            ("sealed", le(0x1112_1314_1516_1718, 8)),
            ("live", le(0x2122_2324, 4)),
            ("written", le(0x3132_3334, 4)),
            ("flags", le(1, 2)),
            ("device", le(0x4142, 2)),
            ("slot", le(0x5152_5354, 4)),
        ],
    );
}

#[test]
fn identities_are_as_documented() {
    let domains: Vec<String> =
        table("Identities", 0).into_iter().map(|row| row[0].clone()).collect();
    assert_eq!(domains, ["0", "1", "2"]);
    assert_eq!(identity::data(77), 77);
    assert_eq!(identity::record(77), 1 << 62 | 77);
    assert_eq!(identity::node(false, 0, 77), 2 << 62 | 77);
    assert_eq!(identity::node(true, 5, 77), 2 << 62 | 1 << 61 | 5 << 56 | 77);
}

/// `mix` as the document gives it.
fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// CRC-32C bit by bit.
fn crc32c(data: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in data {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0x82F6_3B78 } else { crc >> 1 };
        }
    }
    !crc
}

/// The value of a type, by the document alone.
fn value(kind: CsumKind, volume: [u8; 16], id: u64, data: &[u8]) -> u128 {
    use sha2::Digest;
    let (low, high) = volume.split_at(8);
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
    let seed = mix(mix(word(low).wrapping_add(0x9E37_79B9_7F4A_7C15)) ^ word(high));
    let first_16 = |digest: &[u8]| u128::from_le_bytes(digest[..16].try_into().unwrap());
    match kind {
        CsumKind::Crc32c => u128::from(crc32c(data) ^ (mix(seed ^ id) >> 32) as u32),
        CsumKind::Xxh3 => {
            u128::from(twox_hash::XxHash3_64::oneshot_with_seed(mix(seed ^ id), data))
        }
        CsumKind::Blake3 => {
            let key = blake3::derive_key("oxblock 2026-11-30 block checksum", &volume);
            let all = [data, &id.to_le_bytes()].concat();
            first_16(blake3::keyed_hash(&key, &all).as_bytes())
        }
        CsumKind::Sha256 => {
            let all = [&volume[..], &id.to_le_bytes(), data].concat();
            first_16(&sha2::Sha256::digest(all))
        }
    }
}

#[test]
fn checksums_are_as_documented() {
    let types = table("Types", 0);
    let answers = table("Types", 1);
    let volume: [u8; 16] = std::array::from_fn(|i| i as u8);
    let block: Vec<u8> = (0..BLOCK_SIZE).map(|i| (i % 251) as u8).collect();
    assert_eq!(types.len(), CsumKind::ALL.len());
    let mut computed = Vec::new();
    for (kind, row) in CsumKind::ALL.into_iter().zip(&types) {
        let documented = (row[0].parse(), row[1].as_str(), row[2].parse());
        assert_eq!(documented, (Ok(kind.id()), kind.name(), Ok(kind.width())));
        for id in [7, identity::record(7), identity::node(false, 2, 7), u64::MAX] {
            let csum = Csum::new(kind, volume);
            assert_eq!(csum.of(id, &block), value(kind, volume, id, &block), "{kind} of {id:x}");
        }
        let answer = value(kind, volume, 7, &block);
        computed.push(vec![
            kind.name().to_owned(),
            format!("{answer:0width$x}", width = kind.width() * 2),
        ]);
    }
    assert_eq!(answers, computed);
}

#[test]
fn unknown_features_are_treated_as_documented() {
    let rules: Vec<String> =
        table("Versioning and features", 0).into_iter().map(|row| row[0].clone()).collect();
    assert_eq!(rules, ["compat", "ro_compat", "incompat"]);
    let with = |features: Features| (features.check(false).is_ok(), features.check(true).is_ok());
    assert_eq!(with(Features { compat: 1 << 63, ..Features::CURRENT }), (true, true));
    assert_eq!(with(Features { ro_compat: 1 << 63, ..Features::CURRENT }), (true, false));
    assert_eq!(with(Features { incompat: 1 << 63, ..Features::CURRENT }), (false, false));
}
