//! Reading replies of the transmission phase: the client's side, for tests, for the fuzzer and for measurements.

use alloc::string::String;
use alloc::vec::Vec;

use crate::bytes::{Malformed, Rest, string};
use crate::errno::Errno;
use crate::option::MAX_STRING;
use crate::reply::Extent;
use crate::request::Style;
use crate::wire::{
    EXTENDED_REPLY_MAGIC, REPLY_DONE, SIMPLE_REPLY_MAGIC, STRUCTURED_REPLY_MAGIC, chunk,
};

/// What stands at the beginning of every reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyHeader {
    /// All of a reply, but for the data of a read that went well.
    Simple {
        /// `None`: all is well.
        error: Option<Errno>,
        /// Of the request.
        cookie: u64,
    },
    /// A part of a reply.
    Chunk {
        /// No more will come.
        last: bool,
        /// `NBD_REPLY_TYPE_*`.
        kind: u16,
        /// Of the request.
        cookie: u64,
        /// Of the request, with extended headers.
        offset: Option<u64>,
        /// Bytes of payload that follow.
        length: u64,
    },
}

impl ReplyHeader {
    /// Reads one from the front of `input`, with the number of its bytes; `None` when there is more to come.
    ///
    /// # Errors
    /// When it does not begin with the magic of a reply, or not with one of this style.
    pub fn decode(style: Style, input: &[u8]) -> Result<Option<(usize, Self)>, Malformed> {
        let mut rest = Rest(input);
        let Some(magic) = rest.u32() else { return Ok(None) };
        let found = match (magic, style) {
            (SIMPLE_REPLY_MAGIC, Style::Simple | Style::Structured) => Self::simple(&mut rest),
            (STRUCTURED_REPLY_MAGIC, Style::Structured) => Self::chunk(false, &mut rest),
            (EXTENDED_REPLY_MAGIC, Style::Extended) => Self::chunk(true, &mut rest),
            _ => return Err(Malformed("a reply does not begin with its magic")),
        };
        Ok(found.map(|header| (input.len() - rest.0.len(), header)))
    }

    fn simple(rest: &mut Rest<'_>) -> Option<Self> {
        let error = rest.u32()?;
        let cookie = rest.u64()?;
        Some(Self::Simple { error: (error != 0).then(|| Errno::of_number(error)), cookie })
    }

    fn chunk(extended: bool, rest: &mut Rest<'_>) -> Option<Self> {
        let (flags, kind, cookie) = (rest.u16()?, rest.u16()?, rest.u64()?);
        let (offset, length) = if extended {
            (Some(rest.u64()?), rest.u64()?)
        } else {
            (None, u64::from(rest.u32()?))
        };
        Some(Self::Chunk { last: flags & REPLY_DONE != 0, kind, cookie, offset, length })
    }
}

/// The payload of a chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Chunk<'a> {
    /// The end.
    None,
    /// Bytes of the export.
    Data {
        /// First byte.
        offset: u64,
        /// They.
        data: &'a [u8],
    },
    /// Zeroes.
    Hole {
        /// First byte.
        offset: u64,
        /// Bytes.
        len: u32,
    },
    /// What a range holds.
    BlockStatus {
        /// The metadata context.
        context: u32,
        /// One behind the other.
        extents: Vec<Extent>,
    },
    /// The request has failed.
    Error {
        /// How.
        errno: Errno,
        /// For people.
        sentence: String,
    },
    /// What begins at a byte has failed.
    ErrorAt {
        /// How.
        errno: Errno,
        /// For people.
        sentence: String,
        /// The byte.
        offset: u64,
    },
}

impl<'a> Chunk<'a> {
    /// Reads one that takes up all of `payload`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn decode(kind: u16, payload: &'a [u8]) -> Result<Self, Malformed> {
        let wrong = Malformed("a chunk does not have the length of its kind");
        let mut rest = Rest(payload);
        let found = match kind {
            chunk::NONE => Self::None,
            chunk::OFFSET_DATA => {
                let offset = rest.u64().ok_or(wrong)?;
                let data = rest.bytes(rest.0.len()).filter(|data| !data.is_empty());
                Self::Data { offset, data: data.ok_or(wrong)? }
            }
            chunk::OFFSET_HOLE => Self::Hole {
                offset: rest.u64().ok_or(wrong)?,
                len: rest.u32().filter(|len| *len != 0).ok_or(wrong)?,
            },
            chunk::BLOCK_STATUS | chunk::BLOCK_STATUS_EXT => {
                let context = rest.u32().ok_or(wrong)?;
                let extents = extents(kind, &mut rest).ok_or(wrong)?;
                Self::BlockStatus { context, extents }
            }
            chunk::ERROR | chunk::ERROR_OFFSET => {
                let number = rest.u32().filter(|number| *number != 0).ok_or(wrong)?;
                let len = usize::from(rest.u16().ok_or(wrong)?);
                let sentence = string(rest.bytes(len).ok_or(wrong)?, MAX_STRING)?;
                let errno = Errno::of_number(number);
                if kind == chunk::ERROR {
                    Self::Error { errno, sentence }
                } else {
                    Self::ErrorAt { errno, sentence, offset: rest.u64().ok_or(wrong)? }
                }
            }
            _ => return Err(Malformed("a chunk of no known kind")),
        };
        if rest.is_empty() { Ok(found) } else { Err(wrong) }
    }
}

/// All of the rest as extents; `None` when it is none, or not whole ones.
fn extents(kind: u16, rest: &mut Rest<'_>) -> Option<Vec<Extent>> {
    let mut extents = Vec::new();
    let wide = kind == chunk::BLOCK_STATUS_EXT;
    // 0: as many as there are.
    let count = if wide { rest.u32()? } else { 0 };
    while !rest.is_empty() {
        let (len, flags) = if wide {
            (rest.u64()?, u32::try_from(rest.u64()?).ok()?)
        } else {
            (u64::from(rest.u32()?), rest.u32()?)
        };
        if len == 0 {
            return None;
        }
        extents.push(Extent { len, flags });
    }
    let fits = count == 0 || usize::try_from(count) == Ok(extents.len());
    (fits && !extents.is_empty()).then_some(extents)
}
