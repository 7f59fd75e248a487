//! `oxblock tune`: what this machine and this device can do, and the policy that follows from it.
//!
//! Without `--apply` and `--reset` the volume is opened read-only, and nothing is written.

mod reads;
mod report;

use anyhow::{Context, Result};
use clap::Args;
use oxblock::Policy;
use oxblock::volume::{Choice, Costs, Facts, Info, Machine, Measured, Volume, choose};
use serde_json::json;

use self::reads::{BioReads, Reads, bio_reads, reads, stretches};
use super::policy;
use super::volume::VolumeArgs;
use crate::output::{Exit, note, print, print_json, print_table};

/// Measure this machine and a volume's device, and say which policy they suggest and why
///
/// Only reads are measured, of what the volume holds, through the volume and verified. Nothing is changed without --apply
/// or --reset. What --policy names is not left to the measurement: with --apply it is kept as it is given.
#[derive(Args)]
pub struct Tune {
    #[command(flatten)]
    volume: VolumeArgs,

    /// Keep the policy in the volume, for everyone who opens it
    #[arg(long)]
    apply: bool,

    /// Measure nothing, and remove the policy that the volume keeps
    #[arg(long, conflicts_with = "apply")]
    reset: bool,

    /// Report as JSON
    #[arg(long)]
    json: bool,
}

/// All that was measured, and what follows.
struct Tuned {
    info: Info,
    machine: Machine,
    reads: Vec<Reads>,
    bios: Option<BioReads>,
    choice: Choice,
    /// What the volume keeps in the end.
    stored: Policy,
    applied: bool,
}

impl Tune {
    pub fn run(self) -> Result<Exit> {
        if self.reset {
            return self.reset();
        }
        if self.apply {
            // What cannot be kept is not measured for: this needs the volume for writing, and writes nothing.
            Volume::open(self.volume.paths(), &self.volume.options(false)?)?.close()?;
        }
        let mut tuned = self.measure()?;
        if self.apply {
            self.keep(&tuned.choice.policy)?;
            tuned.stored = tuned.choice.policy;
            tuned.applied = true;
        }
        if self.json {
            print_json(&report::object(&tuned))?;
        } else {
            print_table(&report::rows(&tuned))?;
        }
        let failed: u64 = tuned.reads.iter().map(|reads| reads.failed).sum::<u64>()
            + tuned.bios.as_ref().map_or(0, |bios| bios.failed);
        if failed > 0 {
            note(&format!("{failed} reads failed; run 'oxblock check'"));
            return Ok(Exit::Damage);
        }
        Ok(Exit::Fine)
    }

    /// Measures and chooses.
    fn measure(&self) -> Result<Tuned> {
        let machine = Machine::measure();
        let mut volume = self.volume.open(true)?;
        let stretches = stretches(&mut volume);
        let reads = reads(&mut volume, &stretches);
        let (info, facts, stored) = (volume.info(), volume.facts(), volume.stored_policy());
        let options = self.volume.options(true)?;
        let bios = bio_reads(self.volume.paths(), &options, &facts, &stretches)
            .context("read with other limits")?;
        volume.close()?;
        let mut choice = choose(&measured(&machine, facts, bios.as_ref()));
        self.take_over(&mut choice)?;
        Ok(Tuned { info, machine, reads, bios, choice, stored, applied: false })
    }

    /// What the arguments name is not chosen.
    fn take_over(&self, choice: &mut Choice) -> Result<()> {
        let text = self.volume.policy_text().unwrap_or_default();
        choice.policy.apply(text)?;
        let named = |part: &str| {
            text.split(',')
                .any(|item| item.split('=').next().is_some_and(|name| name.trim() == part))
        };
        for (part, why) in policy::PARTS.into_iter().zip(&mut choice.why) {
            if named(part) {
                "as given".clone_into(why);
            }
        }
        Ok(())
    }

    /// Has the volume keep a policy.
    fn keep(&self, policy: &Policy) -> Result<()> {
        let mut volume = Volume::open(self.volume.paths(), &self.volume.options(false)?)?;
        let stored = volume.store_policy(policy);
        // In good order even when that failed; the first error is the one to tell.
        let closed = volume.close();
        stored.context("keep the policy in the volume")?;
        Ok(closed?)
    }

    fn reset(&self) -> Result<Exit> {
        self.volume.refuse_policy("--reset removes what the volume keeps")?;
        let volume = self.volume.open(true)?;
        let stored = volume.stored_policy();
        volume.close()?;
        self.keep(&Policy::default())?;
        if self.json {
            print_json(&json!({ "removed": policy::object(&stored) }))?;
        } else if stored == Policy::default() {
            print("the volume kept no policy")?;
        } else {
            print(&format!("removed from the volume: {stored}"))?;
        }
        Ok(Exit::Fine)
    }
}

/// What is chosen from: whatever policy the volume was opened with, the costs are those of its checksum by the fast code.
fn measured(machine: &Machine, facts: Facts, bios: Option<&BioReads>) -> Measured {
    let block_ns = |table| {
        let mut speeds = machine.checksums.iter();
        let speed = speeds.find(|speed| speed.csum == facts.csum && speed.table == table);
        speed.map_or(facts.costs.block_ns, |speed| speed.block_ns())
    };
    let costs = Costs {
        block_ns: block_ns(false),
        hand_off_ns: machine.hand_off_ns,
        wake_ns: machine.wake_ns,
    };
    Measured {
        facts: Facts { costs, ..facts },
        idle_cores: machine.idle_cores,
        table_ns: block_ns(true),
        bio_reads: bios.map(|bios| bios.reads.clone()).unwrap_or_default(),
    }
}
