//! The server's side of the handshake: a state machine over bytes.
//!
//! ```text
//! greet ─► flags of the client ─► option ─► option ... ─┬─► Begin(Session)
//!                                   ▲  │                ├─► End
//!                                   └──┘ or pass over   └─► Secure ─► option ...
//!                                        its data, if that is too long
//! ```
//!
//! What a client has agreed on before TLS anybody may have sent: it is forgotten then.
//!
//! Bounds: a client may ask [`MAX_OPTIONS`] times. Of an option's data at most [`MAX_OPTION`] bytes have to be at hand at
//! once; a longer one is passed over. One call deals with one message, so that whoever sends the answers can stop when the
//! client does not take them. An answer is as long as the exports' names and descriptions, and a context name, make it.

mod answer;

use alloc::vec::Vec;

use crate::bytes::{Malformed, Put, Rest};
use crate::export::Export;
use crate::option::{ClientOption, OptionHeader};
use crate::option_reply::{ErrorReply, OptionReply};
use crate::request::Style;
use crate::validate::Terms;
use crate::wire::{FIXED_NEWSTYLE, INIT_MAGIC, NO_ZEROES, OPTION_MAGIC, option};

/// The most bytes of data that an option may have to be looked at.
pub const MAX_OPTION: u32 = 16 << 10;

/// An option of more than so many bytes is no option but an attack.
const HOSTILE_OPTION: u32 = 1 << 20;

/// The most options of one client.
pub const MAX_OPTIONS: u32 = 256;

/// What clients can have.
#[derive(Debug, Clone, Copy)]
pub struct Offer<'a> {
    /// Under these names; the first one is what clients without a name get.
    pub exports: &'a [Export],
    /// Nothing is begun any more.
    pub shutdown: bool,
    /// What there is of TLS.
    pub tls: TlsOffer,
}

/// What clients may do about TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TlsOffer {
    /// There is none.
    #[default]
    None,
    /// They may ask for it.
    Optional,
    /// Nothing is to be had without it.
    Required,
}

/// What was agreed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Session {
    /// Which export, by its place in the offer.
    pub export: usize,
    /// How requests and replies look.
    pub style: Style,
    /// The client has chosen the metadata context `base:allocation`.
    pub allocation: bool,
}

impl Session {
    /// What its requests are judged by.
    pub fn terms(&self, export: &Export) -> Terms {
        Terms {
            size: export.size,
            read_only: export.read_only,
            style: self.style,
            allocation: self.allocation,
            max_payload: Export::BLOCK_SIZE.maximum,
            shutdown: false,
        }
    }
}

/// What one call came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The handshake goes on. If nothing was consumed, it needs more bytes.
    Continue,
    /// What was written is sent, then TLS begins; once there is something to encrypt by, [`Handshake::secured`] is to be called.
    Secure,
    /// What was written is sent, then the transmission phase begins.
    Begin(Session),
    /// What was written is sent, then the connection is closed. Why, in a sentence.
    End(&'static str),
}

/// Where a handshake stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Flags,
    Option,
    /// The data of an option that is not looked at, and what it is answered.
    Passing {
        option: u32,
        left: u32,
        error: ErrorReply,
    },
    /// TLS has to begin before anything else is looked at.
    Securing,
    Over,
}

/// The handshake with one client.
#[derive(Debug, Clone)]
pub struct Handshake {
    phase: Phase,
    /// The client knows that options have answers.
    fixed: bool,
    no_zeroes: bool,
    /// TLS is spoken.
    secure: bool,
    style: Style,
    /// The export for which `base:allocation` was chosen.
    allocation: Option<usize>,
    options: u32,
}

impl Handshake {
    /// A new one, and the server's greeting.
    pub fn greet(out: &mut Vec<u8>) -> Self {
        out.put_u64(INIT_MAGIC);
        out.put_u64(OPTION_MAGIC);
        out.put_u16(FIXED_NEWSTYLE | NO_ZEROES);
        Self {
            phase: Phase::Flags,
            fixed: false,
            no_zeroes: false,
            secure: false,
            style: Style::Simple,
            allocation: None,
            options: 0,
        }
    }

