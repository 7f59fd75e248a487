//! What a client asks during the handshake.

use alloc::string::String;
use alloc::vec::Vec;

use crate::bytes::{Malformed, Put, Rest, len32, string};
use crate::wire::{OPTION_MAGIC, option};

/// The longest string of the protocol, in bytes.
pub const MAX_STRING: usize = 4096;

/// What stands before the data of every option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OptionHeader {
    /// `NBD_OPT_*`.
    pub option: u32,
    /// Bytes of data that follow.
    pub length: u32,
}

impl OptionHeader {
    /// Bytes.
    pub const BYTES: usize = 16;

    /// Reads the first [`BYTES`](Self::BYTES) of `input`; `None` when there are fewer.
    ///
    /// # Errors
    /// When it does not begin with the magic of an option.
    pub fn decode(input: &[u8]) -> Result<Option<Self>, Malformed> {
        let mut rest = Rest(input);
        let (Some(magic), Some(option), Some(length)) = (rest.u64(), rest.u32(), rest.u32()) else {
            return Ok(None);
        };
        if magic != OPTION_MAGIC {
            return Err(Malformed("an option does not begin with its magic"));
        }
        Ok(Some(Self { option, length }))
    }
}

/// The data of `NBD_OPT_INFO` and `NBD_OPT_GO`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InfoRequest {
    /// Name of the export.
    pub name: String,
    /// `NBD_INFO_*` that are asked for.
    pub wants: Vec<u16>,
}

/// The data of `NBD_OPT_LIST_META_CONTEXT` and `NBD_OPT_SET_META_CONTEXT`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MetaQuery {
    /// Name of the export.
    pub name: String,
    /// Names of contexts, or patterns.
    pub queries: Vec<String>,
}

/// One option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientOption {
    /// Use this export, without an answer that could be an error.
    ExportName(String),
    /// End the session.
    Abort,
    /// Name the exports.
    List,
    /// Go on with TLS.
    StartTls,
    /// Tell about an export.
    Info(InfoRequest),
    /// Use an export.
    Go(InfoRequest),
    /// Reply in chunks from now on.
    StructuredReply,
    /// Name metadata contexts.
    ListMetaContext(MetaQuery),
    /// Choose metadata contexts.
    SetMetaContext(MetaQuery),
    /// Use headers of 32 bytes from now on.
    ExtendedHeaders,
    /// Something that is not known here.
    Unknown(u32),
}

impl ClientOption {
    /// `NBD_OPT_*`.
    pub fn number(&self) -> u32 {
        match self {
            Self::ExportName(_) => option::EXPORT_NAME,
            Self::Abort => option::ABORT,
            Self::List => option::LIST,
            Self::StartTls => option::STARTTLS,
            Self::Info(_) => option::INFO,
            Self::Go(_) => option::GO,
            Self::StructuredReply => option::STRUCTURED_REPLY,
            Self::ListMetaContext(_) => option::LIST_META_CONTEXT,
            Self::SetMetaContext(_) => option::SET_META_CONTEXT,
            Self::ExtendedHeaders => option::EXTENDED_HEADERS,
            Self::Unknown(number) => *number,
        }
    }

    /// True for an option that is known here.
    pub fn is_known(number: u32) -> bool {
        !matches!(Self::decode(number, &[]), Ok(Self::Unknown(_)))
    }

    /// Reads the data of an option.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn decode(number: u32, data: &[u8]) -> Result<Self, Malformed> {
        let plain = |found: Self| match data {
            [] => Ok(found),
            _ => Err(Malformed("this option has no data")),
        };
        match number {
            option::EXPORT_NAME => Ok(Self::ExportName(string(data, MAX_STRING)?)),
            // Data of an abort is to be ignored.
            option::ABORT => Ok(Self::Abort),
            option::LIST => plain(Self::List),
            option::STARTTLS => plain(Self::StartTls),
            option::INFO => Ok(Self::Info(InfoRequest::decode(data)?)),
            option::GO => Ok(Self::Go(InfoRequest::decode(data)?)),
            option::STRUCTURED_REPLY => plain(Self::StructuredReply),
            option::LIST_META_CONTEXT => Ok(Self::ListMetaContext(MetaQuery::decode(data)?)),
            option::SET_META_CONTEXT => Ok(Self::SetMetaContext(MetaQuery::decode(data)?)),
            option::EXTENDED_HEADERS => plain(Self::ExtendedHeaders),
            number => Ok(Self::Unknown(number)),
        }
    }

    /// Writes it with its header.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut data = Vec::new();
        match self {
            Self::ExportName(name) => data.put(name.as_bytes()),
            Self::Info(request) | Self::Go(request) => request.encode(&mut data),
            Self::ListMetaContext(query) | Self::SetMetaContext(query) => query.encode(&mut data),
            _ => {}
        }
        out.put_u64(OPTION_MAGIC);
        out.put_u32(self.number());
        out.put_counted(&data);
    }
}

const SHORT: Malformed = Malformed("an option is shorter than its own lengths say");
const LONG: Malformed = Malformed("an option is longer than its own lengths say");

impl InfoRequest {
    fn decode(data: &[u8]) -> Result<Self, Malformed> {
        let mut rest = Rest(data);
        let name = string(rest.counted().ok_or(SHORT)?, MAX_STRING)?;
        let count = usize::from(rest.u16().ok_or(SHORT)?);
        // The data decides how many there are, not what it says of itself.
        let mut wants = Vec::new();
        while let Some(kind) = rest.u16() {
            wants.push(kind);
        }
        match wants.len().cmp(&count) {
            core::cmp::Ordering::Less => Err(SHORT),
            core::cmp::Ordering::Equal if rest.is_empty() => Ok(Self { name, wants }),
            _ => Err(LONG),
        }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.put_counted(self.name.as_bytes());
        out.put_u16(u16::try_from(self.wants.len()).unwrap_or(u16::MAX));
        self.wants.iter().for_each(|kind| out.put_u16(*kind));
    }
}

impl MetaQuery {
    fn decode(data: &[u8]) -> Result<Self, Malformed> {
        let mut rest = Rest(data);
        let name = string(rest.counted().ok_or(SHORT)?, MAX_STRING)?;
        let count = rest.u32().ok_or(SHORT)?;
        let mut queries = Vec::new();
        for _ in 0..count {
            queries.push(string(rest.counted().ok_or(SHORT)?, MAX_STRING)?);
        }
        if rest.is_empty() { Ok(Self { name, queries }) } else { Err(LONG) }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.put_counted(self.name.as_bytes());
        out.put_u32(len32(self.queries.len()));
        self.queries.iter().for_each(|query| out.put_counted(query.as_bytes()));
    }
}
