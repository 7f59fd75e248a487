//! A volume as a file, by FUSE.
//!
//! - [`proto`] is the kernel's protocol, without I/O: requests decoded, replies encoded, no input that makes it panic.
//! - [`Tree`] is what the mount shows, and judges every request; without I/O as well.
//! - [`Server`] is the loop. It runs in the thread that drives the volume: no other thread is between a request and its I/O,
//!   and payloads are received into the buffers that the volume takes over. It waits for the kernel and for the devices in
//!   one place ([`Volume::watch`](oxblock::Volume::watch)).
//! - [`Mount`] mounts and unmounts.
//!
//! [`mount`] puts them together.
#![forbid(unsafe_code)]

mod errno;
mod mount;
mod pool;
pub mod proto;
mod seek;
mod server;
mod session;
pub mod tree;

use std::os::fd::OwnedFd;
use std::sync::Arc;

use oxblock::{Result, Volume};

pub use mount::{Mount, MountOptions, MountPoint};
pub use server::{Ended, Server};
pub use session::Session;
pub use tree::{Root, Tree};

/// Mounts `volume` at `point`, as the file itself where that is a file, and in a folder otherwise. `wake` polls readable when
/// serving is to stop.
///
/// # Errors
/// What is missing, or not permitted.
pub fn mount(
    volume: Volume,
    point: MountPoint,
    options: &MountOptions,
    wake: Arc<OwnedFd>,
) -> Result<(Mount, Server)> {
    let root = if point.is_folder() { Root::Folder(file_name(volume.label())) } else { Root::File };
    let owner = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let (mount, session) = Mount::new(point, &root, options)?;
    let tree = Tree::new(root, volume.size(), options.read_only, owner, server::now());
    Ok((mount, Server::new(volume, session, tree, wake)?))
}

/// The name of the file in a folder: the volume's label, where that makes a name that nothing stumbles over.
fn file_name(label: &str) -> String {
    let is_plain = |sign: char| !sign.is_control() && sign != '/' && sign != '\\';
    let hidden = label.starts_with('.') || label.starts_with('-');
    let spaced = label.trim() != label;
    if label.is_empty() || hidden || spaced || !label.chars().all(is_plain) {
        return "volume".to_owned();
    }
    label.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_that_make_file_names() {
        for label in ["data", "My disk", "Größe", "a.b", "x-1"] {
            assert_eq!(file_name(label), label);
        }
        for label in
            ["", ".", "..", ".hidden", "a/b", "/", "-rf", "a\nb", " a", "a ", "a\0b", "a\\b"]
        {
            assert_eq!(file_name(label), "volume", "{label:?}");
        }
    }
}
