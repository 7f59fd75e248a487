//! The header of a request in the transmission phase.

use alloc::vec::Vec;

use crate::bytes::{Malformed, Put, Rest};
use crate::wire::{EXTENDED_REQUEST_MAGIC, REQUEST_MAGIC, command, command_flag as flag};

/// How headers look and replies are made, as agreed during the handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Style {
    /// One reply a request, with or without data.
    #[default]
    Simple,
    /// Replies in chunks.
    Structured,
    /// Replies in chunks, and all headers of 32 bytes with lengths of 64 bits.
    Extended,
}

/// A request as it was received, not judged yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// `NBD_CMD_FLAG_*`.
    pub flags: u16,
    /// `NBD_CMD_*`.
    pub command: u16,
    /// The client's name for it, given back in the reply.
    pub cookie: u64,
    /// First byte.
    pub offset: u64,
    /// Bytes: of the export, or of payload. Below 2^32 but with extended headers.
    pub length: u64,
}

impl Style {
    /// Bytes of a request's header.
    pub fn request_bytes(self) -> usize {
        match self {
            Self::Simple | Self::Structured => 28,
            Self::Extended => 32,
        }
    }
}

impl Request {
    /// Reads one from the front of `input`; `None` when there is more to come.
    ///
    /// # Errors
    /// When it does not begin with the magic of a request. Nothing that follows can be understood then.
    pub fn decode(style: Style, input: &[u8]) -> Result<Option<Self>, Malformed> {
        let mut rest = Rest(input);
        let Some(magic) = rest.u32() else { return Ok(None) };
        let expected = match style {
            Style::Extended => EXTENDED_REQUEST_MAGIC,
            Style::Simple | Style::Structured => REQUEST_MAGIC,
        };
        if magic != expected {
            return Err(Malformed("a request does not begin with its magic"));
        }
        Ok(Self::fields(style, rest))
    }

    fn fields(style: Style, mut rest: Rest<'_>) -> Option<Self> {
        Some(Self {
            flags: rest.u16()?,
            command: rest.u16()?,
            cookie: rest.u64()?,
            offset: rest.u64()?,
            length: match style {
                Style::Extended => rest.u64()?,
                Style::Simple | Style::Structured => u64::from(rest.u32()?),
            },
        })
    }

    /// Writes it. Without extended headers only the low 32 bits of the length are sent.
    pub fn encode(&self, style: Style, out: &mut Vec<u8>) {
        let extended = style == Style::Extended;
        out.put_u32(if extended { EXTENDED_REQUEST_MAGIC } else { REQUEST_MAGIC });
        out.put_u16(self.flags);
        out.put_u16(self.command);
        out.put_u64(self.cookie);
        out.put_u64(self.offset);
        if extended {
            out.put_u64(self.length);
        } else {
            out.put_u32(u32::try_from(self.length & u64::from(u32::MAX)).unwrap_or(0));
        }
    }

    /// Bytes of payload that follow the header, whatever becomes of the request.
    ///
    /// With extended headers a flag says that there are any, and a write must have it. Some clients (QEMU 10 is one) leave it
    /// out and send the payload all the same; as no write is without payload, one is taken to have it either way.
    pub fn payload(&self, style: Style) -> u64 {
        let flagged = style == Style::Extended && self.flags & flag::PAYLOAD_LEN != 0;
        if flagged || self.command == command::WRITE { self.length } else { 0 }
    }
}
