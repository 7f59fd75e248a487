//! What each option is answered.

use alloc::vec::Vec;

use super::{Handshake, Offer, Session, Step, TlsOffer};
use crate::bytes::{Malformed, Put};
use crate::export::{Export, find};
use crate::info::Info;
use crate::option::{ClientOption, InfoRequest, MetaQuery};
use crate::option_reply::{ErrorReply, OptionReply};
use crate::request::Style;
use crate::wire::{ALLOCATION, ALLOCATION_ID, BASE, EXPORT_NAME_ZEROES, info, option};

/// The answers to one option, on their way.
struct Answers<'a> {
    option: u32,
    out: &'a mut Vec<u8>,
}

impl Answers<'_> {
    fn say(&mut self, reply: &OptionReply) {
        reply.encode(self.option, self.out);
    }

    fn ack(&mut self) -> Step {
        self.say(&OptionReply::Ack);
        Step::Continue
    }

    fn refuse(&mut self, error: ErrorReply, text: &str) -> Step {
        self.say(&OptionReply::Error { error, text: text.into() });
        Step::Continue
    }
}

impl Handshake {
    /// Answers an option whose data is all there.
    pub(super) fn answer(
        &mut self,
        number: u32,
        data: &[u8],
        offer: Offer<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Step, Malformed> {
        let decoded = ClientOption::decode(number, data);
        if number == option::EXPORT_NAME {
            // It has no answer that could be an error: all that is left is to hang up.
            return match decoded? {
                ClientOption::ExportName(name) => self.export_name(&name, offer, out),
                _ => Err(Malformed("an option of no known kind")),
            };
        }
        let mut to = Answers { option: number, out };
        if offer.shutdown && number != option::ABORT {
            return Ok(to.refuse(ErrorReply::Shutdown, "the server is shutting down"));
        }
        let plain = matches!(number, option::ABORT | option::STARTTLS);
        if self.lacks_tls(offer) && !plain {
            return Ok(to.refuse(ErrorReply::TlsRequired, "nothing is to be had without TLS"));
        }
        if number == option::SET_META_CONTEXT {
            // What was chosen before is forgotten even when this fails.
            self.allocation = None;
        }
        let option = match decoded {
            Ok(option) => option,
            Err(Malformed(why)) => return Ok(to.refuse(ErrorReply::Invalid, why)),
        };
        Ok(match option {
            ClientOption::Abort => {
                to.ack();
                Step::End("the client has ended the handshake")
            }
            ClientOption::List => {
                for export in offer.exports {
                    let (name, description) = (export.name.clone(), export.description.clone());
                    to.say(&OptionReply::Server { name, description });
                }
                to.ack()
            }
            ClientOption::StartTls if self.secure => {
                to.refuse(ErrorReply::Invalid, "TLS is spoken already")
            }
            ClientOption::StartTls if offer.tls == TlsOffer::None => {
                to.refuse(ErrorReply::Unsupported, "this server does not speak TLS")
            }
            ClientOption::StartTls => {
                to.ack();
                Step::Secure
            }
            ClientOption::Info(request) => {
                self.inform(&request, offer, &mut to);
                Step::Continue
            }
            ClientOption::Go(request) => match self.inform(&request, offer, &mut to) {
                Some(export) => Step::Begin(self.session(export)),
                None => Step::Continue,
            },
            ClientOption::StructuredReply if self.style == Style::Extended => {
                to.refuse(ErrorReply::ExtendedHeadersRequired, "extended headers are agreed on")
            }
            ClientOption::StructuredReply => {
                self.style = Style::Structured;
                to.ack()
            }
            ClientOption::ExtendedHeaders => {
                self.style = Style::Extended;
                to.ack()
            }
            ClientOption::ListMetaContext(query) => {
                self.meta_context(&query, false, offer, &mut to)
            }
            ClientOption::SetMetaContext(query) => self.meta_context(&query, true, offer, &mut to),
            ClientOption::ExportName(_) | ClientOption::Unknown(_) => {
                to.refuse(ErrorReply::Unsupported, "the option is not known here")
            }
        })
    }

    fn lacks_tls(&self, offer: Offer<'_>) -> bool {
        offer.tls == TlsOffer::Required && !self.secure
    }

    fn session(&self, export: usize) -> Session {
        Session { export, style: self.style, allocation: self.allocation == Some(export) }
    }

    fn export_name(
        &self,
        name: &str,
        offer: Offer<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Step, Malformed> {
        if offer.shutdown {
            return Err(Malformed("the server is shutting down"));
        }
        if self.lacks_tls(offer) {
            return Err(Malformed("nothing is to be had without TLS"));
        }
        if self.style == Style::Extended {
            return Err(Malformed("extended headers need another option to begin with"));
        }
        let chosen = find(offer.exports, name);
        let Some((place, export)) = chosen.and_then(|at| Some((at, offer.exports.get(at)?))) else {
            return Err(Malformed("there is no export of this name"));
        };
        out.put_u64(export.size);
        out.put_u16(export.flags(self.style));
        if !self.no_zeroes {
            out.put(&[0; EXPORT_NAME_ZEROES]);
        }
        Ok(Step::Begin(self.session(place)))
    }

    /// Tells about an export, and which one it is.
    fn inform(
        &self,
        request: &InfoRequest,
        offer: Offer<'_>,
        to: &mut Answers<'_>,
    ) -> Option<usize> {
        let chosen = find(offer.exports, &request.name);
        let Some((place, export)) = chosen.and_then(|at| Some((at, offer.exports.get(at)?))) else {
            to.refuse(ErrorReply::Unknown, "there is no export of this name");
            return None;
        };
        let mut tell = |info| to.say(&OptionReply::Info(info));
        tell(Info::Export { size: export.size, flags: export.flags(self.style) });
        let wants = |kind: u16| request.wants.contains(&kind);
        if wants(info::NAME) {
            tell(Info::Name(export.name.clone()));
        }
        if wants(info::DESCRIPTION) && !export.description.is_empty() {
            tell(Info::Description(export.description.clone()));
        }
        if wants(info::BLOCK_SIZE) {
            tell(Info::BlockSize(Export::BLOCK_SIZE));
        }
        to.ack();
        Some(place)
    }

    fn meta_context(
        &mut self,
        query: &MetaQuery,
        set: bool,
        offer: Offer<'_>,
        to: &mut Answers<'_>,
    ) -> Step {
        if self.style == Style::Simple {
            return to.refuse(ErrorReply::Invalid, "metadata contexts need replies in chunks");
        }
        let Some(export) = find(offer.exports, &query.name) else {
            return to.refuse(ErrorReply::Unknown, "there is no export of this name");
        };
        let asked = |name: &str| query.queries.iter().any(|query| query == name);
        // Without a query, all there is; and what nobody here knows is passed over.
        let found = asked(ALLOCATION) || !set && (query.queries.is_empty() || asked(BASE));
        if found {
            let id = if set { ALLOCATION_ID } else { 0 };
            to.say(&OptionReply::MetaContext { id, name: ALLOCATION.into() });
            self.allocation = if set { Some(export) } else { self.allocation };
        }
        to.ack()
    }
}
