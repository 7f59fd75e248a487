//! By the system call: for root.

use std::ffi::CString;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use oxblock::{Error, ErrorKind, Result};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};

use super::{MountOptions, MountPoint, TYPE, open_device};

/// Mounts, and returns the session's descriptor.
pub(super) fn mount(point: &MountPoint, options: &MountOptions) -> Result<OwnedFd> {
    let fd = open_device()?;
    let mut data = format!(
        "fd={},rootmode={:o},user_id={},group_id={},default_permissions",
        fd.as_raw_fd(),
        if point.is_folder { 0o40_000 } else { 0o100_000 },
        rustix::process::geteuid().as_raw(),
        rustix::process::getegid().as_raw(),
    );
    if options.allow_other {
        data.push_str(",allow_other");
    }
    let data = CString::new(data)
        .map_err(|_| Error::new(ErrorKind::InvalidInput, "an option with a zero byte"))?;
    let mut flags = MountFlags::NOSUID | MountFlags::NODEV;
    if options.read_only {
        flags |= MountFlags::RDONLY;
    }
    let mounted = rustix::mount::mount(&*options.source, &point.path, TYPE, flags, &*data);
    mounted.map_err(|errno| {
        let text = match errno {
            Errno::PERM => format!(
                "mounting at {} is not permitted: this root lacks the capability CAP_SYS_ADMIN, as in most containers",
                point.path.display()
            ),
            Errno::NODEV => "the kernel has no FUSE: load the module with 'modprobe fuse'".to_owned(),
            _ => format!("mounting at {} failed", point.path.display()),
        };
        Error::io(text, errno.into())
    })?;
    Ok(fd)
}

/// Unmounts, lazily.
pub(super) fn unmount(path: &Path) -> Result<()> {
    let flags = UnmountFlags::DETACH | UnmountFlags::NOFOLLOW;
    match rustix::mount::unmount(path, flags) {
        // Somebody was faster.
        Ok(()) | Err(Errno::INVAL) => Ok(()),
        Err(errno) => Err(Error::io(format!("unmounting {} failed", path.display()), errno.into())),
    }
}
