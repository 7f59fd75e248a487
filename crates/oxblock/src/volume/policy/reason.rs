//! Why a policy does what it does here: one sentence for each part, made from what was measured and nothing else.

use super::{Costs, CrcCode, Policy};
use crate::complete::policy::CompletePolicy;
use crate::csum::CsumKind;
use crate::format::layout::{BLOCK_BYTES, MAX_RECORD_PAYLOAD};
use crate::submit::policy::{STRIPE_BYTES, SubmitPolicy};
use crate::submit::split::BIO_FLOOR;

/// What the sentences are made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// The checksum type of the volume.
    pub csum: CsumKind,
    /// What a checksum and a hand-off cost.
    pub costs: Costs,
    /// Cores that this process may use.
    pub cores: usize,
    /// The device call has workers to compute on.
    pub workers: bool,
    /// The I/O size that the device prefers, in bytes; 0 when it names none.
    pub io_opt: u32,
    /// The most bytes that the device takes at once.
    pub bio_max_bytes: u32,
}

/// The sentences, by the names of the policy's parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reasons {
    /// Where checksums are computed, and why.
    pub submit: String,
    /// Where finished operations are dealt with, and why.
    pub complete: String,
    /// How large one device I/O may grow, and why.
    pub bio_max_bytes: String,
    /// Which code computes CRC-32C.
    pub crc: String,
}

impl Facts {
    /// The sentences for `policy`, which is in force.
    pub fn reasons(&self, policy: &Policy) -> Reasons {
        Reasons {
            submit: self.why_submit(policy),
            complete: self.why_complete(policy),
            bio_max_bytes: self.why_bio(policy.bio_max_bytes),
            crc: self.why_crc(policy.crc),
        }
    }

    fn why_submit(&self, policy: &Policy) -> String {
        let speed = self.speed(policy.crc);
        let costs = self.hand_off();
        match policy.submit {
            SubmitPolicy::Auto => match self.pays(MAX_RECORD_PAYLOAD as u64) {
                Pays::Nobody(why) => format!("checksum: inline ({speed}; {why})"),
                Pays::Fast => format!("checksum: inline ({speed}; {costs}; {FAST})"),
                Pays::Never(work) => format!(
                    "checksum: inline ({speed}; {costs}; {work}, and a record holds {})",
                    size(MAX_RECORD_PAYLOAD as u64 * BLOCK_BYTES)
                ),
                Pays::From(blocks, work) => format!(
                    "checksum: inline below {}, shared with awake workers from there ({speed}; {costs}; {work})",
                    size(blocks * BLOCK_BYTES)
                ),
            },
            SubmitPolicy::Inline => format!("checksum: inline (as set; {speed}; {costs})"),
            SubmitPolicy::Offload if !self.workers => {
                format!("checksum: inline (workers are set; {speed}; {costs})")
            }
            SubmitPolicy::Offload => {
                format!("checksum: workers (as set; {speed}; {costs})")
            }
            SubmitPolicy::Rules if self.costs.is_fast() => {
                format!("checksum: inline (by the rules, which never offload a fast one; {speed})")
            }
            SubmitPolicy::Rules if !self.workers => {
                format!("checksum: inline (the rules are set; {speed}; {costs})")
            }
            SubmitPolicy::Rules => format!(
                "checksum: workers for writes from {} on and for split ones, inline for durable ones (by the rules; \
                 {speed}, which is not fast; {costs})",
                size(STRIPE_BYTES)
            ),
        }
    }

    fn why_complete(&self, policy: &Policy) -> String {
        let speed = self.speed(policy.crc);
        let costs = self.hand_off();
        let bio = self.bio_bytes(policy.bio_max_bytes);
        match policy.complete {
            CompletePolicy::Auto => match self.pays(bio / BLOCK_BYTES) {
                Pays::Nobody(why) => format!("completion: issuer ({why})"),
                Pays::Fast => format!("completion: issuer ({speed}; {costs}; {FAST})"),
                Pays::Never(work) => format!(
                    "completion: issuer ({speed}; {costs}; {work}, and a bio carries {})",
                    size(bio)
                ),
                Pays::From(blocks, work) => format!(
                    "completion: issuer, with reads from {} on verified by awake workers ({speed}; {costs}; {work})",
                    size(blocks * BLOCK_BYTES)
                ),
            },
            CompletePolicy::Issuer => format!("completion: issuer (as set; {speed}; {costs})"),
            CompletePolicy::Worker if !self.workers => {
                format!("completion: issuer (a worker is set; {costs})")
            }
            CompletePolicy::Worker => {
                format!("completion: worker (as set; every operation is handed over; {costs})")
            }
        }
    }

