//! Recording a mixed run on a real file.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use oxblock::csum::CsumKind;
use oxblock::device::sim::Rng;
use oxblock::device::{DeviceOptions, IoQueue, Sharing, open_devices};
use oxblock::volume::{create_on, required_size};
use oxblock::{CreateOptions, Error, OpenOptions, Volume};

use super::drive::{Driver, Mix};
use super::event::Event;
use super::recorder::{Lie, Recorder};
use super::tape::Tape;
use crate::content::small;

/// What to record.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Where all chance comes from. The device has its own times, so two runs of a seed differ nevertheless.
    pub seed: u64,
    /// How long.
    pub time: Duration,
    /// Requests a second, at the most.
    pub rate: u64,
    /// The folder of the backing file and of the tape.
    pub folder: PathBuf,
    /// A lie of the recorder.
    pub lie: Lie,
}

/// The shape of the volume that a seed stands for.
#[derive(Debug, Clone, Copy)]
struct Shape {
    size: u64,
    csum: CsumKind,
    emulated: bool,
    map_cache: u64,
}

impl Shape {
    fn of(seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0x5ea9_e000);
        let large = rng.below(4) == 0;
        Self {
            size: if large { 1 << 30 } else { (4 + rng.below(13)) << 20 },
            csum: *CsumKind::ALL.get(small(rng.below(8))).unwrap_or(&CsumKind::Crc32c),
            emulated: rng.below(3) == 0,
            map_cache: if rng.below(2) == 0 { 256 << 10 } else { 4 << 20 },
        }
    }
}

/// A file that goes away.
struct Backing(PathBuf);

impl Drop for Backing {
    fn drop(&mut self) {
        // One that was never made is as good as gone.
        std::fs::remove_file(&self.0).ok();
    }
}

/// Runs the mix on a new file in the plan's folder and records it to `tape`. The file is gone afterwards.
///
/// # Errors
/// The file cannot be used, or the engine fails on it.
pub fn record(plan: &Plan, tape: &Path) -> Result<(), Error> {
    let shape = Shape::of(plan.seed);
    let device = required_size(shape.size)?;
    let tape = Tape::create(tape).map_err(|error| Error::io("making the tape", error))?;
    tape.add(Event::Start { seed: plan.seed, size: shape.size, device, emulated: shape.emulated });
    let name = format!("replay-{}-{}.ox", plan.seed, std::process::id());
    let backing = Backing(plan.folder.join(name));
    let queue = |lie| -> Result<Box<dyn IoQueue + Send>, Error> {
        let options = DeviceOptions {
            writable: true,
            create_size: Some(device),
            sharing: Sharing::Exclusive,
            ..DeviceOptions::default()
        };
        let opened = open_devices(std::slice::from_ref(&backing.0), &options)?;
        Ok(Box::new(Recorder::new(opened.queue, tape.clone(), shape.emulated, lie)))
    };
    let create =
        CreateOptions { size: Some(shape.size), csum: shape.csum, ..CreateOptions::default() };
    create_on(queue(Lie::None)?.as_mut(), &create, "replay")?;
    let options = OpenOptions { map_cache_bytes: shape.map_cache, ..OpenOptions::default() };
    let begun = Instant::now();
    let mut tell = |events: &[Event]| {
        events.iter().for_each(|event| tape.add(*event));
        Ok(())
    };
    let mix = Mix { seed: plan.seed, rate: plan.rate, after: 0 };
    Driver::new(&mix, shape.size, &mut tell)
        .lives(&mut || Volume::open_on(queue(plan.lie)?, &options), &mut || {
            begun.elapsed() >= plan.time
        })?;
    tape.finish().map_err(|error| Error::io("writing the tape", error))
}
