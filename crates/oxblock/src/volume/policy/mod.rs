//! The policies of a volume together: how users write them, and what is said about them.
//!
//! - here: [`Policy`] as users write it, and the [`Costs`] that `auto` goes by;
//! - `force`: which policy is in force, and where each part of it comes from;
//! - `reason`: why, one sentence for each part;
//! - `machine`, `choose`: what this machine can do, and the policy that follows from it;
//! - `stored`: the policy that a volume keeps.

mod choose;
mod force;
mod machine;
mod reason;
mod stored;

pub use choose::{BioRead, Choice, Measured, choose};
pub use force::{InForce, Origin};
pub use machine::{CsumSpeed, Machine};
pub use reason::{Facts, Reasons};

pub(crate) use stored::kept;

use std::fmt;
use std::str::FromStr;

use crate::complete::policy::CompletePolicy;
use crate::csum::Csum;
use crate::error::{Error, ErrorKind, Result};
use crate::names::named;
use crate::submit::policy::SubmitPolicy;
use crate::workers::{HandOff, hand_off};

/// Who computes the CRC-32C of a volume whose checksum it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CrcCode {
    /// The fast one.
    #[default]
    Auto,
    /// The widest vector or CRC instructions that there are.
    Fast,
    /// A plain table, byte by byte: for experiment 4, and to see what a machine without such instructions would do.
    Table,
}

impl CrcCode {
    /// Every code.
    pub const ALL: [Self; 3] = [Self::Auto, Self::Fast, Self::Table];

    /// The name that users write.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Fast => "fast",
            Self::Table => "table",
        }
    }
}

impl fmt::Display for CrcCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for CrcCode {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        named("code for crc", &Self::ALL, Self::name, name)
    }
}

/// A block in less than this is fast: 4 GB/s. CRC instructions and vectors give three times that and more, cryptographic
/// hashes and tables less.
const FAST_NS: u64 = 1024;

/// How many times a hand-off a job must take to be worth one.
const WORTH: u64 = 20;

/// Jobs below this are never worth it: what surrounds them costs as much.
const WORTH_MIN: u64 = 8_000;

/// What the policy `auto` goes by. Measured at first use and kept for the process; given where a run must be repeatable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Costs {
    /// The checksum of one block of 4096 bytes, in nanoseconds.
    pub block_ns: u64,
    /// A job at a worker that is awake, from the offer to its end, in nanoseconds, beyond the work itself.
    pub hand_off_ns: u64,
    /// The same at a worker that must be woken.
    pub wake_ns: u64,
}

impl Costs {
    /// What it is here, for this checksum. Takes a few milliseconds the first time.
    pub(crate) fn measure(csum: &Csum) -> Self {
        let HandOff { awake, woken } = hand_off();
        Self { block_ns: csum.block_ns(), hand_off_ns: awake, wake_ns: woken }
    }

    /// The checksum is so fast that the original rules never offload it.
    pub fn is_fast(&self) -> bool {
        self.block_ns <= FAST_NS
    }

    /// Work from which sharing it with a worker pays, in nanoseconds.
    pub fn worth_ns(&self) -> u64 {
        self.hand_off_ns.saturating_mul(WORTH).max(WORTH_MIN)
    }

    /// Blocks from which `auto` shares their checksums with a worker: those that take as much work. `None` for a fast
    /// checksum, which it never shares.
    pub fn shared_from(&self) -> Option<u64> {
        let blocks = self.worth_ns().div_ceil(self.block_ns.max(1)).max(1);
        (!self.is_fast()).then_some(blocks)
    }

    /// Whether `auto` shares the checksums of so many blocks with a worker.
    pub fn is_shared(&self, blocks: u64) -> bool {
        self.shared_from().is_some_and(|from| blocks >= from)
    }
}

