//! The loop of one volume: news from sockets, the engine, replies; then, if nothing was to be done, a look around and a sleep.
//!
//! The first loop of a server has the door: it takes clients in and shakes hands with them. A client that has chosen the
//! volume of another loop is handed over to that loop, with all that has come from it and all that is to be sent to it.

use std::io;
use std::time::{Duration, Instant};

use oxblock::volume::{Mailbox, Patience, Remote};
use oxblock::{Error, Result, Volume};
use slab::Slab;

use crate::connection::Connection;
use crate::door::Door;
use crate::engine::{Engine, Look};
use crate::events::{Events, Ready, Source};
use crate::input::Spares;

/// Clients that one round takes from one listener.
const ACCEPTS: usize = 16;
/// How long a client may take for the handshake.
const HANDSHAKE_MOST: Duration = Duration::from_secs(30);
/// How long a server that was told to stop waits for clients to take their replies.
const DRAIN_MOST: Duration = Duration::from_secs(10);
/// The longest look for news before a sleep.
const LOOK: Duration = Duration::from_micros(150);
/// How often time limits are looked at.
const TICK: Duration = Duration::from_secs(1);

/// One volume and its clients.
#[derive(Debug)]
pub(crate) struct Loop {
    engine: Engine,
    events: Events,
    mailbox: Mailbox<Loop>,
    door: Option<Door>,
    connections: Slab<Connection>,
    /// Connections that something has happened to in this round.
    touched: Vec<usize>,
    spares: Spares,
    patience: Patience,
    /// Until when clients may take their replies, once the server was told to stop.
    draining: Option<Instant>,
    /// When time limits are looked at next.
    tick: Instant,
}

impl Loop {
    /// The loop of `engine`, which nobody can reach yet.
    ///
    /// # Errors
    /// What it needs of the system and does not get.
    pub fn new(mut engine: Engine) -> Result<Self> {
        let failed = |error| Error::io("set up the event loop", error);
        let events = Events::new().map_err(failed)?;
        engine.volume.watch(events.descriptor())?;
        let mailbox = Mailbox::new().map_err(failed)?;
        events.add(mailbox.descriptor(), Source::Mailbox, Ready::RECEIVE).map_err(failed)?;
        Ok(Self {
            engine,
            events,
            mailbox,
            door: None,
            connections: Slab::new(),
            touched: Vec::new(),
            spares: Spares::default(),
            patience: Patience::new(LOOK),
            draining: None,
            tick: Instant::now() + TICK,
        })
    }

    /// How others reach it.
    pub fn remote(&self) -> Remote<Self> {
        self.mailbox.remote()
    }

    /// Has it take clients in.
    ///
    /// # Errors
    /// What it needs of the system and does not get.
    pub fn open_door(&mut self, door: Door) -> io::Result<()> {
        door.watch(&self.events)?;
        self.door = Some(door);
        Ok(())
    }

    /// Serves until it is told to stop; then everything that was begun is finished and answered. Gives back the volume. What
    /// the volume has to say meanwhile is `tell`'s to pass on.
    pub fn run(mut self, tell: &dyn Fn(&str)) -> Volume {
        let mut known = self.engine.volume.notices().len();
        loop {
            let mut busy = self.take_news();
            busy |= self.engine.advance();
            self.answer();
            self.settle();
            let notices = self.engine.volume.notices();
            notices.get(known..).into_iter().flatten().for_each(|notice| tell(notice));
            known = notices.len();
            if self.draining.is_some() && self.has_drained() {
                return self.engine.volume;
            }
            self.look_at_limits();
            if !busy && !self.engine.has_queued() && self.touched.is_empty() {
                self.pause();
            }
        }
    }

    /// Deals with what sockets have; true when there was anything.
    fn take_news(&mut self) -> bool {
        if !self.events.look() {
            return false;
        }
        while let Some((source, ready)) = self.events.take() {
            match source {
                Source::Stop => self.begin_to_stop(),
                Source::Listener(place) => self.accept(place),
                Source::Connection(key) => self.receive(key, ready),
                Source::Mailbox => self.take_calls(),
            }
        }
        true
    }

    /// The volume as it is now.
    pub fn look(&self) -> Look {
        let here = Some(self.engine.place);
        let clients = self.connections.iter().filter(|(_, one)| one.export() == here).count();
        let volume = &self.engine.volume;
        Look { info: volume.info(), traffic: volume.traffic().clone(), clients: clients as u64 }
    }

    fn take_calls(&mut self) {
        for call in self.mailbox.take() {
            call(self);
        }
    }

    fn accept(&mut self, place: usize) {
        for _ in 0..ACCEPTS {
            let Some(door) = &mut self.door else { return };
            let accepted = match door.accept(place) {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // A client that has left again; the next one may be there.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
                // No descriptor to spare, or no memory: clients that are there come first.
                Err(_) => return self.stop_accepting(),
            };
            // One more than there may be is turned away.
            let Some(connection) = accepted else { continue };
            if !self.take_in(connection) {
                return self.stop_accepting();
            }
        }
    }

    /// Puts a connection among those that are served here; false when it cannot be watched, and is lost.
    fn take_in(&mut self, connection: Connection) -> bool {
        let key = self.connections.insert(connection);
        let added = self.connections.get(key).map(|one| one.watch(key, &self.events));
        if !matches!(added, Some(Ok(()))) {
            self.connections.try_remove(key);
            return false;
        }
        touch(&mut self.touched, &mut self.connections, key);
        true
    }

