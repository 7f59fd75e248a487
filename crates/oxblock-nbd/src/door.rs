//! Where clients come in: the sockets that they connect to, how many there may be, and the descriptor that says stop.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use oxblock::volume::Remote;
use oxblock_net::Listener;

use crate::connection::{Connection, Seat};
use crate::event_loop::Loop;
use crate::events::{Events, Ready, Source};
use crate::stream::Stream;
use crate::tls::Tls;

/// How long nobody is taken in after the system had no room for one more.
const PAUSE: Duration = Duration::from_millis(200);

/// The door of a server.
#[derive(Debug)]
pub(crate) struct Door {
    pub listeners: Vec<Listener>,
    /// The loops by export, this one first.
    pub loops: Vec<Remote<Loop>>,
    /// What clients may begin, if anything.
    pub tls: Option<Tls>,
    /// Says stop when it polls readable.
    pub stop: OwnedFd,
    /// Clients at a time, and what each of them holds one of.
    pub most: usize,
    pub seat: Seat,
    /// Nobody is taken in until then.
    pub shut: Option<Instant>,
}

impl Door {
    /// Puts its descriptors among those that are watched.
    pub fn watch(&self, events: &Events) -> io::Result<()> {
        events.add(&self.stop, Source::Stop, Ready::RECEIVE)?;
        self.watch_listeners(events)
    }

    fn watch_listeners(&self, events: &Events) -> io::Result<()> {
        let watch =
            |(place, listener)| events.add(listener, Source::Listener(place), Ready::RECEIVE);
        self.listeners.iter().enumerate().try_for_each(watch)
    }

    /// The next client of a listener; none for one too many, which is turned away.
    ///
    /// # Errors
    /// Those of `accept`, `WouldBlock` among them.
    pub fn accept(&self, place: usize) -> io::Result<Option<Connection>> {
        let listener = self.listeners.get(place).ok_or(io::ErrorKind::WouldBlock)?;
        let socket = listener.accept()?;
        // One reference is the door's own.
        let room = Arc::strong_count(&self.seat) <= self.most;
        Ok(room.then(|| {
            Connection::new(Stream::new(socket), self.tls.clone(), Arc::clone(&self.seat))
        }))
    }

    /// Takes nobody in for a while, and says until when.
    pub fn shut_for_a_while(&mut self, events: &Events) -> Instant {
        for listener in &self.listeners {
            events.remove(listener);
        }
        *self.shut.insert(Instant::now() + PAUSE)
    }

    /// True while nobody is taken in.
    pub fn is_shut(&self) -> bool {
        self.shut.is_some()
    }

    /// Takes clients in again, if it is time to.
    pub fn open_in_time(&mut self, now: Instant, events: &Events) -> io::Result<()> {
        match self.shut.take_if(|until| *until <= now) {
            Some(_) => self.watch_listeners(events),
            None => Ok(()),
        }
    }

    /// Lets nobody in any more, and has the other loops stop too.
    pub fn close(&mut self, events: &Events) {
        events.remove(&self.stop);
        self.listeners.clear();
        self.shut = None;
        for other in &self.loops {
            other.send(Loop::begin_to_stop);
        }
    }
}
