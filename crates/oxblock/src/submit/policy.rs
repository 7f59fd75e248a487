//! Where the checksums of a write are computed: by the issuer, or by workers.
//!
//! A pure function of what is known about the write. The rules are those of the kernel work that the project comes from,
//! in their order; see `docs/experiments.md`.

use std::fmt;
use std::str::FromStr;

use crate::error::Error;
use crate::names::named;

/// The length from which an unsplit write of the `single` profile is worth workers by the rules: the length of a stripe.
pub const STRIPE_BYTES: u64 = 64 << 10;

/// Who decides where checksums are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SubmitPolicy {
    /// What was measured here decides.
    #[default]
    Auto,
    /// Always the issuer.
    Inline,
    /// Workers, whatever the hand-off costs; of a backlog the issuer takes its share.
    Offload,
    /// The original rules.
    Rules,
}

impl SubmitPolicy {
    /// Every policy.
    pub const ALL: [Self; 4] = [Self::Auto, Self::Inline, Self::Offload, Self::Rules];

    /// The name that users write.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Inline => "inline",
            Self::Offload => "offload",
            Self::Rules => "rules",
        }
    }
}

impl fmt::Display for SubmitPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for SubmitPolicy {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        named("submit policy", &Self::ALL, Self::name, name)
    }
}

/// How a volume lays out what is written, as far as the rules care.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// One copy on one device: a write is contiguous to the end of its segment.
    Single,
    /// Copies or stripes without parity.
    Mirrored,
    /// Parity over stripes.
    Parity,
}

/// What the rules look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteFacts {
    /// The checksum was measured to be so fast that handing it over never pays: a block in at most 1024 ns.
    pub fast: bool,
    /// The issuer waits for this very write: it is durable when acknowledged.
    pub sync: bool,
    /// It carries the volume's own metadata.
    pub metadata: bool,
    /// A device has zones, which need their I/O in order.
    pub zoned: bool,
    /// The profile.
    pub layout: Layout,
    /// Bytes of payload.
    pub bytes: u64,
    /// It does not fit into one device I/O.
    pub split: bool,
}

/// Why a write is where it is, in the order in which the rules ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SubmitRule {
    /// The checksum is fast.
    Fast,
    /// The write is synchronous.
    Synchronous,
    /// Metadata on a zoned device.
    ZonedMetadata,
    /// Scattered ends of checksums would make full stripes hard to collect.
    Parity,
    /// The write is split, so that its parts go on side by side.
    Split,
    /// One long run on the `single` profile.
    SingleStripe,
    /// Anything else is not worth a hand-off.
    Small,
}

impl SubmitRule {
    /// Whether the rule sends the checksum to a worker.
    pub const fn offloads(self) -> bool {
        matches!(self, Self::Split | Self::SingleStripe)
    }
}

/// The original rules: experiment 4's first, then those of experiment 1.
pub fn rule(write: &WriteFacts) -> SubmitRule {
    if write.fast {
        SubmitRule::Fast
    } else if write.sync {
        SubmitRule::Synchronous
    } else if write.metadata && write.zoned {
        SubmitRule::ZonedMetadata
    } else if write.layout == Layout::Parity {
        SubmitRule::Parity
    } else if write.split {
        SubmitRule::Split
    } else if write.layout == Layout::Single && write.bytes >= STRIPE_BYTES {
        SubmitRule::SingleStripe
    } else {
        SubmitRule::Small
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUTS: [Layout; 3] = [Layout::Single, Layout::Mirrored, Layout::Parity];

    fn every_write() -> Vec<WriteFacts> {
        let mut all = Vec::new();
        for bits in 0..32_u32 {
            for layout in LAYOUTS {
                for bytes in [4096, STRIPE_BYTES - 4096, STRIPE_BYTES, 1 << 20] {
                    let bit = |n: u32| bits >> n & 1 == 1;
                    all.push(WriteFacts {
                        fast: bit(0),
                        sync: bit(1),
                        metadata: bit(2),
                        zoned: bit(3),
                        split: bit(4),
                        layout,
                        bytes,
                    });
                }
            }
        }
        all
    }

    /// The table of the rules, written down a second time: the first line that fits decides.
    fn table(w: &WriteFacts) -> bool {
        let lines: [(bool, bool); 7] = [
            (w.fast, false),
            (w.sync, false),
            (w.metadata && w.zoned, false),
            (w.layout == Layout::Parity, false),
            (w.bytes < 65536 && !w.split, false),
            (w.layout == Layout::Single && w.bytes >= 65536 || w.split, true),
            (true, false),
        ];
        lines.into_iter().find(|(fits, _)| *fits).is_some_and(|(_, offload)| offload)
    }

    #[test]
    fn every_cell_of_the_decision_table() {
        for write in every_write() {
            assert_eq!(rule(&write).offloads(), table(&write), "{write:?}");
        }
    }

    #[test]
    fn the_cells_that_the_originals_argue_about() {
        let write = WriteFacts {
            fast: false,
            sync: false,
            metadata: false,
            zoned: false,
            layout: Layout::Single,
            bytes: 65536,
            split: false,
        };
        assert_eq!(rule(&write), SubmitRule::SingleStripe);
        assert_eq!(rule(&WriteFacts { bytes: 65535, ..write }), SubmitRule::Small);
        assert_eq!(rule(&WriteFacts { bytes: 4096, split: true, ..write }), SubmitRule::Split);
        assert_eq!(rule(&WriteFacts { layout: Layout::Mirrored, ..write }), SubmitRule::Small);
        assert_eq!(
            rule(&WriteFacts { layout: Layout::Mirrored, split: true, ..write }),
            SubmitRule::Split
        );
        assert_eq!(
            rule(&WriteFacts { layout: Layout::Parity, split: true, ..write }),
            SubmitRule::Parity
        );
        assert_eq!(rule(&WriteFacts { fast: true, split: true, ..write }), SubmitRule::Fast);
        assert_eq!(rule(&WriteFacts { sync: true, split: true, ..write }), SubmitRule::Synchronous);
        let zoned = WriteFacts { zoned: true, ..write };
        assert_eq!(rule(&zoned), SubmitRule::SingleStripe);
        assert_eq!(rule(&WriteFacts { metadata: true, ..zoned }), SubmitRule::ZonedMetadata);
    }

    #[test]
    fn names_lead_back_and_others_are_refused() {
        for policy in SubmitPolicy::ALL {
            assert_eq!(policy.to_string().parse::<SubmitPolicy>().unwrap(), policy);
        }
        let error = "async".parse::<SubmitPolicy>().unwrap_err().to_string();
        assert!(error.contains("async") && error.contains("auto, inline, offload, rules"));
    }
}
