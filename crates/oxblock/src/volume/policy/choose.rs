//! The policy that follows from what was measured. A pure function: what is not clearly better stays `auto`, which decides
//! for each request by the same figures and goes on to do so when the machine changes. A machine that was busy says nothing
//! about itself that should be kept.

use super::{CrcCode, Facts, Policy};
use crate::complete::policy::CompletePolicy;
use crate::csum::CsumKind;
use crate::format::layout::{BLOCK_BYTES, MAX_RECORD_PAYLOAD};
use crate::submit::policy::SubmitPolicy;
use crate::submit::split::limit_bytes;

/// A limit must be faster by so many percent to be chosen over `auto`: less is noise.
const CLEARLY: u64 = 10;

/// A hand-off that takes as long met a worker that got no core.
const DISTURBED_NS: u64 = 1_000_000;

/// Why nothing is chosen on a busy machine.
const BUSY: &str = "the machine was too busy to tell; measure again when it is quiet";

/// Reading with a limit on bios.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BioRead {
    /// The limit, as in [`Policy::bio_max_bytes`].
    pub limit: Option<u64>,
    /// Bytes a second.
    pub rate: u64,
}

/// What a choice is made from.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// Of the machine and the device, with the fast code for CRC-32C.
    pub facts: Facts,
    /// Cores of the machine that had nothing to do; `None` when nobody knows.
    pub idle_cores: Option<f64>,
    /// What a block takes by the table for CRC-32C, in nanoseconds.
    pub table_ns: u64,
    /// Large reads by limit; empty when there was nothing to read.
    pub bio_reads: Vec<BioRead>,
}

/// A policy, with the reason for each part of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// The policy.
    pub policy: Policy,
    /// Why, for `submit`, `complete`, `bio_max_bytes`, `crc`.
    pub why: [String; 4],
}

/// The policy for this machine, this checksum and this device.
pub fn choose(measured: &Measured) -> Choice {
    let busy = measured.is_disturbed();
    let (submit, why_submit) = submit(&measured.facts, busy);
    let (bio_max_bytes, why_bio) = bio(&measured.bio_reads, busy);
    let (complete, why_complete) = complete(&measured.facts, bio_max_bytes, busy);
    let (crc, why_crc) = crc(measured);
    Choice {
        policy: Policy { submit, complete, bio_max_bytes, crc },
        why: [why_submit, why_complete, why_bio, why_crc].map(str::to_owned),
    }
}

impl Measured {
    /// Others used the cores that a worker would have had. With one core there is none for workers anyway.
    fn is_disturbed(&self) -> bool {
        let Facts { cores, costs, .. } = self.facts;
        let idle = self.idle_cores.is_none_or(|idle| idle >= 1.0);
        cores > 1 && (!idle || costs.hand_off_ns >= DISTURBED_NS)
    }
}

fn submit(facts: &Facts, busy: bool) -> (SubmitPolicy, &'static str) {
    if facts.cores < 2 {
        (SubmitPolicy::Inline, "there is one core")
    } else if busy {
        (SubmitPolicy::Auto, BUSY)
    } else if !facts.costs.is_shared(MAX_RECORD_PAYLOAD as u64) {
        (SubmitPolicy::Inline, "the checksum of a full record is not worth a hand-off")
    } else {
        (SubmitPolicy::Auto, "large records pay for a hand-off and small ones do not")
    }
}

fn complete(facts: &Facts, limit: Option<u64>, busy: bool) -> (CompletePolicy, &'static str) {
    let bio = limit_bytes(limit, facts.io_opt, facts.bio_max_bytes).unwrap_or(u64::MAX);
    if facts.cores < 2 {
        (CompletePolicy::Issuer, "there is one core")
    } else if busy {
        (CompletePolicy::Auto, BUSY)
    } else if !facts.costs.is_shared(bio / BLOCK_BYTES) {
        (CompletePolicy::Issuer, "verifying a full bio is not worth a hand-off")
    } else {
        (CompletePolicy::Auto, "large reads pay for a hand-off and small ones do not")
    }
}

