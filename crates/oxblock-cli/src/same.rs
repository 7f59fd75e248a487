//! Whether two names lead to the same bytes: so that nothing is written over what is being read, or run on.

use std::fs::{File, Metadata};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use rustix::fs::{major, minor};

/// The most loop devices that are followed, one on the other.
const LOOPS: usize = 8;

/// Whether `path` leads to the file or block device of `metadata`, also by way of a loop device.
pub fn is_same(path: &Path, metadata: &Metadata) -> bool {
    let Ok(other) = std::fs::metadata(path) else { return false };
    let (left, right) = (chain(other), chain(metadata.clone()));
    left.iter().any(|one| right.iter().any(|two| same_node(one, two)))
}

/// What an open descriptor, such as standard output, leads to.
pub fn metadata_of(fd: impl AsFd) -> io::Result<Metadata> {
    File::from(fd.as_fd().try_clone_to_owned()?).metadata()
}

fn same_node(one: &Metadata, two: &Metadata) -> bool {
    let block = |metadata: &Metadata| metadata.file_type().is_block_device();
    let same_file = one.dev() == two.dev() && one.ino() == two.ino();
    // Two nodes can stand for one block device.
    same_file || (block(one) && block(two) && one.rdev() == two.rdev())
}

/// `metadata`, and what is behind it when it is a loop device or a partition of one.
fn chain(metadata: Metadata) -> Vec<Metadata> {
    let mut chain = vec![metadata];
    while let Some(next) = chain.last().and_then(backing).filter(|_| chain.len() < LOOPS) {
        chain.push(next);
    }
    chain
}

fn backing(metadata: &Metadata) -> Option<Metadata> {
    if !metadata.file_type().is_block_device() {
        return None;
    }
    let node = format!("/sys/dev/block/{}:{}", major(metadata.rdev()), minor(metadata.rdev()));
    ["loop/backing_file", "../loop/backing_file"].iter().find_map(|name| {
        let path = std::fs::read_to_string(format!("{node}/{name}")).ok()?;
        std::fs::metadata(path.trim_end_matches('\n')).ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_file_under_two_names_is_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let names = ["file", "hard", "soft", "other"].map(|name| folder.path().join(name));
        let [file, hard, soft, other] = &names;
        std::fs::write(file, "x").unwrap();
        std::fs::write(other, "x").unwrap();
        std::fs::hard_link(file, hard).unwrap();
        std::os::unix::fs::symlink(file, soft).unwrap();
        let open = metadata_of(File::open(file).unwrap()).unwrap();
        assert!(is_same(file, &open) && is_same(hard, &open) && is_same(soft, &open));
        assert!(!is_same(other, &open) && !is_same(&folder.path().join("none"), &open));
    }
}
