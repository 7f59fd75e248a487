//! What a server and whoever has started it tell each other: systemd's protocols, and simpler ones.

use std::fs::File;
use std::io::Write;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use listenfd::ListenFd;
use oxblock_net::Inherited;

/// The sockets that were passed on (`LISTEN_FDS`, if `LISTEN_PID` is this process).
pub fn sockets() -> Result<Vec<Inherited>> {
    let mut passed = ListenFd::from_env();
    let mut all = Vec::new();
    for place in 0..passed.len() {
        // What is neither stays where it is, and is told with its number.
        if let Ok(Some(socket)) = passed.take_unix_listener(place) {
            all.push(Inherited::Unix(socket));
        } else if let Some(socket) =
            passed.take_tcp_listener(place).context("a descriptor that was passed on")?
        {
            all.push(Inherited::Tcp(socket));
        }
    }
    Ok(all)
}

/// Tells systemd (`NOTIFY_SOCKET`) what has become of the service, if it wants to know. It does without what does not reach it.
pub fn notify(state: &str) {
    let Some(name) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let address = match name.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(&name),
    };
    let sent = address.and_then(|address| {
        UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address).map(drop)
    });
    sent.ok();
}

/// Writes an empty line to the open pipe with this number.
pub fn tell_ready(number: u32) -> Result<()> {
    File::options()
        .write(true)
        .open(format!("/proc/self/fd/{number}"))
        .and_then(|mut pipe| pipe.write_all(b"\n"))
        .with_context(|| format!("write to descriptor {number}"))
}

/// A file that is there while the server is.
pub struct PidFile(PathBuf);

impl PidFile {
    /// Refuses a place where something else is than what a server has left behind that was killed.
    pub fn judge(path: &Path) -> Result<()> {
        let metadata = match std::fs::metadata(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            other => other.with_context(|| path.display().to_string())?,
        };
        let number = metadata.is_file()
            && metadata.len() < 32
            && std::fs::read(path)
                .with_context(|| path.display().to_string())?
                .iter()
                .all(|byte| byte.is_ascii_digit() || byte.is_ascii_whitespace());
        if !number {
            bail!("{} is no place for the process number: something else is there", path.display());
        }
        Ok(())
    }

    pub fn write(path: &Path) -> Result<Self> {
        std::fs::write(path, format!("{}\n", std::process::id()))
            .with_context(|| format!("write {}", path.display()))?;
        Ok(Self(path.to_owned()))
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        // Whoever looks at it finds that the process is gone.
        std::fs::remove_file(&self.0).ok();
    }
}
