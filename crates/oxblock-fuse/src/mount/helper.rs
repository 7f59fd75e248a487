//! By `fusermount3`: for everybody else. It is set-uid root, decides what a user may mount, and hands over the descriptor on
//! a socket whose number is in `_FUSE_COMMFD`.

use std::ffi::{OsStr, OsString};
use std::io::{self, IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use oxblock::{Error, ErrorKind, Result};
use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType,
    recvmsg, socketpair,
};

use super::{MountOptions, MountPoint, open_device};

/// Its names, the usual one first.
const NAMES: [&str; 2] = ["fusermount3", "fusermount"];

/// Mounts, and returns the session's descriptor and the name of the helper.
pub(super) fn mount(point: &MountPoint, options: &MountOptions) -> Result<(OwnedFd, OsString)> {
    // Its own words for these are not as clear.
    drop(open_device()?);
    let failed = |errno: Errno| Error::io("no socket for fusermount3 is to be had", errno.into());
    let flags = SocketFlags::CLOEXEC;
    let (ours, theirs) =
        socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None).map_err(failed)?;
    // This end is for the helper. Nothing else is started meanwhile.
    fcntl_setfd(&theirs, FdFlags::empty()).map_err(failed)?;
    let (mut child, name) = spawn(|command| {
        command
            .env("_FUSE_COMMFD", theirs.as_raw_fd().to_string())
            .arg("-o")
            .arg(arguments(options))
            .arg("--")
            .arg(&point.path);
    })?;
    // So that its end, should it fail, is the end of what can be received.
    drop(theirs);
    let received = receive(&ours);
    let said =
        end(&mut child).map_err(|error| Error::io("fusermount3 cannot be waited for", error))?;
    match received {
        Ok(Some(fd)) => Ok((fd, name)),
        Ok(None) => {
            let text = format!("{} refused: {said}", name.display());
            Err(Error::new(ErrorKind::PermissionDenied, text))
        }
        Err(errno) => {
            Err(Error::io(format!("{} handed nothing over", name.display()), errno.into()))
        }
    }
}

/// Unmounts, lazily.
pub(super) fn unmount(helper: &OsStr, path: &Path) -> Result<()> {
    let failed = |error| Error::io(format!("{} cannot be run", helper.display()), error);
    let output = Command::new(helper)
        .args(["-u", "-z", "--"])
        .arg(path)
        .stdin(Stdio::null())
        .output()
        .map_err(failed)?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(Error::new(ErrorKind::Io, format!("unmounting {} failed: {said}", path.display())))
}

/// Starts the helper by the first of its names that there is.
fn spawn(prepare: impl Fn(&mut Command)) -> Result<(Child, OsString)> {
    for name in NAMES {
        let mut command = Command::new(name);
        prepare(&mut command);
        match command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn() {
            Ok(child) => return Ok((child, name.into())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(Error::io(format!("{name} cannot be run"), error)),
        }
    }
    let text = "fusermount3 is missing: install the package fuse3, or run this as root";
    Err(Error::new(ErrorKind::NotFound, text))
}

/// Waits for the helper to end; what it said, in one line.
fn end(child: &mut Child) -> io::Result<String> {
    let mut said = String::new();
    if let Some(mut stderr) = child.stderr.take() {
        stderr.read_to_string(&mut said)?;
    }
    let status = child.wait()?;
    let said = said.lines().map(str::trim).collect::<Vec<_>>().join("; ");
    Ok(if said.is_empty() { status.to_string() } else { said })
}

/// The options, as it takes them.
fn arguments(options: &MountOptions) -> String {
    // A comma ends an option, unless it is escaped.
    let source = options.source.replace('\\', "\\\\").replace(',', "\\,");
    let mode = if options.read_only { "ro" } else { "rw" };
    let other = if options.allow_other { ",allow_other" } else { "" };
    format!("{mode},nosuid,nodev,fsname={source},subtype=oxblock,default_permissions{other}")
}

/// Receives a descriptor; `None` when the other end closes without one.
fn receive(socket: &OwnedFd) -> rustix::io::Result<Option<OwnedFd>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    loop {
        let mut parts = [IoSliceMut::new(&mut byte)];
        match recvmsg(socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
            Ok(_) => break,
        }
    }
    let mut fds = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(fds) => Some(fds),
        _ => None,
    });
    Ok(fds.next().and_then(|mut fds| fds.next()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_in_names_do_not_make_options() {
        let options =
            MountOptions { read_only: true, allow_other: true, source: "a,suid\\b".to_owned() };
        assert_eq!(
            arguments(&options),
            "ro,nosuid,nodev,fsname=a\\,suid\\\\b,subtype=oxblock,default_permissions,allow_other"
        );
    }

    #[test]
    fn a_helper_that_ends_without_a_descriptor() {
        let flags = SocketFlags::CLOEXEC;
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap();
        drop(theirs);
        assert!(receive(&ours).unwrap().is_none());
    }
}
