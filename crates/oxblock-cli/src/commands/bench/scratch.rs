//! Scratch files: a bare file, and beside it on the same storage a volume of twice its size.
//!
//! Each is opened and then loses its name at once, so that the space comes back when the process ends, however it ends.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use oxblock::device::{DeviceOptions, Sharing, open_devices};
use oxblock::volume::{CreateOptions, OpenOptions, Volume, create, required_size};
use oxblock_fio::{RawTarget, VolumeTarget};
use rustix::fs::{StatVfsMountFlags, fstatvfs, statfs};

use crate::size::{both, human};

/// The pair.
pub struct Scratch {
    pub volume: VolumeTarget,
    pub raw: RawTarget,
    /// The storage is main memory.
    pub in_memory: bool,
    #[expect(dead_code, reason = "held for its drop")]
    folder: Folder,
}

impl Scratch {
    /// Makes both in `folder`: the bare file of `size` bytes, the volume of twice as many.
    pub fn new(folder: &Path, size: u64) -> Result<Self> {
        let made = Folder::make(folder)?;
        let size = size.next_multiple_of(4096);
        let needed = required_size(size.saturating_mul(2))?.saturating_add(size);
        check_room(folder, needed)?;
        let pid = std::process::id();
        let names = [folder.join(format!("volume-{pid}")), folder.join(format!("raw-{pid}"))];
        let [volume_path, raw_path] = &names;
        let files = Files(&names);
        create(
            std::slice::from_ref(volume_path),
            &CreateOptions {
                size: Some(size.saturating_mul(2)),
                force: true,
                ..CreateOptions::default()
            },
            &mut |_, _| {},
        )?;
        let volume = Volume::open(std::slice::from_ref(volume_path), &OpenOptions::default())?;
        let raw = open_devices(
            std::slice::from_ref(raw_path),
            &DeviceOptions {
                writable: true,
                create_size: Some(size),
                sharing: Sharing::Exclusive,
                ..DeviceOptions::default()
            },
        )?;
        drop(files);
        Ok(Self {
            volume: VolumeTarget::new(volume),
            raw: RawTarget::new(raw.queue),
            in_memory: in_memory(folder),
            folder: made,
        })
    }
}

/// Names that go away.
struct Files<'a>(&'a [PathBuf]);

impl Drop for Files<'_> {
    fn drop(&mut self) {
        for path in self.0 {
            // One that was never made is as good as gone.
            std::fs::remove_file(path).ok();
        }
    }
}

/// A folder, and those around it that were made for it: they go away again as far as they are empty.
pub struct Folder {
    /// The innermost first.
    made: Vec<PathBuf>,
}

impl Folder {
    /// The folder `path`, made if it is not there.
    pub fn make(path: &Path) -> Result<Self> {
        let ancestors = path.ancestors().filter(|path| !path.as_os_str().is_empty());
        let made = ancestors.take_while(|path| !path.exists()).map(Path::to_owned).collect();
        // Before they are made, so that what a failure leaves half-way is removed too.
        let folder = Self { made };
        std::fs::create_dir_all(path)
            .with_context(|| format!("create the folder {}", path.display()))?;
        Ok(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        for path in &self.made {
            // One that somebody uses by now stays, and so do those around it.
            if std::fs::remove_dir(path).is_err() {
                return;
            }
        }
    }
}

/// Refuses a folder whose storage has no room for `needed` bytes.
pub fn check_room(folder: &Path, needed: u64) -> Result<()> {
    let file = std::fs::File::open(folder)?;
    let room = fstatvfs(&file).with_context(|| folder.display().to_string())?;
    if room.f_flag.contains(StatVfsMountFlags::RDONLY) {
        bail!("{} is on a read-only file system; name another folder with --dir", folder.display());
    }
    let free = room.f_bavail.saturating_mul(room.f_frsize);
    if free < needed {
        bail!(
            "{} has room for {}, and the scratch files need {}; use a smaller --size or another --dir",
            folder.display(),
            human(free),
            both(needed)
        );
    }
    Ok(())
}

/// Whether a folder's storage is main memory.
pub fn in_memory(folder: &Path) -> bool {
    /// `TMPFS_MAGIC` and `RAMFS_MAGIC`, linux/magic.h.
    const MEMORY: [i64; 2] = [0x0102_1994, 0x8584_58F6];
    statfs(folder).is_ok_and(|stat| MEMORY.contains(&stat.f_type))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_that_were_made_go_away_and_others_stay() {
        let there = tempfile::tempdir().unwrap();
        let inner = there.path().join("a/b/c");
        let folder = Folder::make(&inner).unwrap();
        assert!(inner.is_dir() && folder.made.len() == 3);
        drop(folder);
        assert!(there.path().exists() && !there.path().join("a").exists());
        let folder = Folder::make(&inner).unwrap();
        std::fs::write(there.path().join("a/used"), "").unwrap();
        drop(folder);
        assert!(there.path().join("a/used").exists() && !there.path().join("a/b").exists());
        assert!(Folder::make(there.path()).unwrap().made.is_empty());
    }
}
