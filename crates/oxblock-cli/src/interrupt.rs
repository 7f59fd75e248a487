//! Ctrl-C, for work that can end early in good order.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag::{register, register_conditional_default};
use signal_hook::low_level::pipe;

/// A flag that the first SIGINT or SIGTERM sets. The second ends the process as if nobody had asked for them.
pub fn flag() -> io::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // In this order: the first signal finds the flag unset, and sets it after that.
        register_conditional_default(signal, Arc::clone(&flag))?;
        register(signal, Arc::clone(&flag))?;
    }
    Ok(flag)
}

/// The same for servers: SIGHUP, the end of the terminal, sets it too, and a descriptor polls readable once it is set.
pub fn watched() -> io::Result<(Arc<AtomicBool>, OwnedFd)> {
    let flag = flag()?;
    register_conditional_default(SIGHUP, Arc::clone(&flag))?;
    register(SIGHUP, Arc::clone(&flag))?;
    let (theirs, ours) = UnixStream::pair()?;
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        pipe::register(signal, theirs.try_clone()?)?;
    }
    Ok((flag, ours.into()))
}
