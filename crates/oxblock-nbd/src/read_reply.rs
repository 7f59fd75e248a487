//! The reply to a read: all of it, or what is good of it and where the rest is bad.

use std::ops::Range;

use oxblock::{BadBlock, Error};
use oxblock_nbd_proto::{Errno, ReplyTo, Style};

use crate::buffers::{Buffers, Lease};
use crate::connection::Output;

/// Bytes of a block.
const BLOCK: u64 = 4096;
/// The most parts of one reply. What comes behind them is left out, which says that it is not valid.
const PARTS: usize = 128;

/// A read that was done, well or not.
pub(crate) struct ReadDone {
    pub to: ReplyTo,
    pub offset: u64,
    /// It must be answered in one piece.
    pub whole: bool,
    pub lease: Lease,
}

impl ReadDone {
    /// Answers it. `result` may list blocks that are bad; the others are good then.
    pub fn answer(self, result: Result<(), Error>, output: &mut Output, buffers: &mut Buffers) {
        let Self { to, offset, whole, lease } = self;
        let len = u32::try_from(lease.buf.len()).unwrap_or(u32::MAX);
        match result {
            Ok(()) => {
                output.write(|out| to.data(offset, len, true, out));
                output.buffer(lease);
            }
            Err(error) if to.style() != Style::Simple && !error.blocks().is_empty() => {
                let mut parts = parts(offset..offset + u64::from(len), error.blocks());
                // Of one piece, that is what comes before the first bad block, and that block.
                parts.truncate(if whole { first_bad(&parts) + 1 } else { PARTS });
                if parts.iter().all(|part| part.bad.is_none()) {
                    // It does not come to that unless the first bad block is cut off.
                    output.write(|out| to.error(Errno::Io, &error.to_string(), out));
                    return buffers.give(lease);
                }
                send_parts(&to, &parts, lease, output);
            }
            Err(error) => {
                output.write(|out| {
                    to.error(Errno::of_system(error.errno()), &error.to_string(), out);
                });
                buffers.give(lease);
            }
        }
    }
}

/// A stretch of a read.
#[derive(Debug, PartialEq, Eq)]
struct Part<'a> {
    bytes: Range<u64>,
    /// Its first block is bad, and so are the others.
    bad: Option<&'a BadBlock>,
}

fn first_bad(parts: &[Part<'_>]) -> usize {
    parts.iter().position(|part| part.bad.is_some()).unwrap_or(parts.len())
}

/// `bytes` in good and bad stretches, in order.
fn parts(bytes: Range<u64>, bad: &[BadBlock]) -> Vec<Part<'_>> {
    let mut parts: Vec<Part<'_>> = Vec::new();
    let mut at = bytes.start;
    for block in bad {
        let start = (block.block * BLOCK).clamp(at, bytes.end);
        let end = ((block.block + 1) * BLOCK).clamp(start, bytes.end);
        if start > at {
            parts.push(Part { bytes: at..start, bad: None });
        }
        match parts.last_mut() {
            _ if start == end => {}
            Some(last) if last.bad.is_some() && last.bytes.end == start => last.bytes.end = end,
            _ => parts.push(Part { bytes: start..end, bad: Some(block) }),
        }
        at = end;
    }
    if at < bytes.end {
        parts.push(Part { bytes: at..bytes.end, bad: None });
    }
    parts
}

fn send_parts(to: &ReplyTo, parts: &[Part<'_>], lease: Lease, output: &mut Output) {
    let mut rest = lease.buf;
    for (place, part) in parts.iter().enumerate() {
        let last = place + 1 == parts.len();
        let len = part.bytes.end - part.bytes.start;
        let cut = usize::try_from(len).unwrap_or(usize::MAX).min(rest.len());
        let behind = rest.split_off(cut);
        let piece = std::mem::replace(&mut rest, behind);
        let start = part.bytes.start;
        match part.bad {
            None => {
                let len = u32::try_from(len).unwrap_or(u32::MAX);
                output.write(|out| to.data(start, len, last, out));
                output.piece(piece);
            }
            Some(bad) => output.write(|out| {
                to.error_at(Errno::Io, &bad.to_string(), start, last, out);
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bad(block: u64) -> BadBlock {
        BadBlock { block, device: 0, offset: 0, expected: 1, got: None }
    }

    fn stretches(bytes: Range<u64>, blocks: &[u64]) -> Vec<(Range<u64>, bool)> {
        let blocks: Vec<BadBlock> = blocks.iter().map(|block| bad(*block)).collect();
        parts(bytes, &blocks).into_iter().map(|part| (part.bytes, part.bad.is_some())).collect()
    }

    #[test]
    fn good_and_bad_stretches() {
        assert_eq!(stretches(0..8192, &[0]), [(0..4096, true), (4096..8192, false)]);
        assert_eq!(stretches(0..8192, &[0, 1]), [(0..8192, true)]);
        assert_eq!(
            stretches(100..20_000, &[1, 2, 4]),
            [
                (100..4096, false),
                (4096..12_288, true),
                (12_288..16_384, false),
                (16_384..20_000, true)
            ]
        );
        assert_eq!(stretches(100..200, &[0]), [(100..200, true)]);
        assert_eq!(stretches(100..200, &[]), [(100..200, false)]);
        // Blocks outside, which nobody should name, do no harm.
        assert_eq!(stretches(4096..8192, &[0, 9]), [(4096..8192, false)]);
    }
}
