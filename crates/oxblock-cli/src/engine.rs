//! The one place where the command touches the engine.
//!
//! Commands see two things: [`BlockTarget`], the poll interface that data moves through (tests bring their own, in
//! memory), and the functions and types re-exported here. Until the engine's `volume` module is there, [`pending`] has
//! the same surface and refuses every call with a sentence.

use std::time::Duration;

use oxblock::error::Result;
use oxblock::submit::request::{Completion, Request};

pub use pending::{CreateOptions, DeviceCall, OpenOptions, Part, Volume, VolumeInfo, check, dump};

/// A volume to move data to and from: requests go in, completions come out, in any order.
pub trait BlockTarget {
    /// Bytes, a multiple of 4096.
    fn size(&self) -> u64;
    /// Queues a request.
    fn queue(&mut self, request: Request);
    /// Starts what was queued.
    fn submit(&mut self);
    /// Moves completions to `done` without blocking and returns how many.
    fn poll(&mut self, done: &mut Vec<Completion>) -> usize;
    /// Blocks until there is something to poll, or `timeout` has passed.
    fn wait(&mut self, timeout: Option<Duration>);
}

impl BlockTarget for Volume {
    fn size(&self) -> u64 {
        Self::size(self)
    }

    fn queue(&mut self, request: Request) {
        Self::queue(self, request);
    }

    fn submit(&mut self) {
        Self::submit(self);
    }

    fn poll(&mut self, done: &mut Vec<Completion>) -> usize {
        Self::poll(self, done)
    }

    fn wait(&mut self, timeout: Option<Duration>) {
        Self::wait(self, timeout);
    }
}

/// The surface that the engine will have.
mod pending {
    use std::path::{Path, PathBuf};

    use oxblock::csum::CsumKind;
    use oxblock::error::{Error, ErrorKind};
    use serde::Serialize;

    use super::{Completion, Duration, Request, Result};

    fn refuse<T>(what: &str) -> Result<T> {
        Err(Error::new(ErrorKind::Unsupported, format!("this build cannot {what} yet")))
    }

    /// What a new volume shall be.
    #[expect(dead_code, reason = "for the engine to read")]
    #[derive(Debug, Clone, Default)]
    pub struct CreateOptions {
        /// Bytes; the most that the devices have room for when `None`.
        pub size: Option<u64>,
        pub csum: CsumKind,
        pub profile: String,
        pub label: String,
        pub lanes: Option<u16>,
        pub force: bool,
        pub preallocate: bool,
    }

    /// How to open a volume.
    #[expect(dead_code, reason = "for the engine to read")]
    #[derive(Debug, Clone, Default)]
    pub struct OpenOptions {
        pub read_only: bool,
        /// The default when `None`.
        pub map_cache_bytes: Option<u64>,
        pub device_call: DeviceCall,
    }

    /// How operations reach the device.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub enum DeviceCall {
        #[default]
        Auto,
        Ring,
        Inline,
        Threads,
    }

    /// What there is to know about a volume.
    #[derive(Debug, Clone, Serialize)]
    pub struct VolumeInfo {
        pub uuid: String,
        pub label: String,
        pub size: u64,
        pub used: u64,
        pub capacity: u64,
        pub profile: String,
        pub csum: String,
        pub lanes: u16,
        pub segment_size: u64,
        pub generation: u64,
        pub devices: Vec<DeviceInfo>,
        /// Name and value of every counter.
        pub counters: Vec<(String, u64)>,
        /// Each policy in force and why, one line each.
        pub policies: Vec<String>,
    }

    /// One device of a volume.
    #[derive(Debug, Clone, Serialize)]
    pub struct DeviceInfo {
        pub path: PathBuf,
        pub size: u64,
        pub state: String,
        pub errors: u64,
    }

    /// An open volume. There is none yet.
    #[derive(Debug)]
    pub enum Volume {}

    impl Volume {
        pub fn create(_devices: &[PathBuf], _options: &CreateOptions) -> Result<VolumeInfo> {
            refuse("create volumes")
        }

        pub fn open(_devices: &[PathBuf], _options: &OpenOptions) -> Result<Self> {
            refuse("open volumes")
        }

        pub fn size(&self) -> u64 {
            match *self {}
        }

        pub fn queue(&mut self, _request: Request) {
            match *self {}
        }

        pub fn submit(&mut self) {
            match *self {}
        }

        pub fn poll(&mut self, _done: &mut Vec<Completion>) -> usize {
            match *self {}
        }

        pub fn wait(&mut self, _timeout: Option<Duration>) {
            match *self {}
        }

        pub fn info(&self) -> VolumeInfo {
            match *self {}
        }

        pub fn notices(&self) -> &[String] {
            match *self {}
        }

        pub fn close(self) -> Result<()> {
            match self {}
        }
    }

    /// What a check found.
    #[derive(Debug, Clone, Default, Serialize)]
    pub struct CheckReport {
        pub blocks: u64,
        pub bytes: u64,
        pub damage: Vec<Damage>,
    }

    /// One damaged place.
    #[derive(Debug, Clone, Serialize)]
    pub struct Damage {
        /// What is damaged: "data", "map node", "superblock".
        pub what: String,
        /// The logical block, where there is one.
        pub block: Option<u64>,
        pub device: PathBuf,
        /// Bytes from the start of the device.
        pub offset: u64,
        pub expected: Option<String>,
        pub got: Option<String>,
    }

    /// Reads and verifies everything; `progress` hears the bytes done and the bytes in all.
    pub fn check(
        _devices: &[PathBuf],
        _options: &OpenOptions,
        _progress: &mut dyn FnMut(u64, u64),
    ) -> Result<CheckReport> {
        refuse("check volumes")
    }

    /// What `dump` shows.
    #[expect(dead_code, reason = "for the engine to read")]
    #[derive(Debug, Clone, Copy)]
    pub enum Part {
        Superblock,
        Checkpoint,
        Segment(u64),
        Record(u64),
        Map(u64),
    }

    /// The decoded part, with the names of `docs/format.md`, in their order.
    pub fn dump(_devices: &[PathBuf], _part: Part) -> Result<Vec<(String, String)>> {
        refuse("dump volumes")
    }

    impl std::fmt::Display for Damage {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            let device: &Path = &self.device;
            write!(f, "{} ", self.what)?;
            if let Some(block) = self.block {
                write!(f, "of block {block} ")?;
            }
            write!(f, "at {} offset {}", device.display(), self.offset)?;
            match (&self.expected, &self.got) {
                (Some(expected), Some(got)) => write!(f, ": expected {expected}, got {got}"),
                (Some(expected), None) => write!(f, ": expected {expected}, read error"),
                (None, _) => Ok(()),
            }
        }
    }
}
