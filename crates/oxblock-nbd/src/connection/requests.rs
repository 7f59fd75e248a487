//! From bytes to requests that are under way.

use oxblock_nbd_proto::{
    Command, Malformed, ReplyTo, Request, Session, Step, Style, Terms, TlsOffer, validate_request,
};

use super::payload::Payload;
use super::{Connection, LARGE, PLAIN_MOST, Phase};
use crate::engine::{Engine, Started};
use crate::tls::Tls;

impl Connection {
    /// Understands what has come, and begins what was asked for, as far as there is room for it.
    pub fn process(&mut self, key: usize, engine: &mut Engine) {
        while !self.ended || !self.input.is_empty() || self.payload.is_some() {
            let went_on = match &self.phase {
                Phase::Handshake(_) => self.shake_hands(engine),
                // The engine of its export goes on with it.
                Phase::Transmission(session, _) if session.export != engine.place => false,
                Phase::Transmission(session, terms) => {
                    let (session, terms) = (*session, *terms);
                    self.next_request(key, session, &terms, engine)
                }
            };
            if !went_on {
                break;
            }
        }
    }

    /// Deals with one option; false when there is none, or no room for the answer.
    fn shake_hands(&mut self, engine: &Engine) -> bool {
        let Phase::Handshake(handshake) = &mut self.phase else { return false };
        if self.output.plain() > PLAIN_MOST {
            return false;
        }
        let data = self.input.data();
        let offer = engine.offer(self.tls.as_ref().map_or(TlsOffer::None, Tls::offer));
        let (consumed, step) = self.output.write(|out| handshake.advance(data, offer, out));
        self.input.consume(consumed);
        match step {
            // TLS begins once it is agreed to on both sides.
            Step::Continue | Step::Secure => return consumed > 0,
            Step::Begin(session) => match engine.exports.get(session.export) {
                Some(export) => {
                    self.phase = Phase::Transmission(session, session.terms(export));
                }
                None => self.end(),
            },
            Step::End(_) => self.end(),
        }
        true
    }

    /// Deals with one request, or with the payload of one; false when there is not enough of it, or no room.
    fn next_request(
        &mut self,
        key: usize,
        session: Session,
        terms: &Terms,
        engine: &mut Engine,
    ) -> bool {
        if let Some(payload) = &mut self.payload {
            let complete = payload.fill(&mut self.input);
            let Some(payload) = self.payload.take_if(|_| complete) else { return false };
            match payload {
                Payload::Take { to, command, lease, .. } => {
                    self.held -= lease.held();
                    let started = engine.start(key, to, command, Some(lease), &mut self.output);
                    self.count(&started);
                }
                Payload::Pass { to, refusal, .. } => {
                    self.output.write(|out| to.error(refusal.errno, refusal.sentence, out));
                }
            }
            return true;
        }
        if !self.has_room() {
            return false;
        }
        match Request::decode(session.style, self.input.data()) {
            Ok(None) => false,
            Ok(Some(request)) => {
                self.input.consume(session.style.request_bytes());
                self.begin(key, session.style, &request, terms, engine);
                true
            }
            // What follows cannot be understood.
            Err(Malformed(_)) => {
                self.end();
                false
            }
        }
    }

    fn begin(
        &mut self,
        key: usize,
        style: Style,
        request: &Request,
        terms: &Terms,
        engine: &mut Engine,
    ) {
        let to = ReplyTo::new(style, request);
        let payload = request.payload(style);
        match validate_request(request, terms) {
            Ok(Command::Disconnect) => self.end(),
            Ok(command @ Command::Write { len, .. }) => {
                self.large = payload >= LARGE;
                let len = usize::try_from(len).unwrap_or(usize::MAX);
                let lease = engine.buffers.take(len);
                self.held += lease.held();
                self.payload = Some(Payload::Take { to, command, lease, filled: 0 });
            }
            Ok(command) => {
                self.large = false;
                let started = engine.start(key, to, command, None, &mut self.output);
                self.count(&started);
            }
            Err(_) if style == Style::Extended && payload > u64::from(terms.max_payload) => {
                // The protocol wants it so: only an attacker announces that much.
                self.end();
            }
            Err(refusal) if payload > 0 => {
                self.payload = Some(Payload::Pass { to, refusal, left: payload });
            }
            Err(refusal) => {
                self.output.write(|out| to.error(refusal.errno, refusal.sentence, out));
            }
        }
    }

    fn count(&mut self, started: &Started) {
        if let Started::UnderWay(held) = started {
            self.jobs += 1;
            self.held += held;
        }
    }
}
