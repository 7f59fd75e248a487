//! The record header's decoder, and the verification of the payload as recovery does it. Input: a byte of switches
//! (bit 0: the header's checksum is made good, bits 1-2: checksum type, bit 3: the entries' checksums too), then header and
//! payload.

use std::sync::OnceLock;

use oxblock::csum::{Csum, CsumKind};
use oxblock::device::sim::Rng;
use oxblock::format::layout::{BLOCK_SIZE, MAX_RECORD_HEADER, MAX_RECORD_PAYLOAD};
use oxblock::format::pointer::{PointerWidth, identity};
use oxblock::format::record::{
    Entry, FLAG_CONTINUES, Header, Kind, claimed_blocks, decode, encode, header_blocks,
    payload_identity,
};

use super::{Target, padded, switched, with_switches};
use crate::shape::Shape;
use crate::{mutate, spec};

/// The target.
pub struct Record;

const SEALED: u8 = 1;
const PAYLOAD_SEALED: u8 = 8;
const ADDR: u64 = 4096;
const VOLUME: [u8; 16] = [7; 16];
/// More blocks than the largest record has.
const MOST: usize = (MAX_RECORD_HEADER + MAX_RECORD_PAYLOAD + 1) * BLOCK_SIZE;

fn kind_of(flags: u8) -> CsumKind {
    CsumKind::ALL[usize::from(flags >> 1 & 3)]
}

impl Target for Record {
    fn name(&self) -> &'static str {
        "record"
    }

    fn seeds(&self) -> Vec<Vec<u8>> {
        let mut seeds = Vec::new();
        for csum in 0..4 {
            for kind in KINDS {
                for count in [0, 1, 3] {
                    seeds.push(with_switches(
                        csum << 1 | SEALED,
                        &good(kind_of(csum << 1), kind, count),
                    ));
                }
            }
            seeds.push(with_switches(
                csum << 1 | SEALED,
                &good(kind_of(csum << 1), Kind::Trim, 256),
            ));
        }
        seeds
    }

    fn mutate(&self, rng: &mut Rng, input: &mut Vec<u8>) {
        static NARROW: OnceLock<Vec<spec::Field>> = OnceLock::new();
        static WIDE: OnceLock<Vec<spec::Field>> = OnceLock::new();
        let (mut flags, rest) = switched(input);
        let mut bytes = rest.to_vec();
        match rng.below(16) {
            0 => flags ^= SEALED,
            1 => flags ^= PAYLOAD_SEALED,
            _ => {}
        }
        let fields = match kind_of(flags).width() {
            16 => WIDE.get_or_init(|| spec::header(32)),
            _ => NARROW.get_or_init(|| spec::header(16)),
        };
        mutate::structure(rng, &mut bytes, fields, MOST);
        *input = with_switches(flags, &bytes);
    }

    fn run(&self, input: &[u8]) -> Result<Shape, String> {
        let (flags, rest) = switched(input);
        let mut bytes =
            padded(rest, rest.len().next_multiple_of(BLOCK_SIZE).clamp(BLOCK_SIZE, MOST));
        let csum = Csum::new(kind_of(flags), VOLUME);
        let width = PointerWidth::for_csum(csum.kind().width());
        if flags & PAYLOAD_SEALED != 0 {
            seal_payload(&mut bytes, width, &csum);
        }
        if flags & SEALED != 0 {
            seal(&mut bytes, &csum);
        }
        let mut shape = Shape::default();
        shape.size(flags.into());
        let (header, entries) = match decode(&bytes, ADDR, width, &csum) {
            Ok(found) => found,
            Err(invalid) => {
                shape.text(&invalid.to_string());
                return Ok(shape);
            }
        };
        shape.text(header.kind.name());
        shape.size(entries.len() as u64);
        if flags & SEALED == 0 && csum.kind() != CsumKind::Crc32c {
            let known = KINDS.iter().any(|kind| {
                let good = good(csum.kind(), *kind, entries.len());
                decode(&good, ADDR, width, &csum)
                    .is_ok_and(|good| good == (header, entries.clone()))
            });
            if !known {
                return Err("a damaged record header passes for a good one".into());
            }
        }
        again(&header, &entries, width, &csum)?;
        shape.text(if whole(&header, &entries, &bytes, &csum) { "whole" } else { "torn" });
        Ok(shape)
    }

    fn memory(&self) -> usize {
        8 << 20
    }

    fn smoke_runs(&self) -> u64 {
        400_000
    }
}

