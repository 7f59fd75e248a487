//! The process that is killed: it runs the mix of the simulation's driver on a volume and tells every event on its standard
//! output, in the encoding of a tape. What is to be written is told before it is handed to the volume, so that the parent
//! knows all that may be there.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use oxblock::complete::policy::CompletePolicy;
use oxblock::device::sim::Rng;
use oxblock::submit::policy::SubmitPolicy;
use oxblock::volume::{OpenOptions, Policy, Volume};
use oxblock_sim::replay::drive::{Driver, Mix};
use oxblock_sim::replay::event::Event;

use crate::output::Exit;

/// Requests a second: enough to keep a disk busy, few enough to be compared in less time than they took.
const RATE: u64 = 5000;

/// Write to a volume until somebody puts an end to it; a part of 'torture'
#[derive(Args)]
pub struct Writer {
    device: PathBuf,

    #[arg(long)]
    seed: u64,

    /// The number of the first write, less one
    #[arg(long)]
    after: u64,

    /// Bytes of the volume
    #[arg(long)]
    size: u64,
}

impl Writer {
    pub fn run(self) -> Result<Exit> {
        let mut rng = Rng::new(self.seed);
        let submit = [SubmitPolicy::Auto, SubmitPolicy::Inline, SubmitPolicy::Offload];
        let complete = [CompletePolicy::Auto, CompletePolicy::Issuer, CompletePolicy::Worker];
        let policy = Policy {
            submit: pick(&mut rng, submit),
            complete: pick(&mut rng, complete),
            ..Policy::default()
        };
        // The least, so that map nodes come and go.
        let map_cache_bytes = OpenOptions::MIN_MAP_CACHE;
        let options = OpenOptions { policy, map_cache_bytes, ..OpenOptions::default() };
        let devices = [self.device];
        let mut pipe = std::io::stdout().lock();
        let mut tell = |events: &[Event]| {
            let bytes: Vec<u8> = events.iter().flat_map(|event| event.encode()).collect();
            pipe.write_all(&bytes)?;
            pipe.flush()
        };
        let mut open = || Volume::open(&devices, &options);
        let mix = Mix { seed: self.seed, rate: RATE, after: self.after };
        Driver::new(&mix, self.size, &mut tell).lives(&mut open, &mut || false)?;
        Ok(Exit::Fine)
    }
}

fn pick<T: Copy + Default, const N: usize>(rng: &mut Rng, from: [T; N]) -> T {
    let index = usize::try_from(rng.below(N as u64)).unwrap_or(0);
    from.get(index).copied().unwrap_or_default()
}
