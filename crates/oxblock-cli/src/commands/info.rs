//! `oxblock info`: geometry, profile, usage, health, counters.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use oxblock::volume::Info as VolumeInfo;
use serde_json::{Value, json};

use super::volume::VolumeArgs;
use super::{ctl, policy};
use crate::output::{Exit, print_json, print_table};
use crate::size::{both, human};

/// Show a volume's geometry, usage, health, counters and policies
///
/// The volume is opened read-only and not changed.
#[derive(Args)]
pub struct Info {
    #[command(flatten)]
    volume: VolumeArgs,

    /// Report as JSON
    #[arg(long)]
    json: bool,
}

impl Info {
    pub fn run(self) -> Result<Exit> {
        let volume = self.volume.open(true)?;
        let info = volume.info();
        volume.close()?;
        if self.json {
            print_json(&report(&info, self.volume.paths()))?;
        } else {
            print_table(&rows(&info, self.volume.paths()))?;
        }
        Ok(Exit::Fine)
    }
}

/// The path by which a device was opened.
fn path<'a>(paths: &'a [PathBuf], index: usize, recorded: &'a str) -> Cow<'a, str> {
    paths.get(index).map_or(Path::new(recorded), PathBuf::as_path).to_string_lossy()
}

fn report(info: &VolumeInfo, paths: &[PathBuf]) -> Value {
    let devices = info.devices.iter().enumerate().map(|(index, device)| {
        let limits = &device.limits;
        json!({
            "path": path(paths, index, &device.path),
            "recorded_path": device.path,
            "uuid": device.uuid,
            "size": device.size,
            "logical_block_size": limits.block_size,
            "dma_alignment": limits.dma_alignment,
            "io_opt": limits.io_opt,
            "bio_max_bytes": limits.bio_max_bytes,
            "write_cache": limits.write_cache,
            "fua": limits.fua.name(),
            "discard": limits.discard,
            "rotational": limits.rotational,
            "direct": limits.direct,
        })
    });
    let segments = &info.segments;
    let counters: serde_json::Map<String, Value> = info
        .counters
        .named()
        .into_iter()
        .map(|(name, value)| (name.into(), value.into()))
        .collect();
    json!({
        "uuid": info.uuid,
        "label": info.label,
        "size": info.size,
        "used": info.used,
        "capacity": info.capacity,
        "device_size": info.device_size,
        "profile": info.profile,
        "csum": info.csum,
        "csum_gb_per_second": (info.csum_speed * 100.0).round() / 100.0,
        "lanes": info.lanes,
        "created": info.created,
        "segments": {
            "size": segments.size,
            "count": segments.count,
            "free": segments.free,
            "reserved": segments.reserved,
            "open": segments.open,
            "sealed": segments.sealed,
            "pending": segments.pending,
            "damaged": segments.damaged,
        },
        "generation": info.generation,
        "epoch": info.epoch,
        "sequence": info.sequence,
        "clean": info.clean,
        "replayed": {
            "records": info.replayed.records,
            "changes": info.replayed.changes,
            "bytes": info.replayed.bytes,
        },
        "map": {
            "height": info.map.height,
            "cached": info.map.cached,
            "limit": info.map.limit,
            "dirty": info.map.dirty,
            "lookups": info.map.lookups,
            "fetched": info.map.fetched,
            "evicted": info.map.evicted,
            "lost": info.map.lost,
        },
        "checksum_errors": info.checksum_errors,
        "devices": devices.collect::<Vec<_>>(),
        "device_call": info.device_call,
        "policy": policy::in_force(&info.policy, &info.reasons),
        "counters": counters,
    })
}

fn rows<'a>(info: &'a VolumeInfo, paths: &[PathBuf]) -> Vec<(&'a str, String)> {
    let percent = (u128::from(info.used) * 100).checked_div(u128::from(info.size)).unwrap_or(0);
    let segments = &info.segments;
    let state = match (info.clean, info.replayed.changes) {
        (true, _) => "closed in good order".to_owned(),
        (false, 0) => "not closed in good order; nothing to replay".to_owned(),
        (false, changes) => format!(
            "not closed in good order; {changes} changes replayed from {} of log",
            human(info.replayed.bytes)
        ),
    };
    let health = match (info.checksum_errors, segments.damaged, info.map.lost) {
        (0, 0, 0) => "no damage seen; 'oxblock check' reads everything".to_owned(),
        (errors, damaged, lost) => format!(
            "{errors} blocks failed verification, {damaged} segments cannot be cleaned, {lost} map nodes are lost; \
             run 'oxblock check'"
        ),
    };
    let mut rows = vec![
        ("volume", info.uuid.clone()),
        ("label", info.label.clone()),
        ("size", both(info.size)),
        ("used", format!("{} ({percent} %)", human(info.used))),
        (
            "capacity",
            format!("{} of log on {} of device", human(info.capacity), human(info.device_size)),
        ),
        ("profile", info.profile.to_owned()),
        ("checksum", format!("{}, {:.1} GB/s here", info.csum, info.csum_speed)),
        ("lanes", info.lanes.to_string()),
        ("segments", ctl::segments(&info.into())),
        (
            "checkpoint",
            format!(
                "generation {}, epoch {}, sequence {}",
                info.generation, info.epoch, info.sequence
            ),
        ),
        ("state", state),
        ("health", health),
        (
            "map",
            format!(
                "{} levels; {} of {} nodes in memory, {} dirty",
                info.map.height, info.map.cached, info.map.limit, info.map.dirty
            ),
        ),
    ];
    rows.retain(|(_, value)| !value.is_empty());
    for (index, device) in info.devices.iter().enumerate() {
        let limits = &device.limits;
        rows.push((
            "device",
            format!(
                "{}, {}, {}, blocks of {}, memory aligned to {}, io_opt {}, bio_max {}, write cache {}, FUA {}, \
                 discard {}",
                path(paths, index, &device.path),
                human(device.size),
                if limits.direct { "direct I/O" } else { "buffered I/O" },
                limits.block_size,
                limits.dma_alignment,
                human(limits.io_opt.into()),
                human(limits.bio_max_bytes.into()),
                if limits.write_cache { "yes" } else { "no" },
                limits.fua.name(),
                if limits.discard { "yes" } else { "no" },
            ),
        ));
    }
    rows.push(("device call", info.device_call.clone()));
    rows.extend(
        policy::lines(&info.policy, &info.reasons).into_iter().map(|line| ("policy", line)),
    );
    let counters = info.counters.named().into_iter().filter(|(_, value)| *value > 0);
    let counters: Vec<String> =
        counters.map(|(name, value)| format!("{value} {}", name.replace('_', " "))).collect();
    if !counters.is_empty() {
        rows.push(("since opening", counters.join(", ")));
    }
    rows
}
