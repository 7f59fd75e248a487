//! Payload that is being received: into the buffer that the engine takes, or, of a request that is refused, into nothing.

use oxblock_nbd_proto::{Command, Refusal, ReplyTo};

use crate::buffers::Lease;
use crate::input::Input;

/// The payload of one request.
#[derive(Debug)]
pub(super) enum Payload {
    /// To be written.
    Take { to: ReplyTo, command: Command, lease: Lease, filled: usize },
    /// To be passed over.
    Pass { to: ReplyTo, refusal: Refusal, left: u64 },
}

impl Payload {
    /// Where the rest goes, if it is to be received straight into its place.
    pub fn room(&mut self) -> &mut [u8] {
        match self {
            Self::Take { lease, filled, .. } => lease.buf.get_mut(*filled..).unwrap_or_default(),
            Self::Pass { .. } => &mut [],
        }
    }

    /// Of the room, `count` bytes were filled.
    pub fn filled(&mut self, count: usize) {
        if let Self::Take { filled, .. } = self {
            *filled += count;
        }
    }

    /// Takes from `input` what belongs to it; true when it is complete.
    pub fn fill(&mut self, input: &mut Input) -> bool {
        let have = input.data();
        match self {
            Self::Take { lease, filled, .. } => {
                let room = lease.buf.get_mut(*filled..).unwrap_or_default();
                let count = room.len().min(have.len());
                if let (Some(to), Some(from)) = (room.get_mut(..count), have.get(..count)) {
                    to.copy_from_slice(from);
                }
                *filled += count;
                input.consume(count);
                *filled == lease.buf.len()
            }
            Self::Pass { left, .. } => {
                let count = usize::try_from(*left).unwrap_or(usize::MAX).min(have.len());
                *left -= count as u64;
                input.consume(count);
                *left == 0
            }
        }
    }
}
