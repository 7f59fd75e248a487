//! Profiles: how a segment uses its slots. One so far: `single`, one slot on one device.

use crate::device::DeviceIndex;
use crate::format::layout::BLOCK_BYTES;
use crate::format::superblock::Superblock;

/// Device and byte offset of a physical block. An address beyond the lane, which damage may ask for, is beyond every
/// device too.
pub(crate) fn locate(superblock: &Superblock, addr: u64) -> (DeviceIndex, u64) {
    (0, superblock.data_start.saturating_add(addr.saturating_mul(BLOCK_BYTES)))
}
