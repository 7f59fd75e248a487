//! What the targets `node`, `table` and `checkpoint` share: one structure of a volume becomes the input, and the volume is
//! used. Switches: bits 0-1 checksum type, bit 2: with a tail, bit 3: checksums are made good, bits 4-7: which one.

use oxblock::csum::CsumKind;
use oxblock::device::sim::Rng;
use oxblock::format::layout::BLOCK_SIZE;

use super::{padded, switched, with_switches};
use crate::mutate;
use crate::shape::Shape;
use crate::spec::Field;
use crate::volume::{Base, Place, PlaceKind, State, Trust, exercise};

const SEALED: u8 = 8;

pub(super) fn base_of(flags: u8) -> &'static Base {
    let state = if flags & 4 != 0 { State::Tail } else { State::Clean };
    Base::get(csum_of(flags), state)
}

fn csum_of(flags: u8) -> CsumKind {
    CsumKind::ALL[usize::from(flags & 3)]
}

pub(super) fn is_sealed(flags: u8) -> bool {
    flags & SEALED != 0
}

pub(super) fn is_wide(flags: u8) -> bool {
    csum_of(flags).width() == 16
}

/// Every volume, sealed, with the first few structures of each.
pub(super) fn all_switches(which: u8) -> impl Iterator<Item = u8> {
    (0..8).flat_map(move |volume| (0..which).map(move |number| volume | SEALED | number << 4))
}

fn place(base: &Base, kind: PlaceKind, flags: u8) -> Option<&Place> {
    base.places.get(kind, u64::from(flags >> 4))
}

/// The blocks of `kind` as they were written.
pub(super) fn seeds(kind: PlaceKind, which: u8) -> Vec<Vec<u8>> {
    let seed = |flags: u8| {
        let base = base_of(flags);
        let place = place(base, kind, flags)?;
        Some(with_switches(flags, &base.disk().read_raw(0, place.offset(), BLOCK_SIZE)))
    };
    all_switches(which).filter_map(seed).collect()
}

/// Changes switches or structure.
pub(super) fn mutate(rng: &mut Rng, input: &mut Vec<u8>, fields: &[Field], most: usize) {
    let (mut flags, rest) = switched(input);
    let mut bytes = rest.to_vec();
    match rng.below(20) {
        0 => flags ^= SEALED,
        1 => flags ^= 1 << rng.below(8),
        _ => {}
    }
    mutate::structure(rng, &mut bytes, fields, most);
    *input = with_switches(flags, &bytes);
}

/// Puts the input in the place of a block of `kind`.
pub(super) fn run(kind: PlaceKind, input: &[u8]) -> Result<Shape, String> {
    let (flags, bytes) = switched(input);
    let base = base_of(flags);
    let disk = base.disk();
    let Some(place) = place(base, kind, flags) else { return Ok(Shape::default()) };
    let bytes = padded(bytes, BLOCK_SIZE);
    let changed = disk.read_raw(0, place.offset(), BLOCK_SIZE) != bytes;
    disk.write_raw(0, place.offset(), &bytes);
    if is_sealed(flags) {
        base.places.seal_above(&disk, place);
    }
    let trust = if is_sealed(flags) && changed { Trust::None } else { Trust::Data };
    exercise(base, &disk, trust)
}