    fn why_bio(&self, wanted: Option<u64>) -> String {
        let device = format!(
            "io_opt {}, the device takes {} at once",
            size(self.io_opt.into()),
            size(self.bio_max_bytes.into())
        );
        let (bytes, floor) = (self.bio_bytes(wanted), size(BIO_FLOOR));
        match wanted {
            None => format!("bio: up to {} ({device}; the floor is {floor})", size(bytes)),
            Some(0) => format!("bio: no limit (as set; a request leaves as a whole; {device})"),
            Some(wanted) if wanted < BIO_FLOOR => {
                format!(
                    "bio: up to {} (as set: {wanted} bytes; the floor is {floor}; {device})",
                    size(bytes)
                )
            }
            Some(_) => format!("bio: up to {} (as set; {device})", size(bytes)),
        }
    }

    fn why_crc(&self, crc: CrcCode) -> String {
        match (self.csum, crc) {
            (CsumKind::Crc32c, CrcCode::Auto) => {
                "crc: fast (the widest CRC or vector instructions that this machine has)".into()
            }
            (CsumKind::Crc32c, CrcCode::Fast) => {
                "crc: fast (as set; the widest CRC or vector instructions that this machine has)"
                    .into()
            }
            (CsumKind::Crc32c, CrcCode::Table) => {
                "crc: table (as set; byte by byte, as if there were no such instructions)".into()
            }
            (other, _) => format!("crc: not used (blocks have {other})"),
        }
    }

    /// From how much work on a worker pays, where one piece of it has at most `most` blocks.
    fn pays(&self, most: u64) -> Pays {
        let Some(blocks) = self.costs.shared_from() else {
            return self.alone().map_or(Pays::Fast, Pays::Nobody);
        };
        let work = format!(
            "workers pay from {} of work, {} of it",
            time(self.costs.worth_ns()),
            size(blocks.saturating_mul(BLOCK_BYTES))
        );
        match self.alone() {
            Some(why) => Pays::Nobody(why),
            None if blocks > most => Pays::Never(work),
            None => Pays::From(blocks, work),
        }
    }

    /// Why there is nobody to share with, if so.
    fn alone(&self) -> Option<&'static str> {
        if self.workers { (self.cores < 2).then_some(ONE_CORE) } else { Some(NO_WORKERS) }
    }

    fn speed(&self, crc: CrcCode) -> String {
        let table = self.csum == CsumKind::Crc32c && crc == CrcCode::Table;
        let how = if table { " by table" } else { "" };
        // Tenths of 10^9 bytes a second, which are tenths of a byte in a nanosecond.
        let tenths = (BLOCK_BYTES * 10 + self.costs.block_ns / 2) / self.costs.block_ns.max(1);
        format!("{}{how} runs at {}.{} GB/s here", self.csum, tenths / 10, tenths % 10)
    }

    fn hand_off(&self) -> String {
        if !self.workers {
            return NO_WORKERS.into();
        }
        if self.cores < 2 {
            return CROWDED.into();
        }
        let Costs { hand_off_ns, wake_ns, .. } = self.costs;
        format!("a hand-off costs {}, a wake-up {}", time(hand_off_ns), time(wake_ns))
    }

    /// What one bio carries; without a limit, as much as any request has.
    fn bio_bytes(&self, wanted: Option<u64>) -> u64 {
        crate::submit::split::limit_bytes(wanted, self.io_opt, self.bio_max_bytes)
            .unwrap_or(u64::MAX)
    }
}

