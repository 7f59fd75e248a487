//! Volumes to change: really written by the engine, one of each checksum type and state, made when first asked for.
//!
//! They are the same in every run: identity and times are set, nothing is measured, and the device is the simulator.

use std::sync::OnceLock;

use oxblock::csum::CsumKind;
use oxblock::device::sim::{DiscardMode, SimConfig, SimDisk, Snapshot};
use oxblock::format::layout::{BLOCK_BYTES, SUPERBLOCK_SIZE};
use oxblock::format::superblock::{Superblock, offsets};
use oxblock::volume::{Costs, create_on, required_size};
use oxblock::{Buf, CreateOptions, OpenOptions, Request, RequestKind, Volume};

use super::content::{self, Model};
use super::places::Places;

/// What a volume was doing when it was left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Closed.
    Clean,
    /// Left without closing: there is a tail to replay. Everything in it was flushed.
    Tail,
    /// Small, nearly full, overwritten until segments were cleaned; with a tail.
    Worn,
}

impl State {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Clean, Self::Tail, Self::Worn];

    /// Its name in scripts.
    pub fn name(self) -> &'static str {
        match self {
            Self::Clean => "clean",
            Self::Tail => "tail",
            Self::Worn => "worn",
        }
    }
}

/// A volume as it was left.
pub struct Base {
    config: SimConfig,
    snapshot: Snapshot,
    /// What was written.
    pub model: Model,
    /// Where everything is.
    pub places: Places,
    /// Whether it was closed.
    pub state: State,
}

/// How volumes are opened here: a small cache, so that it evicts, and nothing measured, so that runs repeat.
pub fn options(read_only: bool) -> OpenOptions {
    OpenOptions {
        read_only,
        map_cache_bytes: 1 << 20,
        costs: Some(Costs { block_ns: 400, hand_off_ns: 1_000_000, wake_ns: 1_000_000 }),
        ..OpenOptions::default()
    }
}

/// Runs one request to its end.
///
/// # Errors
/// It has none.
pub fn run(volume: &mut Volume, kind: RequestKind) -> Result<oxblock::Completion, String> {
    let what = match &kind {
        RequestKind::Read { .. } => "read",
        RequestKind::Write { .. } => "write",
        RequestKind::Flush => "flush",
        RequestKind::Discard { .. } => "discard",
        RequestKind::WriteZeroes { .. } => "write of zeroes",
    };
    volume.queue(Request { tag: 7, kind });
    let mut done = Vec::new();
    for _ in 0..20_000 {
        volume.submit();
        volume.poll(&mut done);
        if let Some(done) = done.pop() {
            return Ok(done);
        }
        volume.wait(None);
    }
    Err(format!("a {what} never ends"))
}

/// Writes new versions of some blocks. Returns whether it was acknowledged.
///
/// # Errors
/// As for [`run`].
pub fn write(
    volume: &mut Volume,
    model: &mut Model,
    block: u64,
    count: u64,
) -> Result<bool, String> {
    let mut buf = Buf::new((count * BLOCK_BYTES) as usize);
    for (at, block) in buf.chunks_mut(BLOCK_BYTES as usize).zip(block..) {
        content::fill(block, model.write(block), at);
    }
    let done = run(volume, RequestKind::Write { offset: block * BLOCK_BYTES, buf, fua: false })?;
    Ok(done.result.is_ok())
}

/// Gives up some blocks. Returns whether it was acknowledged.
///
/// # Errors
/// As for [`run`].
pub fn clear(
    volume: &mut Volume,
    model: &mut Model,
    block: u64,
    count: u64,
) -> Result<bool, String> {
    (block..block + count).for_each(|block| model.clear(block));
    let kind = RequestKind::Discard { offset: block * BLOCK_BYTES, len: count * BLOCK_BYTES };
    Ok(run(volume, kind)?.result.is_ok())
}

