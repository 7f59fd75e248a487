//! Changes to bytes: anywhere, and to fields whose places are known.

use oxblock::device::sim::Rng;

use crate::spec::Field;

/// An index below `len`; 0 when there is none.
pub fn index(rng: &mut Rng, len: usize) -> usize {
    usize::try_from(rng.below(len as u64)).unwrap_or(0)
}

/// A number that code is likely to trip over: small ones, ends of ranges, limits of the format and their neighbours.
pub fn number(rng: &mut Rng) -> u64 {
    match rng.below(8) {
        0 => rng.below(4),
        1 => rng.below(300),
        2 => u64::MAX - rng.below(3),
        3 => (1u64 << rng.below(64)).wrapping_sub(rng.below(3)),
        4 => (1u64 << rng.below(64)).wrapping_add(rng.below(3)),
        5 => 1u64 << [12, 20, 31, 32, 48, 62][index(rng, 6)],
        6 => rng.below(1 << 20),
        _ => rng.next_u64(),
    }
}

/// The number of up to 8 little-endian bytes at `offset`; bytes that do not exist are zero.
pub fn get(bytes: &[u8], offset: usize, size: usize) -> u64 {
    let found = bytes.iter().skip(offset).take(size.min(8)).enumerate();
    found.fold(0, |number, (at, byte)| number | u64::from(*byte) << (8 * at))
}

/// Writes the low bytes of `number`, where there are any to write to.
pub fn set(bytes: &mut [u8], offset: usize, size: usize, number: u64) {
    for (to, from) in bytes.iter_mut().skip(offset).take(size.min(8)).zip(number.to_le_bytes()) {
        *to = from;
    }
}

/// A place inside `field`, of a size that an integer has.
pub fn part(rng: &mut Rng, field: Field) -> Field {
    if field.size <= 8 {
        return field;
    }
    let size = [1, 2, 4, 8][index(rng, 4)];
    let at = index(rng, field.size / size) * size;
    Field { offset: field.offset + at, size }
}

/// Changes `bytes`, which start with the structure that `fields` describes and are at most `most` long.
pub fn structure(rng: &mut Rng, bytes: &mut Vec<u8>, fields: &[Field], most: usize) {
    let chosen = fields.get(index(rng, fields.len())).copied();
    if let Some(field) = chosen.filter(|_| rng.below(4) > 0) {
        let field = part(rng, field);
        let end = field.offset + field.size;
        if end <= most {
            if bytes.len() < end {
                bytes.resize(end, 0);
            }
            let old = get(bytes, field.offset, field.size);
            let new = match rng.below(4) {
                0 => old.wrapping_add(1 + rng.below(4)),
                1 => old.wrapping_sub(1 + rng.below(4)),
                _ => number(rng),
            };
            set(bytes, field.offset, field.size, new);
            return;
        }
    }
    plain(rng, bytes, most);
}

/// Changes bytes of which nothing is known, at most `most` of them.
pub fn plain(rng: &mut Rng, bytes: &mut Vec<u8>, most: usize) {
    let at = index(rng, bytes.len());
    let len = 1 + index(rng, 16.min(bytes.len().saturating_sub(at).max(1)));
    match rng.below(7) {
        0 => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << rng.below(8);
            }
        }
        1 => {
            let value = number(rng);
            set(bytes, at, 1, value);
        }
        2 => {
            if let Some(run) = bytes.get_mut(at..at + len) {
                run.fill(0);
            }
        }
        3 => {
            if let Some(run) = bytes.get_mut(at..at + len) {
                rng.fill(run);
            }
        }
        4 => bytes.truncate(at),
        5 => {
            let copy: Vec<u8> =
                bytes.iter().skip(index(rng, bytes.len())).take(len).copied().collect();
            for (to, from) in bytes.iter_mut().skip(at).zip(copy) {
                *to = from;
            }
        }
        _ => {
            let room = most.saturating_sub(bytes.len()).min(64);
            let old = bytes.len();
            bytes.resize(old + index(rng, room + 1), 0);
            if let Some(new) = bytes.get_mut(old..) {
                rng.fill(new);
            }
        }
    }
    bytes.truncate(most);
}
