//! What a server says of an export in reply to `NBD_OPT_INFO` and `NBD_OPT_GO`.

use alloc::string::String;
use alloc::vec::Vec;

use crate::bytes::{Malformed, Put, Rest, string};
use crate::export::BlockSize;
use crate::option::MAX_STRING;
use crate::wire::info;

/// One piece of information (`NBD_REP_INFO`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Info {
    /// Size and transmission flags.
    Export {
        /// Bytes.
        size: u64,
        /// `NBD_FLAG_*`.
        flags: u16,
    },
    /// The name in its proper form.
    Name(String),
    /// For people.
    Description(String),
    /// Sizes of requests.
    BlockSize(BlockSize),
    /// Of a kind that is not known here.
    Other(u16),
}

impl Info {
    /// Writes it.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Export { size, flags } => {
                out.put_u16(info::EXPORT);
                out.put_u64(*size);
                out.put_u16(*flags);
            }
            Self::Name(name) => {
                out.put_u16(info::NAME);
                out.put(name.as_bytes());
            }
            Self::Description(text) => {
                out.put_u16(info::DESCRIPTION);
                out.put(text.as_bytes());
            }
            Self::BlockSize(BlockSize { minimum, preferred, maximum }) => {
                out.put_u16(info::BLOCK_SIZE);
                [minimum, preferred, maximum].into_iter().for_each(|size| out.put_u32(*size));
            }
            Self::Other(kind) => out.put_u16(*kind),
        }
    }

    /// Reads one that takes up all of `data`.
    ///
    /// # Errors
    /// When it is not of the length that its kind has.
    pub fn decode(data: &[u8]) -> Result<Self, Malformed> {
        let mut rest = Rest(data);
        let short = Malformed("an information is too short");
        let found = match rest.u16().ok_or(short)? {
            info::EXPORT => {
                Self::Export { size: rest.u64().ok_or(short)?, flags: rest.u16().ok_or(short)? }
            }
            info::NAME => return Ok(Self::Name(string(rest.0, MAX_STRING)?)),
            info::DESCRIPTION => return Ok(Self::Description(string(rest.0, MAX_STRING)?)),
            info::BLOCK_SIZE => Self::BlockSize(BlockSize {
                minimum: rest.u32().ok_or(short)?,
                preferred: rest.u32().ok_or(short)?,
                maximum: rest.u32().ok_or(short)?,
            }),
            kind => return Ok(Self::Other(kind)),
        };
        if rest.is_empty() { Ok(found) } else { Err(Malformed("an information is too long")) }
    }
}
