//! Many seeds, on all cores, reported in their order.
//!
//! A seed is run by one thread from beginning to end and shares nothing with any other, so what comes of it does not
//! depend on how many threads there are.

use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::mask::Mask;
use crate::plan::Plan;
use crate::run::{Outcome, run_masked};
use crate::sabotage::Sabotage;

/// What to run, and how.
#[derive(Debug, Clone)]
pub struct Soak {
    /// The seeds.
    pub seeds: Range<u64>,
    /// Threads.
    pub jobs: usize,
    /// No seed is begun after so long.
    pub limit: Option<Duration>,
    /// The fault on purpose.
    pub sabotage: Sabotage,
    /// What of each plan is played.
    pub mask: Mask,
    /// Every seed twice; it fails when the two differ.
    pub twice: bool,
}

impl Soak {
    /// All of the plans of `seeds`, once, with a fault on purpose, on all cores.
    pub fn new(seeds: Range<u64>, sabotage: Sabotage) -> Self {
        let jobs = thread::available_parallelism().map_or(1, usize::from);
        Self { seeds, jobs, limit: None, sabotage, mask: Mask::default(), twice: false }
    }

    /// Runs the seeds and hands each outcome to `each`, in the order of the seeds, until that breaks off.
    pub fn run(&self, each: &mut dyn FnMut(u64, Outcome) -> ControlFlow<()>) {
        let begun = Instant::now();
        let next = AtomicU64::new(self.seeds.start);
        let over = AtomicBool::new(false);
        let (sender, receiver) = mpsc::channel();
        thread::scope(|scope| {
            for _ in 0..self.jobs.max(1) {
                let sender = sender.clone();
                let (next, over) = (&next, &over);
                scope.spawn(move || {
                    while !over.load(Ordering::Relaxed)
                        && self.limit.is_none_or(|limit| begun.elapsed() < limit)
                    {
                        let seed = next.fetch_add(1, Ordering::Relaxed);
                        let done = seed >= self.seeds.end;
                        if done || sender.send((seed, self.one(seed))).is_err() {
                            break;
                        }
                    }
                });
            }
            drop(sender);
            let mut early = BTreeMap::new();
            let mut turn = self.seeds.start;
            for (seed, outcome) in receiver {
                early.insert(seed, outcome);
                while let Some(outcome) = early.remove(&turn) {
                    let flow = each(turn, outcome);
                    turn += 1;
                    if flow.is_break() {
                        over.store(true, Ordering::Relaxed);
                        return;
                    }
                }
            }
        });
    }

    fn one(&self, seed: u64) -> Outcome {
        let run = || run_masked(Plan::new(seed), self.sabotage, &self.mask);
        let mut outcome = run();
        if self.twice && outcome.failure.is_none() {
            let second = run();
            if second.digest != outcome.digest {
                outcome.failure = Some(crate::Failure {
                    seed,
                    step: 0,
                    life: 0,
                    played: Vec::new(),
                    what: "two runs of it differ".into(),
                    mask: self.mask.clone(),
                    sabotage: self.sabotage,
                });
            }
        }
        outcome
    }
}