/// Whether handing over pays.
enum Pays {
    /// There is nobody to hand over to, and why.
    Nobody(&'static str),
    /// Not for a fast checksum.
    Fast,
    /// Not for any piece.
    Never(String),
    /// For pieces of so many blocks and more.
    From(u64, String),
}

const FAST: &str = "a checksum of 4 GB/s and more is never shared";

const ONE_CORE: &str = "with one core there is nobody to hand over to";

const NO_WORKERS: &str = "this device call has no workers";

const CROWDED: &str = "with one core a worker shares it";

/// Nanoseconds as `0.4 us`, `52 us` or `1.2 ms`.
fn time(ns: u64) -> String {
    let (tenths, unit) =
        if ns < 1_000_000 { ((ns + 50) / 100, "us") } else { ((ns + 50_000) / 100_000, "ms") };
    match (tenths / 10, tenths % 10) {
        (whole, 0) => format!("{whole} {unit}"),
        (whole, _) if whole >= 10 => format!("{whole} {unit}"),
        (whole, tenth) => format!("{whole}.{tenth} {unit}"),
    }
}

/// Bytes as `0`, `340 KiB` or `1.5 MiB`, rounded down to tenths.
fn size(bytes: u64) -> String {
    let (shift, unit) = match bytes {
        0 => return "0".into(),
        1..1024 => return format!("{bytes} bytes"),
        1024..0x10_0000 => (10, "KiB"),
        0x10_0000..0x4000_0000 => (20, "MiB"),
        _ => (30, "GiB"),
    };
    let whole = bytes >> shift;
    match ((bytes - (whole << shift)) * 10) >> shift {
        0 => format!("{whole} {unit}"),
        tenth => format!("{whole}.{tenth} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(csum: CsumKind, block_ns: u64, cores: usize) -> Facts {
        let costs = Costs { block_ns, hand_off_ns: 400, wake_ns: 52_000 };
        Facts { csum, costs, cores, workers: true, io_opt: 0, bio_max_bytes: 1 << 20 }
    }

    fn reasons(facts: Facts, policy: &str) -> Reasons {
        facts.reasons(&policy.parse().unwrap())
    }

    const QUICK: fn(usize) -> Facts = |cores| facts(CsumKind::Crc32c, 95, cores);
    const SLOW: fn(usize) -> Facts = |cores| facts(CsumKind::Sha256, 2560, cores);

    #[test]
    fn every_submit_policy_says_why() {
        let costs = "a hand-off costs 0.4 us, a wake-up 52 us";
        let crc = "crc32c runs at 43.1 GB/s here";
        let sha = "sha256 runs at 1.6 GB/s here";
        let alone = "with one core there is nobody to hand over to";
        let shared = "with one core a worker shares it";
        let table = [
            (QUICK(2), "auto", format!("checksum: inline ({crc}; {costs}; {FAST})")),
            (QUICK(1), "auto", format!("checksum: inline ({crc}; {alone})")),
            (
                SLOW(2),
                "auto",
                format!(
                    "checksum: inline below 16 KiB, shared with awake workers from there ({sha}; {costs}; workers pay from 8 us of work, 16 KiB of it)"
                ),
            ),
            (SLOW(1), "auto", format!("checksum: inline ({sha}; {alone})")),
            (QUICK(2), "inline", format!("checksum: inline (as set; {crc}; {costs})")),
            (QUICK(1), "inline", format!("checksum: inline (as set; {crc}; {shared})")),
            (SLOW(2), "inline", format!("checksum: inline (as set; {sha}; {costs})")),
            (SLOW(1), "inline", format!("checksum: inline (as set; {sha}; {shared})")),
            (QUICK(2), "offload", format!("checksum: workers (as set; {crc}; {costs})")),
            (QUICK(1), "offload", format!("checksum: workers (as set; {crc}; {shared})")),
            (SLOW(2), "offload", format!("checksum: workers (as set; {sha}; {costs})")),
            (SLOW(1), "offload", format!("checksum: workers (as set; {sha}; {shared})")),
            (
                QUICK(2),
                "rules",
                format!("checksum: inline (by the rules, which never offload a fast one; {crc})"),
            ),
            (
                QUICK(1),
                "rules",
                format!("checksum: inline (by the rules, which never offload a fast one; {crc})"),
            ),
            (
                SLOW(2),
                "rules",
                format!(
                    "checksum: workers for writes from 64 KiB on and for split ones, inline for durable ones (by the rules; {sha}, which is not fast; {costs})"
                ),
            ),
            (
                SLOW(1),
                "rules",
                format!(
                    "checksum: workers for writes from 64 KiB on and for split ones, inline for durable ones (by the rules; {sha}, which is not fast; {shared})"
                ),
            ),
        ];
        for (facts, policy, expected) in table {
            assert_eq!(reasons(facts, &format!("submit={policy}")).submit, expected);
        }
    }

    #[test]
    fn every_completion_policy_says_why() {
        let costs = "a hand-off costs 0.4 us, a wake-up 52 us";
        let crc = "crc32c runs at 43.1 GB/s here";
        let sha = "sha256 runs at 1.6 GB/s here";
        let alone = "with one core there is nobody to hand over to";
        let shared = "with one core a worker shares it";
        let table = [
            (QUICK(2), "auto", format!("completion: issuer ({crc}; {costs}; {FAST})")),
            (
                SLOW(2),
                "auto",
                format!(
                    "completion: issuer, with reads from 16 KiB on verified by awake workers ({sha}; {costs}; workers pay from 8 us of work, 16 KiB of it)"
                ),
            ),
            (QUICK(1), "auto", format!("completion: issuer ({alone})")),
            (SLOW(1), "auto", format!("completion: issuer ({alone})")),
            (QUICK(2), "issuer", format!("completion: issuer (as set; {crc}; {costs})")),
            (SLOW(1), "issuer", format!("completion: issuer (as set; {sha}; {shared})")),
            (
                QUICK(2),
                "worker",
                format!("completion: worker (as set; every operation is handed over; {costs})"),
            ),
            (
                SLOW(2),
                "worker",
                format!("completion: worker (as set; every operation is handed over; {costs})"),
            ),
            (
                SLOW(1),
                "worker",
                format!("completion: worker (as set; every operation is handed over; {shared})"),
            ),
        ];
        for (facts, policy, expected) in table {
            assert_eq!(reasons(facts, &format!("complete={policy}")).complete, expected);
        }
    }

    #[test]
    fn work_that_no_record_has_is_never_shared() {
        let mut dear = SLOW(2);
        dear.costs.hand_off_ns = 50_000;
        let Reasons { submit, complete, .. } = reasons(dear, "");
        assert_eq!(
            submit,
            "checksum: inline (sha256 runs at 1.6 GB/s here; a hand-off costs 50 us, a wake-up 52 us; workers pay from \
             1 ms of work, 1.5 MiB of it, and a record holds 1 MiB)"
        );
        assert!(
            complete.starts_with("completion: issuer (")
                && complete.contains("a bio carries 1 MiB"),
            "{complete}"
        );
        let Reasons { complete, .. } = reasons(dear, "bio_max_bytes=4M");
        assert!(complete.contains("reads from 1.5 MiB on"), "{complete}");
        let Reasons { complete, .. } = reasons(dear, "bio_max_bytes=0");
        assert!(complete.contains("reads from 1.5 MiB on"), "{complete}");
    }

    #[test]
    fn every_limit_says_why() {
        let auto =
            "bio: up to 1 MiB (io_opt 0, the device takes 1 MiB at once; the floor is 1 MiB)";
        assert_eq!(reasons(QUICK(2), "").bio_max_bytes, auto);
        let raid = Facts { io_opt: 4 << 20, bio_max_bytes: 16 << 20, ..QUICK(2) };
        for (policy, expected) in [
            (
                "auto",
                "bio: up to 4 MiB (io_opt 4 MiB, the device takes 16 MiB at once; the floor is 1 MiB)",
            ),
            (
                "0",
                "bio: no limit (as set; a request leaves as a whole; io_opt 4 MiB, the device takes 16 MiB at once)",
            ),
            (
                "1",
                "bio: up to 1 MiB (as set: 1 bytes; the floor is 1 MiB; io_opt 4 MiB, the device takes 16 MiB at once)",
            ),
            ("8M", "bio: up to 8 MiB (as set; io_opt 4 MiB, the device takes 16 MiB at once)"),
        ] {
            assert_eq!(reasons(raid, &format!("bio_max_bytes={policy}")).bio_max_bytes, expected);
        }
    }

    #[test]
    fn the_code_for_crc_is_named_where_it_matters() {
        assert!(reasons(QUICK(2), "crc=auto").crc.starts_with("crc: fast (the widest"));
        assert!(reasons(QUICK(2), "crc=fast").crc.starts_with("crc: fast (as set"));
        let table = reasons(facts(CsumKind::Crc32c, 1700, 2), "crc=table");
        assert!(table.crc.starts_with("crc: table (as set"));
        assert!(table.submit.contains("crc32c by table runs at 2.4 GB/s"), "{}", table.submit);
        assert_eq!(reasons(SLOW(2), "crc=table").crc, "crc: not used (blocks have sha256)");
    }

    #[test]
    fn figures_are_short() {
        for (ns, text) in [
            (0, "0 us"),
            (49, "0 us"),
            (400, "0.4 us"),
            (8000, "8 us"),
            (52_345, "52 us"),
            (1_200_000, "1.2 ms"),
        ] {
            assert_eq!(time(ns), text);
        }
        for (bytes, text) in [
            (0, "0"),
            (777, "777 bytes"),
            (340 << 10, "340 KiB"),
            (1 << 20, "1 MiB"),
            (3 << 19, "1.5 MiB"),
            (1 << 30, "1 GiB"),
            (u64::MAX, "17179869183.9 GiB"),
        ] {
            assert_eq!(size(bytes), text);
        }
    }
}
