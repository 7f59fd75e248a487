//! CRC-32C with one table of 256 entries: the plain software version.
//!
//! It exists for two purposes: as the slow side of experiment 4 (what a machine without CRC instructions would pay),
//! and as the oracle for the accelerated version, written from the definition alone (RFC 3720, appendix B.4; the
//! polynomial 0x1EDC6F41 is used reflected, initial value and final XOR are all ones).

/// The Castagnoli polynomial, bit-reflected.
const POLYNOMIAL: u32 = 0x82F6_3B78;

/// The CRC of every single byte, before initial value and final XOR.
static TABLE: [u32; 256] = table();

#[expect(clippy::indexing_slicing, reason = "evaluated by the compiler, which checks the bounds")]
const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut byte = 0_u32;
    while byte < 256 {
        let mut crc = byte;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        table[byte as usize] = crc;
        byte += 1;
    }
    table
}

/// CRC-32C of `data`, one table look-up a byte.
pub(super) fn crc32c(data: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in data {
        let [low, ..] = crc.to_le_bytes();
        #[expect(clippy::indexing_slicing, reason = "a byte is always inside a table of 256")]
        let entry = TABLE[usize::from(low ^ byte)];
        crc = (crc >> 8) ^ entry;
    }
    !crc
}

#[cfg(test)]
mod tests {
    use super::crc32c;

    /// "Check" value of the CRC catalogue, and the vectors of RFC 3720, appendix B.4.
    #[test]
    fn known_answers() {
        let ascending: Vec<u8> = (0..32).collect();
        let descending: Vec<u8> = (0..32).rev().collect();
        assert_eq!(crc32c(b""), 0);
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8A91_36AA);
        assert_eq!(crc32c(&[0xFF; 32]), 0x62A8_AB43);
        assert_eq!(crc32c(&ascending), 0x46DD_794E);
        assert_eq!(crc32c(&descending), 0x113F_DB5C);
    }
}
