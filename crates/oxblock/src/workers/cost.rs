//! What handing work over costs on this machine: measured once for a process, in a few milliseconds.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use super::{Claim, POLITE, SPIN, Workers};

/// Rounds of each measurement; the best counts, for a round can only be slowed down.
const ROUNDS: usize = 3;

/// The longest that one round may take before the measurement gives up on it: on a busy machine a volume must open all
/// the same.
const LIMIT: Duration = Duration::from_millis(1);

/// The longest that all of it may take.
const BUDGET: Duration = Duration::from_millis(5);

/// What a job costs beyond its own work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HandOff {
    /// From the offer to its end, by a worker that is awake, in nanoseconds.
    pub awake: u64,
    /// The same by a worker that must be woken first, in nanoseconds.
    pub woken: u64,
}

/// Where no thread is to be had, or none of its jobs ended in time.
const UNKNOWN: HandOff = HandOff { awake: 500, woken: 50_000 };

/// The costs here.
pub fn hand_off() -> HandOff {
    static COST: OnceLock<HandOff> = OnceLock::new();
    *COST.get_or_init(measure)
}

fn measure() -> HandOff {
    let mut workers = Workers::new(|| (), |job: ()| job);
    let begin = Instant::now();
    let mut cost = HandOff { awake: u64::MAX, woken: u64::MAX };
    for attempt in 0.. {
        let woken = wake(&mut workers);
        // The first has a thread to start. That begins on the issuer's core, where both spin in turn: only after it has
        // slept once is it woken on another.
        if attempt > 0 {
            cost.woken = cost.woken.min(woken);
        }
        for _ in 0..ROUNDS {
            // What is late would be taken for the end of the next job.
            if workers.out() == 0 {
                cost.awake = cost.awake.min(round(&mut workers));
            }
        }
        let enough = attempt >= ROUNDS && !took_turns(&cost);
        if enough || workers.out() > 0 || begin.elapsed() >= BUDGET {
            break;
        }
        let asleep = Instant::now();
        while workers.is_awake() && asleep.elapsed() < LIMIT {
            std::thread::sleep(SPIN);
        }
        // Deeply asleep, as it is when there has been nothing to do for a while.
        std::thread::sleep(SPIN);
    }
    if took_turns(&cost) && !workers.is_crowded() {
        // There is another core, and the two will be parted when there is work.
        cost.awake = UNKNOWN.awake;
    }
    let known = |cost: u64, unknown: u64| if cost == u64::MAX { unknown } else { cost.max(1) };
    HandOff { awake: known(cost.awake, UNKNOWN.awake), woken: known(cost.woken, UNKNOWN.woken) }
}

/// Issuer and worker spun on one core in turn, which says nothing about a worker that has a core. What takes longer still
/// tells of a busy machine.
fn took_turns(cost: &HandOff) -> bool {
    (POLITE..LIMIT).contains(&Duration::from_nanos(cost.awake))
}

/// A job for a worker that sleeps.
fn wake(workers: &mut Workers<(), ()>) -> u64 {
    let begin = Instant::now();
    workers.offer((), Claim::Worker);
    workers.summon();
    finish(workers, begin)
}

/// A job for a worker that is awake.
fn round(workers: &mut Workers<(), ()>) -> u64 {
    let begin = Instant::now();
    workers.offer((), Claim::Worker);
    if !workers.is_awake() {
        // On one core it sleeps whenever there is nothing to do.
        workers.summon();
    }
    finish(workers, begin)
}

/// Nanoseconds from `begin` to the end of the job that is out.
fn finish(workers: &mut Workers<(), ()>, begin: Instant) -> u64 {
    while !workers.spin(LIMIT) && workers.is_crowded() && begin.elapsed() < LIMIT {
        std::thread::yield_now();
    }
    let taken = u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let mut done = Vec::new();
    if workers.reap(&mut done) == 0 {
        workers.reclaim();
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hand_off_costs_something_and_waking_costs_more() {
        let cost = hand_off();
        println!("awake {} ns, woken {} ns", cost.awake, cost.woken);
        assert!(cost.awake > 0 && cost.woken > 0);
        assert!(crate::workers::cores() == 1 || !took_turns(&cost), "not of a core of its own");
        assert_eq!(cost, hand_off(), "measured once");
    }
}
