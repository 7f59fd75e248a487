//! `oxblock serve`: volumes to NBD clients.

mod exports;
mod supervisor;

use std::fs::File;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use clap::Args;
use oxblock::trace::ChromeTrace;
use oxblock_nbd::{Offered, Server, ServerOptions, Tls};
use oxblock_net::{Address, Inherited};
use rustix::process::{Resource, getrlimit, setrlimit};

use super::monitor::{Exports, MonitorArgs};
use super::volume::VolumeArgs;
use crate::interrupt;
use crate::output::{Exit, Usage, ended, note, print};
use crate::report_file::ReportFile;
use exports::{Named, labelled, offer};
use supervisor::PidFile;

/// Serve volumes to NBD clients: virtual machines, containers, the kernel's nbd driver
///
/// The URIs for clients are printed once the server listens. SIGTERM, SIGHUP or Ctrl-C ends it in good order: what was begun is
/// finished and answered, everything is made durable, the volume is closed. A second one ends it at once.
#[derive(Args)]
pub struct Serve {
    #[command(flatten)]
    volume: VolumeArgs,

    /// Where to listen, several times if you like: unix:PATH or tcp:HOST:PORT [default: the sockets that a supervisor passes
    /// on, else tcp:127.0.0.1:10809]
    #[arg(long, value_name = "ADDRESS", value_parser = listen)]
    listen: Vec<Address>,

    /// The name of the export; clients that name none get it too
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    export: String,

    /// One more volume, as an export of this name; several times if you like
    #[arg(long = "volume", value_name = "NAME=DEVICE")]
    more: Vec<Named>,

    /// Refuse every change
    #[arg(long)]
    read_only: bool,

    /// Speak TLS, with server-cert.pem and server-key.pem from this folder
    #[arg(long, value_name = "DIR")]
    tls_certificates: Option<PathBuf>,

    /// Let only clients in that show a certificate which ca-cert.pem, from the same folder, vouches for
    #[arg(long, requires = "tls_certificates")]
    tls_verify_peer: bool,

    /// Serve clients that speak no TLS, also where other machines can connect
    #[arg(long)]
    allow_plaintext: bool,

    #[command(flatten)]
    monitor: MonitorArgs,

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

fn listen(text: &str) -> Result<Address, String> {
    Address::parse(text, oxblock_nbd::PORT)
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
        let inherited = supervisor::sockets()?;
        if self.listen.is_empty() && inherited.is_empty() {
            self.listen.push(Address::Tcp("127.0.0.1".into(), oxblock_nbd::PORT));
        }
        self.judge(&inherited)?;
        let tls = self.tls()?;
        // The place for the trace before anything else is done.
        let trace = self.trace_file()?;
        let (_, stop) = interrupt::watched().context("watch for signals")?;
        allow_descriptors();
        let mut offered = self.open()?;
        let trace = trace.map(|(path, file)| Arc::new(Mutex::new(ChromeTrace::new(&path, file))));
        if let (Some(trace), Some(only)) = (&trace, offered.first_mut()) {
            only.volume.set_trace(Some(Box::new(Arc::clone(trace))));
        }
        let names: Vec<String> = offered.iter().map(|one| one.name.clone()).collect();
        let options =
            ServerOptions { listen: self.listen.clone(), tls, ..ServerOptions::default() };
        let server = Server::new(offered, &options, inherited, stop)?;
        let exports = Exports { monitor: server.monitor(), names: names.clone() };
        let control = self.monitor.start(exports)?;
        for address in server.addresses() {
            for name in &names {
                print(&self.uri(address, name))?;
            }
        }
        let pid_file = self.pid_file.as_deref().map(PidFile::write).transpose()?;
        if let Some(number) = self.ready_fd {
            supervisor::tell_ready(number)?;
        }
        supervisor::notify("READY=1");
        let volumes = server.run(&|place, text| note(&labelled(&names, place, text)))?;
        supervisor::notify("STOPPING=1");
        drop(control);
        let mut errors = Vec::new();
        let mut checksum_errors = 0;
        for (place, volume) in volumes.into_iter().enumerate() {
            checksum_errors += volume.counters().checksum_errors;
            let closed = volume.close().map_err(anyhow::Error::from);
            let closed = if names.len() > 1 {
                closed.with_context(|| labelled(&names, place, "close"))
            } else {
                closed
            };
            errors.extend(closed.err());
        }
        drop(pid_file);
        // Written out whatever became of the volumes.
        if let Some(trace) = trace {
            let finished = trace.lock().unwrap_or_else(PoisonError::into_inner).finish();
            errors.extend(finished.err().map(Into::into));
        }
        ended(errors, checksum_errors)
    }

    /// All volumes, open.
    fn open(&self) -> Result<Vec<Offered>> {
        let first = offer(self.export.clone(), self.volume.open(self.read_only)?, self.read_only);
        let more = self.more.iter().map(|Named { name, device }| {
            let volume = self.volume.open_other(device, self.read_only)?;
            Ok(offer(name.clone(), volume, self.read_only))
        });
        std::iter::once(Ok(first)).chain(more).collect()
    }

    /// What clients may or must do about TLS.
    fn tls(&self) -> Result<Option<Tls>> {
        let load =
            |dir: &PathBuf| Tls::from_folder(dir, self.tls_verify_peer, !self.allow_plaintext);
        Ok(self.tls_certificates.as_ref().map(load).transpose()?)
    }

    fn uri(&self, address: &Address, name: &str) -> String {
        oxblock_nbd::uri(address, name, self.tls_certificates.is_some())
    }

    /// Refuses what makes no sense, or is not safe unless it was asked for.
    fn judge(&self, inherited: &[Inherited]) -> Result<()> {
        let mut all = self.listen.clone();
        for socket in inherited {
            all.extend(socket.address().context("a socket that was passed on")?);
        }
        let open = all.iter().find(|address| address.is_remote());
        if let (Some(address), None, false) = (open, &self.tls_certificates, self.allow_plaintext) {
            let text = format!(
                "{} can be reached from other machines, and nothing is encrypted; \
                 --tls-certificates, or --allow-plaintext if that is meant",
                self.uri(address, &self.export)
            );
            return Err(Usage(text).into());
        }
        if let Some(path) = &self.pid_file {
            PidFile::judge(path)?;
        }
        if self.trace.is_some() && !self.more.is_empty() {
            return Err(Usage("a trace is of one volume; serve it alone".into()).into());
        }
        exports::judge(&self.export, &self.more)
    }

    /// The file of the trace, open, if there shall be one.
    fn trace_file(&self) -> Result<Option<(PathBuf, File)>> {
        let Some(path) = &self.trace else { return Ok(None) };
        let file = ReportFile::new(path, self.volume.paths(), "--trace")?.stream()?;
        Ok(Some((path.clone(), file)))
    }
}