/// Every payload block verifies.
fn whole(header: &Header, entries: &[Entry], bytes: &[u8], csum: &Csum) -> bool {
    let payload = bytes.get(usize::from(header.header_blocks) * BLOCK_SIZE..).unwrap_or(&[]);
    let blocks = payload.chunks_exact(BLOCK_SIZE);
    blocks.len() >= header.payload_blocks as usize
        && (!header.kind.has_payload()
            || blocks.zip(entries).all(|(data, entry)| {
                csum.of(payload_identity(header.kind, entry), data) == entry.csum
            }))
}

fn again(
    header: &Header,
    entries: &[Entry],
    width: PointerWidth,
    csum: &Csum,
) -> Result<(), String> {
    let mut bytes = vec![0xaa; usize::from(header.header_blocks) * BLOCK_SIZE];
    encode(header, entries, width, csum, &mut bytes);
    match decode(&bytes, ADDR, width, csum) {
        Ok((twice, more)) if twice == *header && more == entries => Ok(()),
        other => Err(format!("encoding changes {header:?} to {other:?}")),
    }
}

fn seal(bytes: &mut [u8], csum: &Csum) {
    let Some(blocks) = claimed_blocks(bytes) else { return };
    let Some(header) = bytes.get_mut(..blocks as usize * BLOCK_SIZE) else { return };
    header[16..32].fill(0);
    let sum = csum.of(identity::record(ADDR), header).to_le_bytes();
    header[16..32].copy_from_slice(&sum);
}

/// Makes the entries' checksums fit the blocks that are there.
fn seal_payload(bytes: &mut [u8], width: PointerWidth, csum: &Csum) {
    let Some(blocks) = claimed_blocks(bytes) else { return };
    let Some((header, payload)) = bytes.split_at_mut_checked(blocks as usize * BLOCK_SIZE) else {
        return;
    };
    let kind = Kind::from_byte(header[4]).filter(|kind| kind.has_payload());
    let Some(kind) = kind else { return };
    for (index, data) in payload.chunks_exact(BLOCK_SIZE).enumerate().take(24) {
        let at = 128 + index * width.size();
        let id = mutate::get(header, at, 8);
        let sum =
            csum.of(payload_identity(kind, &Entry { id, ..Entry::default() }), data).to_le_bytes();
        let value = if width == PointerWidth::Narrow { (8, 8) } else { (16, 16) };
        if let Some(to) = header.get_mut(at + value.0..at + value.0 + value.1) {
            to.copy_from_slice(&sum[..value.1]);
        }
    }
}

const KINDS: [Kind; 6] = [Kind::Data, Kind::Map, Kind::Trim, Kind::Zero, Kind::Relocate, Kind::Pad];

/// A whole record.
fn good(csum: CsumKind, kind: Kind, count: usize) -> Vec<u8> {
    let csum = Csum::new(csum, VOLUME);
    let width = PointerWidth::for_csum(csum.kind().width());
    let blocks = header_blocks(kind, count, width);
    let payload = if kind.has_payload() { count } else { 0 };
    let header = Header {
        kind,
        stream: 1,
        flags: FLAG_CONTINUES,
        header_blocks: blocks as u16,
        payload_blocks: payload as u32,
        entries: count as u32,
        volume: VOLUME,
        lane: 0,
        sequence: 99,
        epoch: 3,
        durable: 98,
        addr: ADDR,
        segment: 8,
        generation: 5,
    };
    let mut bytes = vec![0; (blocks + payload) * BLOCK_SIZE];
    let (head, data) = bytes.split_at_mut(blocks * BLOCK_SIZE);
    let mut entries = Vec::new();
    for index in 0..count {
        let id = if kind == Kind::Map {
            identity::node(false, 1, index as u64)
        } else {
            index as u64 * 3
        };
        let mut entry = Entry { id, csum: 0, aux: if kind == Kind::Relocate { 77 } else { 2 } };
        if kind.has_payload() {
            let block = &mut data[index * BLOCK_SIZE..(index + 1) * BLOCK_SIZE];
            block[0] = 1 + index as u8 % 100;
            entry.csum = csum.of(payload_identity(kind, &entry), block);
            entry.aux = if kind == Kind::Relocate { 77 } else { 0 };
        }
        entries.push(entry);
    }
    encode(&header, &entries, width, &csum, head);
    bytes
}
