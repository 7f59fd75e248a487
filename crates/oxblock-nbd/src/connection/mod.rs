//! One client: what comes from it, what goes to it, and how much of it may be under way.
//!
//! Invariants: while payload is being received into a buffer, the input holds nothing. What is started is counted until it
//! is answered, so a connection is not forgotten before the engine is done with its requests.

mod output;
mod payload;
mod requests;

use std::io::{self, IoSliceMut};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Instant;

use oxblock_nbd_proto::{Handshake, Session, Terms};

pub(crate) use self::output::Output;
use self::payload::Payload;
use crate::buffers::Buffers;
use crate::events::{Events, Ready, Source};
use crate::input::{INPUT, Input, Spares};
use crate::stream::Stream;
use crate::tls::Tls;

/// The most bytes of payload that one connection holds when it may begin another request: in buffers being received, in the
/// engine, and in replies that wait. With the request that goes beyond it: 96 MiB.
const HELD_MOST: u64 = 64 << 20;
/// The most requests of one connection in the engine.
const JOBS_MOST: u32 = 1024;
/// The most bytes of replies, without their payload, that wait when another request may begin.
const PLAIN_MOST: usize = 256 << 10;

/// Payload from which it is worth a call to have it received into its buffer rather than copied.
const LARGE: u64 = 32 << 10;

/// Where a connection stands.
#[derive(Debug)]
enum Phase {
    Handshake(Handshake),
    Transmission(Session, Terms),
}

/// What each connection of a server holds one of.
pub(crate) type Seat = Arc<()>;

/// One client.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: Option<Stream>,
    /// What may begin, if anything.
    tls: Option<Tls>,
    phase: Phase,
    input: Input,
    payload: Option<Payload>,
    pub output: Output,
    /// Requests in the engine, and the bytes that they hold.
    jobs: u32,
    held: u64,
    /// Nothing more is received.
    ended: bool,
    /// The last payload was a large one, and so is the next one probably.
    large: bool,
    interest: Ready,
    since: Instant,
    /// As long as it is held, the connection is counted.
    _seat: Seat,
    /// It is on the list of those that something has happened to.
    pub touched: bool,
}

impl Connection {
    /// A new one, which is greeted.
    pub fn new(stream: Stream, tls: Option<Tls>, seat: Seat) -> Self {
        let mut output = Output::default();
        let handshake = output.write(Handshake::greet);
        Self {
            stream: Some(stream),
            tls,
            phase: Phase::Handshake(handshake),
            input: Input::default(),
            payload: None,
            output,
            jobs: 0,
            held: 0,
            ended: false,
            large: false,
            interest: Ready::RECEIVE,
            since: Instant::now(),
            _seat: seat,
            touched: false,
        }
    }

    /// Puts it among those that are watched.
    ///
    /// # Errors
    /// When there are too many.
    pub fn watch(&self, key: usize, events: &Events) -> io::Result<()> {
        match &self.stream {
            Some(stream) => events.add(stream.as_fd(), Source::Connection(key), self.interest),
            None => Ok(()),
        }
    }

    /// When it began, if it is still in the handshake.
    pub fn shaking_since(&self) -> Option<Instant> {
        matches!(self.phase, Phase::Handshake(_)).then_some(self.since)
    }

    /// The export that it has chosen.
    pub fn export(&self) -> Option<usize> {
        match &self.phase {
            Phase::Handshake(_) => None,
            Phase::Transmission(session, _) => Some(session.export),
        }
    }

    /// Takes it off those that are watched.
    pub fn forget(&self, events: &Events) {
        if let Some(stream) = &self.stream {
            events.remove(stream.as_fd());
        }
    }

    /// True when another request may begin.
    fn has_room(&self) -> bool {
        self.jobs < JOBS_MOST
            && self.held + self.output.held() < HELD_MOST
            && self.output.plain() < PLAIN_MOST
    }

