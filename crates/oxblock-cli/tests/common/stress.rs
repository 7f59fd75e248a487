//! A tree of files and folders that changes at random, against a copy in memory; after the program `fsstress`.
#![allow(clippy::cast_possible_truncation, reason = "tests")]

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FallocateFlags, RenameFlags, fallocate, renameat_with, syncfs};

use super::Random;

/// Names in a tree. With more of them, more are removed than made.
const NAMES: usize = 120;

/// The most bytes of a file.
const BYTES: u64 = 256 << 10;

/// What a name stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Entry {
    Folder,
    Symlink(PathBuf),
    /// One of the files; it may have several names.
    File(u64),
}

/// A tree, and what must be in it. Names are paths from its root.
pub struct Tree {
    root: PathBuf,
    random: Random,
    names: BTreeMap<PathBuf, Entry>,
    files: BTreeMap<u64, Vec<u8>>,
    /// Numbers names and files.
    next: u64,
}

impl Tree {
    /// An empty tree in a new folder.
    pub fn new(root: &Path, seed: u64) -> Self {
        fs::create_dir(root).unwrap();
        let names = BTreeMap::from([(PathBuf::new(), Entry::Folder)]);
        let (files, root) = (BTreeMap::new(), root.to_owned());
        Self { root, random: Random(seed), names, files, next: 0 }
    }

    /// Changes something.
    pub fn step(&mut self) {
        let many = self.names.len() > NAMES;
        match self.random.below(100) {
            0..22 if !many => self.create(),
            0..8 => self.remove(),
            8..14 => self.remove_folder(),
            22..40 => self.write(),
            40..48 => self.truncate(),
            48..52 => self.punch(),
            52..56 => self.remove(),
            56..68 => self.rename(),
            68..71 => self.exchange(),
            71..77 if !many => self.link(),
            77..83 if !many => self.make_folder(),
            83..87 if !many => self.symlink(),
            87..89 => self.remove_folder(),
            89..96 => self.sync(),
            96 => syncfs(File::open(&self.root).unwrap()).unwrap(),
            _ => self.read(),
        }
    }

    fn on(&self, name: &Path) -> PathBuf {
        self.root.join(name)
    }

    fn pick(&mut self, which: impl Fn(&Path, &Entry) -> bool) -> Option<PathBuf> {
        let all: Vec<&PathBuf> =
            self.names.iter().filter(|(name, entry)| which(name, entry)).map(|(n, _)| n).collect();
        let at = self.random.below(all.len().max(1) as u64);
        all.get(at as usize).map(|name| (*name).clone())
    }

    /// Anything but the root.
    fn pick_any(&mut self) -> Option<PathBuf> {
        self.pick(|name, _| name != Path::new(""))
    }

    fn pick_file(&mut self) -> Option<(PathBuf, u64)> {
        let name = self.pick(|_, entry| matches!(entry, Entry::File(_)))?;
        let Some(Entry::File(file)) = self.names.get(&name) else { return None };
        Some((name.clone(), *file))
    }

    /// A name that nothing has yet, short or long, in some folder.
    fn new_name(&mut self) -> PathBuf {
        // Not deep down, or paths become too long.
        let high =
            |name: &Path, entry: &Entry| *entry == Entry::Folder && name.components().count() < 6;
        let folder = self.pick(high).unwrap_or_default();
        self.next += 1;
        let long = if self.random.below(8) == 0 { 200 } else { 0 };
        folder.join(format!("{:0>long$}", self.next))
    }

    fn is_empty(&self, folder: &Path) -> bool {
        self.names.keys().filter(|name| name.starts_with(folder)).count() == 1
    }

    /// Drops files that have no name any more.
    fn forget(&mut self) {
        let names = &self.names;
        self.files.retain(|file, _| names.values().any(|entry| *entry == Entry::File(*file)));
    }

    fn move_all(&mut self, from: &Path, to: &Path) {
        let moved: Vec<PathBuf> =
            self.names.keys().filter(|name| name.starts_with(from)).cloned().collect();
        for name in moved {
            let rest = name.strip_prefix(from).unwrap();
            let new = if rest == Path::new("") { to.to_owned() } else { to.join(rest) };
            let entry = self.names.remove(&name).unwrap();
            self.names.insert(new, entry);
        }
    }

    fn create(&mut self) {
        let name = self.new_name();
        let len = self.random.below(BYTES / 2) >> self.random.below(10);
        let bytes = self.random.bytes(len as usize);
        fs::write(self.on(&name), &bytes).unwrap();
        self.next += 1;
        self.files.insert(self.next, bytes);
        self.names.insert(name, Entry::File(self.next));
    }

    fn write(&mut self) {
        let Some((name, file)) = self.pick_file() else { return };
        let len = 1 + self.random.below(40_000);
        // Sometimes behind the end, so that there is a hole.
        let limit = (self.files[&file].len() as u64 + 20_000).min(BYTES - len);
        let offset = self.random.below(limit);
        let bytes = self.random.bytes(len as usize);
        let open = OpenOptions::new().write(true).open(self.on(&name)).unwrap();
        open.write_all_at(&bytes, offset).unwrap();
        let copy = self.files.get_mut(&file).unwrap();
        copy.resize(copy.len().max((offset + len) as usize), 0);
        copy[offset as usize..][..bytes.len()].copy_from_slice(&bytes);
    }

    fn truncate(&mut self) {
        let Some((name, file)) = self.pick_file() else { return };
        let size = if self.random.below(4) == 0 { 0 } else { self.random.below(BYTES) };
        OpenOptions::new().write(true).open(self.on(&name)).unwrap().set_len(size).unwrap();
        self.files.get_mut(&file).unwrap().resize(size as usize, 0);
    }

