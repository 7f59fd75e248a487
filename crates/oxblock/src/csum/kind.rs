//! The checksum types that a volume can have, by number, name and width.
//!
//! Numbers and names are on media and in scripts: they never change meaning, and 0 is never valid.

use std::fmt;
use std::str::FromStr;

use crate::error::Error;
use crate::names::named;

/// A checksum type, chosen when the volume is created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum CsumKind {
    /// CRC-32C (Castagnoli, RFC 3720): 4 bytes, finds every burst of up to 32 bits.
    #[default]
    Crc32c,
    /// XXH3, 64 bits.
    Xxh3,
    /// BLAKE3, keyed, 128 bits kept.
    Blake3,
    /// SHA-256, 128 bits kept.
    Sha256,
}

impl CsumKind {
    /// Every type, in the order of the ids.
    pub const ALL: [Self; 4] = [Self::Crc32c, Self::Xxh3, Self::Blake3, Self::Sha256];

    /// The number on media.
    pub const fn id(self) -> u8 {
        match self {
            Self::Crc32c => 1,
            Self::Xxh3 => 2,
            Self::Blake3 => 3,
            Self::Sha256 => 4,
        }
    }

    /// The type with this number on media; `None` for a number that this version does not know, and for 0.
    pub const fn from_id(id: u8) -> Option<Self> {
        match id {
            1 => Some(Self::Crc32c),
            2 => Some(Self::Xxh3),
            3 => Some(Self::Blake3),
            4 => Some(Self::Sha256),
            _ => None,
        }
    }

    /// The name that users write.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Crc32c => "crc32c",
            Self::Xxh3 => "xxh3",
            Self::Blake3 => "blake3",
            Self::Sha256 => "sha256",
        }
    }

    /// Bytes of a checksum that carry information; the rest of the `u128` is zero.
    pub const fn width(self) -> usize {
        match self {
            Self::Crc32c => 4,
            Self::Xxh3 => 8,
            Self::Blake3 | Self::Sha256 => 16,
        }
    }
}

impl fmt::Display for CsumKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for CsumKind {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        named("checksum type", &Self::ALL, Self::name, name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn ids_and_names_lead_back_to_the_kind() {
        for kind in CsumKind::ALL {
            assert_eq!(CsumKind::from_id(kind.id()), Some(kind));
            assert_eq!(kind.name().parse::<CsumKind>().unwrap(), kind);
            assert_eq!(kind.to_string(), kind.name());
        }
        let known: Vec<u8> = (0..=255).filter(|id| CsumKind::from_id(*id).is_some()).collect();
        assert_eq!(known, [1, 2, 3, 4]);
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_known_ones() {
        let error = "md5".parse::<CsumKind>().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        let text = error.to_string();
        assert!(text.contains("md5") && text.contains("crc32c, xxh3, blake3, sha256"), "{text}");
    }

    #[test]
    fn crc32c_is_the_default() {
        assert_eq!(CsumKind::default(), CsumKind::Crc32c);
    }
}