    /// Receives once. The end of what a client sends is no error; what it has asked for is still done.
    pub fn receive(&mut self, spares: &mut Spares) {
        let most = self.look_ahead();
        let Some(stream) = &mut self.stream else { return };
        if self.ended {
            return;
        }
        let straight = match &mut self.payload {
            Some(payload) => payload.room(),
            None => &mut [],
        };
        let first = straight.len();
        let room = self.input.room(most, spares);
        if first == 0 && room.is_empty() {
            // All of it waits for other requests to be over; to receive nothing would look like the end.
            return;
        }
        let mut parts = [IoSliceMut::new(straight), IoSliceMut::new(room)];
        match stream.receive(&mut parts, spares) {
            Ok(0) => self.ended = true,
            Ok(count) => {
                if let Some(payload) = &mut self.payload {
                    payload.filled(count.min(first));
                }
                self.input.filled(count.saturating_sub(first));
            }
            Err(error) if is_passing(&error) => {}
            Err(_) => self.lose(),
        }
    }

    /// How much is received ahead of what is understood. Behind a large payload only a header: the next payload then goes
    /// into its buffer too.
    fn look_ahead(&self) -> usize {
        match &self.phase {
            Phase::Transmission(session, _)
                if self.large && !matches!(self.payload, Some(Payload::Pass { .. })) =>
            {
                session.style.request_bytes()
            }
            _ => INPUT,
        }
    }

    /// Sends what can be sent, and gives memory back that is not needed. True when that has made room for requests that have
    /// come already: nothing else would tell of them.
    pub fn send(&mut self, buffers: &mut Buffers, spares: &mut Spares) -> bool {
        let was_full = !self.has_room();
        if self.try_send(buffers).is_err() {
            self.lose();
        }
        self.input.rest(spares);
        was_full && self.has_room() && !self.input.is_empty() || self.has_more()
    }

    fn try_send(&mut self, buffers: &mut Buffers) -> io::Result<()> {
        let Some(stream) = &mut self.stream else { return Ok(()) };
        self.output.send(stream, buffers)?;
        match stream.flush() {
            Err(error) if !is_passing(&error) => return Err(error),
            _ => {}
        }
        let Phase::Handshake(handshake) = &mut self.phase else { return Ok(()) };
        if let Some(tls) = &self.tls
            && handshake.is_securing()
            && self.output.is_empty()
        {
            if !self.input.is_empty() {
                // Somebody on the way may have put it there, to be taken for what comes encrypted.
                return Err(io::ErrorKind::InvalidData.into());
            }
            stream.secure(tls)?;
            handshake.secured();
        }
        Ok(())
    }

    /// True when there may be something to receive that nothing else tells of, and room for it.
    fn has_more(&self) -> bool {
        self.wants_more() && self.stream.as_ref().is_some_and(Stream::has_more)
    }

    fn wants_more(&self) -> bool {
        !self.ended && self.has_room() && self.input.data().len() < INPUT
    }

    /// Receives what is there already.
    pub fn receive_more(&mut self, spares: &mut Spares) {
        if self.has_more() {
            self.receive(spares);
        }
    }

    /// A request of it is over.
    pub fn job_done(&mut self, held: u64) {
        self.jobs -= 1;
        self.held -= held;
    }

    /// Nothing more is received; what has been asked for is done and answered.
    pub fn end(&mut self) {
        self.ended = true;
        self.input.clear();
        self.payload = None;
    }

    /// The client is gone.
    pub fn lose(&mut self) {
        self.end();
        // Closing it takes it off the list of those that are watched.
        self.stream = None;
        self.output.close();
    }

    /// From now on requests are refused.
    pub fn shut_down(&mut self) {
        if let Phase::Transmission(_, terms) = &mut self.phase {
            terms.shutdown = true;
        }
    }

    /// True when nothing of it is under way.
    pub fn is_idle(&self) -> bool {
        self.jobs == 0 && !self.wants_send()
    }

    fn wants_send(&self) -> bool {
        !self.output.is_empty() || self.stream.as_ref().is_some_and(Stream::wants_send)
    }

    /// True when it can be forgotten.
    pub fn is_over(&self) -> bool {
        self.ended && self.is_idle()
    }

    /// Tells what it is interested in now.
    pub fn update_interest(&mut self, key: usize, events: &Events) {
        let interest = Ready { receive: self.wants_more(), send: self.wants_send(), gone: false };
        let Some(stream) = &self.stream else { return };
        if interest != self.interest {
            if events.change(stream.as_fd(), Source::Connection(key), interest).is_err() {
                return self.lose();
            }
            self.interest = interest;
        }
    }
}

/// Errors after which the connection is as good as before.
fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
