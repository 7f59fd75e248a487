//! Ctrl-C, for work that can end early in good order.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGINT, SIGTERM};
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

/// A descriptor that polls readable after the first SIGINT or SIGTERM, for loops that sleep. The second one ends the process.
pub fn descriptor() -> io::Result<UnixStream> {
    // First, so that its action on the second signal comes before anything else.
    flag()?;
    let (told, tells) = UnixStream::pair()?;
    for signal in [SIGINT, SIGTERM] {
        pipe::register(signal, tells.try_clone()?)?;
    }
    Ok(told)
}
