//! One byte of a volume is changed, anywhere, and nothing made good: what is read must have been written, or fail. Input:
//! switches (bits 0-1 checksum type, bit 2: with a tail), then the number of a block in use (4 bytes), the byte in it (2),
//! and what it is changed by (1).

use oxblock::csum::CsumKind;
use oxblock::device::sim::Rng;
use oxblock::format::layout::BLOCK_BYTES;

use super::{Target, switched};
use crate::mutate;
use crate::shape::Shape;
use crate::volume::{Base, State, read_back};

/// The target.
pub struct Flip;

fn base_of(switches: u8) -> &'static Base {
    let state = if switches & 4 != 0 { State::Tail } else { State::Clean };
    Base::get(CsumKind::ALL[usize::from(switches & 3)], state)
}

impl Target for Flip {
    fn name(&self) -> &'static str {
        "flip"
    }

    fn seeds(&self) -> Vec<Vec<u8>> {
        let seed = |switches: u8| {
            base_of(switches);
            vec![switches, 0, 0, 0, 0, 0, 0, 1]
        };
        (0..8).map(seed).collect()
    }

    fn mutate(&self, rng: &mut Rng, input: &mut Vec<u8>) {
        input.resize(8, 0);
        rng.fill(input);
    }

    fn run(&self, input: &[u8]) -> Result<Shape, String> {
        let (switches, rest) = switched(input);
        let base = base_of(switches);
        let disk = base.disk();
        let used = disk.allocated_in(0, 0..base.places.size);
        let block = used[(mutate::get(rest, 0, 4) % used.len() as u64) as usize];
        let at = block + mutate::get(rest, 4, 2) % BLOCK_BYTES;
        let change = (mutate::get(rest, 6, 1) as u8).max(1);
        let old = disk.read_raw(0, at, 1);
        disk.write_raw(0, at, &[old[0] ^ change]);
        read_back(base, &disk)
    }

    fn memory(&self) -> usize {
        64 << 20
    }

    fn smoke_runs(&self) -> u64 {
        3_000
    }
}
