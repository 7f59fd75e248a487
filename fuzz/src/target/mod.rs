//! What is fuzzed. A target turns an input into work for the library, says what inputs look like, and what may not be.

mod block;
mod checkpoint;
mod flip;
mod fuse;
mod image;
mod jobfile;
mod nbd;
mod node;
mod record;
mod superblock;
mod table;

use oxblock::device::sim::Rng;

pub(crate) use superblock::seal as seal_superblock;

use crate::shape::Shape;

/// One entry into the library.
pub trait Target: Sync {
    /// Its name, which is that of its folder in the corpus.
    fn name(&self) -> &'static str;

    /// Inputs to begin with; always the same.
    fn seeds(&self) -> Vec<Vec<u8>>;

    /// Changes an input a little.
    fn mutate(&self, rng: &mut Rng, input: &mut Vec<u8>);

    /// Runs an input.
    ///
    /// # Errors
    /// What must not be, in a sentence. A panic says as much.
    fn run(&self, input: &[u8]) -> Result<Shape, String>;

    /// The most bytes that any input may have allocated at a time.
    fn memory(&self) -> usize;

    /// Inputs of a smoke run.
    fn smoke_runs(&self) -> u64;

    /// The same input with something left out, if that can be said: a finding is made smaller by it.
    fn smaller(&self, input: &[u8]) -> Vec<Vec<u8>> {
        let _ = input;
        Vec::new()
    }
}

/// All targets.
pub const ALL: [&dyn Target; 10] = [
    &superblock::Superblock,
    &record::Record,
    &node::Node,
    &checkpoint::Checkpoint,
    &table::Table,
    &image::Image,
    &flip::Flip,
    &jobfile::JobFile,
    &fuse::Fuse,
    &nbd::Nbd,
];

/// The target of a name.
pub fn find(name: &str) -> Option<&'static dyn Target> {
    ALL.iter().copied().find(|target| target.name() == name)
}

/// An input that starts with a byte of switches: the byte, and the rest.
fn switched(input: &[u8]) -> (u8, &[u8]) {
    input.split_first().map_or((0, &[]), |(switches, rest)| (*switches, rest))
}

/// Such an input, without the zeroes at its end, which are there anyway.
fn with_switches(switches: u8, bytes: &[u8]) -> Vec<u8> {
    let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    std::iter::once(switches).chain(bytes.iter().take(end).copied()).collect()
}

/// `bytes` filled up with zeroes, or cut, to `len`.
fn padded(bytes: &[u8], len: usize) -> Vec<u8> {
    let mut padded = bytes.to_vec();
    padded.resize(len, 0);
    padded
}

/// Lines of a text, each left out in turn, the later ones first.
fn without_a_line(input: &[u8]) -> Vec<Vec<u8>> {
    let lines: Vec<&[u8]> = input.split_inclusive(|byte| *byte == b'\n').collect();
    let without = |skip: usize| {
        let kept = lines.iter().enumerate().filter(move |(at, _)| *at != skip);
        kept.flat_map(|(_, line)| line.iter().copied()).collect()
    };
    (0..lines.len()).rev().map(without).collect()
}
