//! One epoll set: listeners, clients, calls from other threads, and the descriptor that says stop.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};

/// Events of one look.
const MANY: usize = 128;

/// Who has news.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// Stop.
    Stop,
    /// A listener, by its place.
    Listener(usize),
    /// A connection, by its key.
    Connection(usize),
    /// Calls from other threads.
    Mailbox,
}

/// What one is interested in, or has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Ready {
    /// There is something to receive, or the end.
    pub receive: bool,
    /// There is room to send.
    pub send: bool,
    /// The other side is gone, both ways. Not to be asked for.
    pub gone: bool,
}

impl Source {
    fn data(self) -> EventData {
        let (kind, number) = match self {
            Self::Stop => (0, 0),
            Self::Listener(place) => (1, place),
            Self::Connection(key) => (2, key),
            Self::Mailbox => (3, 0),
        };
        EventData::new_u64((number as u64) << 2 | kind)
    }

    fn of(data: u64) -> Self {
        let number = usize::try_from(data >> 2).unwrap_or(usize::MAX);
        match data & 3 {
            0 => Self::Stop,
            1 => Self::Listener(number),
            2 => Self::Connection(number),
            _ => Self::Mailbox,
        }
    }
}

impl Ready {
    /// Interest in what comes, and in nothing else.
    pub const RECEIVE: Self = Self { receive: true, send: false, gone: false };

    fn flags(self) -> EventFlags {
        let mut flags = EventFlags::empty();
        flags.set(EventFlags::IN, self.receive);
        flags.set(EventFlags::OUT, self.send);
        flags
    }

    fn of(flags: EventFlags) -> Self {
        Self {
            receive: flags.contains(EventFlags::IN),
            send: flags.contains(EventFlags::OUT),
            gone: flags.intersects(EventFlags::HUP | EventFlags::ERR),
        }
    }
}

/// The set.
#[derive(Debug)]
pub(crate) struct Events {
    set: Arc<OwnedFd>,
    found: Vec<(Source, Ready)>,
}

impl Events {
    pub fn new() -> io::Result<Self> {
        let set = Arc::new(epoll::create(CreateFlags::CLOEXEC)?);
        Ok(Self { set, found: Vec::with_capacity(MANY) })
    }

    /// Adds a descriptor.
    pub fn add(&self, fd: impl AsFd, source: Source, interest: Ready) -> io::Result<()> {
        Ok(epoll::add(&*self.set, fd, source.data(), interest.flags())?)
    }

    /// Changes what is wanted of one.
    pub fn change(&self, fd: impl AsFd, source: Source, interest: Ready) -> io::Result<()> {
        Ok(epoll::modify(&*self.set, fd, source.data(), interest.flags())?)
    }

    /// Removes one, before it is closed.
    pub fn remove(&self, fd: impl AsFd) {
        // It fails for what is not there, which is what is wanted.
        epoll::delete(&*self.set, fd).ok();
    }

    /// Looks for news without waiting; true when there is any to [take](Self::take).
    pub fn look(&mut self) -> bool {
        if self.found.is_empty() {
            let now = Timespec { tv_sec: 0, tv_nsec: 0 };
            let mut room = [const { MaybeUninit::<Event>::uninit() }; MANY];
            // It is only interrupted, never refused.
            if let Ok((found, _)) = epoll::wait(&*self.set, &mut room[..], Some(&now)) {
                let known = |event: &mut Event| {
                    let (data, flags) = (event.data, event.flags);
                    (Source::of(data.u64()), Ready::of(flags))
                };
                self.found.extend(found.iter_mut().map(known));
            }
        }
        !self.found.is_empty()
    }

    /// The next piece of news.
    pub fn take(&mut self) -> Option<(Source, Ready)> {
        self.found.pop()
    }

    /// Polls readable while there is news.
    pub fn descriptor(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.set)
    }
}