impl Base {
    /// The volume of this checksum type in this state.
    pub fn get(csum: CsumKind, state: State) -> &'static Self {
        static ALL: [OnceLock<Base>; 12] = [const { OnceLock::new() }; 12];
        let at = usize::from(csum.id() - 1) * 3 + state as usize;
        ALL[at].get_or_init(|| Self::make(csum, state))
    }

    /// A disk of one's own with the volume on it.
    pub fn disk(&self) -> SimDisk {
        let disk = SimDisk::single(self.config.clone());
        disk.restore(&self.snapshot);
        disk
    }

    /// Makes one.
    pub(super) fn make(csum: CsumKind, state: State) -> Self {
        // Large enough for three levels of the map and two of the segment table, with segments of the smallest size; or
        // as small as it goes. The last leaf of the map is not full.
        let size = 10 * BLOCK_BYTES + if state == State::Worn { 4 << 20 } else { 300 << 20 };
        let mut config = SimConfig::new(required_size(size).unwrap(), 1);
        config.discard = DiscardMode::Zeroes;
        let disk = SimDisk::single(config.clone());
        let create = CreateOptions {
            size: Some(size),
            csum,
            label: "fuzz".into(),
            ..CreateOptions::default()
        };
        create_on(&mut disk.queue(), &create, "fuzz").unwrap();
        set_identity(&disk);
        let mut model = Model::default();
        let made = match state {
            State::Worn => wear(&disk, &mut model),
            State::Clean | State::Tail => use_a_little(&disk, &mut model, state),
        };
        made.unwrap();
        disk.power_cut_keep_all();
        let places = Places::find(&disk);
        Self { config, snapshot: disk.snapshot(), model, places, state }
    }
}

/// Replaces what creation took from chance and from the clock.
fn set_identity(disk: &SimDisk) {
    let size = disk.limits(0).unwrap().size;
    for offset in [0, 1].into_iter().flat_map(|generation| offsets(0, generation, size)) {
        let bytes = disk.read_raw(0, offset, SUPERBLOCK_SIZE);
        if let Ok(Some(mut found)) = Superblock::decode(&bytes) {
            found.volume = [7; 16];
            found.device = [8; 16];
            found.created = 1;
            found.devices[0].uuid = [8; 16];
            disk.write_raw(0, offset, &found.encode());
        }
    }
}

fn open(disk: &SimDisk) -> Result<Volume, String> {
    Volume::open_on(Box::new(disk.queue()), &options(false)).map_err(|error| error.to_string())
}

fn flush(volume: &mut Volume) -> Result<(), String> {
    run(volume, RequestKind::Flush)?.result.map_err(|error| error.to_string())
}

/// Blocks here and there, some of them several times, over several lives.
fn use_a_little(disk: &SimDisk, model: &mut Model, state: State) -> Result<(), String> {
    let mut volume = open(disk)?;
    for (block, count) in [(0, 40), (10, 10), (1000, 3), (70_000, 5), (76_801, 2)] {
        write(&mut volume, model, block, count)?;
    }
    clear(&mut volume, model, 5, 3)?;
    flush(&mut volume)?;
    volume.close().map_err(|error| error.to_string())?;
    let mut volume = open(disk)?;
    for (block, count) in [(20, 30), (256, 1), (1001, 1)] {
        write(&mut volume, model, block, count)?;
    }
    volume.close().map_err(|error| error.to_string())?;
    if state == State::Clean {
        return Ok(());
    }
    let mut volume = open(disk)?;
    for (block, count) in [(0, 4), (300, 20), (2, 1), (70_001, 1)] {
        write(&mut volume, model, block, count)?;
    }
    clear(&mut volume, model, 12, 4)?;
    write(&mut volume, model, 13, 1)?;
    flush(&mut volume)
}

/// Overwrites a small volume until its segments go round.
fn wear(disk: &SimDisk, model: &mut Model) -> Result<(), String> {
    let mut volume = open(disk)?;
    let mut chance = oxblock::device::sim::Rng::new(3);
    for block in (0..832).step_by(16) {
        write(&mut volume, model, block, 16)?;
    }
    for _ in 0..40_000 {
        write(&mut volume, model, chance.below(830), 1 + chance.below(2))?;
        if volume.counters().cleaned_segments > 4 {
            break;
        }
    }
    clear(&mut volume, model, 100, 7)?;
    flush(&mut volume)
}