fn bio(reads: &[BioRead], busy: bool) -> (Option<u64>, &'static str) {
    if busy {
        return (None, BUSY);
    }
    let auto = reads.iter().find(|read| read.limit.is_none());
    let Some(auto) = auto else { return (None, "there is too little data to measure others by") };
    let best = reads.iter().max_by_key(|read| read.rate);
    let clearly = |read: &&BioRead| read.rate / 100 * 100 > auto.rate / 100 * (100 + CLEARLY);
    match best.filter(clearly) {
        Some(best) => (best.limit, "it read clearly faster than the device's own limit"),
        None => (None, "no other limit read clearly faster"),
    }
}

fn crc(measured: &Measured) -> (CrcCode, &'static str) {
    match measured.facts.csum {
        CsumKind::Crc32c if measured.table_ns < measured.facts.costs.block_ns => {
            (CrcCode::Table, "the table is faster here")
        }
        CsumKind::Crc32c => (CrcCode::Auto, "the fast code is faster than the table"),
        _ => (CrcCode::Auto, "this volume's checksum is another"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Costs;
    use super::*;

    fn measured(block_ns: u64, hand_off_ns: u64, cores: usize) -> Measured {
        let costs = Costs { block_ns, hand_off_ns, wake_ns: 50_000 };
        let csum = CsumKind::Crc32c;
        let facts = Facts { csum, costs, cores, workers: true, io_opt: 0, bio_max_bytes: 1 << 20 };
        Measured { facts, idle_cores: Some(1.7), table_ns: 1700, bio_reads: Vec::new() }
    }

    #[test]
    fn one_core_does_everything_itself() {
        let choice = choose(&measured(95, 400, 1));
        assert_eq!(choice.policy, "submit=inline,complete=issuer".parse().unwrap());
        assert_eq!(choice.why[0], "there is one core");
    }

    #[test]
    fn auto_stays_where_it_has_something_to_decide() {
        let fast = choose(&measured(95, 400, 2)).policy;
        assert_eq!(fast, "submit=inline,complete=issuer".parse().unwrap());
        let mut slow = measured(2560, 400, 2);
        slow.facts.csum = CsumKind::Sha256;
        assert_eq!(choose(&slow).policy, Policy::default());
        slow.facts.costs.hand_off_ns = 50_000;
        let dear = choose(&slow).policy;
        assert_eq!(dear, "submit=inline,complete=issuer".parse().unwrap());
    }

    #[test]
    fn a_busy_machine_says_nothing_that_should_be_kept() {
        let bio_reads =
            [(None, 1000), (Some(0), 9000)].map(|(limit, rate)| BioRead { limit, rate });
        let quiet = Measured { bio_reads: bio_reads.into(), ..measured(95, 3000, 2) };
        let chosen = "submit=inline,complete=issuer,bio_max_bytes=0".parse().unwrap();
        assert_eq!(choose(&quiet).policy, chosen);
        assert_eq!(choose(&Measured { idle_cores: None, ..quiet.clone() }).policy, chosen);
        let mut busy = Measured { idle_cores: Some(0.3), ..quiet.clone() };
        assert_eq!(choose(&busy).policy, Policy::default());
        assert!(choose(&busy).why[0].contains("too busy"));
        busy.facts.cores = 1;
        assert_eq!(choose(&busy).policy, chosen);
        let mut starved = quiet;
        starved.facts.costs.hand_off_ns = 20_000_000;
        assert_eq!(choose(&starved).policy, Policy::default());
    }

    #[test]
    fn a_limit_must_be_clearly_faster() {
        let mut measured = measured(95, 400, 2);
        let read = |limit, rate: u64| BioRead { limit, rate: rate * 1_000_000 };
        for (reads, chosen) in [
            (vec![read(None, 1000), read(Some(0), 1100)], None),
            (vec![read(None, 1000), read(Some(0), 1101)], Some(0)),
            (vec![read(None, 1000), read(Some(4 << 20), 1500), read(Some(0), 1200)], Some(4 << 20)),
            (vec![read(Some(0), 1200)], None),
            (vec![], None),
        ] {
            measured.bio_reads = reads;
            assert_eq!(choose(&measured).policy.bio_max_bytes, chosen, "{measured:?}");
        }
    }

    #[test]
    fn the_table_is_chosen_only_where_it_is_faster() {
        let mut slow = measured(2000, 400, 2);
        assert_eq!(choose(&slow).policy.crc, CrcCode::Table);
        slow.facts.csum = CsumKind::Sha256;
        assert_eq!(choose(&slow).policy.crc, CrcCode::Auto);
    }
}
