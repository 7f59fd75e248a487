//! What handing work over costs on this machine: measured once for a process, in a few milliseconds.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use super::{Claim, SPIN, Workers};

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

/// Used where there is no second core to measure on; nothing is handed over there.
const UNKNOWN: HandOff = HandOff { awake: 500, woken: 50_000 };

/// The costs here.
pub fn hand_off() -> HandOff {
    static COST: OnceLock<HandOff> = OnceLock::new();
    *COST.get_or_init(measure)
}

fn measure() -> HandOff {
    let mut workers = Workers::new(|| (), |job: ()| job);
    let begin = Instant::now();
    workers.wake();
    if !workers.is_awake() {
        return UNKNOWN;
    }
    // The thread itself has to start, once.
    round(&mut workers);
    let mut cost = HandOff { awake: u64::MAX, woken: u64::MAX };
    for _ in 0..ROUNDS {
        cost.awake = cost.awake.min(round(&mut workers));
    }
    for _ in 0..ROUNDS {
        if begin.elapsed() >= BUDGET {
            break;
        }
        let asleep = Instant::now();
        while workers.is_awake() && asleep.elapsed() < LIMIT {
            std::thread::sleep(SPIN);
        }
        // Deeply asleep, as it is when there has been nothing to do for a while.
        std::thread::sleep(SPIN);
        let begin = Instant::now();
        workers.offer((), Claim::Worker);
        workers.wake();
        cost.woken = cost.woken.min(finish(&mut workers, begin));
    }
    let woken = if cost.woken == u64::MAX { UNKNOWN.woken } else { cost.woken };
    HandOff { awake: cost.awake.max(1), woken: woken.max(1) }
}

fn round(workers: &mut Workers<(), ()>) -> u64 {
    let begin = Instant::now();
    workers.offer((), Claim::Worker);
    finish(workers, begin)
}

/// Nanoseconds from `begin` to the end of the job that is out.
fn finish(workers: &mut Workers<(), ()>, begin: Instant) -> u64 {
    workers.spin(LIMIT);
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
        assert_eq!(cost, hand_off(), "measured once");
    }
}
