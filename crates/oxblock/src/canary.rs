//! Bugs on purpose, for the simulation to find: each breaks one rule of the crash model at one place. They exist only in
//! builds with the feature `canary`, which no release has, and only one is in place at a time, for one thread.

use std::cell::Cell;

/// A bug on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Canary {
    /// A freed segment is written to before the checkpoint that drops it is durable.
    ReuseEarly,
    /// A relocation is applied whatever the map points to.
    RelocateBlindly,
    /// A FUA write is acknowledged without the flush that it needs.
    FuaVolatile,
    /// A flush is acknowledged before what it covers is durable.
    FlushEarly,
    /// A checkpoint says that it covers records which are not applied yet.
    CheckpointAhead,
    /// What a request reads is not verified.
    ReadUnverified,
    /// Recovery takes a record whose payload does not verify.
    ReplayUnverified,
    /// A write is acknowledged in the middle of its atomic group, and flushes are said to cover that.
    SplitGroup,
    /// Recovery goes by the old place of a record that was written again elsewhere.
    OldPlaceFirst,
    /// Of a segment in which a write failed, the records behind the failed one stay where they are.
    LeaveBehind,
}

impl Canary {
    /// Every one.
    pub const ALL: &'static [Self] = &[
        Self::ReuseEarly,
        Self::RelocateBlindly,
        Self::FuaVolatile,
        Self::FlushEarly,
        Self::CheckpointAhead,
        Self::ReadUnverified,
        Self::ReplayUnverified,
        Self::SplitGroup,
        Self::OldPlaceFirst,
        Self::LeaveBehind,
    ];

    /// The name on command lines.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ReuseEarly => "reuse-early",
            Self::RelocateBlindly => "relocate-blindly",
            Self::FuaVolatile => "fua-volatile",
            Self::FlushEarly => "flush-early",
            Self::CheckpointAhead => "checkpoint-ahead",
            Self::ReadUnverified => "read-unverified",
            Self::ReplayUnverified => "replay-unverified",
            Self::SplitGroup => "split-group",
            Self::OldPlaceFirst => "old-place-first",
            Self::LeaveBehind => "leave-behind",
        }
    }
}

thread_local! {
    static PLACED: Cell<Option<Canary>> = const { Cell::new(None) };
}

/// Puts a bug in place for what this thread does from here on, or takes it away.
pub fn place(canary: Option<Canary>) {
    PLACED.set(canary);
}

/// Whether a bug is in place.
pub(crate) fn is(canary: Canary) -> bool {
    PLACED.get() == Some(canary)
}
