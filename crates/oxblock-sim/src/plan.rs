//! What a seed stands for: geometry, device, and the kind of trouble.

use oxblock::complete::policy::CompletePolicy;
use oxblock::csum::CsumKind;
use oxblock::device::Fua;
use oxblock::device::sim::{DiscardMode, Rng, SimConfig};
use oxblock::submit::policy::SubmitPolicy;
use oxblock::volume::{Costs, CrcCode, Policy, required_size};

use crate::content::small;
use crate::trouble::Trouble;

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
    /// Rounds of writes before the first life that leave a little alive in each segment, so that cleaning has work.
    pub wear: u64,
    /// Further outcomes of a power cut that are tried, at the most, before the one with which life goes on.
    pub outcomes: u64,
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

/// One of the ways that requests can take. The table CRC is many times slower than all else, so few plans have it.
fn policy(rng: &mut Rng) -> Policy {
    Policy {
        submit: *SubmitPolicy::ALL.get(small(rng.below(4))).unwrap_or(&SubmitPolicy::Auto),
        complete: *CompletePolicy::ALL.get(small(rng.below(3))).unwrap_or(&CompletePolicy::Auto),
        bio_max_bytes: [None, Some(0), Some(1), Some(4 * MIB)]
            .get(small(rng.below(4)))
            .copied()
            .flatten(),
        crc: if rng.below(32) == 0 { CrcCode::Table } else { CrcCode::Fast },
    }
}

/// How large a plan is: what a power cut costs is mostly the size of what is read after it, so nearly all plans are as
/// small as the format allows, and a few are not.
struct Scale {
    /// Blocks of the volume, at the least, and how many more at the most.
    blocks: (u64, u64),
    /// Only some spots of it are written.
    sparse: bool,
    /// Lives, at the least, and how many more at the most.
    lives: (u64, u64),
    /// The powers of two that the requests of a life are drawn below: the least, and how many there are.
    requests: (u64, u64),
}

impl Scale {
    /// Draws one.
    fn draw(rng: &mut Rng) -> Self {
        let scale = |blocks, sparse, lives, requests| Self { blocks, sparse, lives, requests };
        match rng.below(256) {
            0..100 => scale((1, 64), false, (24, 60), (1, 6)),
            100..190 => scale((40, 220), false, (24, 60), (1, 7)),
            190..230 => scale((256, 1024), false, (16, 32), (2, 7)),
            230..240 => scale((1024, 6 << 10), false, (6, 12), (3, 7)),
            240..243 => scale((6 << 10, 10 << 10), false, (4, 8), (3, 8)),
            243..254 => scale((32 << 10, 64 << 10), true, (8, 16), (3, 7)),
            254 => scale((256 << 10, 1), true, (4, 8), (3, 7)),
            _ => scale((16 << 20, 1), true, (2, 4), (3, 6)),
        }
    }
}

impl Plan {
    /// The plan of a seed.
    pub fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0x0b10_c50a);
        let scale = Scale::draw(&mut rng);
        let sparse = scale.sparse;
        let size = (scale.blocks.0 + rng.below(scale.blocks.1)) * 4096;
        let spare = [0, 0, 16, 64].get(small(rng.below(4))).copied().unwrap_or(0);
        let device = required_size(size).unwrap_or(size * 2) + spare * MIB;
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
        let csum = match rng.below(16) {
            0..3 => CsumKind::Xxh3,
            3 | 4 => CsumKind::Blake3,
            5 => CsumKind::Sha256,
            _ => CsumKind::Crc32c,
        };
        let spots = if sparse { 8 + rng.below(250) } else { rng.below(3) };
        let hot_bytes = if sparse { 16 << 10 } else { (256 << 10).min(size / 4) };
        let hot = (0..spots).map(|_| rng.below(size - hot_bytes) / 4096 * 4096).collect();
        let trouble = match rng.below(32) {
            0 | 1 => Trouble::Transient,
            2 | 3 => Trouble::Errors,
            4 | 5 => Trouble::Silent,
            6 => Trouble::Latent,
            7 => Trouble::Stuck,
            8 => Trouble::Gone,
            9 => Trouble::Full,
            10 => Trouble::Broken,
            11 => Trouble::Errors,
            _ => Trouble::None,
        };
        Self {
            seed,
            size,
            device: config,
            csum,
            map_cache: if rng.below(4) == 0 { 4 * MIB } else { 256 << 10 },
            depth: [1, 1, 2, 4, 8, 16, 32].get(small(rng.below(7))).copied().unwrap_or(1),
            lives: scale.lives.0 + rng.below(scale.lives.1),
            requests: 1 << (scale.requests.0 + rng.below(scale.requests.1)),
            hot,
            hot_bytes,
            fill: !sparse && size < 24 * MIB && rng.below(3) == 0,
            wear: match !sparse && (MIB / 8..8 * MIB).contains(&size) && rng.below(3) == 0 {
                true => 8 + rng.below(16) + spare / 2,
                false => 0,
            },
            outcomes: rng.below(5),
            small: sparse || rng.below(3) != 0,
            trouble,
            policy: policy(&mut Rng::new(seed ^ 0x0901_1c1e)),
            costs: Costs { block_ns: 1 + seed % 3 * 2000, hand_off_ns: 500, wake_ns: 50_000 },
            // Drawn last, so that a seed from before there was such a choice keeps the rest of its plan.
            cheap_reads: rng.below(2) == 0,
            works_beside: rng.below(2) == 0,
        }
    }
}