    /// Goes on with a connection whose handshake was elsewhere.
    fn adopt(&mut self, mut connection: Connection) {
        if self.draining.is_some() {
            connection.shut_down();
        }
        self.take_in(connection);
    }

    /// Hands a connection over to the loop of the export that it has chosen.
    fn hand_over(&mut self, key: usize, export: usize) {
        let Some(connection) = self.connections.try_remove(key) else { return };
        connection.forget(&self.events);
        if let Some(to) = self.door.as_ref().and_then(|door| door.loops.get(export)) {
            // If nobody is there any more it is closed.
            to.send(move |to| to.adopt(connection));
        }
    }

    fn stop_accepting(&mut self) {
        if let Some(door) = &mut self.door {
            self.tick = self.tick.min(door.shut_for_a_while(&self.events));
        }
    }

    fn receive(&mut self, key: usize, ready: Ready) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        if ready.gone && !ready.receive {
            connection.lose();
        }
        if ready.receive {
            connection.receive(&mut self.spares);
            connection.process(key, &mut self.engine);
        }
        touch(&mut self.touched, &mut self.connections, key);
    }

    /// Turns what the engine is done with into replies.
    fn answer(&mut self) {
        while let Some((job, completion)) = self.engine.finished() {
            let (key, held) = (job.connection, job.held);
            let Some(connection) = self.connections.get_mut(key) else {
                unreachable!("a connection was forgotten before its requests")
            };
            if self.engine.go_on(job, completion, &mut connection.output) {
                connection.job_done(held);
                touch(&mut self.touched, &mut self.connections, key);
            }
        }
    }

    /// Sends, goes on with what waited for room, and forgets connections that are over.
    fn settle(&mut self) {
        let mut touched = std::mem::take(&mut self.touched);
        for key in touched.drain(..) {
            let Some(connection) = self.connections.get_mut(key) else { continue };
            connection.touched = false;
            connection.receive_more(&mut self.spares);
            connection.process(key, &mut self.engine);
            if let Some(export) = connection.export().filter(|one| *one != self.engine.place) {
                self.hand_over(key, export);
                continue;
            }
            let again = connection.send(&mut self.engine.buffers, &mut self.spares);
            connection.update_interest(key, &self.events);
            if connection.is_over() && !again {
                self.connections.try_remove(key);
            } else if again {
                connection.touched = true;
                self.touched.push(key);
            }
        }
        // Those of which something is left come in the next round, so that others get their turn.
        touched.append(&mut self.touched);
        self.touched = touched;
    }

    /// Looks around for a while, then sleeps until there is news.
    fn pause(&mut self) {
        while self.patience.lasts() {
            if self.events.look() || self.engine.advance() {
                self.patience.found();
                return;
            }
        }
        if self.connections.is_empty() && !self.engine.buffers.is_empty() {
            self.engine.buffers.clear();
        }
        let timeout =
            self.has_limits().then(|| self.tick.saturating_duration_since(Instant::now()));
        self.engine.volume.wait_watching(timeout);
    }

    fn has_limits(&self) -> bool {
        self.door.as_ref().is_some_and(Door::is_shut)
            || self.draining.is_some()
            || !self.connections.is_empty()
    }

    /// In every round: clients that keep the server busy must not keep it from this.
    fn look_at_limits(&mut self) {
        if self.has_limits() {
            let now = Instant::now();
            if self.tick <= now {
                self.keep_limits(now);
            }
        }
    }

    fn keep_limits(&mut self, now: Instant) {
        self.tick = now + TICK;
        for (key, connection) in &mut self.connections {
            let late = connection
                .shaking_since()
                .is_some_and(|since| now.duration_since(since) > HANDSHAKE_MOST);
            if late {
                connection.lose();
                if !std::mem::replace(&mut connection.touched, true) {
                    self.touched.push(key);
                }
            }
        }
        self.settle();
        let opened = self.door.as_mut().map(|door| door.open_in_time(now, &self.events));
        if matches!(opened, Some(Err(_))) {
            self.stop_accepting();
        }
    }

    /// From now on nothing is begun, here and in the loops that clients are handed over to.
    pub fn begin_to_stop(&mut self) {
        if self.draining.is_some() {
            return;
        }
        if let Some(door) = &mut self.door {
            door.close(&self.events);
        }
        self.engine.shutdown = true;
        for (key, connection) in &mut self.connections {
            connection.shut_down();
            if !std::mem::replace(&mut connection.touched, true) {
                self.touched.push(key);
            }
        }
        self.draining = Some(Instant::now() + DRAIN_MOST);
        self.tick = Instant::now();
    }

    /// Closes connections of which nothing is under way; true when all are closed, or the time is over and the engine is done.
    fn has_drained(&mut self) -> bool {
        let late = self.draining.is_some_and(|until| Instant::now() >= until);
        self.connections.retain(|_, connection| {
            if late {
                connection.lose();
            }
            !connection.is_idle()
        });
        self.connections.is_empty()
    }
}

/// Puts a connection on the list of those that something has happened to.
fn touch(touched: &mut Vec<usize>, connections: &mut Slab<Connection>, key: usize) {
    if let Some(connection) = connections.get_mut(key)
        && !std::mem::replace(&mut connection.touched, true)
    {
        touched.push(key);
    }
}
