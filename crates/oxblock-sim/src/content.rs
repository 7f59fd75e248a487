//! What a write writes: every byte is a function of the write and of its place, so that any content names its origin.

/// Bytes of a block.
pub const BLOCK: u64 = 4096;
/// Bytes of a block, for slices.
pub const BLOCK_LEN: usize = 4096;

/// Whether `bytes`, a block at most, are all zero.
pub fn is_zero(bytes: &[u8]) -> bool {
    static ZEROES: [u8; BLOCK_LEN] = [0; BLOCK_LEN];
    ZEROES.get(..bytes.len()) == Some(bytes)
}

fn word(write: u64, place: u64) -> u64 {
    let n = write.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ place.wrapping_mul(0xd6e8_feb8_6659_fd93);
    let n = (n ^ (n >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    n ^ (n >> 29)
}

/// A length as the size of something in memory.
pub fn small(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

/// Fills `out` with what write `write` puts at the byte offset `offset` of the volume.
pub fn fill(write: u64, offset: u64, out: &mut [u8]) {
    let mut at = offset;
    let mut rest = out;
    while !rest.is_empty() {
        let skip = small(at % 8);
        let bytes = word(write, at / 8).to_le_bytes();
        let take = (8 - skip).min(rest.len());
        let (now, later) = rest.split_at_mut(take);
        for (to, from) in now.iter_mut().zip(bytes.iter().skip(skip)) {
            *to = *from;
        }
        at += take as u64;
        rest = later;
    }
}

/// Whether `bytes` at `offset` are what write `write` put there.
pub fn matches(write: u64, offset: u64, bytes: &[u8]) -> bool {
    let mut at = offset;
    let mut rest = bytes;
    while !rest.is_empty() {
        let skip = small(at % 8);
        let want = word(write, at / 8).to_le_bytes();
        let take = (8 - skip).min(rest.len());
        let (now, later) = rest.split_at(take);
        if now.iter().zip(want.iter().skip(skip)).any(|(got, want)| got != want) {
            return false;
        }
        at += take as u64;
        rest = later;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_part_of_a_write_is_recognised_and_no_other_is() {
        let mut bytes = vec![0; 5000];
        fill(7, 1001, &mut bytes);
        for (from, to) in [(0, 5000), (3, 4), (100, 133), (4990, 5000)] {
            assert!(matches(7, 1001 + from as u64, &bytes[from..to]));
        }
        assert!(!matches(8, 1001, &bytes));
        assert!(!matches(7, 1002, &bytes));
    }
}
