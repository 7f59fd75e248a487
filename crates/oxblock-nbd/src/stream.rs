//! The connection to one client: a socket, and TLS on it once the client has asked for that.
//!
//! With TLS, what is received goes from the socket to where ciphertext waits, and from there decrypted to its place. At most
//! [`CIPHER_MOST`] bytes that are encrypted already wait to be sent; what is not, waits where it was.

use std::fmt;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};

use oxblock_net::Socket;
use rustls::ServerConnection;

use crate::input::{INPUT, Input, Spares};
use crate::tls::Tls;

/// The most bytes that wait to be sent and are encrypted.
const CIPHER_MOST: usize = 256 << 10;
/// How often one call receives ciphertext, so that others get their turn.
const TURNS: usize = 16;

/// The connection to one client.
#[derive(Debug)]
pub(crate) struct Stream {
    socket: Socket,
    secure: Option<Box<Secure>>,
}

struct Secure {
    session: ServerConnection,
    /// Ciphertext that has come.
    cipher: Input,
    /// There may be more to receive than the socket tells of.
    more: bool,
}

impl Stream {
    pub fn new(socket: Socket) -> Self {
        Self { socket, secure: None }
    }

    /// From here on TLS is spoken.
    ///
    /// # Errors
    /// The library does not want to, which is for reasons of its own.
    pub fn secure(&mut self, tls: &Tls) -> io::Result<()> {
        let mut session = ServerConnection::new(tls.config.clone()).map_err(io::Error::other)?;
        session.set_buffer_limit(Some(CIPHER_MOST));
        self.secure = Some(Box::new(Secure { session, cipher: Input::default(), more: false }));
        Ok(())
    }

    /// Fills `parts` in order with what has come; 0 when the client has closed its side.
    pub fn receive(
        &mut self,
        parts: &mut [IoSliceMut<'_>],
        spares: &mut Spares,
    ) -> io::Result<usize> {
        let Some(secure) = &mut self.secure else { return self.socket.read_vectored(parts) };
        let received = secure.receive(&mut self.socket, parts, spares);
        secure.cipher.rest(spares);
        received
    }

    /// Sends `parts` in order, as far as they go.
    pub fn send(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        if self.secure.is_none() {
            return self.socket.write_vectored(parts);
        }
        self.flush()?;
        let Some(secure) = &mut self.secure else { return Ok(0) };
        secure.session.writer().write_vectored(parts)
    }

    /// Sends what is encrypted already.
    pub fn flush(&mut self) -> io::Result<()> {
        while self.wants_send() {
            let Some(secure) = &mut self.secure else { break };
            secure.session.write_tls(&mut self.socket)?;
        }
        Ok(())
    }

    /// True when there is something to [flush](Self::flush).
    pub fn wants_send(&self) -> bool {
        self.secure.as_ref().is_some_and(|secure| secure.session.wants_write())
    }

    /// True when there may be something to receive that the socket does not tell of.
    pub fn has_more(&self) -> bool {
        self.secure.as_ref().is_some_and(|secure| secure.more)
    }
}

/// Tells the client that nothing more comes, if it can be told without waiting.
impl Drop for Stream {
    fn drop(&mut self) {
        if let Some(secure) = &mut self.secure {
            secure.session.send_close_notify();
            secure.session.write_tls(&mut self.socket).ok();
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Secure {
    fn receive(
        &mut self,
        socket: &mut Socket,
        mut parts: &mut [IoSliceMut<'_>],
        spares: &mut Spares,
    ) -> io::Result<usize> {
        let (mut count, mut turns) = (0, 0);
        IoSliceMut::advance_slices(&mut parts, 0);
        self.more = false;
        let stopped = loop {
            let Some(part) = parts.first_mut() else {
                self.more = true;
                break Ok(0);
            };
            match self.session.reader().read(part) {
                Ok(0) => break Ok(0),
                Ok(taken) => {
                    count += taken;
                    IoSliceMut::advance_slices(&mut parts, taken);
                }
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => break Err(error),
                Err(_) if !self.cipher.is_empty() => self.decrypt(socket)?,
                Err(error) if turns == TURNS => break Err(error),
                Err(_) => match socket.read(self.cipher.room(INPUT, spares)) {
                    Ok(0) => break Ok(0),
                    Ok(received) => {
                        turns += 1;
                        self.cipher.filled(received);
                    }
                    Err(error) => break Err(error),
                },
            }
        };
        if count == 0 {
            return stopped;
        }
        // What is there comes first. The end is found again, if one looks.
        self.more |= stopped.is_ok();
        Ok(count)
    }

    /// Takes in some of the ciphertext that is there.
    fn decrypt(&mut self, socket: &mut Socket) -> io::Result<()> {
        let mut rest = self.cipher.data();
        let before = rest.len();
        self.session.read_tls(&mut rest)?;
        let taken = before - rest.len();
        self.cipher.consume(taken);
        self.session.process_new_packets().map(drop).map_err(|error| {
            // The alert, for the client to know why.
            self.session.write_tls(socket).ok();
            io::Error::new(io::ErrorKind::InvalidData, error)
        })
    }
}

impl fmt::Debug for Secure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secure").field("more", &self.more).finish_non_exhaustive()
    }
}
