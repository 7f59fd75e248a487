//! The volume that a command works on: its devices, and how to open it. The same for every command that does.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueEnum};

use oxblock::device::DeviceCall;
use oxblock::volume::{OpenOptions, Volume};

use crate::output::{Usage, note};
use crate::size;

/// A volume by its devices.
#[derive(Args, Clone)]
pub struct VolumeArgs {
    /// Devices of the volume
    #[arg(required = true, value_name = "DEVICE")]
    devices: Vec<PathBuf>,

    #[command(flatten)]
    open: OpenArgs,
}

impl VolumeArgs {
    /// The devices, as named.
    pub fn paths(&self) -> &[PathBuf] {
        &self.devices
    }

    /// Opens it and passes on what it has to say.
    pub fn open(&self, read_only: bool) -> Result<Volume> {
        self.open.open(&self.devices, read_only)
    }

    /// How to look at the media, for `command`, which shows a damaged volume as it is instead of opening it.
    pub fn to_inspect(&self, command: &str) -> Result<OpenOptions> {
        self.open.refuse_rollback(&format!("{command} looks at a damaged volume as it is"))?;
        single_device(&self.devices)?;
        Ok(self.open.options(true))
    }
}

/// How to open a volume.
#[derive(Args, Clone)]
pub struct OpenArgs {
    /// Memory for the map's nodes, at least 256K [default: 64M]
    #[arg(long, value_name = "SIZE", value_parser = map_cache, help_heading = "Engine")]
    map_cache: Option<u64>,

    /// How operations reach the devices
    #[arg(long, value_enum, default_value = "auto", value_name = "WAY", help_heading = "Engine")]
    device_call: DeviceCallArg,

    /// Accept damage at the end of the log, and go back to the state before it
    #[arg(long, help_heading = "Engine")]
    rollback: bool,
}

/// The values of `--device-call`.
#[derive(ValueEnum, Clone, Copy)]
enum DeviceCallArg {
    /// Measured for each device when it is opened
    Auto,
    /// io_uring
    Ring,
    /// Plain system calls in the caller's own context
    Inline,
    /// A pool of threads
    Threads,
}

impl OpenArgs {
    /// How operations shall reach the devices.
    pub fn device_call(&self) -> DeviceCall {
        match self.device_call {
            DeviceCallArg::Auto => DeviceCall::Auto,
            DeviceCallArg::Ring => DeviceCall::Ring,
            DeviceCallArg::Inline => DeviceCall::Inline,
            DeviceCallArg::Threads => DeviceCall::Threads,
        }
    }

    /// Refuses `--rollback` where it would do nothing.
    pub fn refuse_rollback(&self, why: &str) -> Result<()> {
        if self.rollback {
            return Err(Usage(format!("--rollback has no meaning here: {why}")).into());
        }
        Ok(())
    }

    /// As the engine wants it.
    fn options(&self, read_only: bool) -> OpenOptions {
        let device_call = self.device_call();
        let rollback = self.rollback;
        let mut options =
            OpenOptions { read_only, device_call, rollback, ..OpenOptions::default() };
        options.map_cache_bytes = self.map_cache.unwrap_or(options.map_cache_bytes);
        options
    }

    /// Opens the volume on `devices` and passes on what it has to say.
    pub fn open(&self, devices: &[PathBuf], read_only: bool) -> Result<Volume> {
        single_device(devices)?;
        let volume = Volume::open(devices, &self.options(read_only))?;
        for notice in volume.notices() {
            note(notice);
        }
        Ok(volume)
    }
}

/// A size that the engine can work with: it would take a smaller one for the least without a word.
fn map_cache(text: &str) -> Result<u64, String> {
    let bytes = size::parse(text)?;
    let least = OpenOptions::MIN_MAP_CACHE;
    if bytes < least {
        return Err(format!("at least {} are needed", size::human(least)));
    }
    Ok(bytes)
}

/// Refuses several devices, which this version makes no volume of.
pub fn single_device(devices: &[PathBuf]) -> Result<()> {
    if devices.len() == 1 {
        return Ok(());
    }
    let text = format!("{} devices given; this version has volumes of one device", devices.len());
    Err(Usage(text).into())
}
