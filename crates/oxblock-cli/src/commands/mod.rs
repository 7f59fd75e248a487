//! The subcommands and what they share.

mod bench;
mod check;
mod create;
mod dump;
mod export;
mod import;
mod info;
mod run;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Subcommand, ValueEnum};

use oxblock::device::DeviceCall;
use oxblock::volume::{OpenOptions, Volume};

use crate::output::{Exit, Usage, note};
use crate::size;

/// What to do.
#[derive(Subcommand)]
pub enum Command {
    Create(create::Create),
    Info(info::Info),
    Import(import::Import),
    Export(export::Export),
    Check(check::Check),
    Dump(dump::Dump),
    Run(run::Run),
    Bench(bench::Bench),
}

impl Command {
    /// Does it.
    pub fn run(self) -> Result<Exit> {
        match self {
            Self::Create(command) => command.run(),
            Self::Info(command) => command.run(),
            Self::Import(command) => command.run(),
            Self::Export(command) => command.run(),
            Self::Check(command) => command.run(),
            Self::Dump(command) => command.run(),
            Self::Run(command) => command.run(),
            Self::Bench(command) => command.run(),
        }
    }
}

/// How to open a volume; the same for every command that does.
#[derive(Args, Clone)]
pub struct OpenArgs {
    /// Memory for the map's nodes, at least 256K [default: 64M]
    #[arg(long, value_name = "SIZE", value_parser = size::parse, help_heading = "Engine")]
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
    fn device_call(&self) -> DeviceCall {
        match self.device_call {
            DeviceCallArg::Auto => DeviceCall::Auto,
            DeviceCallArg::Ring => DeviceCall::Ring,
            DeviceCallArg::Inline => DeviceCall::Inline,
            DeviceCallArg::Threads => DeviceCall::Threads,
        }
    }

    /// Refuses `--rollback` where it would do nothing.
    fn refuse_rollback(&self, why: &str) -> Result<()> {
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
    fn open(&self, devices: &[PathBuf], read_only: bool) -> Result<Volume> {
        single_device(devices)?;
        let volume = Volume::open(devices, &self.options(read_only))?;
        for notice in volume.notices() {
            note(notice);
        }
        Ok(volume)
    }
}

/// Refuses several devices, which this version makes no volume of.
fn single_device(devices: &[PathBuf]) -> Result<()> {
    if devices.len() == 1 {
        return Ok(());
    }
    let text = format!("{} devices given; this version has volumes of one device", devices.len());
    Err(Usage(text).into())
}
