//! A volume that the command serves by NBD, for tests.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use tempfile::TempDir;

use super::{arg, command, oxblock};

/// Bytes of the volume.
pub const SIZE: u64 = 64 << 20;

/// A volume that is served.
pub struct Served {
    pub folder: TempDir,
    pub child: Child,
}

impl Served {
    /// A new volume of [`SIZE`] bytes, served with `more` arguments.
    pub fn new(more: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let device = folder.path().join("d.ox");
        oxblock(["create", arg(&device), "--size", "64M"]).ended(0);
        let child = start(folder.path(), more);
        Self { folder, child }
    }

    pub fn uri(&self) -> String {
        format!("nbd+unix:///?socket={}", self.socket().display())
    }

    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("s")
    }

    /// Bytes of memory that it has.
    pub fn memory(&self) -> u64 {
        let status = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(status).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Ends it as a supervisor does, and checks the volume.
    pub fn end(mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
        assert!(!self.socket().exists());
        oxblock(["check", arg(&self.path("d.ox"))]).ended(0);
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // Not there any more when all went well.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Starts a server on `d.ox` in `folder` and waits until it listens.
pub fn start(folder: &Path, more: &[&str]) -> Child {
    let (device, socket) = (folder.join("d.ox"), folder.join("s"));
    let mut child = command(["serve", arg(&device), "--listen"])
        .arg(format!("unix:{}", socket.display()))
        .args(more)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    assert!(line.contains(&format!("socket={}", socket.display())), "{line}");
    // Nothing more is said there.
    std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
    child
}
