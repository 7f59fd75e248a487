//! Which policy is in force, and where each part of it comes from.
//!
//! The precedence, for each part by itself: what whoever opens the volume asks for, unless that is `auto`; what the volume
//! keeps; `auto`.

use super::{Costs, CrcCode, Policy};
use crate::complete::policy::CompletePolicy;
use crate::submit::policy::SubmitPolicy;

/// Who chose a part of the policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Origin {
    /// Whoever opened the volume.
    Given,
    /// The volume keeps it.
    Stored,
    /// Nobody: what was measured decides.
    #[default]
    Auto,
}

impl Origin {
    /// The name in output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Given => "given",
            Self::Stored => "stored",
            Self::Auto => "auto",
        }
    }
}

/// The policy of an open volume, where its parts come from, and what `auto` goes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InForce {
    /// The policy.
    pub policy: Policy,
    /// Where its parts come from: `submit`, `complete`, `bio_max_bytes`, `crc`.
    pub origin: [Origin; 4],
    /// What `auto` goes by.
    pub costs: Costs,
}

impl Policy {
    /// This policy, and where it says `auto` what `stored` says.
    pub(crate) fn over(&self, stored: &Self) -> (Self, [Origin; 4]) {
        let auto = Self::default();
        let (submit, of_submit) = first(self.submit, stored.submit, SubmitPolicy::Auto);
        let (complete, of_complete) = first(self.complete, stored.complete, CompletePolicy::Auto);
        let (bio_max_bytes, of_bio) =
            first(self.bio_max_bytes, stored.bio_max_bytes, auto.bio_max_bytes);
        let (crc, of_crc) = first(self.crc, stored.crc, CrcCode::Auto);
        let policy = Self { submit, complete, bio_max_bytes, crc };
        (policy, [of_submit, of_complete, of_bio, of_crc])
    }
}

fn first<T: PartialEq>(given: T, stored: T, auto: T) -> (T, Origin) {
    if given != auto {
        (given, Origin::Given)
    } else if stored != auto {
        (stored, Origin::Stored)
    } else {
        (auto, Origin::Auto)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_goes_before_stored_and_stored_before_auto() {
        let given: Policy = "submit=inline,bio_max_bytes=0".parse().unwrap();
        let stored: Policy = "submit=offload,complete=worker".parse().unwrap();
        let (policy, origin) = given.over(&stored);
        assert_eq!(policy, "submit=inline,complete=worker,bio_max_bytes=0".parse().unwrap());
        assert_eq!(origin, [Origin::Given, Origin::Stored, Origin::Given, Origin::Auto]);
        assert_eq!(
            stored.over(&given).0,
            "submit=offload,complete=worker,bio_max_bytes=0".parse().unwrap()
        );
        let (policy, origin) = Policy::default().over(&Policy::default());
        assert_eq!((policy, origin), (Policy::default(), [Origin::Auto; 4]));
    }

    #[test]
    fn fast_by_name_goes_before_a_stored_table() {
        let stored: Policy = "crc=table".parse().unwrap();
        let given: Policy = "crc=fast".parse().unwrap();
        assert_eq!(given.over(&stored).0.crc, CrcCode::Fast);
        assert_eq!(Policy::default().over(&stored).0.crc, CrcCode::Table);
    }
}
