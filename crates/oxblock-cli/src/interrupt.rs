//! Ctrl-C, for work that can end early in good order.

use std::ffi::c_int;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag::{register, register_conditional_default};
use signal_hook::low_level::pipe;

/// A flag that the first SIGINT or SIGTERM sets. The second ends the process as if nobody had asked for them. Signals that
/// whoever started this has it ignore stay ignored.
pub fn flag() -> io::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in heeded(&[SIGINT, SIGTERM]) {
        set_by(signal, &flag)?;
    }
    Ok(flag)
}

fn set_by(signal: c_int, flag: &Arc<AtomicBool>) -> io::Result<()> {
    // In this order: the first signal finds the flag unset, and sets it after that.
    register_conditional_default(signal, Arc::clone(flag))?;
    register(signal, Arc::clone(flag))?;
    Ok(())
}

/// Those of `signals` that are not ignored: `nohup` has SIGHUP ignored, and shells SIGINT of what they start with '&'.
fn heeded(signals: &[c_int]) -> Vec<c_int> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0);
    signals.iter().copied().filter(|signal| ignored >> (signal - 1) & 1 == 0).collect()
}

/// The same for servers: SIGHUP, the end of the terminal, sets it too, and a descriptor polls readable once it is set.
pub fn watched() -> io::Result<(Arc<AtomicBool>, OwnedFd)> {
    let flag = Arc::new(AtomicBool::new(false));
    let (theirs, ours) = UnixStream::pair()?;
    for signal in heeded(&[SIGINT, SIGTERM, SIGHUP]) {
        set_by(signal, &flag)?;
        pipe::register(signal, theirs.try_clone()?)?;
    }
    Ok((flag, ours.into()))
}
