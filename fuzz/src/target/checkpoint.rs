//! The checkpoint in the superblock in force. Input: switches (`block.rs`), then the superblock up to the end of its
//! reserve list, of which only the checkpoint's fields are taken.

use oxblock::device::sim::Rng;
use oxblock::format::layout::SUPERBLOCK_SIZE;

use super::{Target, block, padded, switched, with_switches};
use crate::shape::Shape;
use crate::spec;
use crate::volume::{Trust, exercise};

/// The target.
pub struct Checkpoint;

const END: usize = 8192;

impl Target for Checkpoint {
    fn name(&self) -> &'static str {
        "checkpoint"
    }

    fn seeds(&self) -> Vec<Vec<u8>> {
        let seed = |flags: u8| {
            let places = &block::base_of(flags).places;
            with_switches(flags, &places.newest.encode()[..END])
        };
        block::all_switches(1).map(seed).collect()
    }

    fn mutate(&self, rng: &mut Rng, input: &mut Vec<u8>) {
        block::mutate(rng, input, spec::checkpoint(), END);
    }

    fn run(&self, input: &[u8]) -> Result<Shape, String> {
        let (flags, bytes) = switched(input);
        let bytes = padded(bytes, END);
        let base = block::base_of(flags);
        let disk = base.disk();
        for at in base.places.copies(false) {
            let mut whole = disk.read_raw(0, at, SUPERBLOCK_SIZE);
            for field in spec::checkpoint() {
                let range = field.offset..field.offset + field.size;
                whole[range.clone()].copy_from_slice(&bytes[range]);
            }
            disk.write_raw(0, at, &whole);
        }
        if block::is_sealed(flags) {
            base.places.seal_copies(&disk, false);
        }
        exercise(base, &disk, if block::is_sealed(flags) { Trust::None } else { Trust::Data })
    }

    fn memory(&self) -> usize {
        160 << 20
    }

    fn smoke_runs(&self) -> u64 {
        400
    }
}
