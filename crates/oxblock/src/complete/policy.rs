//! Where a finished device operation is dealt with: by the issuer when it reaps, or by a worker.
//!
//! The rule of the original: an operation may be completed by its issuer unless completing it would need more I/O, or
//! would block. Then the mark is **cleared**: the operation goes on as a continuation of its own I/O, in the engine, and
//! never as a blocking call. [`Cleared`] says why, and `stats` counts how often.

use std::fmt;
use std::str::FromStr;

use crate::error::Error;
use crate::names::named;

/// Who completes operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CompletePolicy {
    /// What was measured here decides.
    #[default]
    Auto,
    /// The issuer, when it reaps. With several client threads on one volume, the client itself.
    Issuer,
    /// A worker, whatever the hand-off costs; of a backlog of slow ones the issuer takes its share.
    Worker,
}

impl CompletePolicy {
    /// Every policy.
    pub const ALL: [Self; 3] = [Self::Auto, Self::Issuer, Self::Worker];

    /// The name that users write.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Issuer => "issuer",
            Self::Worker => "worker",
        }
    }
}

impl fmt::Display for CompletePolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for CompletePolicy {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        named("completion policy", &Self::ALL, Self::name, name)
    }
}

/// What completing an operation would involve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EndFacts {
    /// A map node that is not in the cache must be read first.
    pub node_missing: bool,
    /// Blocks around the range must be read or zeroed first: the request is not made of whole blocks.
    pub partial: bool,
    /// The write must be durable when it is acknowledged.
    pub durable: bool,
    /// The device may lose completed writes with the power ...
    pub write_cache: bool,
    /// ... and this write is durable already, written by itself (FUA) behind others that are.
    pub fua: bool,
    /// The device reported an error, or what it read does not verify: it must be read again.
    pub failed: bool,
}

/// Why the issuer does not complete an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cleared {
    /// A map node must be read.
    Node,
    /// Edges must be read first.
    Partial,
    /// A flush must follow.
    Flush,
    /// It must be read again.
    Retry,
}

impl Cleared {
    /// Every reason, in the order in which they are asked about.
    pub const ALL: [Self; 4] = [Self::Node, Self::Partial, Self::Flush, Self::Retry];

    /// The name in counters.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Partial => "partial",
            Self::Flush => "flush",
            Self::Retry => "retry",
        }
    }
}

/// Whether the mark stays; if not, why.
pub fn cleared(end: &EndFacts) -> Option<Cleared> {
    if end.node_missing {
        Some(Cleared::Node)
    } else if end.partial {
        Some(Cleared::Partial)
    } else if end.durable && end.write_cache && !end.fua {
        Some(Cleared::Flush)
    } else if end.failed {
        Some(Cleared::Retry)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cell_of_the_decision_table() {
        for bits in 0..64_u32 {
            let bit = |n: u32| bits >> n & 1 == 1;
            let end = EndFacts {
                node_missing: bit(0),
                partial: bit(1),
                durable: bit(2),
                write_cache: bit(3),
                fua: bit(4),
                failed: bit(5),
            };
            // The table, written down a second time: the first line that fits decides.
            let lines = [
                (bit(0), Some(Cleared::Node)),
                (bit(1), Some(Cleared::Partial)),
                (bit(2) && bit(3) && !bit(4), Some(Cleared::Flush)),
                (bit(5), Some(Cleared::Retry)),
                (true, None),
            ];
            let expected = lines.into_iter().find(|(fits, _)| *fits).and_then(|(_, why)| why);
            assert_eq!(cleared(&end), expected, "{end:?}");
        }
    }

    #[test]
    fn durability_clears_the_mark_only_where_it_takes_a_flush() {
        let end = EndFacts { durable: true, write_cache: true, ..EndFacts::default() };
        assert_eq!(cleared(&end), Some(Cleared::Flush));
        assert_eq!(cleared(&EndFacts { fua: true, ..end }), None);
        assert_eq!(cleared(&EndFacts { write_cache: false, ..end }), None);
        assert_eq!(cleared(&EndFacts { durable: false, ..end }), None);
    }

    #[test]
    fn names_lead_back_and_others_are_refused() {
        for policy in CompletePolicy::ALL {
            assert_eq!(policy.to_string().parse::<CompletePolicy>().unwrap(), policy);
        }
        let error = "inline".parse::<CompletePolicy>().unwrap_err().to_string();
        assert!(error.contains("inline") && error.contains("auto, issuer, worker"));
    }
}
