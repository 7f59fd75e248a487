//! The FUSE protocol, without I/O: what the kernel says, decoded, and what it is told, encoded.
//!
//! The facts are those of `include/uapi/linux/fuse.h`, protocol 7.31 (Linux 5.4) to 7.40; a kernel that speaks a later one
//! comes down to it. Integers are in the machine's own byte order, as on all of the kernel's interfaces.
//!
//! Everything that arrives is judged here and in [`tree`](crate::tree), and nowhere else: decoding never panics, whatever the
//! bytes, and what it hands on is whole.

mod init;
pub mod kernel;
mod opcode;
mod reply;
mod request;
pub mod wire;

pub use init::{Agreed, Refused, negotiate};
pub use opcode::Opcode;
pub use reply::{Attr, Dirents, FileType, Reply};
pub use request::{Malformed, Op, Request, SetAttr, decode};

/// The largest payload of a request or a reply, in bytes: what one atomic write of a volume may have.
pub const TRANSFER_MAX: u32 = 1 << 20;

/// What the message of a write has in front of its payload: `fuse_in_header` and `fuse_write_in`. Every message is received
/// with so many bytes to the one side, so that a payload arrives where a volume can take it over.
pub const WRITE_HEAD: usize = size_of::<wire::InHeader>() + size_of::<wire::WriteIn>();

/// The node that is always there, `FUSE_ROOT_ID`.
pub const ROOT: u64 = 1;

#[cfg(test)]
mod tests;
