//! `verify_pattern=` and `buffer_pattern=`: hexadecimal, decimal or quoted bytes, and `%o`.

/// One piece of a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    /// These bytes.
    Bytes(Vec<u8>),
    /// The block's offset, 8 bytes, little-endian.
    Offset,
}

/// A pattern that fills a block by repetition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    parts: Vec<Part>,
}

impl Pattern {
    /// Parses a pattern such as `0xdeadbeef`, `"abc"%o` or `170`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut rest = text.trim();
        while !rest.is_empty() {
            if let Some(tail) = rest.strip_prefix("%o") {
                parts.push(Part::Offset);
                rest = tail;
            } else if let Some(tail) = rest.strip_prefix('"') {
                let Some((inside, tail)) = tail.split_once('"') else {
                    return Err("a quote in the pattern is not closed".into());
                };
                if !inside.is_empty() {
                    parts.push(Part::Bytes(inside.as_bytes().to_vec()));
                }
                rest = tail;
            } else {
                let end = rest.find(['"', '%']).unwrap_or(rest.len());
                let (number, tail) = rest.split_at_checked(end).unwrap_or((rest, ""));
                parts.push(Part::Bytes(number_bytes(number)?));
                rest = tail;
            }
            if parts.len() > 64 {
                return Err("the pattern has more than 64 parts".into());
            }
        }
        if parts.is_empty() { Err("the pattern is empty".into()) } else { Ok(Self { parts }) }
    }

    /// Fills the block that starts at `offset`.
    pub(crate) fn fill(&self, block: &mut [u8], offset: u64) {
        // One period of the pattern, then doubling copies.
        let mut period = Vec::with_capacity(64);
        for part in &self.parts {
            match part {
                Part::Bytes(bytes) => period.extend_from_slice(bytes),
                Part::Offset => period.extend_from_slice(&offset.to_le_bytes()),
            }
        }
        for chunk in block.chunks_mut(period.len().max(1)) {
            for (to, from) in chunk.iter_mut().zip(&period) {
                *to = *from;
            }
        }
    }
}

/// `0x` digits in the order in which they are written; decimal as its bytes, lowest first.
fn number_bytes(text: &str) -> Result<Vec<u8>, String> {
    let bad = || format!("'{text}' is not a pattern (0x..., a number, \"text\" or %o)");
    if let Some(hex) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        if hex.is_empty() || hex.len() > 1024 || !hex.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(bad());
        }
        let padded = if hex.len() % 2 == 1 { format!("0{hex}") } else { hex.to_owned() };
        let digits: Vec<u32> = padded.chars().filter_map(|c| c.to_digit(16)).collect();
        let byte = |pair: &[u32]| pair.iter().fold(0, |byte, digit| byte * 16 + digit);
        return digits.chunks(2).map(|pair| u8::try_from(byte(pair)).map_err(|_| bad())).collect();
    }
    let value: u64 = text.trim().parse().map_err(|_| bad())?;
    let bytes = value.to_le_bytes();
    let used = bytes.iter().rposition(|byte| *byte != 0).map_or(1, |last| last + 1);
    Ok(bytes.iter().take(used).copied().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(text: &str, offset: u64) -> Vec<u8> {
        let mut block = vec![0; 12];
        Pattern::parse(text).unwrap().fill(&mut block, offset);
        block
    }

    #[test]
    fn patterns_fill_by_repetition() {
        assert_eq!(filled("0xab", 0), [0xab; 12]);
        assert_eq!(filled("0xabcd", 0)[..4], [0xab, 0xcd, 0xab, 0xcd]);
        assert_eq!(filled("\"xyz\"", 0)[..4], *b"xyzx");
        assert_eq!(filled("258", 0)[..3], [2, 1, 2]);
        assert_eq!(filled("0xff%o", 7)[..9], [0xff, 7, 0, 0, 0, 0, 0, 0, 0]);
        for text in ["", "0x", "0xzz", "\"open", "%x", "-1"] {
            assert!(Pattern::parse(text).is_err(), "{text}");
        }
    }
}
