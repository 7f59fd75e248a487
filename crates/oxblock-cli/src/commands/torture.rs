//! `oxblock torture`: `kill -9` in a loop, on the user's own disk.
//!
//! A child process ([`writer`]) writes to a scratch volume, and tells by a pipe what it is about to do before it does it,
//! and what was acknowledged. It is killed at a random moment ([`round`]); then the volume is checked, opened, read from
//! end to end and compared with what the child has told ([`verify`]), by the model of the simulation.

mod round;
mod verify;
pub mod writer;

use std::borrow::Cow;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use oxblock::device::sim::Rng;
use oxblock::volume::{CreateOptions, create};
use oxblock_sim::replay::ledger::Ledger;
use serde::Serialize;

use self::round::{Ended, Round};
use self::verify::{Verdict, verify};
use crate::interrupt;
use crate::output::{Exit, Usage, nanoseconds, note, print, print_json};
use crate::progress::Display;
use crate::size;

/// How long it takes when nothing is said.
const USUAL: Duration = Duration::from_secs(60);

/// Kill a process that writes to a scratch volume, again and again, and verify that nothing is lost
///
/// Makes a scratch volume on FILE, which is overwritten. A process writes stamped blocks to it with requests of every
/// kind, flushes and durable writes, and is ended by SIGKILL at random moments. After each kill the volume is checked,
/// opened, read from end to end and compared with what was acknowledged: all of it must be there, flushed or not, and
/// nothing may be torn or wrong. The exit status is 3 when something is. A file that was made for it is removed again
/// when all is well. Ctrl-C kills and verifies once more, and reports.
#[derive(Args)]
pub struct Torture {
    /// File or block device to make the scratch volume on
    #[arg(value_name = "FILE")]
    device: PathBuf,

    /// Size of the scratch volume
    #[arg(long, default_value = "64M", value_parser = size::parse)]
    size: u64,

    /// End after so many minutes [default: 1 without --kills]
    #[arg(long, value_name = "M", value_parser = minutes)]
    minutes: Option<Duration>,

    /// End after so many kills
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    kills: Option<u64>,

    /// Where chance comes from [default: the time]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,

    /// Overwrite what FILE holds
    #[arg(long)]
    force: bool,

    /// Show no progress
    #[arg(long, short)]
    quiet: bool,

    /// Report as JSON
    #[arg(long)]
    json: bool,

    /// For tests: after this kill, lose what the volume's log holds
    #[arg(long, hide = true, value_name = "KILL")]
    lose: Option<u64>,
}

/// What came of it.
#[derive(Serialize)]
struct Report<'a> {
    device: Cow<'a, str>,
    seed: u64,
    size: u64,
    kills: u64,
    nanoseconds: u64,
    #[serde(flatten)]
    told: round::Told,
    recoveries: u64,
    replayed: u64,
    blocks: u64,
    torn_copies: u64,
    interrupted: bool,
    damage: Option<String>,
}

/// Sums over all kills.
#[derive(Default)]
struct Sums {
    kills: u64,
    told: round::Told,
    recoveries: u64,
    replayed: u64,
    torn_copies: u64,
}

