//! Structures on the media, decoded, with the names of `docs/format.md`.
//!
//! What is shown is what is there, not what recovery makes of it: a volume that does not open can be dumped. The one
//! exception is said by name (`after_replay` of a block's path).

mod path;
mod record;
mod segment;
mod superblock;
mod value;

use std::path::PathBuf;

pub use value::{Fields, Value};

use crate::device::IoQueue;
use crate::error::{Error, ErrorKind, Result};
use crate::log::load::{explain_none, newest, read_slots};
use crate::volume::inspect::Media;
use crate::volume::open::{OpenOptions, open_device};

/// What to show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// All superblock slots, and the newest superblock in full.
    Superblock,
    /// The checkpoint in force.
    Checkpoint,
    /// A segment's entry in the table, and its records.
    Segment(u64),
    /// The record whose header is at this address, in blocks of the log space.
    Record(u64),
    /// The path from the root of the map to this logical block.
    Map(u64),
}

/// Shows `part` of the volume on `devices`, which nobody may have open for writing.
///
/// # Errors
/// What keeps the part from being found: no volume, one in use, an address out of range. Damage is shown, not an error.
pub fn dump(devices: &[PathBuf], part: Part, options: &OpenOptions) -> Result<Fields> {
    let (path, opened) = open_device(devices, options, true)?;
    dump_on(opened.queue, part, options).map_err(|error| error.context(path.display()))
}

/// Shows `part` of the volume behind a queue of devices.
///
/// # Errors
/// As for [`dump`].
pub fn dump_on(
    mut queue: Box<dyn IoQueue + Send>,
    part: Part,
    options: &OpenOptions,
) -> Result<Fields> {
    let slots = read_slots(queue.as_mut());
    let Some(superblock) = newest(&slots).cloned() else {
        return Err(explain_none(queue.as_mut(), &slots));
    };
    match part {
        Part::Superblock => Ok(superblock::superblocks(queue.as_mut(), &slots, &superblock)),
        Part::Checkpoint => Ok(superblock::checkpoint(&superblock.checkpoint)),
        Part::Segment(number) => {
            segment::segment(&mut Media::new(queue.as_mut(), &superblock), number)
        }
        Part::Record(addr) => record::record(&mut Media::new(queue.as_mut(), &superblock), addr),
        Part::Map(block) => path::path(queue, &superblock, block, options),
    }
}

fn out_of_range(what: &str, number: u64, limit: u64) -> Error {
    let message =
        format!("{what} {number} does not exist; the last is {}", limit.saturating_sub(1));
    Error::new(ErrorKind::InvalidInput, message)
}
