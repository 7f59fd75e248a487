//! What a seed stands for: geometry, device, and the kind of trouble.

use oxblock::complete::policy::CompletePolicy;
use oxblock::csum::CsumKind;
use oxblock::device::Fua;
use oxblock::device::sim::{DiscardMode, FaultPlan, FaultRates, Rng, SimConfig};
use oxblock::submit::policy::SubmitPolicy;
use oxblock::volume::{Costs, CrcCode, Policy, required_size};

use crate::content::small;

/// What goes wrong besides the power.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// Nothing.
    None,
    /// Reads that fail or come with a flipped bit, once.
    Transient,
    /// Writes and flushes that fail, and say so.
    Errors,
    /// Writes that get lost, land elsewhere or are stored with a flipped bit, and bits that rot.
    Silent,
}

/// Everything that a run draws from its seed before it begins.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The seed.
    pub seed: u64,
    /// Bytes of the volume.
    pub size: u64,
    /// Bytes of the device.
    pub device: SimConfig,
    /// Checksum type.
    pub csum: CsumKind,
    /// Bytes of the map cache.
    pub map_cache: u64,
    /// Most requests under way.
    pub depth: u64,
    /// Lives.
    pub lives: u64,
    /// Requests of a life, at the most.
    pub requests: u64,
    /// First bytes of the regions that most requests go to, and their length; none: everywhere.
    pub hot: Vec<u64>,
    /// Bytes of a hot region.
    pub hot_bytes: u64,
    /// Fill the volume first.
    pub fill: bool,
    /// Mostly single blocks.
    pub small: bool,
    /// What goes wrong.
    pub trouble: Trouble,
    /// The way of requests.
    pub policy: Policy,
    /// What the policies go by; never measured, so that a seed stays a run.
    pub costs: Costs,
    /// The device says that small reads are cheap, which the engine tunes itself by.
    pub cheap_reads: bool,
    /// The device says that its operations go on beside the engine.
    pub works_beside: bool,
}

const MIB: u64 = 1 << 20;

/// One of the ways that requests can take.
fn policy(rng: &mut Rng) -> Policy {
    Policy {
        submit: *SubmitPolicy::ALL.get(small(rng.below(4))).unwrap_or(&SubmitPolicy::Auto),
        complete: *CompletePolicy::ALL.get(small(rng.below(3))).unwrap_or(&CompletePolicy::Auto),
        bio_max_bytes: [None, Some(0), Some(1), Some(4 * MIB)]
            .get(small(rng.below(4)))
            .copied()
            .flatten(),
        crc: if rng.below(2) == 0 { CrcCode::Fast } else { CrcCode::Table },
    }
}

impl Plan {
    /// The plan of a seed.
    pub fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0x0b10_c50a);
        let sparse = rng.below(5) == 0;
        let size = match (sparse, rng.below(8)) {
            (true, 0) => 64 << 30,
            (true, _) => 1 << 30,
            (false, 0..5) => (2 + rng.below(7)) * MIB,
            (false, 5 | 6) => (8 + rng.below(17)) * MIB,
            (false, _) => (24 + rng.below(41)) * MIB,
        };
        let size = size + rng.below(2) * rng.below(200) * 4096;
        let device = required_size(size).unwrap_or(size * 2) + rng.below(3) / 2 * 16 * MIB;
        let mut config = SimConfig::new(device, rng.next_u64());
        config.discard = match rng.below(3) {
            0 => DiscardMode::Ignored,
            1 => DiscardMode::Zeroes,
            _ => DiscardMode::Arbitrary,
        };
        match rng.below(6) {
            0 => config.fua = Fua::Emulated,
            1 => {
                config.write_cache = false;
                config.fua = Fua::NotNeeded;
            }
            _ => {}
        }
        config.reorder = rng.below(8) != 0;
        let csum = *CsumKind::ALL.get(small(rng.below(6))).unwrap_or(&CsumKind::Crc32c);
        let spots = if sparse { 8 + rng.below(250) } else { rng.below(3) };
        let hot_bytes = if sparse { 16 << 10 } else { 256 << 10 };
        let hot = (0..spots).map(|_| rng.below(size - hot_bytes) / 4096 * 4096).collect();
        let trouble = match rng.below(12) {
            0 => Trouble::Transient,
            1 => Trouble::Errors,
            2 => Trouble::Silent,
            _ => Trouble::None,
        };
        Self {
            seed,
            size,
            device: config,
            csum,
            map_cache: if rng.below(4) == 0 { 4 * MIB } else { 256 << 10 },
            depth: [1, 1, 2, 4, 8, 16, 32].get(small(rng.below(7))).copied().unwrap_or(1),
            lives: 4 + rng.below(12),
            requests: 1 << (3 + rng.below(8)),
            hot,
            hot_bytes,
            fill: !sparse && size < 24 * MIB && rng.below(3) == 0,
            small: sparse || rng.below(2) == 0,
            trouble,
            policy: policy(&mut Rng::new(seed ^ 0x0901_1c1e)),
            costs: Costs { block_ns: 1 + seed % 3 * 2000, hand_off_ns: 500, wake_ns: 50_000 },
            // Drawn last, so that a seed from before there was such a choice keeps the rest of its plan.
            cheap_reads: rng.below(2) == 0,
            works_beside: rng.below(2) == 0,
        }
    }

    /// The device faults of this run.
    pub fn faults(&self, rng: &mut Rng) -> FaultPlan {
        let mut ppm = |most: u64| u32::try_from(rng.below(most)).unwrap_or(0);
        let rates = match self.trouble {
            Trouble::None => return FaultPlan::new(),
            Trouble::Transient => FaultRates {
                read_fail: ppm(5_000),
                read_flip: ppm(5_000),
                discard_fail: ppm(50_000),
                stall: ppm(20_000),
                stall_ns: 5_000_000,
                ..FaultRates::default()
            },
            Trouble::Errors => FaultRates {
                write_fail: ppm(4_000),
                write_torn: ppm(4_000),
                flush_fail: ppm(10_000),
                ..FaultRates::default()
            },
            Trouble::Silent => FaultRates {
                write_lost: ppm(3_000),
                write_misdirected: ppm(3_000),
                write_flip: ppm(3_000),
                rot: ppm(3_000),
                ..FaultRates::default()
            },
        };
        FaultPlan::new().rates(0, rates)
    }
}
