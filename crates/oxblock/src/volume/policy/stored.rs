//! The policy that a volume keeps in its superblock, and how it gets there.
//!
//! It goes out with a checkpoint, as everything in a superblock does: after a power cut the volume keeps the old policy or
//! the new one. Every later checkpoint writes it again, since they all start from the superblock in memory.

use std::time::Duration;

use super::{CrcCode, Policy};
use crate::complete::policy::CompletePolicy;
use crate::error::Result;
use crate::format::layout::COMPAT_POLICY;
use crate::format::policy::StoredPolicy;
use crate::format::superblock::Superblock;
use crate::submit::policy::SubmitPolicy;
use crate::volume::poll::Volume;

/// The number for "no limit", since 0 says that nothing is kept.
const NO_LIMIT: u64 = u64::MAX;

const SUBMIT: [SubmitPolicy; 3] =
    [SubmitPolicy::Inline, SubmitPolicy::Offload, SubmitPolicy::Rules];
const COMPLETE: [CompletePolicy; 2] = [CompletePolicy::Issuer, CompletePolicy::Worker];
const CRC: [CrcCode; 2] = [CrcCode::Fast, CrcCode::Table];

/// The policy that a volume keeps, and what is to be said about values that are not valid: they count as not kept, since
/// no policy changes what comes of a request.
pub(crate) fn kept(superblock: &Superblock) -> (Policy, Vec<String>) {
    if !superblock.features.has_policy() {
        return (Policy::default(), Vec::new());
    }
    let stored = &superblock.policy;
    let mut notices = Vec::new();
    let policy = Policy {
        submit: value("submit", stored.submit, &SUBMIT, &mut notices),
        complete: value("complete", stored.complete, &COMPLETE, &mut notices),
        bio_max_bytes: match stored.bio_max_bytes {
            0 => None,
            NO_LIMIT => Some(0),
            bytes => Some(bytes),
        },
        crc: value("crc", stored.crc, &CRC, &mut notices),
    };
    (policy, notices)
}

/// The value of a number on the media: 0 for `auto`, then the known ones.
fn value<T: Copy + Default>(name: &str, number: u8, known: &[T], notices: &mut Vec<String>) -> T {
    let Some(index) = usize::from(number).checked_sub(1) else { return T::default() };
    known.get(index).copied().unwrap_or_else(|| {
        notices.push(format!(
            "the volume keeps the value {number} for the policy {name}, which this version does not know; it is ignored"
        ));
        T::default()
    })
}

/// The number of a value on the media.
fn number<T: PartialEq>(value: T, known: &[T]) -> u8 {
    let index = known.iter().position(|known| *known == value);
    index.and_then(|index| u8::try_from(index + 1).ok()).unwrap_or(0)
}

fn to_media(policy: &Policy) -> StoredPolicy {
    StoredPolicy {
        submit: number(policy.submit, &SUBMIT),
        complete: number(policy.complete, &COMPLETE),
        crc: number(policy.crc, &CRC),
        bio_max_bytes: match policy.bio_max_bytes {
            None => 0,
            Some(0) => NO_LIMIT,
            Some(bytes) => bytes,
        },
    }
}

impl Volume {
    /// The policy that the volume keeps; `auto` where it keeps nothing.
    pub fn stored_policy(&self) -> Policy {
        kept(&self.lane.geometry.superblock).0
    }

    /// Has the volume keep `policy` in place of what it keeps now; with nothing but `auto` it keeps none. Durable when this
    /// returns, and in force from the next time that the volume is opened. What requests are in flight go on meanwhile,
    /// and their completions wait to be polled.
    ///
    /// # Errors
    /// [`ErrorKind::ReadOnly`](crate::ErrorKind::ReadOnly); what kept it from becoming durable: the volume takes no more
    /// writes then, and keeps the old policy or the new one.
    pub fn store_policy(&mut self, policy: &Policy) -> Result<()> {
        self.lane.writable()?;
        let superblock = &mut self.lane.geometry.superblock;
        superblock.policy = to_media(policy);
        if superblock.policy == StoredPolicy::default() {
            superblock.features.compat &= !COMPAT_POLICY;
        } else {
            superblock.features.compat |= COMPAT_POLICY;
        }
        // A checkpoint that is under way may have its superblock made already: the next one is sure to say it.
        self.lane.want_checkpoint();
        let mut done = Vec::new();
        while self.lane.busy() {
            self.lane.submit();
            self.lane.poll(&mut done);
            if self.lane.busy() {
                self.lane.wait(Some(Duration::from_millis(100)));
            }
        }
        // In the order in which they came, for the caller to poll.
        self.lane.out.extend(done);
        self.lane.latched.clone().map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_survives_the_media() {
        for submit in SubmitPolicy::ALL {
            for complete in CompletePolicy::ALL {
                for bio_max_bytes in [None, Some(0), Some(1), Some(4 << 20)] {
                    for crc in CrcCode::ALL {
                        let policy = Policy { submit, complete, bio_max_bytes, crc };
                        let stored = to_media(&policy);
                        let mut notices = Vec::new();
                        assert_eq!(value("", stored.submit, &SUBMIT, &mut notices), submit);
                        assert_eq!(value("", stored.complete, &COMPLETE, &mut notices), complete);
                        assert_eq!(value("", stored.crc, &CRC, &mut notices), crc);
                        assert_eq!(notices, [""; 0]);
                        let nothing = policy == Policy::default();
                        assert_eq!(stored == StoredPolicy::default(), nothing, "{policy}");
                    }
                }
            }
        }
    }

    #[test]
    fn an_unknown_value_is_named_and_counts_as_auto() {
        let mut notices = Vec::new();
        assert_eq!(value("submit", 200, &SUBMIT, &mut notices), SubmitPolicy::Auto);
        assert_eq!(value("crc", 3, &CRC, &mut notices), CrcCode::Auto);
        assert!(notices[0].contains("200") && notices[0].contains("submit"), "{notices:?}");
        assert_eq!(notices.len(), 2);
    }
}
