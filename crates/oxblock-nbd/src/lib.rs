//! The NBD server: one thread for each volume, in which the event loop is the engine's.
//!
//! ```text
//! sockets ─► receive ─► requests, judged ─► volume ─► completions ─► replies ─► send
//!                          (buffers go from hand to hand, nobody copies a large one)
//! ```
//!
//! A request is received, started, completed and answered in the same thread, so nobody is woken in between. Payload is
//! received into the buffer that the engine writes from, and what was read is sent from the buffer that it was read into.
//!
//! - **Fair**: in one round each connection is received from once, however much it sends.
//! - **Bounded**: what a connection holds, from the first byte of a request's payload to the last byte of its reply, has a
//!   limit (`connection/mod.rs`). Beyond it nothing is received from that connection. A client that does not read its
//!   replies stops itself, and nobody else.
//! - **Several volumes**: each has a loop and a thread. The first one takes clients in and shakes hands; a client that chooses
//!   another volume moves to its loop, once, before its first request.
//! - **Secret, if wanted**: TLS begins when a client asks for it (`stream.rs`); what it said before is forgotten.
//! - **In order**: a flush covers what was acknowledged on any connection, as all of an export share one volume.
#![forbid(unsafe_code)]

mod buffers;
mod connection;
mod door;
mod engine;
mod event_loop;
mod events;
mod input;
mod job;
mod read_reply;
mod server;
mod status;
mod stream;
mod tls;
mod uri;

pub use engine::Look;
pub use server::{Monitor, Offered, Server, ServerOptions};
pub use tls::Tls;
pub use uri::{PORT, uri};
