//! What a check has to say.

use std::fmt;

/// What a finding is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FindingKind {
    /// The device is not what the volume was made on.
    Device,
    /// A copy of the superblock.
    Superblock,
    /// A block of the segment table, or what it says as a whole.
    SegmentTable,
    /// The end of the log, which recovery replays.
    Log,
    /// A node of the map.
    MapNode,
    /// A data block.
    Data,
    /// The header of a record that holds live blocks.
    RecordHeader,
    /// A segment's count of live blocks.
    LiveCount,
    /// The volume's count of used blocks.
    UsedCount,
    /// A segment that is referenced although it is free.
    Reference,
    /// Blocks of which an earlier repair could not tell what they held.
    Lost,
}

impl FindingKind {
    /// The name in output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Device => "device",
            Self::Superblock => "superblock",
            Self::SegmentTable => "segment table",
            Self::Log => "log record",
            Self::MapNode => "map node",
            Self::Data => "data block",
            Self::RecordHeader => "record header",
            Self::LiveCount => "live count",
            Self::UsedCount => "used count",
            Self::Reference => "segment reference",
            Self::Lost => "lost data",
        }
    }

    /// What is expected and found is a count, not a checksum.
    pub fn is_count(self) -> bool {
        matches!(self, Self::LiveCount | Self::UsedCount)
    }

    /// What was expected or found, in output: counts are decimal, checksums hexadecimal.
    pub fn value_text(self, value: u128) -> String {
        if self.is_count() { value.to_string() } else { format!("{value:x}") }
    }
}

/// One damaged place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What it is.
    pub kind: FindingKind,
    /// The logical blocks that it concerns, first and first behind, where there are any.
    pub blocks: Option<(u64, u64)>,
    /// The device, by its index in the volume.
    pub device: u16,
    /// Where on the device, in bytes; `None` where it is no single place.
    pub offset: Option<u64>,
    /// What was expected: a checksum, or a count.
    pub expected: Option<u128>,
    /// What was found; `None` with something expected means that it could not be read.
    pub got: Option<u128>,
    /// What it is and what it means, in a sentence.
    pub meaning: String,
}

impl Finding {
    pub(crate) fn new(kind: FindingKind, meaning: impl Into<String>) -> Self {
        let meaning = meaning.into();
        Self { kind, blocks: None, device: 0, offset: None, expected: None, got: None, meaning }
    }

    pub(crate) fn at(mut self, offset: u64) -> Self {
        self.offset = Some(offset);
        self
    }

    pub(crate) fn of_blocks(mut self, from: u64, end: u64) -> Self {
        self.blocks = Some((from, end));
        self
    }

    pub(crate) fn values(mut self, expected: u128, got: Option<u128>) -> Self {
        (self.expected, self.got) = (Some(expected), got);
        self
    }

    /// The finding in one line, with `device` for the device's name.
    pub fn line(&self, device: &dyn fmt::Display) -> String {
        let mut line = self.kind.name().to_owned();
        match self.blocks {
            Some((from, _)) if self.kind == FindingKind::Data => line += &format!(" {from}"),
            Some((from, end)) if end == from + 1 => line += &format!(" of block {from}"),
            Some((from, end)) => line += &format!(" of blocks {from} to {}", end.saturating_sub(1)),
            None => {}
        }
        line += &format!(" at {device}");
        if let Some(offset) = self.offset {
            line += &format!(" offset {offset}");
        }
        if let Some(expected) = self.expected {
            line += &format!(": expected {}, ", self.kind.value_text(expected));
            line += &match self.got {
                Some(got) => format!("got {}", self.kind.value_text(got)),
                None => "read error".to_owned(),
            };
        }
        format!("{line}: {}", self.meaning)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.line(&format_args!("device {}", self.device)))
    }
}

/// The most findings that a report keeps; all are counted.
pub const FINDINGS_KEPT: usize = 10_000;

/// The outcome of a check.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// What is damaged, at most [`FINDINGS_KEPT`] places, in the order in which they were met.
    pub findings: Vec<Finding>,
    /// How many places are damaged.
    pub total_findings: u64,
    /// What is worth knowing and no damage, one sentence each.
    pub notes: Vec<String>,
    /// Data blocks that were verified.
    pub blocks: u64,
    /// Map nodes that were verified.
    pub nodes: u64,
    /// Record headers that were verified.
    pub headers: u64,
    /// Bytes that were read from the device.
    pub bytes: u64,
}

impl CheckReport {
    pub(crate) fn add(&mut self, finding: Finding) {
        self.total_findings += 1;
        if self.findings.len() < FINDINGS_KEPT {
            self.findings.push(finding);
        }
    }

    /// True when more is damaged than is listed.
    pub fn is_cut(&self) -> bool {
        self.total_findings > self.findings.len() as u64
    }

    /// True when nothing is damaged.
    pub fn is_sound(&self) -> bool {
        self.total_findings == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_block_place_and_both_values() {
        let finding = Finding::new(FindingKind::Data, "its content is lost")
            .of_blocks(77, 78)
            .at(4096)
            .values(0xab, Some(0xcd));
        assert_eq!(
            finding.line(&"disk.ox"),
            "data block 77 at disk.ox offset 4096: expected ab, got cd: its content is lost"
        );
        let finding = Finding::new(FindingKind::MapNode, "lost").of_blocks(0, 256).values(1, None);
        assert_eq!(
            finding.to_string(),
            "map node of blocks 0 to 255 at device 0: expected 1, read error: lost"
        );
        let finding = Finding::new(FindingKind::LiveCount, "off").values(10, Some(11));
        assert_eq!(finding.to_string(), "live count at device 0: expected 10, got 11: off");
    }

    #[test]
    fn findings_are_capped_and_counted() {
        let mut report = CheckReport::default();
        for _ in 0..FINDINGS_KEPT + 5 {
            report.add(Finding::new(FindingKind::Data, "x"));
        }
        assert_eq!(report.findings.len(), FINDINGS_KEPT);
        assert_eq!(report.total_findings, FINDINGS_KEPT as u64 + 5);
    }
}
