//! The descriptor that the kernel and a mount talk over.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use oxblock::Buf;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;

use crate::proto::{Reply, WRITE_HEAD};

/// An open `/dev/fuse` that belongs to a mount.
#[derive(Debug, Clone)]
pub struct Session {
    fd: Arc<OwnedFd>,
}

/// What asking for a message came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Received {
    /// A message of so many bytes: the first [`WRITE_HEAD`] of them to the one side, the others in the buffer.
    Message(usize),
    /// None is there.
    Nothing,
    /// There will be none any more: it was unmounted.
    Gone,
    /// Nor here: the connection was cut off, and the mount is still there.
    Aborted,
}

impl Session {
    /// The session of a descriptor, which is made not to block.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn new(fd: OwnedFd) -> io::Result<Self> {
        fcntl_setfl(&fd, fcntl_getfl(&fd)? | OFlags::NONBLOCK)?;
        Ok(Self { fd: Arc::new(fd) })
    }

    /// To wait for.
    pub(crate) fn descriptor(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.fd)
    }

    /// Takes the next message, if there is one.
    ///
    /// # Errors
    /// What the system says, and means something.
    pub(crate) fn receive(
        &self,
        head: &mut [u8; WRITE_HEAD],
        body: &mut Buf,
    ) -> io::Result<Received> {
        loop {
            let mut parts = [IoSliceMut::new(head), IoSliceMut::new(body)];
            match rustix::io::readv(&self.fd, &mut parts) {
                Ok(len) => return Ok(Received::Message(len)),
                Err(Errno::AGAIN) => return Ok(Received::Nothing),
                // Its caller was interrupted before it was handed over: there may be another one.
                Err(Errno::NOENT | Errno::INTR) => {}
                Err(Errno::NODEV) => return Ok(Received::Gone),
                Err(Errno::CONNABORTED) => return Ok(Received::Aborted),
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Answers a request: the reply, and what it is the header of.
    ///
    /// # Errors
    /// What the system says, and means something.
    pub(crate) fn send(&self, reply: &Reply, data: &[u8]) -> io::Result<()> {
        let parts = [IoSlice::new(reply.bytes()), IoSlice::new(data)];
        let parts = if data.is_empty() { &parts[..1] } else { &parts[..] };
        loop {
            match rustix::io::writev(&self.fd, parts) {
                Err(Errno::INTR) => {}
                // Whoever asked has gone: by a signal, or with the mount. The next message says if it was that.
                Ok(_) | Err(Errno::NOENT | Errno::NODEV | Errno::CONNABORTED) => {
                    return Ok(());
                }
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}
