//! Where servers listen, and what connects to them: sockets in the file system and on the network, which never block.
#![forbid(unsafe_code)]

mod address;
mod listener;
mod socket;

pub use address::Address;
pub use listener::{Inherited, Listener};
pub use socket::Socket;
