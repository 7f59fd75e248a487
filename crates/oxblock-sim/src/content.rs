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

/// What tells the words of one write from those of any other.
fn key(write: u64) -> u64 {
    let n = write.wrapping_add(0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}

/// The eight bytes at `place`, in words from the start of the volume: one addition a word from one to the next, since
/// filling and comparing are most of what a soak does.
fn word(key: u64, place: u64) -> u64 {
    key.wrapping_add(place.wrapping_mul(0xd6e8_feb8_6659_fd93))
}

/// How many of `len` bytes at `offset` come before the first whole word.
fn ahead(offset: u64, len: usize) -> usize {
    small(offset.wrapping_neg() % 8).min(len)
}

/// A length as the size of something in memory.
pub fn small(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

/// Fills `out` with what write `write` puts at the byte offset `offset` of the volume.
pub fn fill(write: u64, offset: u64, out: &mut [u8]) {
    let key = key(write);
    let (head, body) = out.split_at_mut(ahead(offset, out.len()));
    let bytes = word(key, offset / 8).to_le_bytes();
    for (to, from) in head.iter_mut().zip(bytes.iter().skip(small(offset % 8))) {
        *to = *from;
    }
    let (words, tail) = body.as_chunks_mut::<8>();
    let mut place = offset.div_ceil(8);
    for to in words {
        *to = word(key, place).to_le_bytes();
        place += 1;
    }
    for (to, from) in tail.iter_mut().zip(word(key, place).to_le_bytes()) {
        *to = from;
    }
}

/// Whether `bytes` at `offset` are what write `write` put there.
pub fn matches(write: u64, offset: u64, bytes: &[u8]) -> bool {
    let key = key(write);
    let (head, body) = bytes.split_at(ahead(offset, bytes.len()));
    let want = word(key, offset / 8).to_le_bytes();
    let (words, tail) = body.as_chunks::<8>();
    let places = offset.div_ceil(8)..;
    let last = word(key, offset.div_ceil(8) + words.len() as u64).to_le_bytes();
    head.iter().eq(want.iter().skip(small(offset % 8)).take(head.len()))
        && places.zip(words).all(|(place, got)| u64::from_le_bytes(*got) == word(key, place))
        && tail.iter().eq(last.iter().take(tail.len()))
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
