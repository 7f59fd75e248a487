//! Finding the blocks that are all zero.

use std::ops::Range;

use super::BLOCK;

/// Whether every byte is zero. Written so that the compiler uses vector instructions for each piece, and stops at the
/// first piece with data in it.
pub fn is_zero(bytes: &[u8]) -> bool {
    bytes.chunks(512).all(|piece| piece.iter().fold(0, |seen, byte| seen | byte) == 0)
}

/// A stretch of blocks that are all zero, or that all are not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// Bytes within the buffer; starts and ends at block boundaries, or at the end of the buffer.
    pub range: Range<usize>,
    /// All bytes are zero.
    pub zero: bool,
}

/// Cuts `buffer` into runs of blocks.
pub fn runs(buffer: &[u8]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    let mut start = 0;
    for block in buffer.chunks(BLOCK) {
        let zero = is_zero(block);
        let end = start + block.len();
        match runs.last_mut() {
            Some(run) if run.zero == zero => run.range.end = end,
            _ => runs.push(Run { range: start..end, zero }),
        }
        start = end;
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_byte_anywhere_makes_a_block_data() {
        for at in [0, 1, 511, 512, 4095] {
            let mut block = vec![0; 4096];
            assert!(is_zero(&block));
            block[at] = 1;
            assert!(!is_zero(&block), "{at}");
        }
        assert!(is_zero(&[]));
    }

    #[test]
    fn runs_join_equal_neighbours() {
        let mut buffer = vec![0; 5 * BLOCK + 10];
        buffer[BLOCK] = 1;
        buffer[3 * BLOCK - 1] = 1;
        buffer[5 * BLOCK + 9] = 1;
        let expected = [
            Run { range: 0..BLOCK, zero: true },
            Run { range: BLOCK..3 * BLOCK, zero: false },
            Run { range: 3 * BLOCK..5 * BLOCK, zero: true },
            Run { range: 5 * BLOCK..5 * BLOCK + 10, zero: false },
        ];
        assert_eq!(runs(&buffer), expected);
        assert_eq!(runs(&[]), []);
    }
}
