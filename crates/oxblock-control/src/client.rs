//! Asking a server.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde::de::DeserializeOwned;

use crate::lines::{Ask, Refused};
use crate::report::{Question, Stats, Status};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// The most bytes of an answer.
const ANSWER_MOST: u64 = 64 << 20;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// The socket.
    #[error("the server does not answer")]
    Io(#[from] io::Error),
    /// What it said makes no sense; it may be another version, or no oxblock at all.
    #[error("the answer makes no sense")]
    Strange(#[from] serde_json::Error),
    /// The server cannot tell.
    #[error("the server says: {0}")]
    Refused(String),
}

/// A connection to the control socket of a server.
#[derive(Debug)]
pub struct Client(BufReader<UnixStream>);

impl Client {
    /// Connects to the socket at `path`.
    ///
    /// # Errors
    /// Nobody listens there, or one may not connect.
    pub fn connect(path: &Path) -> io::Result<Self> {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Self(BufReader::new(stream)))
    }

    /// What is served, and how it is.
    ///
    /// # Errors
    /// There is no answer.
    pub fn status(&mut self) -> Result<Status, AskError> {
        self.ask(Question::Status)
    }

    /// Figures.
    ///
    /// # Errors
    /// There is no answer.
    pub fn stats(&mut self) -> Result<Stats, AskError> {
        self.ask(Question::Stats)
    }

    fn ask<T: DeserializeOwned>(&mut self, ask: Question) -> Result<T, AskError> {
        let mut line = serde_json::to_vec(&Ask { ask })?;
        line.push(b'\n');
        self.0.get_mut().write_all(&line)?;
        let mut answer = Vec::new();
        (&mut self.0).take(ANSWER_MOST).read_until(b'\n', &mut answer)?;
        if answer.last() != Some(&b'\n') {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        match serde_json::from_slice::<Refused>(&answer) {
            Ok(Refused { error }) => Err(AskError::Refused(error)),
            Err(_) => Ok(serde_json::from_slice(&answer)?),
        }
    }
}
