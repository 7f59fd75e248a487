//! Mounting with the command, for tests: by root, or by whoever has `fusermount3`.

#![allow(unused_macros, unused_imports, reason = "only some test files mount")]

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::{arg, command, is_root, oxblock};

/// Leaves the test where nothing can be mounted, or where what is given says why not.
macro_rules! mountable {
    () => {
        mountable!(crate::common::mount::cannot_mount)
    };
    ($unless:path) => {
        if let Some(why) = $unless() {
            return println!("{why}");
        }
    };
}
pub(crate) use mountable;

/// Why nothing can be mounted here, if so.
pub fn cannot_mount() -> Option<&'static str> {
    if !Path::new("/dev/fuse").exists() {
        return Some("skipped: there is no /dev/fuse");
    }
    if !is_root() && !has("fusermount3") {
        return Some("skipped: this is not root, and there is no fusermount3");
    }
    None
}

/// The same for what needs root besides: loop devices, other file systems, other users.
pub fn not_root() -> Option<&'static str> {
    cannot_mount().or_else(|| (!is_root()).then_some("skipped: this needs root"))
}

/// Unmounts from outside, as a user would.
pub fn unmount(point: &Path) {
    let (program, args) = match is_root() {
        true => ("umount", vec![arg(point)]),
        false => ("fusermount3", vec!["-u", arg(point)]),
    };
    // What other tests start has every open file for a moment, until it is another program.
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(5) {
        let output = Command::new(program).args(&args).output().unwrap();
        if !String::from_utf8_lossy(&output.stderr).contains("busy") {
            assert!(output.status.success(), "{output:?}");
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    run(program, args);
}

/// A volume in a folder of its own, with a place to mount it.
pub struct Place {
    pub folder: tempfile::TempDir,
    pub device: PathBuf,
    pub point: PathBuf,
}

impl Place {
    /// A new volume of `size`.
    pub fn new(size: &str) -> Self {
        Self::with(&["--size", size])
    }

    /// A new volume, made with `args`.
    pub fn with(args: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let device = folder.path().join("disk.ox");
        let point = folder.path().join("point");
        std::fs::create_dir(&point).unwrap();
        oxblock([&["create", arg(&device)], args].concat()).ended(0);
        Self { folder, device, point }
    }

    /// Mounts it, with more `args`.
    pub fn mount(&self, args: &[&str]) -> Mounted {
        Mounted::at(&self.device, &self.point, args)
    }

    /// What the volume holds, as `export` reads it.
    pub fn exported(&self) -> Vec<u8> {
        let image = self.folder.path().join("exported");
        oxblock(["export", arg(&self.device), arg(&image), "--force", "-q"]).ended(0);
        std::fs::read(image).unwrap()
    }
}

/// A mount that is served.
pub struct Mounted {
    pub child: Child,
    pub point: PathBuf,
    /// The volume.
    pub file: PathBuf,
}

impl Mounted {
    /// Mounts `device` at `point`.
    pub fn at(device: &Path, point: &Path, args: &[&str]) -> Self {
        let args = [&["mount", arg(device), arg(point)], args].concat();
        let mut command = command(args);
        Self::of(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap(), point)
    }

    /// What a server, just started, mounts at `point`.
    pub fn of(mut child: Child, point: &Path) -> Self {
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let Some((_, file)) = line.trim_end().split_once(" at ") else {
            let output = child.wait_with_output().unwrap();
            panic!("not mounted: {}", String::from_utf8_lossy(&output.stderr));
        };
        Self { child, point: point.to_owned(), file: file.into() }
    }

    /// The volume, open for reading and writing.
    pub fn open(&self) -> std::fs::File {
        std::fs::OpenOptions::new().read(true).write(true).open(&self.file).unwrap()
    }

    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id().cast_signed()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Waits for the end; exit status and what was said on standard error.
    pub fn ended(&mut self) -> (Option<i32>, String) {
        let began = Instant::now();
        while self.child.try_wait().unwrap().is_none() {
            assert!(began.elapsed() < Duration::from_secs(60), "the server does not end");
            std::thread::sleep(Duration::from_millis(2));
        }
        let mut said = String::new();
        if let Some(mut stderr) = self.child.stderr.take() {
            stderr.read_to_string(&mut said).unwrap();
        }
        assert!(!said.contains("panicked"), "the server panicked: {said}");
        (self.child.wait().unwrap().code(), said)
    }

    /// Unmounts from outside; the server must end well.
    pub fn unmount(mut self) {
        unmount(&self.point);
        let (code, said) = self.ended();
        assert_eq!((code, said.as_str()), (Some(0), ""));
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
        drop(Left(&self.point));
    }
}

/// What a test that fails would leave mounted. Nothing is there any more when all went well.
pub struct Left<'a>(pub &'a Path);

impl Drop for Left<'_> {
    fn drop(&mut self) {
        let (program, option) = if is_root() { ("umount", "-l") } else { ("fusermount3", "-uz") };
        Command::new(program).args([option, arg(self.0)]).stderr(Stdio::null()).status().ok();
    }
}

/// Runs a program, which must succeed.
pub fn run<'a>(name: &str, args: impl IntoIterator<Item = &'a str>) -> Output {
    let args: Vec<&str> = args.into_iter().collect();
    let output = Command::new(name).args(&args).stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("{name}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name} {args:?}: {} {said}", output.status);
    output
}

/// Whether a program is installed.
pub fn has(name: &str) -> bool {
    ["/usr/bin", "/usr/sbin", "/bin", "/sbin"]
        .iter()
        .any(|folder| Path::new(folder).join(name).exists())
}
