//! oxblock keeps blocks safe at the speed of direct I/O.
//!
//! A user-space block volume for Linux: every 4 KiB block is checksummed when it is written and verified every time it is
//! read, without giving up direct I/O, because a request owns its buffer from submission to completion.

#[cfg(feature = "canary")]
pub mod canary;
pub mod complete;
pub mod csum;
pub mod device;
pub mod error;
pub mod format;
mod lane;
mod log;
mod map;
mod names;
mod profile;
pub mod stats;
pub mod submit;
pub mod trace;
pub mod volume;
mod workers;

pub use device::Buf;
pub use error::{BadBlock, Error, ErrorKind, Result};
pub use submit::request::{Completion, Failed, Request, RequestKind};
pub use volume::{CreateOptions, OpenOptions, Policy, Volume};
