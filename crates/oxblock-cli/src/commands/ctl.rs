//! `oxblock ctl`: questions to a server that serves.

use std::io::ErrorKind;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use clap::{Args, Subcommand};
use oxblock_control::Client;
use oxblock_control::report::{Requests, Segments, Stats, Status, VolumeStats, VolumeStatus};
use serde::Serialize;

use crate::output::{Exit, note, print, print_table};
use crate::size::human;

/// Ask a server how it is, at its control socket
///
/// 'oxblock serve' and 'oxblock mount' have one with --control SOCKET. It is for the user who started the server, and for root.
/// The exit status of 'status' is 3 when a volume has failed or damage was seen.
#[derive(Args)]
pub struct Ctl {
    /// The control socket
    socket: PathBuf,

    #[command(subcommand)]
    ask: Ask,
}

#[derive(Subcommand)]
enum Ask {
    /// What is served, and how it is
    Status(Form),
    /// Figures: requests and how long they took, counters, devices
    Stats(Form),
}

#[derive(Args)]
struct Form {
    /// Report as JSON
    #[arg(long)]
    json: bool,
}

impl Ctl {
    pub fn run(self) -> Result<Exit> {
        let place = || self.socket.display().to_string();
        let mut client = connect(&self.socket)?;
        match self.ask {
            Ask::Status(form) => {
                let status = client.status().with_context(place)?;
                form.print(&status, status_rows(&status))?;
                Ok(judge(&status))
            }
            Ask::Stats(form) => {
                let stats = client.stats().with_context(place)?;
                form.print(&stats, stats_rows(&stats))?;
                Ok(Exit::Fine)
            }
        }
    }
}

/// Connects to a control socket. The system says of a file that is none what it says of one on which nobody listens.
pub fn connect(socket: &Path) -> Result<Client> {
    let place = socket.display();
    if std::fs::metadata(socket).is_ok_and(|found| !found.file_type().is_socket()) {
        return Err(anyhow!("{place} is not a socket"));
    }
    Client::connect(socket).map_err(|error| {
        let said = match error.kind() {
            ErrorKind::PermissionDenied => format!("no permission to connect to {place}"),
            _ => format!("no server answers at {place}"),
        };
        anyhow::Error::new(error).context(said)
    })
}

impl Form {
    fn print(&self, report: &impl Serialize, tables: Vec<Vec<(&str, String)>>) -> Result<()> {
        if self.json {
            // It has its version from the server.
            return print(&serde_json::to_string_pretty(report)?);
        }
        for (place, table) in tables.iter().enumerate() {
            if place > 0 {
                print("")?;
            }
            print_table(table)?;
        }
        Ok(())
    }
}

fn judge(status: &Status) -> Exit {
    let mut exit = Exit::Fine;
    for volume in &status.volumes {
        if let Some(why) = &volume.failed {
            note(&format!("'{}' takes no more writes: {why}", volume.name));
            exit = Exit::Damage;
        }
        if volume.checksum_errors > 0 || volume.map.lost > 0 {
            note(&format!("damage was seen in '{}'; run 'oxblock check'", volume.name));
            exit = Exit::Damage;
        }
    }
    exit
}

fn percent(part: u64, whole: u64) -> u128 {
    (u128::from(part) * 100).checked_div(u128::from(whole)).unwrap_or(0)
}

fn status_rows(status: &Status) -> Vec<Vec<(&'static str, String)>> {
    let seconds = status.uptime / 1_000_000_000;
    let server = vec![
        ("server", format!("oxblock {}, process {}", status.program, status.pid)),
        ("serving", format!("{} h {} min {} s", seconds / 3600, seconds / 60 % 60, seconds % 60)),
    ];
    std::iter::once(server).chain(status.volumes.iter().map(volume_rows)).collect()
}

fn volume_rows(volume: &VolumeStatus) -> Vec<(&'static str, String)> {
    let state = match &volume.failed {
        Some(why) => format!("{}: {why}", volume.state.name()),
        None => volume.state.name().to_owned(),
    };
    let map = &volume.map;
    let mut rows = vec![
        ("export", format!("'{}'", volume.name)),
        ("volume", volume.uuid.clone()),
        ("label", volume.label.clone()),
        ("state", state),
        ("clients", volume.clients.map(|count| count.to_string()).unwrap_or_default()),
        ("size", human(volume.size)),
        ("used", format!("{} ({} %)", human(volume.used), percent(volume.used, volume.size))),
        ("segments", segments(&volume.segments)),
        ("map", format!("{} of {} nodes in memory, {} dirty", map.cached, map.limit, map.dirty)),
        (
            "damage",
            match (volume.checksum_errors, map.lost) {
                (0, 0) => "none seen".to_owned(),
                (errors, lost) => {
                    format!("{errors} blocks failed verification, {lost} map nodes are lost")
                }
            },
        ),
        ("device call", volume.device_call.clone()),
    ];
    rows.retain(|(_, value)| !value.is_empty());
    rows.extend(volume.devices.iter().map(|device| {
        let text = format!("{}, {}, {} errors", device.path, human(device.size), device.errors);
        ("device", text)
    }));
    rows
}

/// Segments, by state.
pub fn segments(segments: &Segments) -> String {
    format!("{} of {}: {segments}", segments.count, human(segments.size))
}

fn stats_rows(stats: &Stats) -> Vec<Vec<(&str, String)>> {
    stats.volumes.iter().map(figures).collect()
}

fn figures(volume: &VolumeStats) -> Vec<(&str, String)> {
    let map = &volume.map;
    let mut rows = vec![("export", format!("'{}'", volume.name))];
    rows.extend(volume.requests.iter().map(|(kind, flow)| (kind.as_str(), requests(flow))));
    rows.push((
        "map",
        format!("{} look-ups, {} nodes read, {} dropped", map.lookups, map.fetched, map.evicted),
    ));
    rows.extend(volume.devices.iter().map(|device| {
        let text = format!(
            "{}: {} reads of {}, {} writes of {}, {} flushes, {} discards, {} errors",
            device.path,
            device.reads,
            human(device.read_bytes),
            device.writes,
            human(device.written_bytes),
            device.flushes,
            device.discards,
            device.errors
        );
        ("device", text)
    }));
    let counters = volume.counters.iter().filter(|(_, value)| **value > 0);
    rows.extend(counters.map(|(name, value)| (name.as_str(), value.to_string())));
    rows
}

/// Times in microseconds, as people read them.
fn requests(flow: &Requests) -> String {
    let micros = |name: &str| {
        let nanos = flow.latency.get(name).copied().unwrap_or_default();
        format!("{}.{}", nanos / 1000, nanos / 100 % 10)
    };
    format!(
        "{} of {}, {} errors, {} under way; us: mean {}, p50 {}, p99 {}, p99.9 {}, max {}",
        flow.count,
        human(flow.bytes),
        flow.errors,
        flow.in_flight,
        micros("mean"),
        micros("p50"),
        micros("p99"),
        micros("p99.9"),
        micros("max")
    )
}