/// What decides the way of a request. Set when a volume is opened; none of it changes what is on the media.
///
/// Users write `submit=offload,complete=issuer,bio_max_bytes=4M,crc=table`; what is not named stays as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Policy {
    /// Where checksums are computed.
    pub submit: SubmitPolicy,
    /// Where finished operations are dealt with.
    pub complete: CompletePolicy,
    /// The most bytes of one device I/O: rounded up to a page and never below 1 MiB; 0 for no limit; `None` for what suits
    /// the device.
    pub bio_max_bytes: Option<u64>,
    /// Which code computes CRC-32C.
    pub crc: CrcCode,
}

impl Policy {
    /// Takes over what `text` names.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] with the name or value that is not known.
    pub fn apply(&mut self, text: &str) -> Result<()> {
        for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            let Some((name, value)) = item.split_once('=') else {
                return Err(invalid(format!("policy '{item}' lacks '=' and a value")));
            };
            match (name.trim(), value.trim()) {
                ("submit", value) => self.submit = value.parse()?,
                ("complete", value) => self.complete = value.parse()?,
                ("bio_max_bytes", "auto") => self.bio_max_bytes = None,
                ("bio_max_bytes", value) => self.bio_max_bytes = Some(bytes(value)?),
                ("crc", value) => self.crc = value.parse()?,
                (name, _) => {
                    return Err(invalid(format!(
                        "no policy is called '{name}' (there are submit, complete, bio_max_bytes, crc)"
                    )));
                }
            }
        }
        Ok(())
    }
}

impl FromStr for Policy {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut policy = Self::default();
        policy.apply(text)?;
        Ok(policy)
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "submit={},complete={}", self.submit, self.complete)?;
        match self.bio_max_bytes {
            None => f.write_str(",bio_max_bytes=auto")?,
            Some(bytes) => write!(f, ",bio_max_bytes={bytes}")?,
        }
        write!(f, ",crc={}", self.crc)
    }
}

/// Bytes, with K, M or G for powers of 1024.
fn bytes(text: &str) -> Result<u64> {
    let wrong = || invalid(format!("'{text}' is not a size (like 1M, 4194304 or 0 for no limit)"));
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let shift = match text.get(digits.len()..).map(str::to_ascii_uppercase).as_deref() {
        Some("") => 0,
        Some("K" | "KIB") => 10,
        Some("M" | "MIB") => 20,
        Some("G" | "GIB") => 30,
        _ => return Err(wrong()),
    };
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    number.checked_mul(1 << shift).ok_or_else(wrong)
}

fn invalid(message: String) -> Error {
    Error::new(ErrorKind::InvalidInput, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        for text in [
            "submit=auto,complete=auto,bio_max_bytes=auto,crc=auto",
            "submit=offload,complete=worker,bio_max_bytes=0,crc=table",
            "submit=rules,complete=issuer,bio_max_bytes=4194304,crc=fast",
        ] {
            assert_eq!(text.parse::<Policy>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_not_named_stays() {
        let mut policy: Policy = "submit=inline, bio_max_bytes=4M".parse().unwrap();
        policy.apply("complete=worker").unwrap();
        assert_eq!(policy.submit, SubmitPolicy::Inline);
        assert_eq!(policy.complete, CompletePolicy::Worker);
        assert_eq!(policy.bio_max_bytes, Some(4 << 20));
        assert_eq!("".parse::<Policy>().unwrap(), Policy::default());
    }

    #[test]
    fn what_is_not_known_is_refused_by_name() {
        for (text, says) in [
            ("submit", "'submit' lacks"),
            ("submit=never", "'never'"),
            ("complete=later", "'later'"),
            ("bio_max_bytes=1X", "'1X'"),
            ("bio_max_bytes=99999999999G", "'99999999999G'"),
            ("crc=slow", "'slow'"),
            ("colour=red", "'colour'"),
        ] {
            let error = text.parse::<Policy>().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            assert!(error.to_string().contains(says), "{error}");
        }
    }
}
