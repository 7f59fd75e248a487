//! Mounting and unmounting: by the system call where this is root, by `fusermount3` elsewhere.
//!
//! Every failure says what is missing and what to do about it.

mod direct;
mod helper;

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use oxblock::{Error, ErrorKind, Result};
use rustix::fs::{Mode, OFlags};

use crate::session::Session;
use crate::tree::Root;

/// The type of the file system in `/proc/mounts`.
const TYPE: &str = "fuse.oxblock";

/// How to mount.
#[derive(Debug, Clone)]
pub struct MountOptions {
    /// Nothing can be written.
    pub read_only: bool,
    /// Others than who mounts it may use it, as the file's mode and owner say.
    pub allow_other: bool,
    /// What `/proc/mounts` names as the source.
    pub source: String,
}

/// Where a volume is mounted, before it is.
#[derive(Debug, Clone)]
pub struct MountPoint {
    path: PathBuf,
    is_folder: bool,
}

impl MountPoint {
    /// Looks at a path.
    ///
    /// # Errors
    /// What is neither a folder nor a file.
    pub fn new(path: &Path) -> Result<Self> {
        let shown = path.display();
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => Error::io(
                format!("{shown} does not exist; make a folder or a file there first"),
                error,
            ),
            // ENOTCONN: what a server leaves that was killed.
            io::ErrorKind::NotConnected => Error::io(
                format!("{shown} is still mounted, and its server is gone; unmount it first"),
                error,
            ),
            _ => Error::io(format!("{shown} is no place to mount at"), error),
        };
        let metadata = std::fs::metadata(path).map_err(failed)?;
        if !(metadata.is_dir() || metadata.is_file()) {
            let text =
                format!("{shown} is neither a folder nor a file, so nothing can be mounted there");
            return Err(Error::new(ErrorKind::InvalidInput, text));
        }
        let is_folder = metadata.is_dir();
        // Whatever becomes of the working folder; and unmounting takes no detour by a link.
        let path = path.canonicalize().map_err(failed)?;
        Ok(Self { path, is_folder })
    }

    /// A folder, not a file.
    pub fn is_folder(&self) -> bool {
        self.is_folder
    }

    /// Its path, from the root.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// How it was mounted, and so is unmounted.
#[derive(Debug)]
enum How {
    Call,
    Helper(OsString),
}

/// A mount. Dropping it unmounts, if that was not done.
#[derive(Debug)]
pub struct Mount {
    point: MountPoint,
    /// Where the volume is.
    file: PathBuf,
    how: How,
    is_mounted: bool,
}

impl Mount {
    /// Mounts at `point`. Until somebody serves the session, whoever looks there waits.
    ///
    /// # Errors
    /// What is missing, or not permitted.
    pub fn new(point: MountPoint, root: &Root, options: &MountOptions) -> Result<(Self, Session)> {
        let (fd, how) = if rustix::process::geteuid().is_root() {
            (direct::mount(&point, options)?, How::Call)
        } else {
            let (fd, helper) = helper::mount(&point, options)?;
            (fd, How::Helper(helper))
        };
        let file = match root {
            Root::File => point.path.clone(),
            Root::Folder(name) => point.path.join(name),
        };
        let mount = Self { point, file, how, is_mounted: true };
        let session =
            Session::new(fd).map_err(|error| Error::io("/dev/fuse is of no use", error))?;
        Ok((mount, session))
    }

    /// The path of the volume.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// It was unmounted by somebody else: what may be mounted there now is not ours.
    pub fn forget(mut self) {
        self.is_mounted = false;
    }

    /// Takes it out of sight at once. Files that are open stay so, and fail when the session ends.
    ///
    /// # Errors
    /// What the system says.
    pub fn unmount(mut self) -> Result<()> {
        self.detach()
    }

    fn detach(&mut self) -> Result<()> {
        if !std::mem::replace(&mut self.is_mounted, false) {
            return Ok(());
        }
        match &self.how {
            How::Call => direct::unmount(&self.point.path),
            How::Helper(helper) => helper::unmount(helper, &self.point.path),
        }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // On the way out after another failure, which is the one to tell.
        self.detach().ok();
    }
}

/// Opens `/dev/fuse`.
fn open_device() -> Result<OwnedFd> {
    let opened = rustix::fs::open("/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
    opened.map_err(|errno| device_error(errno.into()))
}

/// Why `/dev/fuse` cannot be used, and what to do.
fn device_error(error: io::Error) -> Error {
    use rustix::io::Errno;
    let text = match Errno::from_io_error(&error) {
        Some(Errno::NOENT) => {
            "/dev/fuse does not exist: load the module with 'modprobe fuse', or give the container the device"
        }
        Some(Errno::NODEV | Errno::NXIO) => {
            "/dev/fuse has no driver: load the module with 'modprobe fuse'"
        }
        Some(Errno::ACCESS | Errno::PERM) => {
            "/dev/fuse cannot be opened: allow it for this user, or for this container"
        }
        _ => "/dev/fuse cannot be opened",
    };
    Error::io(text, error)
}
