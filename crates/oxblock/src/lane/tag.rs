//! Who owns each tag of a device operation: the one place that makes and takes apart tags.

/// What a device operation belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// A record; the number is its sequence number.
    Record,
    /// A bio of a read; the number is its place in the table of bios.
    Read,
    /// A map node; the number is its place in the table of fetches.
    Node,
    /// The flush in flight.
    Flush,
    /// A copy of the superblock.
    Superblock,
    /// The cleaner's window.
    Clean,
    /// The discard of a segment; the number is the segment.
    Discard,
    /// Checksums by a worker; the number counts jobs.
    Sum,
    /// A finished operation at a worker; the number counts jobs.
    End,
}

const SHIFT: u32 = 56;

/// The number of an operation is below this; a lane whose sequence numbers are not is not written ([`Volume::open_on`]).
///
/// [`Volume::open_on`]: crate::Volume::open_on
pub(crate) const NUMBER_LIMIT: u64 = 1 << SHIFT;

/// The tag of operation `number` of `class`.
pub(crate) fn tag(class: Class, number: u64) -> u64 {
    assert!(number < NUMBER_LIMIT, "operation {number} of {class:?} has no tag");
    (class as u64) << SHIFT | number
}

/// Takes a tag apart.
pub(crate) fn classify(tag: u64) -> (Class, u64) {
    let class = match tag >> SHIFT {
        0 => Class::Record,
        1 => Class::Read,
        2 => Class::Node,
        3 => Class::Flush,
        4 => Class::Superblock,
        5 => Class::Clean,
        6 => Class::Discard,
        7 => Class::Sum,
        8 => Class::End,
        other => unreachable!("tag class {other}"),
    };
    (class, tag & ((1 << SHIFT) - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_come_apart_as_they_were_made() {
        use Class::{Clean, Discard, End, Flush, Node, Read, Record, Sum, Superblock};
        for class in [Record, Read, Node, Flush, Superblock, Clean, Discard, Sum, End] {
            for number in [0, 1, (1 << SHIFT) - 1] {
                assert_eq!(classify(tag(class, number)), (class, number));
            }
        }
    }
}
