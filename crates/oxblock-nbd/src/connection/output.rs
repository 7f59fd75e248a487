//! What is to be sent to a client: replies, with the buffers of what was read between them. All that is there leaves by one
//! call, as far as the client takes it.

use std::collections::VecDeque;
use std::io::{self, IoSlice};

use oxblock::Buf;

use crate::buffers::{Buffers, Lease};
use crate::stream::Stream;

/// Parts that one call sends.
const PARTS: usize = 64;
/// Bytes after which others get their turn.
const TURN: usize = 4 << 20;

#[derive(Debug)]
enum Part {
    Bytes(Vec<u8>),
    /// A buffer to be used again.
    Buffer(Lease),
    /// A buffer that was cut.
    Piece(Buf),
}

impl Part {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Buffer(lease) => &lease.buf,
            Self::Piece(buf) => buf,
        }
    }
}

/// The queue to one client.
#[derive(Debug, Default)]
pub(crate) struct Output {
    parts: VecDeque<Part>,
    /// Bytes of the first part that are sent.
    sent: usize,
    /// Bytes that wait and are not in buffers.
    plain: usize,
    /// Bytes of buffers that wait.
    held: u64,
    /// A vector for the next reply.
    spare: Vec<u8>,
    /// Nobody reads it any more.
    closed: bool,
}

impl Output {
    /// Has `write` add bytes at the end.
    pub fn write<T>(&mut self, write: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        let mut bytes = match self.parts.pop_back() {
            Some(Part::Bytes(bytes)) => bytes,
            other => {
                self.parts.extend(other);
                std::mem::take(&mut self.spare)
            }
        };
        let before = bytes.len();
        let result = write(&mut bytes);
        self.plain += bytes.len() - before;
        self.parts.push_back(Part::Bytes(bytes));
        self.forget_if_closed();
        result
    }

    /// Adds a buffer.
    pub fn buffer(&mut self, lease: Lease) {
        self.held += lease.held();
        self.parts.push_back(Part::Buffer(lease));
        self.forget_if_closed();
    }

    /// Adds a part of a buffer.
    pub fn piece(&mut self, buf: Buf) {
        self.held += buf.len() as u64;
        self.parts.push_back(Part::Piece(buf));
        self.forget_if_closed();
    }

    /// Nobody reads it any more: it keeps nothing.
    pub fn close(&mut self) {
        self.closed = true;
        self.forget_if_closed();
    }

    fn forget_if_closed(&mut self) {
        if self.closed {
            *self = Self { closed: true, ..Self::default() };
        }
    }

    /// True when everything is sent.
    pub fn is_empty(&self) -> bool {
        self.plain == 0 && self.held == 0
    }

    /// Bytes that wait and are not in buffers.
    pub fn plain(&self) -> usize {
        self.plain
    }

    /// Bytes of buffers that wait.
    pub fn held(&self) -> u64 {
        self.held
    }

    /// Sends what the client takes now.
    ///
    /// # Errors
    /// Those of the connection, which is lost then.
    pub fn send(&mut self, stream: &mut Stream, buffers: &mut Buffers) -> io::Result<()> {
        let mut turn = 0;
        while !self.is_empty() && turn < TURN {
            let mut slices = [IoSlice::new(&[]); PARTS];
            let mut count = 0;
            for (slice, part) in slices.iter_mut().zip(&self.parts) {
                let from = if count == 0 { self.sent } else { 0 };
                *slice = IoSlice::new(part.bytes().get(from..).unwrap_or_default());
                count += 1;
            }
            match stream.send(slices.get(..count).unwrap_or_default()) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(sent) => {
                    turn += sent;
                    self.was_sent(sent, buffers);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn was_sent(&mut self, sent: usize, buffers: &mut Buffers) {
        self.sent += sent;
        while let Some(first) = self.parts.front()
            && self.sent >= first.bytes().len()
        {
            self.sent -= first.bytes().len();
            match self.parts.pop_front() {
                Some(Part::Bytes(mut bytes)) => {
                    self.plain -= bytes.len();
                    bytes.clear();
                    self.spare = bytes;
                }
                Some(Part::Buffer(lease)) => {
                    self.held -= lease.held();
                    buffers.give(lease);
                }
                Some(Part::Piece(buf)) => self.held -= buf.len() as u64,
                None => return,
            }
        }
        if self.parts.is_empty() && self.spare.capacity() > 4096 {
            self.spare = Vec::new();
        }
    }
}
