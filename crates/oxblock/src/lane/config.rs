//! What does not change while a lane is open.

use crate::complete::policy::CompletePolicy;
use crate::csum::Csum;
use crate::device::QueueLimits;
use crate::format::pointer::PointerWidth;
use crate::format::record::Header;
use crate::format::superblock::Superblock;
use crate::submit::policy::SubmitPolicy;
use crate::submit::split::{BioLimit, bio_limit};
use crate::volume::InForce;

/// Identity, shape and limits.
#[derive(Debug, Clone)]
pub(crate) struct Geometry {
    /// The superblock that the lane was opened with; checkpoints write it with a new checkpoint.
    pub superblock: Superblock,
    pub csum: Csum,
    pub width: PointerWidth,
    /// Logical blocks.
    pub blocks: u64,
    /// Limits of the device.
    pub limits: QueueLimits,
    pub read_only: bool,
}

impl Geometry {
    /// A whole header, found at block `offset` of a segment, is of this lane and of a record that ends in the segment.
    pub fn owns(&self, header: &Header, offset: u32) -> bool {
        header.volume == self.superblock.volume
            && header.lane == self.superblock.lane
            && offset.saturating_add(header.blocks()) <= self.superblock.segment_blocks
    }
}

/// Who does what: the policies in force, with what was measured for them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Placement {
    /// The policy in force, and what it goes by.
    pub force: InForce,
    /// What one bio may carry.
    pub bio: BioLimit,
    /// Blocks from which `auto` shares checksums with a worker.
    shared_from: u64,
}

impl Placement {
    /// The policy in force on a device with these limits.
    pub fn new(force: InForce, limits: &QueueLimits) -> Self {
        let shared_from = force.costs.shared_from().unwrap_or(u64::MAX);
        Self { force, bio: bio_limit(force.policy.bio_max_bytes, limits), shared_from }
    }

    /// Who decides where checksums are computed.
    pub fn submit(&self) -> SubmitPolicy {
        self.force.policy.submit
    }

    /// Who completes operations.
    pub fn complete(&self) -> CompletePolicy {
        self.force.policy.complete
    }

    /// What the checksums of so many blocks take, in nanoseconds.
    pub fn cost(&self, blocks: usize) -> u64 {
        self.force.costs.block_ns.max(1) * blocks as u64
    }

    /// Whether `auto` shares the checksums of so many blocks with a worker.
    pub fn is_worth(&self, blocks: usize) -> bool {
        blocks as u64 >= self.shared_from
    }
}

/// Numbers that trade memory, latency and recovery time against each other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tuning {
    /// Log blocks after which a checkpoint begins: the tail that recovery reads is at most about twice this.
    pub tail_blocks: u64,
    /// Records in flight at which gathering waits for a completion unless a full record is ready.
    pub gather_depth: usize,
    /// The least blocks that the cleaner reads at once.
    pub window_blocks: u32,
    /// Start each read as soon as it is queued.
    pub eager_reads: bool,
    /// Operations whose end is dealt with in one go. A device that ends many at once would have nothing to do while all of
    /// them are verified: so the caller gets the first ones, and can send its next requests, before the last.
    pub reaped: usize,
    /// Freed segments whose space is kept for the next writes; that of further ones goes back to the backing store.
    pub warm_segments: usize,
}

impl Tuning {
    /// Defaults for a volume of this shape. Where small reads are cheap, cleaning reads no more than it needs.
    pub fn new(segment_blocks: u32, segments: u32, cheap_reads: bool) -> Self {
        let capacity = u64::from(segment_blocks) * u64::from(segments);
        Self {
            tail_blocks: (capacity / 16).clamp(u64::from(segment_blocks), 65536),
            gather_depth: if cheap_reads { 1 } else { 2 },
            window_blocks: if cheap_reads { 1 } else { 512 },
            eager_reads: !cheap_reads,
            reaped: if cheap_reads { usize::MAX } else { 4 },
            // A quarter of the volume, but no more than 4 GiB.
            warm_segments: (segments as usize / 4).min((1 << 20) / segment_blocks as usize).max(16),
        }
    }
}
