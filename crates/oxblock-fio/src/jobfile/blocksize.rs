//! Block sizes: one size, a range, or a weighted mix, separately for reads, writes and trims.

use super::value::{self, triple};

/// The sizes that I/O of one direction takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BlockSizes {
    /// Always the same number of bytes.
    Fixed(u32),
    /// Evenly from `min` to `max` bytes, in steps of `min`.
    Range {
        /// Smallest, bytes.
        min: u32,
        /// Largest, bytes.
        max: u32,
    },
    /// Each size with its share in percent; the shares add up to 100.
    Split(Vec<(u32, u32)>),
}

impl BlockSizes {
    /// The smallest size, bytes.
    pub fn min(&self) -> u32 {
        match self {
            Self::Fixed(size) => *size,
            Self::Range { min, .. } => *min,
            Self::Split(parts) => parts.iter().map(|(size, _)| *size).min().unwrap_or(4096),
        }
    }

    /// The largest size, bytes.
    pub fn max(&self) -> u32 {
        match self {
            Self::Fixed(size) => *size,
            // Sizes come in steps of the smallest one.
            Self::Range { min, max } => max - max % (*min).max(1),
            Self::Split(parts) => parts.iter().map(|(size, _)| *size).max().unwrap_or(4096),
        }
    }

    /// The largest number of bytes that divides every size: what offsets and checks are laid on.
    pub fn unit(&self) -> u32 {
        match self {
            Self::Fixed(size) | Self::Range { min: size, .. } => *size,
            Self::Split(parts) => parts.iter().fold(0, |unit, (size, _)| gcd(unit, *size)),
        }
    }
}

/// Greatest common divisor; `gcd(0, x)` is `x`.
pub(crate) fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a.checked_rem(b).unwrap_or(0)) }
}

fn bytes(text: &str) -> Result<u32, String> {
    match value::size(text.trim())? {
        0 => Err("a block size must not be 0".into()),
        size => u32::try_from(size)
            .ok()
            .filter(|size| *size <= 1 << 30)
            .ok_or_else(|| format!("block size '{text}' is above 1g")),
    }
}

/// `bs=`.
pub(super) fn fixed(text: &str, into: &mut [BlockSizes; 3]) -> Result<(), String> {
    triple(text, into, |part| Ok(BlockSizes::Fixed(bytes(part)?)))
}

/// `bsrange=min-max`.
pub(super) fn range(text: &str, into: &mut [BlockSizes; 3]) -> Result<(), String> {
    triple(text, into, |part| {
        let Some((min, max)) = part.split_once(['-', ':']) else {
            return Err(format!("'{part}' is not a range min-max"));
        };
        let (min, max) = (bytes(min)?, bytes(max)?);
        if min > max {
            return Err(format!("the range '{part}' runs backwards"));
        }
        Ok(BlockSizes::Range { min, max })
    })
}

/// `bssplit=size/percent:size/percent`; sizes without a share divide what is left evenly.
pub(super) fn split(text: &str, into: &mut [BlockSizes; 3]) -> Result<(), String> {
    triple(text, into, |part| {
        let mut shares: Vec<(u32, Option<u32>)> = Vec::new();
        for item in part.split(':').map(str::trim).filter(|item| !item.is_empty()) {
            let (size, share) = item.split_once('/').unwrap_or((item, ""));
            let share = match share.trim().trim_end_matches('%') {
                "" => None,
                text => Some(
                    u32::try_from(value::integer(text)?)
                        .ok()
                        .filter(|share| *share <= 100)
                        .ok_or_else(|| format!("'{text}' is not a percentage"))?,
                ),
            };
            shares.push((bytes(size)?, share));
        }
        let given: u32 = shares.iter().filter_map(|(_, share)| *share).sum();
        let open = u32::try_from(shares.iter().filter(|(_, s)| s.is_none()).count()).unwrap_or(1);
        if shares.is_empty() || shares.len() > 64 {
            return Err("between 1 and 64 sizes".into());
        }
        if given > 100 || (open == 0 && given != 100) {
            return Err(format!("the shares add up to {given} %, not 100 %"));
        }
        let left = 100 - given;
        let mut rest = left;
        let mut parts: Vec<(u32, u32)> = Vec::new();
        for (size, share) in shares {
            let share = share.unwrap_or_else(|| {
                let each = left.checked_div(open).unwrap_or(0);
                // The last open size also gets what the division left over.
                let each = if rest < 2 * each { rest } else { each };
                rest -= each;
                each
            });
            parts.push((size, share));
        }
        Ok(BlockSizes::Split(parts))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(
        parse: impl Fn(&str, &mut [BlockSizes; 3]) -> Result<(), String>,
        text: &str,
    ) -> [BlockSizes; 3] {
        let mut all = [4096, 4096, 4096].map(BlockSizes::Fixed);
        parse(text, &mut all).unwrap();
        all
    }

    #[test]
    fn one_two_three_and_missing_values() {
        let table = [
            ("8k", [8192, 8192, 8192]),
            ("8k,32k", [8192, 32768, 32768]),
            ("8k,32k,", [8192, 32768, 4096]),
            (",8k", [4096, 8192, 8192]),
            ("1k,2k,3k", [1024, 2048, 3072]),
        ];
        for (text, expected) in table {
            assert_eq!(sizes(fixed, text), expected.map(BlockSizes::Fixed), "{text}");
        }
        let mut all = [1, 1, 1].map(BlockSizes::Fixed);
        for text in ["0", "1,2,3,4", "2g", "x"] {
            assert!(fixed(text, &mut all).is_err(), "{text}");
        }
    }

    #[test]
    fn ranges_and_splits() {
        let all = sizes(range, "4k-17k");
        assert_eq!((all[0].min(), all[0].max(), all[0].unit()), (4096, 16384, 4096));
        let all = sizes(split, "4k/30:6k/40:16k");
        assert_eq!(all[1], BlockSizes::Split(vec![(4096, 30), (6144, 40), (16384, 30)]));
        assert_eq!(all[1].unit(), 2048);
        let all = sizes(split, "1k:2k:3k");
        assert_eq!(all[2], BlockSizes::Split(vec![(1024, 33), (2048, 33), (3072, 34)]));
        let mut all = [1, 1, 1].map(BlockSizes::Fixed);
        assert!(split("4k/60:8k/60", &mut all).is_err());
        assert!(split("4k/60:8k/10", &mut all).is_err());
        assert!(range("8k-4k", &mut all).is_err());
    }
}
