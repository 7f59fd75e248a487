//! `oxblock mount`: a volume as a file.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use clap::Args;
use oxblock_fuse::{Ended, MountOptions, MountPoint};

use super::monitor::{MonitorArgs, Mounted};
use super::volume::VolumeArgs;
use crate::interrupt;
use crate::output::{Exit, Usage, ended, note, print};
use crate::same::is_same;
use crate::size::human;

/// Errors and notices of the volume that are told, of one mount.
const TOLD: usize = 20;

/// Show a volume as a file, by FUSE
///
/// MOUNTPOINT is a folder, which then shows one file, named after the volume's label, or 'volume'; or it is a file, which then
/// is the volume. I/O on it is direct, fsync makes it durable, and punching holes gives space back. The command serves until
/// it is unmounted, by 'umount' ('fusermount3 -u' for those who are not root), Ctrl-C or SIGTERM. The exit status is 3 when
/// damage was found meanwhile.
#[derive(Args)]
pub struct Mount {
    #[command(flatten)]
    volume: VolumeArgs,

    /// Where: a folder or a file
    #[arg(required = true, value_name = "MOUNTPOINT")]
    point: PathBuf,

    /// Refuse to write
    #[arg(long)]
    read_only: bool,

    /// Let others than yourself use it, as the file's mode and owner say: chmod and chown work on it. Those who are not root
    /// need user_allow_other in /etc/fuse.conf for it
    #[arg(long)]
    allow_other: bool,

    #[command(flatten)]
    monitor: MonitorArgs,

    /// Return once it is mounted, and serve in the background
    #[arg(long, conflicts_with = "detached")]
    background: bool,

    /// Started by --background
    #[arg(long, hide = true)]
    detached: bool,
}

impl Mount {
    pub fn run(self) -> Result<Exit> {
        if self.background {
            return in_background();
        }
        if self.detached {
            // It fails only where it is so already.
            rustix::process::setsid().ok();
        }
        let point = MountPoint::new(&self.point)?;
        let metadata = std::fs::metadata(point.path());
        let metadata = metadata.with_context(|| format!("look at {}", self.point.display()))?;
        if let Some(device) = self.volume.paths().iter().find(|path| is_same(path, &metadata)) {
            let text = format!("{} is the device itself; mount somewhere else", device.display());
            return Err(Usage(text).into());
        }
        let (stop, wake) = interrupt::watched().context("watch for signals")?;
        let volume = self.volume.open(self.read_only)?;
        let source = self.volume.paths().first();
        let options = MountOptions {
            read_only: self.read_only,
            allow_other: self.allow_other,
            source: source.map(|path| path.to_string_lossy().into_owned()).unwrap_or_default(),
        };
        let size = volume.size();
        let (mount, mut server) = oxblock_fuse::mount(volume, point, &options, Arc::new(wake))?;
        let mounted = Mounted { remote: server.remote(), name: mount.file().display().to_string() };
        let control = self.monitor.start(mounted)?;
        print(&format!("{} at {}", human(size), mount.file().display()))?;
        if self.detached {
            detach().context("go into the background")?;
        }
        let mut told = 0;
        let served = server.run(&stop, &mut |text| {
            told += 1;
            match told {
                ..TOLD => note(text),
                TOLD => note(&format!("{text}; what else fails is not told")),
                _ => {}
            }
        });
        drop(control);
        let unmounted = match served {
            Ok(Ended::Unmounted) => {
                mount.forget();
                Ok(())
            }
            // Out of sight first: nobody is to find it while it is being closed.
            _ => mount.unmount(),
        };
        let volume = server.into_volume();
        let damaged = volume.counters().checksum_errors;
        let closed = volume.close();
        let cut_off = matches!(served, Ok(Ended::Aborted)).then(|| {
            anyhow!("the kernel has cut off the connection; what was under way there has failed")
        });
        let errors = [
            closed.context("what was not flushed may be lost").err(),
            served.err().map(Into::into),
            cut_off,
            unmounted.err().map(Into::into),
        ];
        ended(errors.into_iter().flatten(), damaged)
    }
}

/// Starts the same command again, to serve in the background, and returns when it has mounted, or failed.
fn in_background() -> Result<Exit> {
    let mut replaced = false;
    let args = std::env::args_os().skip(1).map(|arg| {
        // The first one is the option: what comes later can only be a path.
        if arg == "--background" && !std::mem::replace(&mut replaced, true) {
            return "--detached".into();
        }
        arg
    });
    let exe = std::env::current_exe().context("find this command")?;
    let mut child = Command::new(exe)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("start the server")?;
    let mut line = String::new();
    if let Some(stdout) = child.stdout.take() {
        BufReader::new(stdout).read_line(&mut line).context("wait for the server")?;
    }
    if !line.is_empty() {
        print(line.trim_end())?;
        return Ok(Exit::Fine);
    }
    // It has said why.
    Ok(match child.wait().context("wait for the server")?.code() {
        Some(2) => Exit::Usage,
        Some(3) => Exit::Damage,
        _ => Exit::Failed,
    })
}

/// Lets go of the terminal and of the working folder.
fn detach() -> std::io::Result<()> {
    let null = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    std::env::set_current_dir("/")
}
