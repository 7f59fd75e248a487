//! Shrinking: a failing run becomes a short one that fails still.
//!
//! Lives are left out, then turns, and parts of the plan are made plain, as long as the run still fails; what is left is
//! a [`Mask`], which replays it. A shorter run may fail in another way than the first did; it is a finding all the same.
//! The number of runs is bounded, and so is the time, so where time decides two machines may come to different masks.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::mask::{Mask, Plain};
use crate::plan::Plan;
use crate::run::{Failure, run_masked, tell};

/// How much shrinking may take.
#[derive(Debug, Clone, Copy)]
pub struct Budget {
    /// Runs, at the most.
    pub runs: u64,
    /// No run is begun after this long.
    pub time: Duration,
}

impl Default for Budget {
    fn default() -> Self {
        Self { runs: 1000, time: Duration::from_secs(30) }
    }
}

/// What shrinking came to.
#[derive(Debug, Clone)]
pub struct Shrunk {
    /// The shortest run that fails.
    pub failure: Failure,
    /// What happens in it, line by line.
    pub story: Vec<String>,
    /// Runs that it took.
    pub runs: u64,
}

struct Shrinker<'a> {
    plan: &'a Plan,
    best: Failure,
    runs: u64,
    most: u64,
    until: Instant,
}

/// The mask that plays only `lives`.
fn keep_lives(mask: &Mask, lives: &[u64]) -> Mask {
    let lives: BTreeSet<u64> = lives.iter().copied().collect();
    let mut mask = mask.clone();
    mask.turns.retain(|life, _| lives.contains(life));
    Mask { lives: Some(lives), ..mask }
}

/// Shrinks a run of `plan` that ended with `failure`.
pub fn shrink(plan: &Plan, failure: &Failure, budget: Budget) -> Shrunk {
    let mut shrinker = Shrinker {
        plan,
        best: failure.clone(),
        runs: 0,
        most: budget.runs,
        until: Instant::now() + budget.time,
    };
    let mut before = None;
    while !shrinker.is_spent() && before.as_ref() != Some(&shrinker.best.mask) {
        before = Some(shrinker.best.mask.clone());
        shrinker.lives();
        shrinker.plains();
        shrinker.turns();
    }
    let Shrinker { best, runs, .. } = shrinker;
    let (outcome, story) = tell(plan.clone(), best.sabotage, &best.mask);
    Shrunk { failure: outcome.failure.unwrap_or(best), story, runs }
}

impl Shrinker<'_> {
    fn is_spent(&self) -> bool {
        self.runs >= self.most || Instant::now() >= self.until
    }

    /// Plays `mask`; true when that fails, and then it is the best.
    fn fails(&mut self, mask: &Mask) -> bool {
        if self.is_spent() {
            return false;
        }
        self.runs += 1;
        match run_masked(self.plan.clone(), self.best.sabotage, mask).failure {
            Some(failure) => {
                self.best = failure;
                true
            }
            None => false,
        }
    }

    /// Leaves out as many of `items` as can be: halves, then quarters, down to one by one. `with` makes the mask that
    /// keeps what it is given.
    fn reduce(&mut self, mut items: Vec<u64>, with: impl Fn(&Mask, &[u64]) -> Mask) {
        let mut size = items.len();
        while size > 0 {
            let mut at = 0;
            while at < items.len() {
                let end = (at + size).min(items.len());
                let mut fewer = items.clone();
                fewer.drain(at..end);
                match self.fails(&with(&self.best.mask, &fewer)) {
                    true => items = fewer,
                    false => at = end,
                }
            }
            size /= 2;
        }
    }

    fn lives(&mut self) {
        let last = self.best.life.min(self.plan.lives.saturating_sub(1));
        let mask = self.best.mask.clone();
        let lives: Vec<u64> = (0..=last).filter(|life| mask.has_life(*life)).collect();
        // What comes after the failure is not played anyhow.
        self.best.mask = keep_lives(&mask, &lives);
        self.reduce(lives, keep_lives);
    }

    fn turns(&mut self) {
        let lives: BTreeSet<u64> = self.best.played.iter().map(|(life, _)| *life).collect();
        for life in lives.into_iter().rev() {
            let played = self.best.played.iter().filter(|(at, _)| *at == life);
            let turns: Vec<u64> = played.map(|(_, turn)| *turn).collect();
            self.reduce(turns, |mask, turns| {
                let mut mask = mask.clone();
                mask.turns.insert(life, turns.iter().copied().collect());
                mask
            });
        }
    }

    fn plains(&mut self) {
        for plain in Plain::ALL {
            let mut mask = self.best.mask.clone();
            if mask.plain.insert(*plain) {
                self.fails(&mask);
            }
        }
    }
}
