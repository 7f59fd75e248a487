//! What is offered, and in which terms.

use alloc::string::String;

use crate::request::Style;
use crate::wire::transmission as flag;

/// The longest payload in either direction, in bytes: 2^25, the most that every client may expect a server to take.
pub const MAX_PAYLOAD: u32 = 32 << 20;

/// `NBD_INFO_BLOCK_SIZE`: sizes of requests, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockSize {
    /// What offsets and lengths must be multiples of.
    pub minimum: u32,
    /// What they had better be multiples of.
    pub preferred: u32,
    /// The longest payload.
    pub maximum: u32,
}

/// Something that clients can use under a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Export {
    /// Its name; at most 4096 bytes.
    pub name: String,
    /// For people; may be empty. At most 4096 bytes.
    pub description: String,
    /// Bytes.
    pub size: u64,
    /// Nothing may be changed.
    pub read_only: bool,
    /// The device below spins.
    pub rotational: bool,
}

impl Export {
    /// Requests of any alignment are taken, whole blocks of 4096 bytes are the fast way.
    pub const BLOCK_SIZE: BlockSize =
        BlockSize { minimum: 1, preferred: 4096, maximum: MAX_PAYLOAD };

    /// The transmission flags: exactly what [`validate_request`](crate::validate_request) lets through.
    pub fn flags(&self, style: Style) -> u16 {
        let mut flags = flag::HAS_FLAGS
            | flag::SEND_FLUSH
            | flag::SEND_FUA
            | flag::CAN_MULTI_CONN
            | flag::SEND_CACHE;
        if self.read_only {
            flags |= flag::READ_ONLY;
        } else {
            flags |= flag::SEND_TRIM | flag::SEND_WRITE_ZEROES | flag::SEND_FAST_ZERO;
        }
        if self.rotational {
            flags |= flag::ROTATIONAL;
        }
        if style != Style::Simple {
            flags |= flag::SEND_DF;
        }
        flags
    }
}

/// The export of a name; the empty name means the first one unless one is called so.
pub(crate) fn find(exports: &[Export], name: &str) -> Option<usize> {
    exports
        .iter()
        .position(|export| export.name == name)
        .or_else(|| (name.is_empty() && !exports.is_empty()).then_some(0))
}