impl Torture {
    pub fn run(self) -> Result<Exit> {
        if self.size == 0 {
            return Err(Usage("--size 0 makes no volume".into()).into());
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let seed = self.seed.unwrap_or(now.map_or(0, |now| u64::from(now.subsec_nanos())));
        let stop = interrupt::flag().context("watch for Ctrl-C")?;
        let was_there = self.device.exists();
        let options =
            CreateOptions { size: Some(self.size), force: self.force, ..CreateOptions::default() };
        let created = create(std::slice::from_ref(&self.device), &options, &mut |_, _| {})?;
        created.notices.iter().for_each(|notice| note(notice));
        let start = Instant::now();
        let mut sums = Sums::default();
        let mut ledger = Ledger::new();
        let tortured = self.rounds(seed, created.size, start, &stop, &mut ledger, &mut sums);
        let damage = tortured.with_context(|| format!("seed {seed}, kill {}", sums.kills))?;
        let interrupted = stop.load(Ordering::Relaxed);
        if damage.is_none() && !was_there {
            // It was nothing but a scratch file.
            std::fs::remove_file(&self.device)
                .with_context(|| format!("remove {}", self.device.display()))?;
        }
        let report = Report {
            device: self.device.to_string_lossy(),
            seed,
            size: created.size,
            kills: sums.kills,
            nanoseconds: nanoseconds(start.elapsed()),
            told: sums.told,
            recoveries: sums.recoveries,
            replayed: sums.replayed,
            blocks: ledger.checked(),
            torn_copies: sums.torn_copies,
            interrupted,
            damage,
        };
        self.tell(&report)?;
        Ok(match (&report.damage, interrupted) {
            (Some(_), _) => Exit::Damage,
            // What was asked for was not done.
            (None, true) => Exit::Failed,
            (None, false) => Exit::Fine,
        })
    }

    fn tell(&self, report: &Report<'_>) -> Result<()> {
        if self.json {
            print_json(report)?;
        } else {
            print(&report.text())?;
        }
        if let Some(damage) = &report.damage {
            note(&format!("seed {}, kill {}: {damage}", report.seed, report.kills));
            note(&format!(
                "{} is left as it is, for 'oxblock check' and 'oxblock dump'",
                self.device.display()
            ));
        }
        if report.interrupted {
            note("interrupted: the report is of what was done until then");
        }
        Ok(())
    }

    /// Kills until it is enough, or something is wrong; says what.
    fn rounds(
        &self,
        seed: u64,
        size: u64,
        start: Instant,
        stop: &AtomicBool,
        ledger: &mut Ledger,
        sums: &mut Sums,
    ) -> Result<Option<String>> {
        let mut rng = Rng::new(seed);
        let mut display = Display::new(bar, self.quiet);
        let limit = self.minutes.or(self.kills.is_none().then_some(USUAL));
        let enough = |kills| {
            stop.load(Ordering::Relaxed)
                || self.kills.is_some_and(|limit| kills >= limit)
                || limit.is_some_and(|limit| start.elapsed() >= limit)
        };
        while !enough(sums.kills) {
            let (seed, after) = (rng.next_u64(), ledger.begun());
            let round = Round { device: &self.device, seed, after, size };
            let lived = round.run(&mut rng, stop)?;
            match lived.ended {
                Ended::Killed => sums.kills += 1,
                Ended::Itself { damage: true, why } => return Ok(Some(why)),
                Ended::Itself { damage: false, why } => anyhow::bail!("the writer failed: {why}"),
            }
            for event in &lived.events {
                sums.told.count(event);
                ledger.apply(*event).map_err(|why| anyhow::anyhow!("{why}"))?;
            }
            if self.lose == Some(sums.kills) {
                self.lose()?;
            }
            match verify(&self.device, ledger, &mut rng)? {
                Verdict::Damaged(what) => return Ok(Some(what)),
                Verdict::Sound { replayed, torn_copies } => {
                    sums.recoveries += u64::from(replayed > 0);
                    sums.replayed += replayed;
                    sums.torn_copies += torn_copies;
                }
            }
            if display.is_due() {
                let left = limit.map(|limit| limit.saturating_sub(start.elapsed()));
                display.show(line(sums, self.kills, left));
            }
        }
        Ok(None)
    }

    /// Does to the volume what a device does that acknowledges and forgets: all but the superblocks is gone.
    fn lose(&self) -> Result<()> {
        let file = std::fs::File::options().write(true).open(&self.device)?;
        let end = file.metadata()?.len().saturating_sub(1 << 20);
        let zeroes = vec![0; 1 << 20];
        for at in (1 << 20..end).step_by(zeroes.len()) {
            file.write_all_at(&zeroes, at)?;
        }
        Ok(file.sync_all()?)
    }
}

impl Report<'_> {
    fn text(&self) -> String {
        let told = &self.told;
        let outcome = match self.damage {
            None => "everything acknowledged is there, nothing is torn or wrong",
            Some(_) => "the volume is damaged",
        };
        format!(
            "{} kills in {:.1} s, seed {}: {} writes ({} durable), {} trims and zeroings, {} flushes; {} recoveries; \
             {outcome}",
            self.kills,
            Duration::from_nanos(self.nanoseconds).as_secs_f64(),
            self.seed,
            told.writes,
            told.durable_writes,
            told.zeroings,
            told.flushes,
            self.recoveries,
        )
    }
}

/// A number of minutes.
fn minutes(text: &str) -> Result<Duration, String> {
    let bad = || format!("'{text}' is not a number of minutes");
    let minutes: f64 = text.parse().map_err(|_| bad())?;
    match Duration::try_from_secs_f64(minutes * 60.0) {
        Ok(time) if !time.is_zero() => Ok(time),
        _ => Err(bad()),
    }
}

/// A message and no bar proper: nobody knows how many kills there will be.
fn bar() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(5));
    match ProgressStyle::with_template("{msg}") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// `torture: 12 kills of 100, 3456 writes, 78 flushes, 40 s left`.
fn line(sums: &Sums, kills: Option<u64>, left: Option<Duration>) -> String {
    let of = kills.map(|kills| format!(" of {kills}")).unwrap_or_default();
    let left = left.map(|left| format!(", {} s left", left.as_secs())).unwrap_or_default();
    let told = &sums.told;
    format!(
        "torture: {} kills{of}, {} writes, {} flushes{left}",
        sums.kills, told.writes, told.flushes
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_how_many_and_how_long_still() {
        let told = round::Told { writes: 3456, flushes: 78, ..round::Told::default() };
        let sums = Sums { kills: 12, told, ..Sums::default() };
        let left = Some(Duration::from_millis(40_900));
        assert_eq!(
            line(&sums, Some(100), left),
            "torture: 12 kills of 100, 3456 writes, 78 flushes, 40 s left"
        );
        assert_eq!(line(&sums, None, None), "torture: 12 kills, 3456 writes, 78 flushes");
    }

    #[test]
    fn minutes_are_more_than_none() {
        assert_eq!(minutes("0.5"), Ok(Duration::from_secs(30)));
        for text in ["0", "-1", "x", "nan", "inf", ""] {
            assert!(minutes(text).is_err(), "{text}");
        }
    }
}
