//! Taking numbers off the front of a slice, and putting them at the end of a vector.

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// What was received is no message of the protocol, in a sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl core::error::Error for Malformed {}

/// The rest of a message that is being read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rest<'a>(pub &'a [u8]);

impl<'a> Rest<'a> {
    /// The next `count` bytes, if there are so many.
    pub fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*taken)
    }

    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// A length of 32 bits, and so many bytes.
    pub fn counted(&mut self) -> Option<&'a [u8]> {
        let count = usize::try_from(self.u32()?).ok()?;
        self.bytes(count)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Writes to the end, in network byte order.
pub(crate) trait Put {
    fn put(&mut self, bytes: &[u8]);

    fn put_u16(&mut self, number: u16) {
        self.put(&number.to_be_bytes());
    }

    fn put_u32(&mut self, number: u32) {
        self.put(&number.to_be_bytes());
    }

    fn put_u64(&mut self, number: u64) {
        self.put(&number.to_be_bytes());
    }

    /// A length of 32 bits, and the bytes.
    fn put_counted(&mut self, bytes: &[u8]) {
        self.put_u32(len32(bytes.len()));
        self.put(bytes);
    }
}

impl Put for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// A length as it is sent. What is sent here is far shorter than 4 GiB: callers bound it.
pub(crate) fn len32(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

/// A string of the protocol: UTF-8 without NUL, of at most `most` bytes.
pub(crate) fn string(bytes: &[u8], most: usize) -> Result<String, Malformed> {
    if bytes.len() > most {
        return Err(Malformed("a string is longer than 4096 bytes"));
    }
    let text = core::str::from_utf8(bytes).map_err(|_| Malformed("a string is not UTF-8"))?;
    if text.contains('\0') {
        return Err(Malformed("a string has a NUL in it"));
    }
    Ok(text.to_owned())
}

/// At most `most` bytes of `text`, cut between characters.
pub(crate) fn cut(text: &str, most: usize) -> &str {
    let end = (0..=text.len().min(most)).rev().find(|end| text.is_char_boundary(*end));
    text.get(..end.unwrap_or(0)).unwrap_or_default()
}
