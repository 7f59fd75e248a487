//! `oxblock serve`: a volume to NBD clients.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, bail};
use clap::Args;
use oxblock::trace::ChromeTrace;
use oxblock_nbd::{Address, Server, ServerOptions};
use rustix::process::{Resource, getrlimit, setrlimit};

use super::volume::VolumeArgs;
use crate::interrupt;
use crate::output::{Exit, Usage, note, print};
use crate::report_file::ReportFile;

/// Serve a volume to NBD clients: virtual machines, containers, the kernel's nbd driver
///
/// The URI for clients is printed once the server listens. SIGTERM, SIGHUP or Ctrl-C ends it in good order: what was begun is
/// finished and answered, everything is made durable, the volume is closed. A second one ends it at once.
#[derive(Args)]
pub struct Serve {
    #[command(flatten)]
    volume: VolumeArgs,

    /// Where to listen, several times if you like: unix:PATH or tcp:HOST:PORT [default: tcp:127.0.0.1:10809]
    #[arg(long, value_name = "ADDRESS")]
    listen: Vec<Address>,

    /// The name of the export; clients that name none get it too
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    export: String,

    /// Refuse every change
    #[arg(long)]
    read_only: bool,

    /// Listen without encryption where other machines can connect
    #[arg(long)]
    allow_plaintext: bool,

    /// Write the process number to this file once the server listens; it is removed at the end
    #[arg(long, value_name = "FILE")]
    pid_file: Option<PathBuf>,

    /// Write a line to this open pipe once the server listens
    #[arg(long, value_name = "N")]
    ready_fd: Option<u32>,

    /// Write a trace of every request and bio to this file, for https://ui.perfetto.dev
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
}

/// A file that is there while the server is.
struct PidFile(PathBuf);

impl PidFile {
    /// Refuses a place where something else is than what a server has left behind that was killed.
    fn judge(path: &Path) -> Result<()> {
        let metadata = match std::fs::metadata(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            other => other.with_context(|| path.display().to_string())?,
        };
        let number = metadata.is_file()
            && metadata.len() < 32
            && std::fs::read(path)
                .with_context(|| path.display().to_string())?
                .iter()
                .all(|byte| byte.is_ascii_digit() || byte.is_ascii_whitespace());
        if !number {
            bail!("{} is no place for the process number: something else is there", path.display());
        }
        Ok(())
    }

    fn write(path: &Path) -> Result<Self> {
        std::fs::write(path, format!("{}\n", std::process::id()))
            .with_context(|| format!("write {}", path.display()))?;
        Ok(Self(path.to_owned()))
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        // Whoever looks at it finds that the process is gone.
        std::fs::remove_file(&self.0).ok();
    }
}

/// As many open files as the system allows: each client has one, and the usual limit of 1024 is there for programs that
/// know no better way to wait than `select`.
fn allow_descriptors() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Fewer clients than could be is all that comes of it.
    setrlimit(Resource::Nofile, limit).ok();
}

impl Serve {
    pub fn run(mut self) -> Result<Exit> {
        if self.listen.is_empty() {
            self.listen.push("tcp:127.0.0.1:10809".parse().map_err(Usage)?);
        }
        self.judge()?;
        // The place for the trace before anything else is done.
        let trace = self.trace_file()?;
        let (_, stop) = interrupt::watched().context("watch for signals")?;
        allow_descriptors();
        let mut volume = self.volume.open(self.read_only)?;
        let trace = trace.map(|(path, file)| Arc::new(Mutex::new(ChromeTrace::new(&path, file))));
        if let Some(trace) = &trace {
            volume.set_trace(Some(Box::new(Arc::clone(trace))));
        }
        let options = ServerOptions {
            listen: self.listen.clone(),
            name: self.export.clone(),
            description: "oxblock volume".into(),
            read_only: self.read_only,
            ..ServerOptions::default()
        };
        let server = Server::new(volume, &options, stop)?;
        for address in server.addresses() {
            print(&address.uri(&self.export))?;
        }
        let pid_file = self.pid_file.as_deref().map(PidFile::write).transpose()?;
        self.tell_ready()?;
        let volume = server.run(&mut note);
        let checksum_errors = volume.counters().checksum_errors;
        let closed = volume.close();
        drop(pid_file);
        // Written out whatever became of the volume.
        let finished = match trace {
            Some(trace) => trace.lock().unwrap_or_else(PoisonError::into_inner).finish(),
            None => Ok(()),
        };
        closed?;
        finished?;
        if checksum_errors > 0 {
            note(&format!("{checksum_errors} blocks failed verification; run 'oxblock check'"));
            return Ok(Exit::Damage);
        }
        Ok(Exit::Fine)
    }

    /// Refuses what makes no sense, or is not safe unless it was asked for.
    fn judge(&self) -> Result<()> {
        let open = self.listen.iter().find(|address| address.is_remote());
        if let (Some(address), false) = (open, self.allow_plaintext) {
            let text = format!(
                "{} can be reached from other machines, and nothing is encrypted; \
                 --allow-plaintext if that is meant",
                address.uri(&self.export)
            );
            return Err(Usage(text).into());
        }
        if let Some(path) = &self.pid_file {
            PidFile::judge(path)?;
        }
        if self.export.len() > 4096 {
            return Err(Usage("the name of the export has more than 4096 bytes".into()).into());
        }
        Ok(())
    }

    /// The file of the trace, open, if there shall be one.
    fn trace_file(&self) -> Result<Option<(PathBuf, File)>> {
        let Some(path) = &self.trace else { return Ok(None) };
        let file = ReportFile::new(path, self.volume.paths(), "--trace")?.stream()?;
        Ok(Some((path.clone(), file)))
    }

    /// Tells whoever has started this that it listens.
    fn tell_ready(&self) -> Result<()> {
        let Some(number) = self.ready_fd else { return Ok(()) };
        let path = format!("/proc/self/fd/{number}");
        File::options()
            .write(true)
            .open(path)
            .and_then(|mut pipe| pipe.write_all(b"\n"))
            .with_context(|| format!("write to descriptor {number}"))
    }
}
