//! A block of segment entries. Input: switches (`block.rs`), then up to 4 KiB.

use std::sync::OnceLock;

use oxblock::device::sim::Rng;
use oxblock::format::layout::BLOCK_SIZE;

use super::{Target, block};
use crate::shape::Shape;
use crate::spec::{self, Field};
use crate::volume::PlaceKind;

/// The target.
pub struct Table;

impl Target for Table {
    fn name(&self) -> &'static str {
        "table"
    }

    fn seeds(&self) -> Vec<Vec<u8>> {
        block::seeds(PlaceKind::Entries, 2)
    }

    fn mutate(&self, rng: &mut Rng, input: &mut Vec<u8>) {
        static FIELDS: OnceLock<Vec<Field>> = OnceLock::new();
        block::mutate(rng, input, FIELDS.get_or_init(spec::entries), BLOCK_SIZE);
    }

    fn run(&self, input: &[u8]) -> Result<Shape, String> {
        block::run(PlaceKind::Entries, input)
    }

    fn memory(&self) -> usize {
        160 << 20
    }

    fn smoke_runs(&self) -> u64 {
        400
    }
}
