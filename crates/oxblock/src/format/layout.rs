//! Every constant of the layout, in one place. `docs/format.md` explains them; a test holds both together.

/// The unit of everything: bytes of a logical and of a physical block.
pub const BLOCK_SIZE: usize = 4096;
/// [`BLOCK_SIZE`] for byte arithmetic on devices.
pub const BLOCK_BYTES: u64 = 4096;

/// The format's version. Changes within it go through feature flags.
pub const VERSION: u32 = 1;
/// First bytes of a superblock.
pub const SUPERBLOCK_MAGIC: [u8; 8] = *b"oxblock\x1a";
/// Bytes of one superblock.
pub const SUPERBLOCK_SIZE: usize = 16384;
/// Alternating superblock slots of one lane in one area.
pub const SUPERBLOCK_SLOTS: u64 = 2;
/// Bytes kept for superblocks at the start and again at the end of every device.
pub const AREA_BYTES: u64 = 1 << 20;
/// The most lanes a volume can have.
pub const MAX_LANES: u16 = 16;
/// The most devices a volume can have.
pub const MAX_DEVICES: usize = 32;
/// Bytes of a device's entry in the superblock's device table.
pub const DEVICE_ENTRY_SIZE: usize = 256;
/// Bytes of a path in a device's entry.
pub const DEVICE_PATH_SIZE: usize = 208;
/// The most segments that a reserve list names.
pub const MAX_RESERVE: usize = 1024;
/// How many places of the reserve list behind the last segment that was opened the next record may open one.
pub const REPLAY_WINDOW: usize = 64;
/// What the sequence number leaps by with the checkpoint that follows a replay: more records than any recovery writes, so
/// that what an interrupted one has left is never the next record of a later one.
pub const REPLAY_LEAP: u64 = 1 << 20;
/// What the epoch leaps by when an older state is accepted: more lives than can lie between two superblocks.
pub const ROLLBACK_LEAP: u64 = 1 << 20;
/// Append streams that the superblock has room for.
pub const MAX_STREAMS: usize = 8;
/// Bytes of a volume label, UTF-8, zero-padded.
pub const LABEL_SIZE: usize = 64;
/// Bytes of the policy that a superblock keeps.
pub const STORED_POLICY_SIZE: usize = 16;

/// First bytes of a record header.
pub const RECORD_MAGIC: [u8; 4] = *b"oxRC";
/// Bytes of a record header before its entries.
pub const RECORD_HEADER_SIZE: usize = 128;
/// The most payload blocks of one record: 1 MiB.
pub const MAX_RECORD_PAYLOAD: usize = 256;
/// The most blocks of one record's header.
pub const MAX_RECORD_HEADER: usize = 3;

/// The smallest segment, in blocks: 2 MiB, so that the largest record fits.
pub const MIN_SEGMENT_BLOCKS: u32 = 512;
/// The largest segment, in blocks: 128 MiB.
pub const MAX_SEGMENT_BLOCKS: u32 = 32768;
/// Bytes of a segment's entry in the segment table.
pub const SEGMENT_ENTRY_SIZE: usize = 32;
/// Segment entries of one table block.
pub const SEGMENTS_PER_BLOCK: usize = BLOCK_SIZE / SEGMENT_ENTRY_SIZE;

/// Bytes of a block pointer with a checksum of up to 64 bits.
pub const NARROW_POINTER_SIZE: usize = 16;
/// Bytes of a block pointer with a 128-bit checksum.
pub const WIDE_POINTER_SIZE: usize = 32;
/// Physical addresses are below this; the bits above are pointer flags.
pub const ADDRESS_LIMIT: u64 = 1 << 48;
/// What stands for the address of a block that is lost: pointer flag bit 63, and no address.
pub const LOST_ADDRESS: u64 = 1 << 63;
/// Logical blocks are below this.
pub const BLOCK_LIMIT: u64 = 1 << 48;

/// Counters that only grow (generations, epochs, sequence numbers) are below this: no volume comes near, and none wraps.
pub const COUNTER_LIMIT: u64 = 1 << 62;

/// `compat` bit of a volume that keeps a policy in its superblock.
pub const COMPAT_POLICY: u64 = 1;
/// `compat` bit of a volume whose log may hold entries that were refused, since the node that they would change was lost.
pub const COMPAT_REFUSED: u64 = 2;
/// `compat` bit of a volume of which recovery has passed over changes that had been acknowledged, since the node that holds
/// them was lost: what that node held before is out of date, and nothing says for which blocks.
pub const COMPAT_PASSED_OVER: u64 = 4;
/// `incompat` bit of a volume whose map may say of blocks that they are lost.
pub const INCOMPAT_LOST: u64 = 1;

/// `compat`: an older version may read and write the volume.
pub const KNOWN_COMPAT: u64 = COMPAT_POLICY | COMPAT_REFUSED | COMPAT_PASSED_OVER;
/// `ro_compat`: an older version may only read it.
pub const KNOWN_RO_COMPAT: u64 = 0;
/// `incompat`: an older version must refuse it.
pub const KNOWN_INCOMPAT: u64 = INCOMPAT_LOST;
