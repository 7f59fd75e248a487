//! A file system on a loop device on a mounted volume, for tests; by root only.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;

use super::mount::{Left, Mounted, Place, has, not_root, run, unmount};
use super::{arg, oxblock};

/// A kind of file system, and the programs that know it.
#[derive(Debug, Clone, Copy)]
pub struct FileSystem {
    pub make: &'static str,
    pub check: &'static str,
    /// It can take a range out of a file and put one in.
    pub collapses: bool,
}

pub const EXT4: FileSystem =
    FileSystem { make: "mkfs.ext4 -q -F", check: "fsck.ext4 -f -n", collapses: true };
pub const XFS: FileSystem =
    FileSystem { make: "mkfs.xfs -q -f", check: "xfs_repair -n", collapses: true };
pub const BTRFS: FileSystem =
    FileSystem { make: "mkfs.btrfs -q -f", check: "btrfs check --readonly", collapses: false };

/// A loop device.
pub struct Loop {
    pub node: String,
}

impl Loop {
    /// Over a file, with direct I/O; `None` where there are no loop devices.
    pub fn over(file: &Path) -> Option<Self> {
        let args = ["--find", "--show", "--direct-io=on", arg(file)];
        let output = Command::new("losetup").args(args).output().ok()?;
        let said = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() {
            println!("skipped: losetup: {said}");
            return None;
        }
        let device = Self { node: String::from_utf8(output.stdout).unwrap().trim().to_owned() };
        let dio = run("losetup", ["--noheadings", "-O", "DIO", &device.node]);
        assert_eq!(String::from_utf8_lossy(&dio.stdout).trim(), "1", "no direct I/O");
        Some(device)
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        Command::new("losetup").args(["-d", &self.node]).stderr(Stdio::null()).status().ok();
    }
}

/// A volume, and the file system on it.
pub struct Stack {
    /// Before the place, so that a test that fails does not remove the folder while something is mounted there.
    up: Option<Up>,
    pub place: Place,
    /// Where its files are.
    pub inside: PathBuf,
    kind: FileSystem,
    /// It was unmounted in good order.
    clean: bool,
}

/// What there is while it is mounted. From the top down: so it also goes when a test fails.
struct Up {
    inside: LeftInside,
    device: Loop,
    mounted: Mounted,
}

struct LeftInside(PathBuf);

impl Drop for LeftInside {
    fn drop(&mut self) {
        drop(Left(&self.0));
    }
}

impl Stack {
    /// A new file system on a new volume of `size`, mounted; `None`, and a word about it, where that cannot be had.
    pub fn new(kind: FileSystem, size: &str) -> Option<Self> {
        if let Some(why) = not_root() {
            println!("{why}");
            return None;
        }
        let first = |line: &'static str| line.split(' ').next().unwrap_or_default();
        for program in [first(kind.make), first(kind.check), "losetup"] {
            if !has(program) {
                println!("skipped: {program} is not installed");
                return None;
            }
        }
        let place = Place::new(size);
        let inside = place.folder.path().join("inside");
        std::fs::create_dir(&inside).unwrap();
        let mut stack = Self { up: None, place, inside, kind, clean: true };
        let (mounted, device) = stack.device()?;
        run_on(kind.make, &device.node);
        stack.on(mounted, device);
        Some(stack)
    }

    fn device(&self) -> Option<(Mounted, Loop)> {
        let mounted = self.place.mount(&[]);
        let device = Loop::over(&mounted.file)?;
        Some((mounted, device))
    }

    fn on(&mut self, mounted: Mounted, device: Loop) {
        if self.clean {
            run_on(self.kind.check, &device.node);
        }
        run("mount", ["-o", "discard", &device.node, arg(&self.inside)]);
        self.up = Some(Up { inside: LeftInside(self.inside.clone()), device, mounted });
    }

    /// Mounts it all again. What was not killed is checked first.
    pub fn mount(&mut self) {
        let (mounted, device) = self.device().unwrap();
        self.on(mounted, device);
    }

    /// Unmounts it all; neither the file system nor the volume may have a fault.
    pub fn unmount(&mut self) {
        let Up { mut mounted, device, inside } = self.up.take().unwrap();
        unmount(&self.inside);
        drop(inside);
        run_on(self.kind.check, &device.node);
        drop(device);
        unmount(&self.place.point);
        let (code, said) = mounted.ended();
        let told = !self.clean && said.starts_with("oxblock: not closed cleanly");
        assert!(code == Some(0) && said.lines().count() == usize::from(told), "{code:?} {said}");
        self.clean = true;
        oxblock(["check", arg(&self.place.device), "-q"]).ended(0);
    }

    /// `kill -9` of the server: what is above it fails from now on.
    pub fn kill(&self) {
        self.up.as_ref().unwrap().mounted.signal(Signal::KILL);
    }

    /// Takes away what a killed server has left.
    pub fn clear(&mut self) {
        let Up { mounted, device, inside } = self.up.take().unwrap();
        unmount(&self.inside);
        drop((inside, device, mounted));
        self.clean = false;
        oxblock(["check", arg(&self.place.device), "-q"]).ended(0);
    }
}

/// Runs a command line with one more word, until the mounts that others have killed keep it from nothing.
fn run_on(line: &str, node: &str) {
    let words: Vec<&str> = line.split(' ').chain([node]).collect();
    for _ in 0..50 {
        let output = Command::new(words[0]).args(&words[1..]).stdin(Stdio::null()).output();
        let output = output.unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        // Those of btrfs look at all that is mounted.
        if !said.contains("mount status") {
            let report = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success(), "{words:?}: {} {said}{report}", output.status);
            return;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    run(words[0], words[1..].iter().copied());
}
