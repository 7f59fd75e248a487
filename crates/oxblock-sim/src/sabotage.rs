//! Faults on purpose, which the soak must find: they prove that it can.
//!
//! Some are lies of the device, told by the probe between it and the engine. The others are bugs in the engine itself
//! (`oxblock::canary`), which only a build with the feature `canary` has.

#[cfg(feature = "canary")]
use oxblock::canary::{self, Canary};

/// A fault on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sabotage {
    /// None.
    #[default]
    None,
    /// Flushes are acknowledged and not passed on.
    DropFlushes,
    /// Durable writes are passed on as volatile ones.
    DropDurable,
    /// A bug in the engine.
    #[cfg(feature = "canary")]
    Bug(Canary),
}

impl Sabotage {
    /// Every one, but for none.
    pub fn all() -> Vec<Self> {
        let lies = [Self::DropFlushes, Self::DropDurable];
        #[cfg(feature = "canary")]
        let bugs = Canary::ALL.iter().map(|canary| Self::Bug(*canary));
        #[cfg(not(feature = "canary"))]
        let bugs = [];
        lies.into_iter().chain(bugs).collect()
    }

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::DropFlushes => "flush",
            Self::DropDurable => "fua",
            #[cfg(feature = "canary")]
            Self::Bug(canary) => canary.name(),
        }
    }

    /// The one with that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::all().into_iter().find(|sabotage| sabotage.name() == name)
    }

    /// True when only a build for canaries has it.
    pub const fn is_bug(self) -> bool {
        match self {
            Self::None | Self::DropFlushes | Self::DropDurable => false,
            #[cfg(feature = "canary")]
            Self::Bug(_) => true,
        }
    }

    /// Puts a bug in place for everything that this thread does from here on, or takes away the last one.
    pub fn begin(self) {
        #[cfg(feature = "canary")]
        canary::place(match self {
            Self::Bug(canary) => Some(canary),
            _ => None,
        });
    }
}
