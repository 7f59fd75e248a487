//! Writing replies of the transmission phase, in the style that was agreed on.
//!
//! Payload is not copied: [`ReplyTo::data`] writes what stands before it, and the caller sends it behind.

use alloc::vec::Vec;

use crate::bytes::{Put, cut};
use crate::errno::Errno;
use crate::request::{Request, Style};
use crate::wire::{
    EXTENDED_REPLY_MAGIC, REPLY_DONE, SIMPLE_REPLY_MAGIC, STRUCTURED_REPLY_MAGIC, chunk,
};

/// The longest sentence in an error, in bytes: what anybody reads.
const MAX_SENTENCE: usize = 512;

/// Whom a reply is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplyTo {
    style: Style,
    cookie: u64,
    offset: u64,
}

/// A stretch of an export, and the flags of a metadata context that hold for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Bytes; never 0. Below 2^32 but with extended headers.
    pub len: u64,
    /// `NBD_STATE_*`.
    pub flags: u32,
}

impl ReplyTo {
    /// Replies to `request`.
    pub fn new(style: Style, request: &Request) -> Self {
        Self { style, cookie: request.cookie, offset: request.offset }
    }

    /// How replies are made.
    pub fn style(&self) -> Style {
        self.style
    }

    /// All is done, and there is nothing more to say. Ends a reply in chunks too.
    pub fn done(&self, out: &mut Vec<u8>) {
        match self.style {
            Style::Simple => self.simple(0, out),
            _ => self.chunk(chunk::NONE, true, 0, out),
        }
    }

    /// The request has failed.
    pub fn error(&self, errno: Errno, sentence: &str, out: &mut Vec<u8>) {
        if self.style == Style::Simple {
            return self.simple(errno.number(), out);
        }
        let sentence = cut(sentence, MAX_SENTENCE);
        self.chunk(chunk::ERROR, true, 6 + sentence.len(), out);
        Self::put_error(errno, sentence, out);
    }

    /// What begins at byte `offset` of the export has failed. In a simple reply all has.
    pub fn error_at(
        &self,
        errno: Errno,
        sentence: &str,
        offset: u64,
        last: bool,
        out: &mut Vec<u8>,
    ) {
        if self.style == Style::Simple {
            return self.simple(errno.number(), out);
        }
        let sentence = cut(sentence, MAX_SENTENCE);
        self.chunk(chunk::ERROR_OFFSET, last, 14 + sentence.len(), out);
        Self::put_error(errno, sentence, out);
        out.put_u64(offset);
    }

    /// What stands before `len` bytes from byte `offset` of the export. A simple reply is all of what was asked for.
    pub fn data(&self, offset: u64, len: u32, last: bool, out: &mut Vec<u8>) {
        if self.style == Style::Simple {
            return self.simple(0, out);
        }
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        self.chunk(chunk::OFFSET_DATA, last, len.saturating_add(8), out);
        out.put_u64(offset);
    }

    /// `len` bytes from byte `offset` of the export are zero. Only in chunks.
    pub fn hole(&self, offset: u64, len: u32, last: bool, out: &mut Vec<u8>) {
        debug_assert!(self.style != Style::Simple, "a simple reply has no holes");
        self.chunk(chunk::OFFSET_HOLE, last, 12, out);
        out.put_u64(offset);
        out.put_u32(len);
    }

    /// What a range holds in the sense of metadata context `context`, in consecutive extents. Only in chunks.
    pub fn block_status(&self, context: u32, extents: &[Extent], last: bool, out: &mut Vec<u8>) {
        debug_assert!(self.style != Style::Simple, "a simple reply has no status");
        let extended = self.style == Style::Extended;
        if extended {
            self.chunk(chunk::BLOCK_STATUS_EXT, last, 8 + 16 * extents.len(), out);
        } else {
            self.chunk(chunk::BLOCK_STATUS, last, 4 + 8 * extents.len(), out);
        }
        out.put_u32(context);
        if extended {
            out.put_u32(u32::try_from(extents.len()).unwrap_or(0));
        }
        for extent in extents {
            if extended {
                out.put_u64(extent.len);
                out.put_u64(u64::from(extent.flags));
            } else {
                out.put_u32(u32::try_from(extent.len).unwrap_or(u32::MAX));
                out.put_u32(extent.flags);
            }
        }
    }

    fn simple(&self, error: u32, out: &mut Vec<u8>) {
        out.put_u32(SIMPLE_REPLY_MAGIC);
        out.put_u32(error);
        out.put_u64(self.cookie);
    }

    fn chunk(&self, kind: u16, last: bool, payload: usize, out: &mut Vec<u8>) {
        let extended = self.style == Style::Extended;
        out.put_u32(if extended { EXTENDED_REPLY_MAGIC } else { STRUCTURED_REPLY_MAGIC });
        out.put_u16(if last { REPLY_DONE } else { 0 });
        out.put_u16(kind);
        out.put_u64(self.cookie);
        if extended {
            out.put_u64(self.offset);
            out.put_u64(payload as u64);
        } else {
            out.put_u32(crate::bytes::len32(payload));
        }
    }

    fn put_error(errno: Errno, sentence: &str, out: &mut Vec<u8>) {
        out.put_u32(errno.number());
        out.put_u16(u16::try_from(sentence.len()).unwrap_or(0));
        out.put(sentence.as_bytes());
    }
}
