//! One life of the writer: it is started, killed at a random moment, and what it told until then is collected.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use oxblock::device::sim::Rng;
use oxblock_sim::replay::event::{EVENT_BYTES, Event};
use serde::Serialize;

/// How often a sleeping parent looks whether the writer lives and nobody has pressed Ctrl-C.
const LOOK: Duration = Duration::from_millis(10);

/// What a writer is told.
pub struct Round<'a> {
    pub device: &'a Path,
    pub seed: u64,
    /// The number of its first write, less one.
    pub after: u64,
    /// Bytes of the volume.
    pub size: u64,
}

/// What is left of a writer.
pub struct Lived {
    /// What it told, in order.
    pub events: Vec<Event>,
    pub ended: Ended,
}

/// How it ended.
pub enum Ended {
    Killed,
    /// Before it was killed.
    Itself {
        damage: bool,
        why: String,
    },
}

/// Counts of what writers told.
#[derive(Default, Clone, Copy, Serialize)]
pub struct Told {
    /// Writes handed over, durable ones among them.
    pub writes: u64,
    pub durable_writes: u64,
    /// Trims and zeroings handed over.
    pub zeroings: u64,
    /// Bytes of all writes.
    pub written: u64,
    /// Flushes acknowledged.
    pub flushes: u64,
}

impl Told {
    pub fn count(&mut self, event: &Event) {
        match event {
            Event::Begin { zeroes: true, .. } => self.zeroings += 1,
            Event::Begin { from, to, fua, .. } => {
                self.writes += 1;
                self.durable_writes += u64::from(*fua);
                self.written += to.saturating_sub(*from);
            }
            Event::FlushAcked { .. } => self.flushes += 1,
            _ => {}
        }
    }
}

/// A child that does not outlive its parent's interest.
struct Victim(Child);

impl Drop for Victim {
    fn drop(&mut self) {
        // Both fail only when it is gone already.
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

impl Round<'_> {
    /// Starts a writer and kills it.
    pub fn run(&self, rng: &mut Rng, stop: &AtomicBool) -> Result<Lived> {
        let pause = draw_pause(rng);
        let program = std::env::current_exe().context("find this program")?;
        let child = Command::new(program)
            .arg("torture-writer")
            .arg(self.device)
            .args(["--seed", &self.seed.to_string(), "--after", &self.after.to_string()])
            .args(["--size", &self.size.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // So that Ctrl-C at the terminal is for the parent alone.
            .process_group(0)
            .spawn()
            .context("start the writer")?;
        let mut victim = Victim(child);
        let stdout = victim.0.stdout.take().context("the writer has no pipe")?;
        let stderr = victim.0.stderr.take().context("the writer has no pipe")?;
        let told = std::thread::spawn(move || everything(stdout));
        let said = std::thread::spawn(move || everything(stderr));
        let start = Instant::now();
        let mut status = None;
        while status.is_none() && start.elapsed() < pause && !stop.load(Ordering::Relaxed) {
            std::thread::sleep(LOOK.min(pause.saturating_sub(start.elapsed())));
            status = victim.0.try_wait().context("look after the writer")?;
        }
        // SIGKILL, on Unix.
        victim.0.kill().context("kill the writer")?;
        victim.0.wait().context("wait for the writer")?;
        let told = told.join().unwrap_or_default();
        let said = said.join().unwrap_or_default();
        let events = told.chunks_exact(EVENT_BYTES).map(|bytes| {
            let bytes = bytes.try_into().ok();
            bytes.and_then(Event::decode).context("the writer told what is no event")
        });
        let ended = match status {
            None => Ended::Killed,
            Some(status) => {
                let text = String::from_utf8_lossy(&said);
                let text = text.trim().trim_start_matches("oxblock: ");
                Ended::Itself {
                    damage: status.code() == Some(3),
                    why: format!("{text} ({status})"),
                }
            }
        };
        Ok(Lived { events: events.collect::<Result<_>>()?, ended })
    }
}

/// All that comes through a pipe until its other end is closed.
fn everything(mut pipe: impl Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    // What came before an error has come.
    pipe.read_to_end(&mut bytes).ok();
    bytes
}

/// Often early, while the volume is being opened; mostly in the middle of work.
fn draw_pause(rng: &mut Rng) -> Duration {
    let most = [50, 300, 1500, 1500].get(usize::try_from(rng.below(4)).unwrap_or(0));
    Duration::from_micros(rng.below(most.copied().unwrap_or(300) * 1000))
}
