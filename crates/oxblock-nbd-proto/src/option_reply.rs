//! What a server answers during the handshake.

use alloc::string::String;
use alloc::vec::Vec;

use crate::bytes::{Malformed, Put, Rest, cut, string};
use crate::info::Info;
use crate::option::MAX_STRING;
use crate::wire::{OPTION_REPLY_MAGIC, option_reply as kind};

/// `NBD_REP_ERR_*`: why an option was not done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorReply {
    /// Not known here.
    Unsupported,
    /// Forbidden here.
    Policy,
    /// It makes no sense.
    Invalid,
    /// Not on this platform.
    Platform,
    /// Only after TLS.
    TlsRequired,
    /// There is no such export.
    Unknown,
    /// The server is shutting down.
    Shutdown,
    /// Only for clients that know block sizes.
    BlockSizeRequired,
    /// Too large.
    TooBig,
    /// Extended headers have been agreed on, or are needed.
    ExtendedHeadersRequired,
}

impl ErrorReply {
    /// All of them, in the order of their numbers, which begin with 1.
    pub const ALL: [Self; 10] = [
        Self::Unsupported,
        Self::Policy,
        Self::Invalid,
        Self::Platform,
        Self::TlsRequired,
        Self::Unknown,
        Self::Shutdown,
        Self::BlockSizeRequired,
        Self::TooBig,
        Self::ExtendedHeadersRequired,
    ];

    /// The number that is sent.
    pub fn number(self) -> u32 {
        let place = (1..).zip(Self::ALL).find(|(_, other)| *other == self);
        kind::ERROR | place.map_or(0, |(number, _)| number)
    }

    fn of_number(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|error| error.number() == number)
    }
}

/// One reply to an option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OptionReply {
    /// Done, or no more to come.
    Ack,
    /// An export.
    Server {
        /// Its name.
        name: String,
        /// For people; may be empty.
        description: String,
    },
    /// Something about an export.
    Info(Info),
    /// A metadata context.
    MetaContext {
        /// What it is called in replies.
        id: u32,
        /// Its name.
        name: String,
    },
    /// Not done.
    Error {
        /// Why.
        error: ErrorReply,
        /// The same for people.
        text: String,
    },
}

impl OptionReply {
    /// Bytes before the data.
    pub const HEADER_BYTES: usize = 20;

    /// Writes it, as a reply to `option`.
    pub fn encode(&self, option: u32, out: &mut Vec<u8>) {
        let mut data = Vec::new();
        let number = match self {
            Self::Ack => kind::ACK,
            Self::Server { name, description } => {
                data.put_counted(name.as_bytes());
                data.put(description.as_bytes());
                kind::SERVER
            }
            Self::Info(info) => {
                info.encode(&mut data);
                kind::INFO
            }
            Self::MetaContext { id, name } => {
                data.put_u32(*id);
                data.put(name.as_bytes());
                kind::META_CONTEXT
            }
            Self::Error { error, text } => {
                data.put(cut(text, MAX_STRING).as_bytes());
                error.number()
            }
        };
        out.put_u64(OPTION_REPLY_MAGIC);
        out.put_u32(option);
        out.put_u32(number);
        out.put_counted(&data);
    }

    /// Reads one from the front of `input`: how many bytes it has, which option it is a reply to, and what it says. `None`
    /// when there is more to come.
    ///
    /// # Errors
    /// What is wrong with it. A reply that is longer than any this server sends is wrong.
    pub fn decode(input: &[u8]) -> Result<Option<(usize, u32, Self)>, Malformed> {
        let mut rest = Rest(input);
        let Some(magic) = rest.u64() else { return Ok(None) };
        if magic != OPTION_REPLY_MAGIC {
            return Err(Malformed("a reply does not begin with its magic"));
        }
        let (Some(option), Some(number), Some(length)) = (rest.u32(), rest.u32(), rest.u32())
        else {
            return Ok(None);
        };
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length > 4 + 2 * MAX_STRING {
            return Err(Malformed("a reply to an option is too long"));
        }
        let Some(data) = rest.bytes(length) else { return Ok(None) };
        Ok(Some((Self::HEADER_BYTES + length, option, Self::of_data(number, data)?)))
    }

    fn of_data(number: u32, data: &[u8]) -> Result<Self, Malformed> {
        let short = Malformed("a reply is shorter than its own lengths say");
        let mut rest = Rest(data);
        Ok(match number {
            kind::ACK if data.is_empty() => Self::Ack,
            kind::ACK => return Err(Malformed("an acknowledgement has data")),
            kind::SERVER => Self::Server {
                name: string(rest.counted().ok_or(short)?, MAX_STRING)?,
                description: string(rest.0, MAX_STRING)?,
            },
            kind::INFO => Self::Info(Info::decode(data)?),
            kind::META_CONTEXT => Self::MetaContext {
                id: rest.u32().ok_or(short)?,
                name: string(rest.0, MAX_STRING)?,
            },
            number => Self::Error {
                error: ErrorReply::of_number(number)
                    .ok_or(Malformed("a reply of no known kind"))?,
                text: string(data, MAX_STRING)?,
            },
        })
    }
}
