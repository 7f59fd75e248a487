//! Feature flags, as file systems have them.

use super::layout::{
    COMPAT_PASSED_OVER, COMPAT_POLICY, COMPAT_REFUSED, INCOMPAT_LOST, KNOWN_COMPAT, KNOWN_INCOMPAT,
    KNOWN_RO_COMPAT,
};
use crate::error::{Error, ErrorKind, Result};

/// The three sets of a superblock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Features {
    /// Unknown ones may be ignored.
    pub compat: u64,
    /// Unknown ones forbid writing.
    pub ro_compat: u64,
    /// Unknown ones forbid opening.
    pub incompat: u64,
}

impl Features {
    /// What a new volume has: nothing. Each feature comes when it is first used.
    pub const CURRENT: Self = Self { compat: 0, ro_compat: 0, incompat: 0 };

    /// The superblock keeps a policy.
    pub fn has_policy(&self) -> bool {
        self.compat & COMPAT_POLICY != 0
    }

    /// The log may hold entries that were never applied, since the node that they would change was lost.
    pub fn has_refused(&self) -> bool {
        self.compat & COMPAT_REFUSED != 0
    }

    /// Says that it may.
    pub fn set_refused(&mut self) {
        self.compat |= COMPAT_REFUSED;
    }

    /// Recovery has passed over changes of nodes that were lost.
    pub fn has_passed_over(&self) -> bool {
        self.compat & COMPAT_PASSED_OVER != 0
    }

    /// Says that it has. The log holds entries that were never applied then.
    pub fn set_passed_over(&mut self) {
        self.compat |= COMPAT_PASSED_OVER | COMPAT_REFUSED;
    }

    /// The nodes are made anew, without anything that is out of date.
    pub fn clear_passed_over(&mut self) {
        self.compat &= !COMPAT_PASSED_OVER;
    }

    /// The map may say of blocks that they are lost.
    pub fn has_lost(&self) -> bool {
        self.incompat & INCOMPAT_LOST != 0
    }

    /// Says whether the map may say of blocks that they are lost.
    pub fn set_lost(&mut self, lost: bool) {
        self.incompat = self.incompat & !INCOMPAT_LOST | if lost { INCOMPAT_LOST } else { 0 };
    }

    /// A feature that this version does not know may have its fields in what is padding to this version.
    pub(super) fn may_use_padding(&self) -> bool {
        self.compat & !KNOWN_COMPAT != 0
    }

    /// Refuses what this version does not know.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] with the unknown bits.
    pub fn check(&self, writable: bool) -> Result<()> {
        let unknown = self.incompat & !KNOWN_INCOMPAT;
        if unknown != 0 {
            return Err(Error::new(
                ErrorKind::Unsupported,
                format!(
                    "the volume uses features this version does not know (incompat {unknown:#x}); use a newer oxblock"
                ),
            ));
        }
        let unknown = self.ro_compat & !KNOWN_RO_COMPAT;
        if writable && unknown != 0 {
            return Err(Error::new(
                ErrorKind::Unsupported,
                format!(
                    "the volume can only be read by this version (ro_compat {unknown:#x}); open it read-only or use a newer oxblock"
                ),
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_flags_refuse_what_they_must() {
        assert!(Features { compat: 1 << 40, ..Features::CURRENT }.check(true).is_ok());
        let ro = Features { ro_compat: 1 << 40, ..Features::CURRENT };
        assert!(ro.check(false).is_ok());
        assert_eq!(ro.check(true).unwrap_err().kind(), ErrorKind::Unsupported);
        let none = Features { incompat: 1 << 40, ..Features::CURRENT };
        assert_eq!(none.check(false).unwrap_err().kind(), ErrorKind::Unsupported);
    }
}
