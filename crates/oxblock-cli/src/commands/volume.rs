//! The volume that a command works on: its devices, and how to open it. The same for every command that does.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Args, ValueEnum};

use oxblock::device::DeviceCall;
use oxblock::volume::{OpenOptions, Policy, Volume};

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

    /// Opens another one on `device` in the same way.
    pub fn open_other(&self, device: &Path, read_only: bool) -> Result<Volume> {
        self.open.open(&[device.to_owned()], read_only)
    }

    /// How to open it, as the arguments say.
    pub fn options(&self, read_only: bool) -> Result<OpenOptions> {
        single_device(&self.devices)?;
        self.open.options(read_only, Policy::default())
    }

    /// The policy that the arguments name, as written.
    pub fn policy_text(&self) -> Option<&str> {
        self.open.policy.as_deref()
    }

    /// Refuses `--policy` where it would do nothing.
    pub fn refuse_policy(&self, why: &str) -> Result<()> {
        self.open.refuse_policy(why)
    }

    /// How to look at the media, for `command`, which shows a damaged volume as it is instead of opening it.
    pub fn to_inspect(&self, command: &str) -> Result<OpenOptions> {
        self.open.refuse_rollback(&format!("{command} looks at a damaged volume as it is"))?;
        single_device(&self.devices)?;
        self.open.options(true, Policy::default())
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

    /// Who does what: submit=auto|inline|offload|rules, complete=auto|issuer|worker, bio_max_bytes=auto|SIZE (0: no
    /// limit), crc=auto|fast|table, separated by commas. What is not named or auto is as the volume keeps it
    #[arg(long, value_name = "NAME=VALUE,...", value_parser = policy, help_heading = "Engine")]
    policy: Option<String>,

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

    /// Refuses `--policy` where it would do nothing.
    pub fn refuse_policy(&self, why: &str) -> Result<()> {
        if self.policy.is_some() {
            return Err(Usage(format!("--policy has no meaning here: {why}")).into());
        }
        Ok(())
    }

    /// As the engine wants it, with what the arguments say about the policy in place of what `policy` says.
    fn options(&self, read_only: bool, mut policy: Policy) -> Result<OpenOptions> {
        policy.apply(self.policy.as_deref().unwrap_or_default())?;
        let device_call = self.device_call();
        let rollback = self.rollback;
        let mut options =
            OpenOptions { read_only, device_call, rollback, policy, ..OpenOptions::default() };
        options.map_cache_bytes = self.map_cache.unwrap_or(options.map_cache_bytes);
        Ok(options)
    }

    /// Opens the volume on `devices` and passes on what it has to say.
    pub fn open(&self, devices: &[PathBuf], read_only: bool) -> Result<Volume> {
        self.open_with(devices, read_only, Policy::default())
    }

    /// The same with a policy for what the arguments leave open.
    pub fn open_with(
        &self,
        devices: &[PathBuf],
        read_only: bool,
        policy: Policy,
    ) -> Result<Volume> {
        single_device(devices)?;
        let volume = Volume::open(devices, &self.options(read_only, policy)?)?;
        for notice in volume.notices() {
            note(notice);
        }
        Ok(volume)
    }
}

/// Passes on what a volume has to say since it had `before` notices.
pub fn pass_on_notices(volume: &Volume, before: usize) {
    for notice in volume.notices().iter().skip(before) {
        note(notice);
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

/// A policy that the engine knows. It is kept as written, since what it does not name may be said elsewhere.
fn policy(text: &str) -> Result<String, String> {
    text.parse::<Policy>().map_err(|error| error.to_string())?;
    Ok(text.to_owned())
}

/// Refuses several devices, which this version makes no volume of.
pub fn single_device(devices: &[PathBuf]) -> Result<()> {
    if devices.len() == 1 {
        return Ok(());
    }
    let text = format!("{} devices given; this version has volumes of one device", devices.len());
    Err(Usage(text).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_goes_before_the_job_file() {
        let args = OpenArgs {
            map_cache: None,
            device_call: DeviceCallArg::Auto,
            policy: Some("submit=inline,crc=auto".into()),
            rollback: false,
        };
        let file = "submit=offload,complete=worker,crc=table".parse().unwrap();
        let options = args.options(true, file).unwrap();
        assert_eq!(options.policy, "submit=inline,complete=worker".parse().unwrap());
        let silent = OpenArgs { policy: None, ..args };
        assert_eq!(silent.options(true, file).unwrap().policy, file);
    }
}
