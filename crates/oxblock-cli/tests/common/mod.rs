//! Running the command, and content to run it on.
#![allow(dead_code, reason = "each test file uses its own part")]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests, and each file uses its own part"
)]

pub mod durable;
pub mod fsx;
pub mod mapping;
pub mod mount;
pub mod served;
pub mod stack;
pub mod stress;

use std::path::Path;
use std::process::{Command, Output, Stdio};

/// The command with `args`, ready to start.
pub fn command<A: AsRef<std::ffi::OsStr>>(args: impl IntoIterator<Item = A>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_oxblock"));
    command.args(args).stdin(Stdio::null());
    command
}

/// What a run of the command came to.
#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub stdout: Vec<u8>,
    pub stderr: String,
}

impl Ran {
    fn of(output: Output) -> Self {
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        let code = output.status.code().unwrap_or(-1);
        assert!(!stderr.contains("panicked"), "the command panicked: {stderr}");
        Self { code, stdout: output.stdout, stderr }
    }

    /// Its standard output as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Its standard output as JSON, which says its version.
    pub fn json(&self) -> serde_json::Value {
        let value: serde_json::Value = serde_json::from_slice(&self.stdout)
            .unwrap_or_else(|error| panic!("{error} in {}{}", self.text(), self.stderr));
        assert_eq!(value["version"], 1);
        value
    }

    /// The same, which must have ended with `code`.
    pub fn ended(self, code: i32) -> Self {
        assert_eq!(self.code, code, "stdout: {}\nstderr: {}", self.text(), self.stderr);
        self
    }
}

/// Runs the command to its end.
pub fn oxblock<A: AsRef<std::ffi::OsStr>>(args: impl IntoIterator<Item = A>) -> Ran {
    Ran::of(command(args).output().unwrap())
}

/// Runs the command with `input` on its standard input.
pub fn oxblock_with(args: &[&str], input: &[u8]) -> Ran {
    use std::io::Write;
    let mut child = command(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    // A command that refuses reads nothing: that is no failure of the feeder.
    let feeder = std::thread::spawn(move || stdin.write_all(&input).ok());
    let output = child.wait_with_output().unwrap();
    feeder.join().unwrap();
    Ran::of(output)
}

/// A path as an argument.
pub fn arg(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Pseudo-random numbers (splitmix64).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes: Vec<u8> =
            (0..len.div_ceil(8)).flat_map(|_| self.next().to_le_bytes()).collect();
        bytes.truncate(len);
        bytes
    }
}

/// A number of the environment.
pub fn given(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

/// What random numbers begin with: `OXBLOCK_SEED`, or the clock.
pub fn seed() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let seed = given("OXBLOCK_SEED").unwrap_or(u64::from(now.subsec_nanos()));
    println!("seed {seed} (OXBLOCK_SEED)");
    seed
}

/// `len` bytes, of which every third stretch of 100,000 is zero.
pub fn content(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = Random(seed).bytes(len);
    for hole in bytes.chunks_mut(100_000).skip(1).step_by(3) {
        hole.fill(0);
    }
    bytes
}

/// True for root, whom no mode bits stop.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Runs another program; `None`, and a word about it, when it is not installed.
pub fn other(program: &str, args: &[&str]) -> Option<Ran> {
    let mut command = Command::new(program);
    // The system's own first: what a program of the distribution runs is of the distribution too.
    let path = std::env::var("PATH").unwrap_or_default();
    command.args(args).env("PATH", format!("/usr/bin:/bin:{path}"));
    let output = match command.stdin(Stdio::null()).output() {
        Ok(output) => output,
        Err(_) => {
            println!("skipped: {program} is not installed");
            return None;
        }
    };
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    Some(Ran { code: output.status.code().unwrap_or(-1), stdout: output.stdout, stderr })
}
