//! What the experiments run on: a place for a volume and a place for the bare device, on the storage to be measured.
//!
//! In a folder they are two files that have lost their names, so that their space comes back however the command ends; a
//! volume is opened on one by way of the process's own descriptor. On `--device` both are the device itself, in turn: after
//! jobs have written to the bare device, the volume on it is made anew.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use oxblock::csum::CsumKind;
use oxblock::device::{DeviceOptions, Sharing, open_devices, preallocate};
use oxblock::volume::{CreateOptions, Handle, OpenOptions, Policy, Volume, create, required_size};
use oxblock_fio::{RawTarget, RunOptions, Target, VolumeTarget, parse, run};

use super::scratch::{Folder, check_room, in_memory};
use crate::output::note;

/// Time for a disk to come to rest after it was filled.
const SETTLE: Duration = Duration::from_secs(1);

/// The two places, and what they hold.
pub struct Stage {
    /// Bytes that the jobs work on; the volume has twice as many.
    pub size: u64,
    /// The storage is main memory.
    pub in_memory: bool,
    /// How operations reach the device.
    pub device_call: String,
    volume: PathBuf,
    raw: PathBuf,
    /// One place serves as both.
    shared: bool,
    /// The checksum type of the volume that is there, and whether its first `size` bytes are written.
    holds: Option<(CsumKind, bool)>,
    #[expect(dead_code, reason = "held for their descriptors, by which they are opened")]
    files: Option<[File; 2]>,
}

impl Stage {
    /// Two files in `folder`, written once from end to end.
    pub fn in_folder(folder: &Path, size: u64) -> Result<Self> {
        // A folder that is made here goes away again with the names in it, long before the measurement ends.
        let made = Folder::make(folder)?;
        let device = required_size(size.saturating_mul(2))?;
        check_room(folder, device.saturating_add(size))?;
        let files = [nameless(folder, "volume", device)?, nameless(folder, "raw", size)?];
        let [volume, raw] = files.each_ref().map(|file| {
            PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()))
        });
        for path in [&volume, &raw] {
            prepare(path)
                .with_context(|| format!("fill the scratch files in {}", folder.display()))?;
        }
        let in_memory = in_memory(folder);
        drop(made);
        let mut stage = Self {
            size,
            in_memory,
            device_call: String::new(),
            volume,
            raw,
            shared: false,
            holds: None,
            files: Some(files),
        };
        let mut target = stage.first()?;
        fill(&mut target, size)?;
        stage.settle();
        Ok(stage)
    }

    /// The file or block device `path`, which is **overwritten**: refused when it holds something, unless `force`.
    pub fn on_device(path: &Path, size: u64, force: bool) -> Result<Self> {
        if !path.exists() {
            bail!(
                "{} does not exist; --device takes a file or block device that is there",
                path.display()
            );
        }
        let mut stage = Self {
            size,
            in_memory: path.is_file() && in_memory(path),
            device_call: String::new(),
            volume: path.to_owned(),
            raw: path.to_owned(),
            shared: true,
            holds: None,
            files: None,
        };
        stage.create(CsumKind::default(), force)?;
        stage.first()?;
        Ok(stage)
    }

    /// The bare device for the first time: what is to be said of it is said here, once.
    fn first(&mut self) -> Result<RawTarget> {
        let options = DeviceOptions {
            writable: true,
            sharing: Sharing::Exclusive,
            ..DeviceOptions::default()
        };
        let opened = open_devices(std::slice::from_ref(&self.raw), &options)?;
        opened.notices.iter().for_each(|notice| note(notice));
        self.device_call = opened.queue.describe();
        Ok(RawTarget::new(opened.queue))
    }

    /// The volume with checksums of type `csum` under `policy`; what jobs read has been written if `filled`.
    pub fn volume(
        &mut self,
        csum: CsumKind,
        policy: &Policy,
        filled: bool,
    ) -> Result<VolumeTarget> {
        self.prepare(csum, filled)?;
        let options = OpenOptions { policy: *policy, ..OpenOptions::default() };
        Ok(VolumeTarget::new(Volume::open(std::slice::from_ref(&self.volume), &options)?))
    }

    /// The same for several threads.
    pub fn handle(&mut self, csum: CsumKind, policy: &Policy) -> Result<Handle> {
        self.prepare(csum, true)?;
        let options = OpenOptions { policy: *policy, ..OpenOptions::default() };
        Ok(Handle::open(std::slice::from_ref(&self.volume), &options)?)
    }

    /// The bare device.
    pub fn raw(&mut self, writes: bool) -> Result<RawTarget> {
        if self.shared && writes {
            self.holds = None;
        }
        let options = DeviceOptions {
            writable: true,
            sharing: Sharing::Exclusive,
            ..DeviceOptions::default()
        };
        Ok(RawTarget::new(open_devices(std::slice::from_ref(&self.raw), &options)?.queue))
    }

    /// Where the bare device is.
    pub fn raw_path(&self) -> &Path {
        &self.raw
    }

    /// Sees to it that the volume is there, and filled where that is wanted. What writes begins on a new one: cleaning up
    /// behind the run before would count against it.
    fn prepare(&mut self, csum: CsumKind, filled: bool) -> Result<()> {
        if !filled || self.holds.is_none_or(|(kind, _)| kind != csum) {
            self.create(csum, true)?;
        }
        if filled && self.holds != Some((csum, true)) {
            let mut target = VolumeTarget::new(Volume::open(
                std::slice::from_ref(&self.volume),
                &OpenOptions::default(),
            )?);
            fill(&mut target, self.size)?;
            target.into_volume().close()?;
            self.holds = Some((csum, true));
            self.settle();
        }
        Ok(())
    }

    fn create(&mut self, csum: CsumKind, force: bool) -> Result<()> {
        let size = Some(self.size.saturating_mul(2));
        let options = CreateOptions { size, csum, force, ..CreateOptions::default() };
        create(std::slice::from_ref(&self.volume), &options, &mut |_, _| {})?;
        self.holds = Some((csum, false));
        Ok(())
    }

    fn settle(&self) {
        if !self.in_memory {
            std::thread::sleep(SETTLE);
        }
    }
}

/// A file of `bytes` bytes that has no name any more.
fn nameless(folder: &Path, what: &str, bytes: u64) -> Result<File> {
    let path = folder.join(format!("{what}-{}", std::process::id()));
    let shown = || format!("create a scratch file in {}", folder.display());
    let file =
        File::options().read(true).write(true).create_new(true).open(&path).with_context(shown)?;
    std::fs::remove_file(&path).with_context(shown)?;
    file.set_len(bytes).with_context(shown)?;
    Ok(file)
}

/// Writes the first `size` bytes once.
fn fill(target: &mut dyn Target, size: u64) -> Result<()> {
    let text = format!("[fill]\nrw=write\nbs=1m\niodepth=4\nsize={size}\n");
    let report = run(&parse(&text, "bench")?, target, &RunOptions::default())?;
    match report.jobs.iter().find_map(|job| job.error.as_ref()) {
        Some(error) => bail!("fill the scratch volume: {error}"),
        None => Ok(()),
    }
}

/// Fills a scratch file, so that no job pays for its first allocation.
fn prepare(path: &Path) -> Result<()> {
    let options =
        DeviceOptions { writable: true, sharing: Sharing::Exclusive, ..DeviceOptions::default() };
    let mut opened = open_devices(&[path.to_owned()], &options)?;
    preallocate(path, opened.queue.as_mut(), &mut |_, _| {})?;
    Ok(())
}
