//! Asks the server, in a thread of its own: one that does not answer must not keep the keys from working.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::Builder;
use std::time::{Duration, Instant};

use oxblock_control::report::{Stats, Status};
use oxblock_control::{AskError, Client};

/// How long to wait before a server that is gone is looked for again.
const AGAIN: Duration = Duration::from_secs(1);

/// What came of a look.
pub enum Told {
    /// How the server is, and its figures.
    Look(Box<(Status, Stats)>),
    /// It does not answer, for this reason.
    Gone(String),
}

/// The thread that asks. It ends when nobody takes what it finds.
pub struct Asker {
    found: Receiver<Told>,
    /// Nanoseconds between two looks.
    interval: Arc<AtomicU64>,
}

impl Asker {
    /// Begins to ask the server at `socket`.
    pub fn start(socket: PathBuf, interval: Duration) -> io::Result<Self> {
        let (sender, found) = sync_channel(1);
        let interval = Arc::new(AtomicU64::new(nanos(interval)));
        let pace = Arc::clone(&interval);
        Builder::new().name("asker".into()).spawn(move || ask_on(&socket, &pace, &sender))?;
        Ok(Self { found, interval })
    }

    /// The time between two looks.
    pub fn interval(&self) -> Duration {
        Duration::from_nanos(self.interval.load(Ordering::Relaxed))
    }

    /// Changes it.
    pub fn set_interval(&self, interval: Duration) {
        self.interval.store(nanos(interval), Ordering::Relaxed);
    }

    /// The next look, if there is one within that time.
    pub fn next(&self, within: Duration) -> Option<Told> {
        match self.found.recv_timeout(within) {
            Ok(told) => Some(told),
            Err(RecvTimeoutError::Timeout) => None,
            // It never ends while it is listened to.
            Err(RecvTimeoutError::Disconnected) => Some(Told::Gone("nobody asks any more".into())),
        }
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn ask_on(socket: &Path, interval: &AtomicU64, sender: &SyncSender<Told>) {
    let mut client = None;
    loop {
        let began = Instant::now();
        let told = match look(socket, &mut client) {
            Ok(look) => Told::Look(Box::new(look)),
            Err(error) => {
                client = None;
                Told::Gone(error.to_string())
            }
        };
        let gone = matches!(told, Told::Gone(_));
        if sender.send(told).is_err() {
            return;
        }
        // In small steps: the interval may be made shorter meanwhile.
        loop {
            let pace = Duration::from_nanos(interval.load(Ordering::Relaxed));
            let left = if gone { AGAIN } else { pace }.saturating_sub(began.elapsed());
            if left.is_zero() {
                break;
            }
            std::thread::sleep(left.min(Duration::from_millis(100)));
        }
    }
}

fn look(socket: &Path, client: &mut Option<Client>) -> Result<(Status, Stats), AskError> {
    let client = match client {
        Some(client) => client,
        None => client.insert(Client::connect(socket)?),
    };
    Ok((client.status()?, client.stats()?))
}
