//! The door: what a client asks in the transmission phase is judged here, once, before anybody acts on it.
//!
//! Each refusal has the errno that the protocol wants in its case, and a sentence for people.

use crate::errno::Errno;
use crate::request::{Request, Style};
use crate::wire::{command, command_flag as flag};

/// What requests are judged by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// Bytes of the export.
    pub size: u64,
    /// Nothing may be changed.
    pub read_only: bool,
    /// How the client makes its requests.
    pub style: Style,
    /// The client has chosen the metadata context `base:allocation`.
    pub allocation: bool,
    /// The longest payload, in bytes.
    pub max_payload: u32,
    /// Nothing is begun any more.
    pub shutdown: bool,
}

/// A request that makes sense. Ranges lie within the export; those with data have at most the longest payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// Send bytes.
    Read {
        /// First byte.
        offset: u64,
        /// Bytes.
        len: u32,
        /// In one piece.
        whole: bool,
    },
    /// Write the payload.
    Write {
        /// First byte.
        offset: u64,
        /// Bytes.
        len: u32,
        /// Durable when answered.
        fua: bool,
    },
    /// End the session when everything is answered. It has no reply.
    Disconnect,
    /// Make everything durable that was answered.
    Flush,
    /// Give up a range.
    Trim {
        /// First byte.
        offset: u64,
        /// Bytes.
        len: u64,
        /// Durable when answered.
        fua: bool,
    },
    /// Have a range at hand, as far as there is anything to be done for it.
    Cache {
        /// First byte.
        offset: u64,
        /// Bytes.
        len: u64,
    },
    /// Make a range read as zeroes.
    WriteZeroes {
        /// First byte.
        offset: u64,
        /// Bytes.
        len: u64,
        /// Durable when answered.
        fua: bool,
        /// With room for it to be written.
        no_hole: bool,
        /// Only if that is faster than to write it.
        fast: bool,
    },
    /// Say what a range holds.
    BlockStatus {
        /// First byte.
        offset: u64,
        /// Bytes; never 0.
        len: u64,
        /// One extent only, and not beyond the range.
        one: bool,
    },
}

/// Why a request is not done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal {
    /// What the client is told.
    pub errno: Errno,
    /// The same for people.
    pub sentence: &'static str,
}

fn refuse<T>(errno: Errno, sentence: &'static str) -> Result<T, Refusal> {
    Err(Refusal { errno, sentence })
}

/// Judges a request.
///
/// # Errors
/// Why it is not done.
pub fn validate_request(request: &Request, terms: &Terms) -> Result<Command, Refusal> {
    let Request { flags, command, offset, length, .. } = *request;
    if command == command::DISC {
        // Whatever else it says: the client wants to leave.
        return Ok(Command::Disconnect);
    }
    if terms.shutdown {
        return refuse(Errno::Shutdown, "the server is shutting down");
    }
    judge_flags(request, terms)?;
    if changes(command) && terms.read_only {
        return refuse(Errno::Perm, "the export is read-only");
    }
    if command == command::FLUSH {
        if offset != 0 || length != 0 {
            return refuse(Errno::Invalid, "a flush has no offset and no length");
        }
        return Ok(Command::Flush);
    }
    if offset.checked_add(length).is_none_or(|end| end > terms.size) {
        return match command {
            command::WRITE | command::WRITE_ZEROES => {
                refuse(Errno::NoSpace, "a write beyond the end of the export")
            }
            _ => refuse(Errno::Invalid, "the range reaches beyond the end of the export"),
        };
    }
    let has = |bit: u16| flags & bit != 0;
    let fua = has(flag::FUA);
    Ok(match command {
        command::READ => {
            let len = match payload(length, terms) {
                Some(len) => len,
                None if has(flag::DF) => {
                    return refuse(Errno::Overflow, "more than can be sent in one piece");
                }
                None => return refuse(Errno::Invalid, "a read of more than the longest payload"),
            };
            Command::Read { offset, len, whole: has(flag::DF) }
        }
        command::WRITE => match payload(length, terms) {
            Some(len) => Command::Write { offset, len, fua },
            None => return refuse(Errno::Invalid, "a write of more than the longest payload"),
        },
        command::TRIM => Command::Trim { offset, len: length, fua },
        command::CACHE => Command::Cache { offset, len: length },
        command::WRITE_ZEROES => Command::WriteZeroes {
            offset,
            len: length,
            fua,
            no_hole: has(flag::NO_HOLE),
            fast: has(flag::FAST_ZERO),
        },
        command::BLOCK_STATUS if !terms.allocation => {
            return refuse(Errno::Invalid, "no metadata context was chosen");
        }
        command::BLOCK_STATUS if length == 0 => {
            return refuse(Errno::Invalid, "the status of no bytes");
        }
        command::BLOCK_STATUS => {
            Command::BlockStatus { offset, len: length, one: has(flag::REQ_ONE) }
        }
        // `judge_flags` has refused it before.
        _ => return refuse(Errno::Invalid, "an unknown command"),
    })
}

/// Commands that change what the export holds.
fn changes(command: u16) -> bool {
    matches!(command, command::WRITE | command::TRIM | command::WRITE_ZEROES)
}

fn payload(length: u64, terms: &Terms) -> Option<u32> {
    u32::try_from(length).ok().filter(|len| *len <= terms.max_payload)
}

/// Lets through what a command may have. `FUA` is valid with every one, as it is offered: it means nothing where nothing is
/// written.
fn judge_flags(request: &Request, terms: &Terms) -> Result<(), Refusal> {
    let extended = terms.style == Style::Extended;
    let own = match request.command {
        command::READ if terms.style != Style::Simple => flag::DF,
        command::WRITE if extended => flag::PAYLOAD_LEN,
        command::READ | command::WRITE | command::FLUSH | command::TRIM | command::CACHE => 0,
        command::WRITE_ZEROES => flag::NO_HOLE | flag::FAST_ZERO,
        command::BLOCK_STATUS => flag::REQ_ONE,
        _ => return refuse(Errno::Invalid, "an unknown command"),
    };
    if request.flags & !(own | flag::FUA) != 0 {
        return refuse(Errno::Invalid, "a flag that this command does not have");
    }
    Ok(())
}
