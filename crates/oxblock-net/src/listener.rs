//! Listening sockets.

use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::net::sockopt::socket_acceptconn;

use crate::address::Address;
use crate::socket::Socket;

/// A socket on which a supervisor listens already, and which the server takes over.
#[derive(Debug)]
pub enum Inherited {
    /// In the file system, or without a name.
    Unix(UnixListener),
    /// On the network.
    Tcp(TcpListener),
}

/// A socket that clients connect to. Dropping it removes what it has made in the file system.
#[derive(Debug)]
pub enum Listener {
    /// With the file that it has made, if it has.
    Unix(UnixListener, Option<PathBuf>),
    /// On the network.
    Tcp(TcpListener),
}

impl Inherited {
    /// Where it listens. A socket without a path has no address that clients could be told.
    ///
    /// # Errors
    /// It is no socket that listens.
    pub fn address(&self) -> io::Result<Option<Address>> {
        let listens = match self {
            Self::Unix(socket) => socket_acceptconn(socket)?,
            Self::Tcp(socket) => socket_acceptconn(socket)?,
        };
        if !listens {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "nobody listens on it"));
        }
        Ok(match self {
            Self::Unix(socket) => {
                socket.local_addr()?.as_pathname().map(|path| Address::Unix(path.to_owned()))
            }
            Self::Tcp(socket) => {
                let address = socket.local_addr()?;
                Some(Address::Tcp(address.ip().to_string(), address.port()))
            }
        })
    }
}

impl Listener {
    /// Listens, without blocking ever. A socket in the file system on which nobody listens is replaced.
    pub fn bind(address: &Address) -> io::Result<Self> {
        let listener = match address {
            Address::Unix(path) => {
                remove_stale(path)?;
                Self::Unix(UnixListener::bind(path)?, Some(path.clone()))
            }
            Address::Tcp(host, port) => Self::Tcp(TcpListener::bind((host.as_str(), *port))?),
        };
        listener.begin()
    }

    /// Takes over what listens already.
    pub fn take_over(inherited: Inherited) -> io::Result<Self> {
        let listener = match inherited {
            Inherited::Unix(socket) => Self::Unix(socket, None),
            Inherited::Tcp(socket) => Self::Tcp(socket),
        };
        listener.begin()
    }

    fn begin(self) -> io::Result<Self> {
        match &self {
            Self::Unix(socket, _) => socket.set_nonblocking(true)?,
            Self::Tcp(socket) => socket.set_nonblocking(true)?,
        }
        Ok(self)
    }

    /// Where it listens: the port that was found where any was asked for.
    pub fn address(&self, asked: &Address) -> Address {
        match (self, asked) {
            (Self::Tcp(socket), Address::Tcp(host, port)) => {
                let port = socket.local_addr().map_or(*port, |address| address.port());
                Address::Tcp(host.clone(), port)
            }
            _ => asked.clone(),
        }
    }

    /// The next client; `WouldBlock` when there is none.
    pub fn accept(&self) -> io::Result<Socket> {
        match self {
            Self::Unix(socket, _) => {
                let (stream, _) = socket.accept()?;
                stream.set_nonblocking(true)?;
                Ok(Socket::Unix(stream))
            }
            Self::Tcp(socket) => {
                let (stream, _) = socket.accept()?;
                stream.set_nonblocking(true)?;
                // Replies are gathered here; the system must not wait for more.
                stream.set_nodelay(true)?;
                Ok(Socket::Tcp(stream))
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Self::Unix(_, Some(path)) = self {
            // Whoever starts next removes it otherwise.
            std::fs::remove_file(path).ok();
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix(socket, _) => socket.as_fd(),
            Self::Tcp(socket) => socket.as_fd(),
        }
    }
}

/// Removes a socket that a server which ended badly has left behind. Nothing else is ever removed.
fn remove_stale(path: &Path) -> io::Result<()> {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_socket());
    if !is_socket {
        return Ok(());
    }
    match UnixStream::connect(path) {
        Ok(_) => Err(io::Error::new(io::ErrorKind::AddrInUse, "another server listens there")),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path)
        }
        Err(error) => Err(error),
    }
}