    fn punch(&mut self) {
        let Some((name, file)) = self.pick_file() else { return };
        let (offset, len) = (self.random.below(BYTES), 1 + self.random.below(BYTES / 4));
        let open = OpenOptions::new().write(true).open(self.on(&name)).unwrap();
        let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(open, mode, offset, len).unwrap();
        let copy = self.files.get_mut(&file).unwrap();
        copy.iter_mut().skip(offset as usize).take(len as usize).for_each(|byte| *byte = 0);
    }

    fn remove(&mut self) {
        let Some(name) = self.pick(|_, entry| *entry != Entry::Folder) else { return };
        fs::remove_file(self.on(&name)).unwrap();
        self.names.remove(&name);
        self.forget();
    }

    /// One that is empty, or one with all that is in it.
    fn remove_folder(&mut self) {
        let folder = |name: &Path, entry: &Entry| *entry == Entry::Folder && name != Path::new("");
        let Some(name) = self.pick(folder) else { return };
        let empty = self.is_empty(&name);
        assert_eq!(fs::remove_dir(self.on(&name)).is_ok(), empty, "{name:?}");
        if !empty {
            fs::remove_dir_all(self.on(&name)).unwrap();
        }
        self.names.retain(|other, _| !other.starts_with(&name));
        self.forget();
    }

    fn rename(&mut self) {
        let Some(from) = self.pick_any() else { return };
        let to = match self.random.below(3) {
            0 => self.pick_any().unwrap_or_default(),
            _ => self.new_name(),
        };
        let (old, new) = (self.names[&from].clone(), self.names.get(&to).cloned());
        let allowed = match (&old, &new) {
            (Entry::Folder, _) if to != from && to.starts_with(&from) => false,
            (Entry::Folder, Some(Entry::Folder)) => to == from || self.is_empty(&to),
            (Entry::Folder, Some(_)) | (_, Some(Entry::Folder)) => false,
            _ => true,
        };
        let renamed = fs::rename(self.on(&from), self.on(&to));
        assert_eq!(renamed.is_ok(), allowed, "{from:?} to {to:?}: {renamed:?}");
        // Two names of one file both stay.
        let same = matches!(old, Entry::File(_)) && new == Some(old);
        if allowed && !same && to != from {
            self.names.remove(&to);
            self.move_all(&from, &to);
            self.forget();
        }
    }

    fn exchange(&mut self) {
        let (Some(one), Some(other)) = (self.pick_any(), self.pick_any()) else { return };
        if one.starts_with(&other) || other.starts_with(&one) {
            return;
        }
        let flags = RenameFlags::EXCHANGE;
        renameat_with(CWD, self.on(&one), CWD, self.on(&other), flags).unwrap();
        let aside = Path::new("aside");
        self.move_all(&one, aside);
        self.move_all(&other, &one);
        self.move_all(aside, &other);
    }

    fn link(&mut self) {
        let Some((old, file)) = self.pick_file() else { return };
        let name = self.new_name();
        fs::hard_link(self.on(&old), self.on(&name)).unwrap();
        self.names.insert(name, Entry::File(file));
    }

    fn make_folder(&mut self) {
        let name = self.new_name();
        fs::create_dir(self.on(&name)).unwrap();
        self.names.insert(name, Entry::Folder);
    }

    fn symlink(&mut self) {
        let (name, target) = (self.new_name(), self.new_name());
        symlink(&target, self.on(&name)).unwrap();
        self.names.insert(name, Entry::Symlink(target));
    }

    fn sync(&mut self) {
        let Some(name) = self.pick(|_, entry| !matches!(entry, Entry::Symlink(_))) else { return };
        File::open(self.on(&name)).unwrap().sync_all().unwrap();
    }

    fn read(&mut self) {
        let Some((name, file)) = self.pick_file() else { return };
        assert!(fs::read(self.on(&name)).unwrap() == self.files[&file], "{name:?} differs");
    }

    /// Every name, what it stands for, and all bytes.
    pub fn compare(&self) {
        let mut found = BTreeMap::new();
        let mut inodes = BTreeMap::new();
        let mut folders = vec![PathBuf::new()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(self.on(&folder)).unwrap() {
                let entry = entry.unwrap();
                let name = folder.join(entry.file_name());
                let kind = entry.file_type().unwrap();
                found.insert(name.clone(), kind);
                match &self.names.get(&name) {
                    Some(Entry::Folder) if kind.is_dir() => folders.push(name),
                    Some(Entry::Symlink(target)) if kind.is_symlink() => {
                        assert_eq!(fs::read_link(self.on(&name)).unwrap(), *target);
                    }
                    Some(Entry::File(file)) if kind.is_file() => {
                        let bytes = &self.files[file];
                        assert!(fs::read(self.on(&name)).unwrap() == *bytes, "{name:?} differs");
                        let meta = entry.metadata().unwrap();
                        let inode = inodes.entry(*file).or_insert(meta.ino());
                        assert_eq!(*inode, meta.ino(), "{name:?} is another file");
                        let names = self.names.values().filter(|e| **e == Entry::File(*file));
                        assert_eq!(meta.nlink(), names.count() as u64, "{name:?}");
                    }
                    other => panic!("{name:?} is {kind:?} and not {other:?}"),
                }
            }
        }
        let missing = self.names.keys().filter(|name| !found.contains_key(*name));
        let missing: Vec<&PathBuf> = missing.filter(|name| **name != Path::new("")).collect();
        assert!(missing.is_empty(), "missing: {missing:?}");
    }
}
