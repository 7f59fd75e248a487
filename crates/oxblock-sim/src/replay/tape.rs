//! The tape: events and the bytes of writes in one file, in the order in which they happened.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::event::{EVENT_BYTES, Event};
use crate::content::small;

/// A tape that is being written, by the recorder below the engine and by the caller above it.
#[derive(Debug, Clone)]
pub struct Tape(Arc<Mutex<Reel>>);

#[derive(Debug)]
struct Reel {
    file: BufWriter<File>,
    ops: u64,
    /// The first failure. It is told when the tape is finished; what follows is not kept.
    failed: Option<io::Error>,
}

impl Reel {
    fn put(&mut self, bytes: &[u8]) {
        if self.failed.is_none() {
            self.failed = self.file.write_all(bytes).err();
        }
    }
}

impl Tape {
    /// An empty tape at `path`.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn create(path: &Path) -> io::Result<Self> {
        let file = BufWriter::with_capacity(1 << 20, File::create(path)?);
        Ok(Self(Arc::new(Mutex::new(Reel { file, ops: 0, failed: None }))))
    }

    fn reel(&self) -> MutexGuard<'_, Reel> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes down an event without bytes.
    pub fn add(&self, event: Event) {
        self.reel().put(&event.encode());
    }

    /// Writes down a device operation, with its bytes where it is a write, and returns its number.
    pub fn add_op<'a>(&self, event: Event, bytes: impl Iterator<Item = &'a [u8]>) -> u64 {
        let mut reel = self.reel();
        reel.put(&event.encode());
        bytes.for_each(|bytes| reel.put(bytes));
        reel.ops += 1;
        reel.ops - 1
    }

    /// Ends the tape.
    ///
    /// # Errors
    /// Something could not be written.
    pub fn finish(&self) -> io::Result<()> {
        let mut reel = self.reel();
        match reel.failed.take() {
            Some(error) => Err(error),
            None => reel.file.flush(),
        }
    }
}

/// A tape that was written.
#[derive(Debug)]
pub struct Recording {
    file: File,
    /// What happened, and where the bytes of each are.
    events: Vec<(Event, u64)>,
}

impl Recording {
    /// Reads the events of the tape at `path`; the bytes stay where they are.
    ///
    /// # Errors
    /// It cannot be read, or is no tape.
    pub fn load(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let end = file.metadata()?.len();
        let mut reader = BufReader::new(&file);
        let mut events = Vec::new();
        let mut at = 0;
        while at < end {
            let mut bytes = [0; EVENT_BYTES];
            reader.read_exact(&mut bytes)?;
            at += EVENT_BYTES as u64;
            let event = Event::decode(&bytes)
                .filter(|event| !events.is_empty() || matches!(event, Event::Start { .. }))
                .filter(|event| event.payload() <= end - at)
                .ok_or_else(|| io::Error::other("this is no tape of a run"))?;
            events.push((event, at));
            at += event.payload();
            reader.seek_relative(event.payload().cast_signed())?;
        }
        Ok(Self { file, events })
    }

    /// What happened, and where the bytes of each are.
    pub fn events(&self) -> &[(Event, u64)] {
        &self.events
    }

    /// `len` bytes at `at`.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn bytes(&self, at: u64, len: u64) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; small(len)];
        self.file.read_exact_at(&mut bytes, at)?;
        Ok(bytes)
    }
}
