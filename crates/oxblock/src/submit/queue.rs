//! The door: every request is judged here, once, before anything else looks at it.

use crate::complete::policy::CompletePolicy;
use crate::device::Buf;
use crate::error::{Error, ErrorKind, Result};
use crate::format::layout::{BLOCK_BYTES, BLOCK_SIZE};
use crate::format::record::Kind;
use crate::lane::Lane;
use crate::submit::request::{Completion, Request, RequestKind};
use crate::submit::write::Owner;
use crate::trace::Ticket;

/// The whole blocks inside a byte range.
pub(crate) fn inner_blocks(offset: u64, len: u64) -> std::ops::Range<u64> {
    let from = offset.div_ceil(BLOCK_BYTES);
    from..((offset + len) / BLOCK_BYTES).max(from)
}

/// The blocks that a byte range touches.
pub(crate) fn outer_blocks(offset: u64, len: u64) -> std::ops::Range<u64> {
    offset / BLOCK_BYTES..(offset + len).div_ceil(BLOCK_BYTES)
}

fn aligned(offset: u64, buf: &Buf) -> bool {
    offset.is_multiple_of(BLOCK_BYTES)
        && buf.len().is_multiple_of(BLOCK_SIZE)
        && buf.as_ptr().addr().is_multiple_of(BLOCK_SIZE)
}

impl Lane {
    /// Takes a request in. It starts with the next step of the lane.
    pub fn queue(&mut self, request: Request) {
        self.queue_for(request, false);
    }

    /// Takes a request in. If it is a read and `client` is set, the caller verifies it where that may be: it finds what it
    /// has to verify in [`claims`](Self::claims), in the order of the completions.
    pub fn queue_for(&mut self, request: Request, client: bool) {
        let client = client && self.placement.complete() != CompletePolicy::Worker;
        let now = self.moment();
        let ticket = self.trace_request(&request, now);
        self.traffic.begun(ticket.kind);
        self.fetches.forgive();
        match request.kind {
            RequestKind::Read { offset, buf } => {
                match self.judge(offset, buf.len() as u64, false) {
                    Err(error) => self.complete(ticket, Some(buf), Err(error)),
                    Ok(()) if buf.is_empty() => self.complete(ticket, Some(buf), Ok(())),
                    Ok(()) => self.start_read(ticket, offset, buf, client, aligned),
                }
            }
            RequestKind::Write { offset, buf, fua } => {
                match self.judge(offset, buf.len() as u64, true) {
                    Err(error) => self.complete(ticket, Some(buf), Err(error)),
                    Ok(()) if buf.is_empty() => self.complete(ticket, Some(buf), Ok(())),
                    Ok(()) if aligned(offset, &buf) => {
                        let block = offset / BLOCK_BYTES;
                        self.admit_data(ticket, block, buf, fua);
                    }
                    Ok(()) => self.start_unaligned(ticket, offset, buf, fua),
                }
            }
            RequestKind::Flush => match self.writable() {
                Err(_) if self.geometry.read_only => self.complete(ticket, None, Ok(())),
                Err(error) => self.complete(ticket, None, Err(error)),
                Ok(()) => {
                    let sequence = self.log.retired;
                    self.want_durable(
                        sequence,
                        crate::complete::flush::FlushWaiter::Request(ticket),
                    );
                }
            },
            RequestKind::Discard { offset, len } => match self.judge(offset, len, true) {
                Err(error) => self.complete(ticket, None, Err(error)),
                Ok(()) => {
                    let blocks = inner_blocks(offset, len);
                    if blocks.is_empty() {
                        self.complete(ticket, None, Ok(()));
                    } else {
                        self.admit_range(Owner::Request(ticket), Kind::Trim, blocks, false);
                    }
                }
            },
            RequestKind::WriteZeroes { offset, len, fua } => match self.judge(offset, len, true) {
                Err(error) => self.complete(ticket, None, Err(error)),
                Ok(()) if len == 0 => self.complete(ticket, None, Ok(())),
                Ok(()) => self.start_zeroes(ticket, offset, len, fua),
            },
        }
    }

    fn judge(&self, offset: u64, len: u64, write: bool) -> Result<()> {
        let size = self.geometry.blocks * BLOCK_BYTES;
        if offset.checked_add(len).is_none_or(|end| end > size) {
            return Err(Error::new(
                ErrorKind::OutOfRange,
                format!("{len} bytes at offset {offset} reach beyond the volume's {size} bytes"),
            ));
        }
        if write { self.writable() } else { Ok(()) }
    }

    /// Whether anything may be written.
    pub fn writable(&self) -> Result<()> {
        if self.geometry.read_only {
            return Err(Error::new(ErrorKind::ReadOnly, "the volume is open read-only"));
        }
        match &self.latched {
            None => Ok(()),
            // What was under way when it happened is told the cause itself.
            Some(cause) => Err(Error::new(
                ErrorKind::Latched,
                format!("the volume takes no more writes: {cause}"),
            )),
        }
    }

    /// Ends a request.
    pub fn complete(&mut self, ticket: Ticket, buf: Option<Buf>, result: Result<()>) {
        self.counters.requests += 1;
        let time = self.moment().saturating_sub(ticket.began);
        self.traffic.ended(ticket.kind, ticket.bytes, time, result.is_ok());
        self.trace_completed(ticket);
        self.out.push_back(Completion { tag: ticket.tag, buf, result });
    }

    /// A device operation of the log has failed: from here on the lane only reads.
    pub fn latch_io(&mut self, doing: &str, error: std::io::Error) {
        if self.latched.is_some() {
            return;
        }
        use std::io::ErrorKind::{QuotaExceeded, StorageFull};
        let advice = match error.kind() {
            StorageFull | QuotaExceeded => {
                "free space on the file system under the device, then reopen the volume"
            }
            _ => "the volume takes no more writes until it is reopened",
        };
        self.latched = Some(Error::io(format!("{doing} failed; {advice}"), error));
    }
}
