//! The NBD protocol without I/O: bytes in, bytes out.
//!
//! It knows the fixed newstyle handshake and the transmission phase with simple, structured and extended replies, from
//! both sides: what a server needs to answer, and what a test needs to ask. It is a crate of its own, without `std` and
//! without a dependency, so that nothing in it can wait, open a socket or read a clock.
//!
//! - [`Handshake`] is the server's side of the negotiation. It takes what was received, writes what is to be sent, and ends
//!   in a [`Session`]: what both sides have agreed on.
//! - [`Request`] is a header of the transmission phase. [`validate_request`] judges it, all of it and once, before anybody
//!   acts on it: the result is a [`Command`], or a [`Refusal`] with its errno and a sentence.
//! - [`ReplyTo`] writes replies in the style of the session. Payload is never copied: the caller sends it behind the header.
//!
//! What the other side sends is hostile until it was judged. No length in it leads to an allocation: the handshake keeps
//! nothing of an option but its meaning, an option of more than [`MAX_OPTION`] bytes is passed over without being kept,
//! and every message is decoded from a slice that the caller has bounded.
//!
//! The numbers are those of the protocol document, <https://github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md>,
//! whose names stand beside them in `wire.rs`.
#![forbid(unsafe_code)]
#![no_std]

extern crate alloc;

mod bytes;
mod errno;
mod export;
mod handshake;
mod info;
mod option;
mod option_reply;
mod reply;
mod reply_decode;
mod request;
mod validate;
pub mod wire;

pub use bytes::Malformed;
pub use errno::Errno;
pub use export::{BlockSize, Export, MAX_PAYLOAD};
pub use handshake::{Handshake, MAX_OPTION, MAX_OPTIONS, Offer, Session, Step, TlsOffer};
pub use info::Info;
pub use option::{ClientOption, InfoRequest, MAX_STRING, MetaQuery, OptionHeader};
pub use option_reply::{ErrorReply, OptionReply};
pub use reply::{Extent, ReplyTo};
pub use reply_decode::{Chunk, ReplyHeader};
pub use request::{Request, Style};
pub use validate::{Command, Refusal, Terms, validate_request};
