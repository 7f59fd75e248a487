//! One thread, in which all who ask are answered.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use oxblock::{Error, Result};
use oxblock_net::{Address, Listener, Socket};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use slab::Slab;

use crate::http::{self, HEAD_MOST};
use crate::lines::{self, LINE_MOST};
use crate::source::Source;

/// Clients at a time; more wait until one has gone.
const CLIENTS_MOST: usize = 64;
/// How long one may take who asks by HTTP, and how long one may take to take an answer.
const TIME_MOST: Duration = Duration::from_secs(10);

/// Where to be asked.
#[derive(Debug, Clone, Default)]
pub struct ControlOptions {
    /// The control socket.
    pub control: Option<std::path::PathBuf>,
    /// Where metrics are to be had, by HTTP.
    pub metrics: Vec<Address>,
}

/// What answers. Dropping it ends that.
#[derive(Debug)]
pub struct Control {
    stop: Arc<OwnedFd>,
    addresses: Vec<Address>,
    thread: Option<JoinHandle<()>>,
}

/// What a client speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Language {
    Lines,
    Http,
}

#[derive(Debug)]
struct Client {
    socket: Socket,
    language: Language,
    input: Vec<u8>,
    output: Vec<u8>,
    sent: usize,
    /// Nothing comes behind what is to be sent.
    last: bool,
    /// Until when it may go on as it does.
    until: Option<Instant>,
}

struct Loop {
    stop: Arc<OwnedFd>,
    listeners: Vec<(Listener, Language)>,
    clients: Slab<Client>,
    source: Box<dyn Source>,
    since: Instant,
}

impl Control {
    /// Answers about what `source` has. The control socket is for the user who started the server.
    ///
    /// # Errors
    /// What keeps it from listening, with the address; no thread is to be had.
    pub fn start(options: &ControlOptions, source: Box<dyn Source>) -> Result<Self> {
        let failed = |error| Error::io("set up the control thread", error);
        let stop = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC);
        let stop = Arc::new(stop.map_err(|error| failed(error.into()))?);
        let (mut listeners, mut addresses) = (Vec::new(), Vec::new());
        if let Some(path) = &options.control {
            let address = Address::Unix(path.clone());
            let failed = |error| Error::io(format!("listen on {address}"), error);
            let listener = Listener::bind(&address).map_err(failed)?;
            let owner = std::fs::Permissions::from_mode(0o600);
            std::fs::set_permissions(path, owner).map_err(failed)?;
            listeners.push((listener, Language::Lines));
        }
        for asked in &options.metrics {
            let failed = |error| Error::io(format!("listen on {asked}"), error);
            let listener = Listener::bind(asked).map_err(failed)?;
            addresses.push(listener.address(asked));
            listeners.push((listener, Language::Http));
        }
        let answers = Loop {
            stop: Arc::clone(&stop),
            listeners,
            clients: Slab::new(),
            source,
            since: Instant::now(),
        };
        let thread = Builder::new().name("control".into()).spawn(|| answers.run());
        Ok(Self { stop, addresses, thread: Some(thread.map_err(failed)?) })
    }

    /// Where metrics are to be had, with the ports that were found where any was asked for.
    pub fn metrics(&self) -> &[Address] {
        &self.addresses
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        #[expect(clippy::host_endian_bytes, reason = "the kernel reads it on this machine")]
        let one = 1u64.to_ne_bytes();
        // It fails only when the count is full, and then it is readable already.
        rustix::io::write(&*self.stop, &one).ok();
        if let Some(thread) = self.thread.take() {
            // A panic was told by the thread itself, and harms nobody else.
            thread.join().ok();
        }
    }
}

impl Loop {
    fn run(mut self) {
        while !self.wait() {
            self.accept();
            let now = Instant::now();
            let (source, since) = (self.source.as_ref(), self.since);
            self.clients.retain(|_, client| {
                client.until.is_none_or(|until| now < until)
                    && client.advance(source, since).is_ok()
            });
        }
    }

