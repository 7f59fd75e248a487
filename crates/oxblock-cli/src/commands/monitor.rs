//! What servers tell about themselves while they serve.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use oxblock::Volume;
use oxblock::volume::Remote;
use oxblock_control::{Control, ControlOptions, Seen, Source};
use oxblock_nbd::Monitor;
use oxblock_net::Address;

use crate::output::note;

/// The port of the metrics.
const PORT: u16 = 10810;
/// How long a volume may take to say how it is.
const PATIENCE: Duration = Duration::from_secs(5);

/// Where to be asked.
#[derive(Args)]
pub struct MonitorArgs {
    /// Answer 'oxblock ctl' and 'oxblock top' at this socket
    #[arg(long, value_name = "SOCKET")]
    control: Option<PathBuf>,

    /// Tell figures to Prometheus at this address, several times if you like: tcp:HOST:PORT, or unix:PATH
    #[arg(long, value_name = "ADDRESS", value_parser = metrics)]
    metrics: Vec<Address>,
}

fn metrics(text: &str) -> Result<Address, String> {
    Address::parse(text, PORT)
}

impl MonitorArgs {
    /// Begins to answer about what `source` has, if anybody is to be answered. It goes on until what is returned is dropped.
    pub fn start(&self, source: impl Source + 'static) -> Result<Option<Control>> {
        if self.control.is_none() && self.metrics.is_empty() {
            return Ok(None);
        }
        // The working folder may be another one at the end.
        let control = self.control.as_ref().map(std::path::absolute).transpose();
        let options = ControlOptions {
            control: control.context("--control")?,
            metrics: self.metrics.clone(),
        };
        let control = Control::start(&options, Box::new(source))?;
        for address in control.metrics() {
            if let Address::Tcp(..) = address {
                let place = address.to_string().replacen("tcp:", "", 1);
                note(&format!("metrics at http://{place}/metrics"));
            }
        }
        Ok(Some(control))
    }
}

/// Volumes that are exports.
pub struct Exports {
    pub monitor: Monitor,
    pub names: Vec<String>,
}

impl Source for Exports {
    fn look(&self) -> Result<Vec<Seen>, String> {
        let looks = self.monitor.look(PATIENCE);
        let named = looks.into_iter().zip(&self.names);
        let seen = named.map(|(look, name)| {
            let look = look.ok_or_else(|| silent(name))?;
            Ok(Seen {
                name: name.clone(),
                info: look.info,
                traffic: look.traffic,
                clients: Some(look.clients),
            })
        });
        seen.collect()
    }
}

/// A volume that is mounted.
pub struct Mounted {
    pub remote: Remote<Volume>,
    /// Where.
    pub name: String,
}

impl Source for Mounted {
    fn look(&self) -> Result<Vec<Seen>, String> {
        let look = |volume: &mut Volume| (volume.info(), volume.traffic().clone());
        let (info, traffic) = self.remote.ask(PATIENCE, look).ok_or_else(|| silent(&self.name))?;
        Ok(vec![Seen { name: self.name.clone(), info, traffic, clients: None }])
    }
}

fn silent(name: &str) -> String {
    format!("the volume '{name}' does not answer; it may be about to be closed")
}