    /// Deals with the next message at the front of `input`, writes what is to be sent to `out`, and says how many bytes it
    /// has consumed. To be called again while that is more than none, with what is left.
    pub fn advance(&mut self, input: &[u8], offer: Offer<'_>, out: &mut Vec<u8>) -> (usize, Step) {
        let result = match self.phase {
            Phase::Flags => self.client_flags(input),
            Phase::Option => self.option(input, offer, out),
            Phase::Passing { option, left, error } => {
                Ok((self.pass(option, left, error, input, out), Step::Continue))
            }
            Phase::Securing => Ok((0, Step::Continue)),
            Phase::Over => Ok((0, Step::End("the handshake is over"))),
        };
        let (consumed, step) =
            result.unwrap_or_else(|Malformed(why)| (input.len(), Step::End(why)));
        match step {
            Step::Continue => {}
            Step::Secure => self.phase = Phase::Securing,
            Step::Begin(_) | Step::End(_) => self.phase = Phase::Over,
        }
        (consumed, step)
    }

    /// True when TLS has to begin.
    pub fn is_securing(&self) -> bool {
        self.phase == Phase::Securing
    }

    /// From here on TLS is spoken. Whatever came behind the option that asked for it is not to be looked at.
    pub fn secured(&mut self) {
        self.phase = Phase::Option;
        self.secure = true;
        self.style = Style::Simple;
        self.allocation = None;
    }

    fn client_flags(&mut self, input: &[u8]) -> Result<(usize, Step), Malformed> {
        let Some(flags) = Rest(input).u32() else { return Ok((0, Step::Continue)) };
        let (fixed, no_zeroes) = (u32::from(FIXED_NEWSTYLE), u32::from(NO_ZEROES));
        if flags & !(fixed | no_zeroes) != 0 {
            return Err(Malformed("the client has flags that were not offered"));
        }
        self.fixed = flags & fixed != 0;
        self.no_zeroes = flags & no_zeroes != 0;
        self.phase = Phase::Option;
        Ok((4, Step::Continue))
    }

    fn option(
        &mut self,
        input: &[u8],
        offer: Offer<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(usize, Step), Malformed> {
        let Some(header) = OptionHeader::decode(input)? else { return Ok((0, Step::Continue)) };
        let OptionHeader { option, length } = header;
        if !self.fixed && option != option::EXPORT_NAME {
            return Err(Malformed("an option of a client that does not expect answers"));
        }
        if length > HOSTILE_OPTION {
            return Err(Malformed("an option of more than 1 MiB"));
        }
        if length > MAX_OPTION {
            if option == option::EXPORT_NAME {
                return Err(Malformed("the name of the export is too long"));
            }
            self.count()?;
            let known = ClientOption::is_known(option);
            let error = if known { ErrorReply::TooBig } else { ErrorReply::Unsupported };
            self.phase = Phase::Passing { option, left: length, error };
            return Ok((OptionHeader::BYTES, Step::Continue));
        }
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let data = input.get(OptionHeader::BYTES..).and_then(|rest| rest.get(..length));
        let Some(data) = data else { return Ok((0, Step::Continue)) };
        self.count()?;
        let step = self.answer(option, data, offer, out)?;
        Ok((OptionHeader::BYTES + length, step))
    }

    /// Counts an option.
    fn count(&mut self) -> Result<(), Malformed> {
        self.options += 1;
        if self.options > MAX_OPTIONS {
            return Err(Malformed("too many options"));
        }
        Ok(())
    }

    fn pass(
        &mut self,
        option: u32,
        left: u32,
        error: ErrorReply,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> usize {
        let most = usize::try_from(left).unwrap_or(usize::MAX);
        let passed = input.len().min(most);
        let left = left - u32::try_from(passed).unwrap_or(left);
        self.phase = Phase::Passing { option, left, error };
        if left == 0 {
            self.phase = Phase::Option;
            let text = match error {
                ErrorReply::TooBig => "the option is too long",
                _ => "the option is not known here",
            };
            OptionReply::Error { error, text: text.into() }.encode(option, out);
        }
        passed
    }
}
