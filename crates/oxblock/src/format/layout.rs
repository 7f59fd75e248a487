//! Every constant of the layout, in one place. `docs/format.md` explains them; a test there holds both together.

/// The unit of everything: bytes of a logical and of a physical block.
pub const BLOCK_SIZE: usize = 4096;
/// [`BLOCK_SIZE`] for byte arithmetic on devices.
pub const BLOCK_BYTES: u64 = 4096;
