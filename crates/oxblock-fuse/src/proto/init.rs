//! The first message: version and features.

use super::TRANSFER_MAX;
use super::wire::{InitIn, InitInMore, InitOut};

/// The version that is spoken.
const MAJOR: u32 = 7;
const MINOR: u32 = 40;
/// The oldest minor version that is spoken: Linux 5.4.
const OLDEST: u32 = 31;

/// Reads of the page cache may overlap.
const ASYNC_READ: u64 = 1 << 0;
/// Writes larger than a page.
const BIG_WRITES: u64 = 1 << 5;
/// Direct I/O that its caller does not wait for comes without waiting too. Without it, requests at depth 16 come one by one.
const ASYNC_DIO: u64 = 1 << 15;
/// Look-ups in one folder may overlap.
const PARALLEL_DIROPS: u64 = 1 << 18;
/// Reading says one thing after unmounting, and another after the connection was cut off.
const ABORT_ERROR: u64 = 1 << 21;
/// `max_pages` counts.
const MAX_PAGES: u64 = 1 << 22;
/// There are 64 bits of flags.
const INIT_EXT: u64 = 1 << 30;
/// Shared mappings of a file that is opened for direct I/O.
const DIRECT_IO_ALLOW_MMAP: u64 = 1 << 36;
/// The first kernels with that flag (6.6 to 6.8, which speak 7.39) write one at a time where it is set.
const ALLOW_MMAP_FROM: u32 = 40;

/// What is asked for where the kernel offers it.
const WANTED: u64 = ASYNC_READ
    | BIG_WRITES
    | ASYNC_DIO
    | PARALLEL_DIROPS
    | ABORT_ERROR
    | MAX_PAGES
    | INIT_EXT
    | DIRECT_IO_ALLOW_MMAP;

/// Requests that nobody waits for which the kernel sends at once, at most. Its own default is 12.
const BACKGROUND: u16 = 256;

/// What both sides keep to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Agreed {
    /// The session begins.
    Version(InitOut),
    /// The kernel is to say it again, in our major version.
    Again(InitOut),
}

/// The kernel is too old.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused {
    /// What it speaks.
    pub major: u32,
    /// What it speaks.
    pub minor: u32,
}

/// The answer to the kernel's offer.
///
/// # Errors
/// Versions before 7.31.
pub fn negotiate(offer: &InitIn, more: Option<&InitInMore>) -> Result<Agreed, Refused> {
    let mut out = InitOut { major: MAJOR, minor: MINOR, ..InitOut::default() };
    if offer.major > MAJOR {
        return Ok(Agreed::Again(out));
    }
    if offer.major < MAJOR || offer.minor < OLDEST {
        return Err(Refused { major: offer.major, minor: offer.minor });
    }
    let more = more.map_or(0, |more| u64::from(more.flags2) << 32);
    let offered = u64::from(offer.flags);
    let offered = if offered & INIT_EXT == 0 { offered } else { offered | more };
    let mut flags = offered & WANTED;
    if offer.minor < ALLOW_MMAP_FROM {
        flags &= !DIRECT_IO_ALLOW_MMAP;
    }
    out.minor = offer.minor.min(MINOR);
    (out.flags, out.flags2) = halves(flags);
    out.max_readahead = offer.max_readahead.min(TRANSFER_MAX);
    out.max_background = BACKGROUND;
    out.congestion_threshold = BACKGROUND / 4 * 3;
    out.max_write = TRANSFER_MAX;
    // Pages of 4 KiB; where they are larger it allows for more than is ever sent.
    out.max_pages = u16::try_from(TRANSFER_MAX / 4096).unwrap_or(u16::MAX);
    out.time_gran = 1;
    Ok(Agreed::Version(out))
}

#[expect(clippy::cast_possible_truncation, reason = "the low half is what is asked for")]
fn halves(flags: u64) -> (u32, u32) {
    (flags as u32, (flags >> 32) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(minor: u32, flags: u64) -> (InitIn, InitInMore) {
        let (flags, flags2) = halves(flags);
        let first = InitIn { major: 7, minor, max_readahead: 131_072, flags };
        (first, InitInMore { flags2, unused: [0; 11] })
    }

    fn agreed(minor: u32, flags: u64) -> InitOut {
        let (first, more) = offer(minor, flags);
        match negotiate(&first, Some(&more)).unwrap() {
            Agreed::Version(out) => out,
            again @ Agreed::Again(_) => panic!("{again:?}"),
        }
    }

    #[test]
    fn only_what_is_offered_is_taken() {
        assert_eq!(agreed(31, 0).flags, 0);
        assert_eq!(agreed(31, ASYNC_DIO | 1 << 16).flags, 1 << 15);
        let out = agreed(45, u64::MAX);
        assert_eq!((out.major, out.minor), (7, 40));
        assert_eq!(u64::from(out.flags) | u64::from(out.flags2) << 32, WANTED);
        assert_eq!((out.max_write, out.max_pages), (1 << 20, 256));
    }

    #[test]
    fn the_upper_flags_count_only_where_the_kernel_says_that_it_sends_them() {
        assert_eq!(agreed(45, !INIT_EXT).flags2, 0);
        // And this one only where it does no harm.
        assert_eq!(agreed(39, u64::MAX).flags2, 0);
        assert_eq!(agreed(40, u64::MAX).flags2, 1 << 4);
    }

    #[test]
    fn other_versions() {
        assert_eq!(agreed(38, u64::MAX).minor, 38);
        let (first, _) = offer(30, u64::MAX);
        assert_eq!(negotiate(&first, None), Err(Refused { major: 7, minor: 30 }));
        let later = negotiate(&InitIn { major: 8, ..first }, None);
        assert!(matches!(later, Ok(Agreed::Again(out)) if out.major == 7));
        assert!(negotiate(&InitIn { major: 6, minor: 99, ..first }, None).is_err());
    }
}
