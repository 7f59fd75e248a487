//! Checksums: what a block pointer keeps of the block that it points to.
//!
//! The contract:
//!
//! - A checksum depends on the data, on the **volume** and on the **identity** of the block (what it is: a logical
//!   block, a map node, a record address; the caller keeps these number spaces apart). So a block that was written for
//!   another place, or that an older volume left on the device, does not verify, though its bytes are intact.
//! - [`Csum::of`] is a pure function, the same on every machine and in every version: its values are on media.
//! - The value is a `u128` whose upper bytes are zero beyond [`CsumKind::width`].
//!
//! How the types take volume and identity in (`seed` is 64 bits mixed from the volume, `mix` a bijection of 64 bits):
//!
//! | type | value |
//! | --- | --- |
//! | crc32c | `crc32c(data) ^ (mix(seed ^ identity) >> 32)` |
//! | xxh3 | `xxh3_64(data, seed = mix(seed ^ identity))` |
//! | blake3 | BLAKE3, keyed with a key derived from the volume, over data, then identity |
//! | sha256 | SHA-256 over volume, identity, data |
//!
//! Of the last two the first 16 bytes are kept, as a little-endian number; identity is 8 bytes, little-endian.
//!
//! None of them is a defence against an attacker who can write to the device: the key is no secret.

mod kind;
mod speed;
mod table;
#[cfg(test)]
mod tests;

pub use kind::CsumKind;
pub use speed::{speed, speed_at, speed_of};

use std::sync::OnceLock;
use std::time::Duration;

use sha2::Digest;
use zerocopy::little_endian::U128;

use crate::format::layout::BLOCK_SIZE;

/// Separates the keys that are derived for [`CsumKind::Blake3`] from every other use of BLAKE3.
const BLAKE3_CONTEXT: &str = "oxblock 2026-11-30 block checksum";

/// The checksum function of one volume: a type, seeded. Cheap to copy.
#[derive(Debug, Clone, Copy)]
pub struct Csum {
    method: Method,
    /// What identity is mixed into, for the types that take a 64-bit seed.
    seed: u64,
    volume: [u8; 16],
    /// The volume's key, for the type that takes one; zero for all others.
    key: [u8; 32],
}

/// How the value is computed: the types, and the table version of the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Method {
    Crc32c,
    Crc32cTable,
    Xxh3,
    Blake3,
    Sha256,
}

impl Csum {
    /// The checksum function of type `kind` for the volume with this id.
    pub fn new(kind: CsumKind, volume: [u8; 16]) -> Self {
        let method = match kind {
            CsumKind::Crc32c => Method::Crc32c,
            CsumKind::Xxh3 => Method::Xxh3,
            CsumKind::Blake3 => Method::Blake3,
            CsumKind::Sha256 => Method::Sha256,
        };
        let key = match kind {
            CsumKind::Blake3 => blake3::derive_key(BLAKE3_CONTEXT, &volume),
            _ => [0; 32],
        };
        Self { method, seed: seed(volume), volume, key }
    }

    /// The same function computed without CRC instructions, for experiment 4; other types than crc32c stay as they are.
    #[must_use]
    pub fn with_table_crc(mut self) -> Self {
        if self.method == Method::Crc32c {
            self.method = Method::Crc32cTable;
        }
        self
    }

    /// The type.
    pub fn kind(&self) -> CsumKind {
        match self.method {
            Method::Crc32c | Method::Crc32cTable => CsumKind::Crc32c,
            Method::Xxh3 => CsumKind::Xxh3,
            Method::Blake3 => CsumKind::Blake3,
            Method::Sha256 => CsumKind::Sha256,
        }
    }

    /// The checksum of `data` that belongs at `identity`.
    ///
    /// Identity is a number of the caller's choice: logical block, node id, record address. Callers that check several
    /// sorts of blocks keep their numbers apart.
    #[inline]
    pub fn of(&self, identity: u64, data: &[u8]) -> u128 {
        match self.method {
            Method::Crc32c => u128::from(crc_fast::crc32_iscsi(data) ^ self.mask(identity)),
            Method::Xxh3 => {
                let seed = mix(self.seed ^ identity);
                u128::from(twox_hash::XxHash3_64::oneshot_with_seed(seed, data))
            }
            // The slow types stay out of line, so that the callers' loops stay small.
            Method::Crc32cTable => u128::from(table::crc32c(data) ^ self.mask(identity)),
            Method::Blake3 => self.blake3(identity, data),
            Method::Sha256 => self.sha256(identity, data),
        }
    }

    /// About what one block takes on this machine, in nanoseconds, at least 1. Measured once for each type in a process,
    /// in about a millisecond.
    pub fn block_ns(&self) -> u64 {
        static COSTS: [OnceLock<u64>; 5] = [const { OnceLock::new() }; 5];
        let measure = || {
            let bytes_a_ns = speed_of(self, Duration::from_millis(1));
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a positive number far from the limits"
            )]
            let ns = (BLOCK_SIZE as f64 / bytes_a_ns).round() as u64;
            ns.max(1)
        };
        COSTS.get(self.method as usize).map_or_else(measure, |cost| *cost.get_or_init(measure))
    }

    /// What distinguishes equal data at different places, for crc32c.
    #[inline]
    fn mask(&self, identity: u64) -> u32 {
        (mix(self.seed ^ identity) >> 32) as u32
    }

    #[inline(never)]
    fn blake3(&self, identity: u64, data: &[u8]) -> u128 {
        // Identity comes last, where its fixed width leaves no ambiguity: in front of the data it would move
        // every 1 KiB chunk off its boundary and more than double the time (from 1.5 to 3.5 us for 4 KiB).
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher.update(data).update(&identity.to_le_bytes());
        low_half(hasher.finalize().into())
    }

    #[inline(never)]
    fn sha256(&self, identity: u64, data: &[u8]) -> u128 {
        let hasher = sha2::Sha256::new();
        let hasher = hasher.chain_update(self.volume).chain_update(identity.to_le_bytes());
        low_half(hasher.chain_update(data).finalize().into())
    }
}

/// BLAKE3 of `data`, 128 bits kept, not keyed: the superblock's own checksum, which must verify before the
/// volume's id is known.
pub fn strong(data: &[u8]) -> [u8; 16] {
    low_half(blake3::hash(data).into()).to_le_bytes()
}

/// The first 16 bytes as a little-endian number.
fn low_half(digest: [u8; 32]) -> u128 {
    let [low, _]: [U128; 2] = zerocopy::transmute!(digest);
    low.get()
}

/// 64 bits that depend on all of the volume's id.
fn seed(volume: [u8; 16]) -> u64 {
    let [low, high]: [zerocopy::little_endian::U64; 2] = zerocopy::transmute!(volume);
    // The golden ratio keeps an all-zero id away from the fixed point of `mix` at 0.
    mix(mix(low.get().wrapping_add(0x9E37_79B9_7F4A_7C15)) ^ high.get())
}

/// The finaliser of splitmix64 (Steele, Lea, Flood 2014, variant 13 by Stafford): a bijection in which every input bit
/// changes every output bit with probability near one half.
#[inline]
fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ (bits >> 31)
}
