//! What a repair has to say.

use super::super::report::{CheckReport, Finding, FindingKind};

/// One thing that was repaired.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repaired {
    /// What it is about.
    pub kind: FindingKind,
    /// How many there were of it.
    pub count: u64,
    /// What was done, in a sentence.
    pub meaning: String,
}

/// The outcome of a repair.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RepairReport {
    /// What a check found before.
    pub found: CheckReport,
    /// What was repaired; empty when nothing was written.
    pub repaired: Vec<Repaired>,
    /// Why nothing was repaired, if that is so although something is damaged.
    pub refused: Option<String>,
    /// What a check finds now.
    pub left: CheckReport,
}

impl RepairReport {
    /// Nothing was changed.
    pub(super) fn unchanged(found: CheckReport, refused: Option<String>) -> Self {
        Self { left: found.clone(), found, refused, repaired: Vec::new() }
    }

    /// True when nothing is damaged any more.
    pub fn is_sound(&self) -> bool {
        self.left.is_sound()
    }
}

/// Whether a finding is of a kind that can be repaired.
pub(super) fn can_be_repaired(finding: &Finding) -> bool {
    match finding.kind {
        FindingKind::Superblock
        | FindingKind::SegmentTable
        | FindingKind::MapNode
        | FindingKind::RecordHeader
        | FindingKind::LiveCount
        | FindingKind::UsedCount
        | FindingKind::Reference
        | FindingKind::Log => true,
        FindingKind::Device | FindingKind::Data | FindingKind::Lost => false,
    }
}
