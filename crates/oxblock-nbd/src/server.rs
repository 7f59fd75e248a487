//! The loop: news from sockets, the engine, replies; then, if nothing was to be done, a look around and a sleep.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use oxblock::volume::Patience;
use oxblock::{Error, Result, Volume};
use oxblock_nbd_proto::Export;
use slab::Slab;

use crate::address::Address;
use crate::connection::{Connection, Spares};
use crate::engine::Engine;
use crate::events::{Events, Ready, Source};
use crate::listener::{Inherited, Listener};

/// Clients that one round takes from one listener.
const ACCEPTS: usize = 16;
/// How long a client may take for the handshake.
const HANDSHAKE_MOST: Duration = Duration::from_secs(30);
/// How long a server that was told to stop waits for clients to take their replies.
const DRAIN_MOST: Duration = Duration::from_secs(10);
/// How long nobody is taken in after the system had no room for one more.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);
/// The longest look for news before a sleep.
const LOOK: Duration = Duration::from_micros(150);
/// How often time limits are looked at.
const TICK: Duration = Duration::from_secs(1);

/// How to serve.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// Where to listen.
    pub listen: Vec<Address>,
    /// The name of the export. Clients that name none get it too.
    pub name: String,
    /// What clients are told about it.
    pub description: String,
    /// Refuse every change.
    pub read_only: bool,
    /// Clients at a time; one more is turned away.
    pub connections: usize,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            listen: Vec::new(),
            name: String::new(),
            description: String::new(),
            read_only: false,
            connections: 4096,
        }
    }
}

/// A server that listens.
#[derive(Debug)]
pub struct Server {
    engine: Engine,
    events: Events,
    listeners: Vec<Listener>,
    addresses: Vec<Address>,
    connections: Slab<Connection>,
    most: usize,
    /// Connections that something has happened to in this round.
    touched: Vec<usize>,
    spares: Spares,
    patience: Patience,
    stop: OwnedFd,
    /// Until when clients may take their replies, once the server was told to stop.
    draining: Option<Instant>,
    /// Nobody is taken in until then.
    pause: Option<Instant>,
    /// When time limits are looked at next.
    tick: Instant,
}

impl Server {
    /// Listens for clients of `volume`, on the `inherited` sockets too. `stop` ends [`run`](Self::run) when it polls readable.
    ///
    /// # Errors
    /// What keeps it from listening, with the address.
    pub fn new(
        mut volume: Volume,
        options: &ServerOptions,
        inherited: Vec<Inherited>,
        stop: OwnedFd,
    ) -> Result<Self> {
        let failed = |error| Error::io("set up the event loop", error);
        let events = Events::new().map_err(failed)?;
        volume.watch(events.descriptor())?;
        let receive = Ready { receive: true, ..Ready::default() };
        events.add(&stop, Source::Stop, receive).map_err(failed)?;
        let (mut listeners, mut addresses) = (Vec::new(), Vec::new());
        for socket in inherited {
            let failed = |error| Error::io("listen on a socket that was passed on", error);
            socket.address().map_err(failed)?;
            listeners.push(Listener::take_over(socket).map_err(failed)?);
        }
        for asked in &options.listen {
            let failed =
                |error| Error::io(format!("listen on {}", asked.uri(&options.name)), error);
            let listener = Listener::bind(asked).map_err(failed)?;
            addresses.push(listener.address(asked));
            listeners.push(listener);
        }
        for (place, listener) in listeners.iter().enumerate() {
            events.add(listener, Source::Listener(place), receive).map_err(failed)?;
        }
        let export = Export {
            name: options.name.clone(),
            description: options.description.clone(),
            size: volume.size(),
            read_only: options.read_only,
            rotational: volume.info().devices.iter().any(|device| device.limits.rotational),
        };
        Ok(Self {
            engine: Engine::new(volume, vec![export]),
            events,
            listeners,
            addresses,
            connections: Slab::new(),
            most: options.connections,
            touched: Vec::new(),
            spares: Spares::default(),
            patience: Patience::new(LOOK),
            stop,
            draining: None,
            pause: None,
            tick: Instant::now() + TICK,
        })
    }

    /// Where it was asked to listen, with the ports that were found where any was asked for.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// Serves until it is told to stop; then everything that was begun is finished and answered. Gives back the volume, for
    /// its owner to close. What the volume has to say meanwhile is `tell`'s to pass on.
    pub fn run(mut self, tell: &mut dyn FnMut(&str)) -> Volume {
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
            }
        }
        true
    }

    fn accept(&mut self, place: usize) {
        for _ in 0..ACCEPTS {
            let Some(listener) = self.listeners.get(place) else { return };
            let stream = match listener.accept() {
                Ok(stream) => stream,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // A client that has left again; the next one may be there.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
                // No descriptor to spare, or no memory: clients that are there come first.
                Err(_) => return self.stop_accepting(),
            };
            if self.connections.len() >= self.most {
                continue;
            }
            let key = self.connections.insert(Connection::new(stream));
            let added = self.connections.get(key).map(|one| one.watch(key, &self.events));
            if !matches!(added, Some(Ok(()))) {
                self.connections.try_remove(key);
                return self.stop_accepting();
            }
            touch(&mut self.touched, &mut self.connections, key);
        }
    }

    fn stop_accepting(&mut self) {
        for listener in &self.listeners {
            self.events.remove(listener);
        }
        let until = Instant::now() + ACCEPT_PAUSE;
        self.pause = Some(until);
        self.tick = self.tick.min(until);
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
            connection.process(key, &mut self.engine);
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
        self.pause.is_some() || self.draining.is_some() || !self.connections.is_empty()
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
        if self.pause.take_if(|until| *until <= now).is_some() {
            let receive = Ready { receive: true, ..Ready::default() };
            let watch =
                |(place, listener)| self.events.add(listener, Source::Listener(place), receive);
            if self.listeners.iter().enumerate().try_for_each(watch).is_err() {
                self.stop_accepting();
            }
        }
    }

    /// From now on nothing is begun.
    fn begin_to_stop(&mut self) {
        self.events.remove(&self.stop);
        self.listeners.clear();
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
