//! A server in a thread on a simulated disk.
#![allow(dead_code, reason = "each test file uses its own part")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests, and each file uses its own part"
)]

pub mod certificates;
pub mod client;

use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use oxblock::device::sim::{Rng, SimConfig, SimDisk};
use oxblock::volume::{create_on, required_size};
use oxblock::{CreateOptions, OpenOptions, Volume};
use oxblock_nbd::{Offered, Server, ServerOptions};
use oxblock_nbd_proto::Style;
use oxblock_net::Address;

pub use client::Client;

/// Bytes of the volumes here.
pub const SIZE: u64 = 64 << 20;

/// A server, and how to stop it.
pub struct Serving {
    pub disk: SimDisk,
    pub path: PathBuf,
    /// What the volume had to say while it was served.
    pub said: Arc<Mutex<Vec<String>>>,
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<Vec<Volume>>>,
    _folder: tempfile::TempDir,
}

impl Serving {
    /// Serves a new volume.
    pub fn new() -> Self {
        Self::with(|_| {})
    }

    /// The same with options.
    pub fn with(change: impl FnOnce(&mut ServerOptions)) -> Self {
        let disk = disk(SIZE);
        Self::of(vec![offered("", &disk, false)], disk, change)
    }

    /// Serves the volume on `disk`.
    pub fn on(disk: SimDisk, read_only: bool) -> Self {
        Self::of(vec![offered("", &disk, read_only)], disk, |_| ())
    }

    /// Serves `volumes`, the first of which is on `disk`.
    pub fn of(
        volumes: Vec<Offered>,
        disk: SimDisk,
        change: impl FnOnce(&mut ServerOptions),
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let mut options =
            ServerOptions { listen: vec![Address::Unix(path.clone())], ..ServerOptions::default() };
        change(&mut options);
        let (told, stop) = UnixStream::pair().unwrap();
        let server = Server::new(volumes, &options, Vec::new(), told.into()).unwrap();
        let said = Arc::new(Mutex::new(Vec::new()));
        let hears = Arc::clone(&said);
        let thread = std::thread::spawn(move || {
            server.run(&|_, text| hears.lock().unwrap().push(text.to_owned())).unwrap()
        });
        Self { disk, path, said, stop: Some(stop), thread: Some(thread), _folder: folder }
    }

    /// A client.
    pub fn client(&self, style: Style) -> Client {
        Client::connect(self.raw(), style)
    }

    /// A client of one of several exports.
    pub fn client_of(&self, name: &str, style: Style) -> Client {
        Client::connect_to(self.raw(), style, name)
    }

    /// A connection on which nothing was said yet.
    pub fn raw(&self) -> UnixStream {
        let stream = UnixStream::connect(&self.path).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.set_write_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    }

    /// Tells it to stop.
    pub fn stop(&mut self) {
        self.stop.take();
    }

    /// Waits until it has stopped, closes what was served, and gives back the first disk.
    pub fn close(mut self) -> SimDisk {
        self.join().into_iter().for_each(|volume| volume.close().unwrap());
        self.disk.clone()
    }

    /// Waits until it has stopped.
    pub fn join(&mut self) -> Vec<Volume> {
        self.stop();
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        if self.thread.is_some() && !std::thread::panicking() {
            self.join().into_iter().for_each(|volume| volume.close().unwrap());
        }
    }
}

/// A disk with a new volume of `size` bytes.
pub fn disk(size: u64) -> SimDisk {
    let disk = SimDisk::single(SimConfig::new(required_size(size).unwrap(), 7));
    let options = CreateOptions { size: Some(size), ..CreateOptions::default() };
    create_on(&mut disk.queue(), &options, "sim").unwrap();
    disk
}

/// The volume on `disk` as an export.
pub fn offered(name: &str, disk: &SimDisk, read_only: bool) -> Offered {
    let open = OpenOptions { read_only, ..OpenOptions::default() };
    let volume = Volume::open_on(Box::new(disk.queue()), &open).unwrap();
    Offered { volume, name: name.into(), description: String::new(), read_only }
}

/// `len` bytes of noise.
pub fn noise(rng: &mut Rng, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    rng.fill(&mut bytes);
    bytes
}