    /// Waits until there is something to do; true when that is to stop.
    fn wait(&self) -> bool {
        let mut fds = vec![PollFd::new(&self.stop, PollFlags::IN)];
        if self.clients.len() < CLIENTS_MOST {
            let listeners = self.listeners.iter();
            fds.extend(listeners.map(|(listener, _)| PollFd::new(listener, PollFlags::IN)));
        }
        for (_, client) in &self.clients {
            let wants = if client.output.is_empty() { PollFlags::IN } else { PollFlags::OUT };
            fds.push(PollFd::from_borrowed_fd(client.socket.as_fd(), wants));
        }
        let until = self.clients.iter().filter_map(|(_, client)| client.until).min();
        let timeout = until.map(|until| {
            let left = until.saturating_duration_since(Instant::now());
            Timespec {
                tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: left.subsec_nanos().into(),
            }
        });
        // It is only interrupted, never refused.
        poll(&mut fds, timeout.as_ref()).ok();
        fds.first().is_some_and(|stop| stop.revents().contains(PollFlags::IN))
    }

    fn accept(&mut self) {
        for (listener, language) in &self.listeners {
            while self.clients.len() < CLIENTS_MOST {
                // When none is there, or the system has no room for one, there may be later.
                let Ok(socket) = listener.accept() else { break };
                self.clients.insert(Client::new(socket, *language));
            }
        }
    }
}

impl Client {
    fn new(socket: Socket, language: Language) -> Self {
        let until = (language == Language::Http).then(|| Instant::now() + TIME_MOST);
        Self {
            socket,
            language,
            input: Vec::new(),
            output: Vec::new(),
            sent: 0,
            last: false,
            until,
        }
    }

    /// Goes on as far as that can be without waiting.
    ///
    /// # Errors
    /// It is over.
    fn advance(&mut self, source: &dyn Source, since: Instant) -> io::Result<()> {
        loop {
            if !self.output.is_empty() {
                if !self.send()? {
                    return Ok(());
                }
                continue;
            }
            if self.last {
                // To close while something is left unread would take the answer back.
                self.input.clear();
                if !self.receive()? {
                    return Ok(());
                }
            } else if let Some(answer) = self.answer(source, since) {
                self.output = answer;
                self.until.get_or_insert_with(|| Instant::now() + TIME_MOST);
            } else if !self.receive()? {
                return Ok(());
            }
        }
    }

    /// Sends; false when the client takes no more now.
    fn send(&mut self) -> io::Result<bool> {
        match self.socket.write(self.output.get(self.sent..).unwrap_or_default()) {
            Ok(sent) => {
                self.sent += sent;
                if self.sent >= self.output.len() {
                    (self.output, self.sent) = (Vec::new(), 0);
                    if self.last {
                        self.socket.shutdown_write()?;
                    } else if self.language == Language::Lines {
                        self.until = None;
                    }
                }
                Ok(true)
            }
            Err(error) => passing(error),
        }
    }

    /// Receives; false when nothing is there now.
    fn receive(&mut self) -> io::Result<bool> {
        let mut room = [0; 1024];
        match self.socket.read(&mut room) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                self.input.extend_from_slice(room.get(..count).unwrap_or_default());
                Ok(true)
            }
            Err(error) => passing(error),
        }
    }

    /// The answer to what has come, if that is a question.
    fn answer(&mut self, source: &dyn Source, since: Instant) -> Option<Vec<u8>> {
        if self.input.is_empty() {
            return None;
        }
        match self.language {
            Language::Http => {
                let answer = http::answer(&self.input, source)?;
                self.last = true;
                debug_assert!(
                    self.input.len() < HEAD_MOST + 1024,
                    "it waits for more than it looks at"
                );
                Some(answer)
            }
            Language::Lines => match self.input.iter().position(|byte| *byte == b'\n') {
                Some(end) => {
                    let line: Vec<u8> = self.input.drain(..=end).collect();
                    Some(lines::answer(line.trim_ascii(), source, since))
                }
                None if self.input.len() > LINE_MOST => {
                    self.last = true;
                    Some(lines::answer(b"", source, since))
                }
                None => None,
            },
        }
    }
}

/// False for an error that is none.
fn passing(error: io::Error) -> io::Result<bool> {
    match error.kind() {
        io::ErrorKind::WouldBlock => Ok(false),
        io::ErrorKind::Interrupted => Ok(true),
        _ => Err(error),
    }
}
