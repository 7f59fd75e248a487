//! A node of the map. Input: switches (`block.rs`), then up to 4 KiB.

use std::sync::OnceLock;

use oxblock::device::sim::Rng;
use oxblock::format::layout::BLOCK_SIZE;

use super::{Target, block, switched};
use crate::shape::Shape;
use crate::spec::{self, Field};
use crate::volume::PlaceKind;

/// The target.
pub struct Node;

impl Target for Node {
    fn name(&self) -> &'static str {
        "node"
    }

    fn seeds(&self) -> Vec<Vec<u8>> {
        block::seeds(PlaceKind::Node, 10)
    }

    fn mutate(&self, rng: &mut Rng, input: &mut Vec<u8>) {
        static FIELDS: [OnceLock<Vec<Field>>; 2] = [const { OnceLock::new() }; 2];
        let wide = block::is_wide(switched(input).0);
        let fields =
            FIELDS[usize::from(wide)].get_or_init(|| spec::node(if wide { 32 } else { 16 }));
        block::mutate(rng, input, fields, BLOCK_SIZE);
    }

    fn run(&self, input: &[u8]) -> Result<Shape, String> {
        block::run(PlaceKind::Node, input)
    }

    fn memory(&self) -> usize {
        160 << 20
    }

    fn smoke_runs(&self) -> u64 {
        300
    }
}
