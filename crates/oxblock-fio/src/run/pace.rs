//! When a job may issue its next I/O: `rate`, `rate_iops` and `thinktime`.
//!
//! Rates are linear: I/O number N, or byte number N, is due at `start + N / rate`, so a job that
//! was held up catches up. Times are nanoseconds on the target's clock; one beyond its end is its end.

use super::stream::Direction;
use crate::jobfile::JobOptions;
use crate::num;

/// The clocks of one job.
#[derive(Debug, Clone)]
pub(crate) struct Pace {
    bytes_per_second: [u64; 3],
    ios_per_second: [u64; 3],
    limited: bool,
    start: u64,
    bytes: [u64; 3],
    ios: [u64; 3],
    thinktime: u64,
    spin: u64,
    blocks: u64,
    /// I/Os completed since the last pause.
    since_pause: u64,
    /// The pause ends then; 0 while there is none.
    pause_until: u64,
}

impl Pace {
    pub(crate) fn new(job: &JobOptions) -> Self {
        Self {
            bytes_per_second: job.rate,
            ios_per_second: job.rate_iops,
            limited: job.rate.iter().chain(&job.rate_iops).any(|rate| *rate > 0),
            start: 0,
            bytes: [0; 3],
            ios: [0; 3],
            thinktime: job.thinktime,
            spin: job.thinktime_spin,
            blocks: job.thinktime_blocks.max(1),
            since_pause: 0,
            pause_until: 0,
        }
    }

    /// Starts, or restarts, the clocks.
    pub(crate) fn begin(&mut self, now: u64) {
        (self.start, self.bytes, self.ios) = (now, [0; 3], [0; 3]);
    }

    /// When the next I/O in `direction` is due; 0 for at once.
    pub(crate) fn due(&self, direction: Direction) -> u64 {
        if !self.limited {
            return 0;
        }
        let at = |rates: &[u64; 3], done: &[u64; 3]| {
            let rate = rates.get(direction as usize).copied().unwrap_or(0);
            let done = done.get(direction as usize).copied().unwrap_or(0);
            self.start.saturating_add(num::scale(done, 1_000_000_000, rate))
        };
        at(&self.bytes_per_second, &self.bytes).max(at(&self.ios_per_second, &self.ios))
    }

    /// Counts an issued I/O.
    pub(crate) fn issued(&mut self, direction: Direction, len: u32) {
        if !self.limited {
            return;
        }
        if let Some(bytes) = self.bytes.get_mut(direction as usize) {
            *bytes += u64::from(len);
        }
        if let Some(ios) = self.ios.get_mut(direction as usize) {
            *ios += 1;
        }
    }

    /// Counts a completed I/O.
    pub(crate) fn completed(&mut self) {
        self.since_pause += 1;
    }

    /// Is a pause due, or on? `None` when not; `Some(0)` until everything in flight is back, then
    /// the time at which the pause ends.
    pub(crate) fn pause(&mut self, now: u64, in_flight: u32) -> Option<u64> {
        if self.thinktime == 0 || self.since_pause < self.blocks {
            return None;
        }
        if in_flight > 0 {
            return Some(0);
        }
        if self.pause_until == 0 {
            self.pause_until = now.saturating_add(self.thinktime);
        }
        if now < self.pause_until {
            return Some(self.pause_until);
        }
        (self.pause_until, self.since_pause) = (0, 0);
        None
    }

    /// Should the loop spin instead of sleeping at `now`? True in the spinning part of a pause.
    pub(crate) fn spins(&self, now: u64) -> bool {
        // The spin is never longer than the pause.
        let sleep_from = self.pause_until.saturating_sub(self.thinktime.saturating_sub(self.spin));
        self.spin > 0 && self.pause_until > 0 && now < sleep_from
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_linear_and_per_direction() {
        let job = JobOptions { rate: [1000, 0, 0], rate_iops: [0, 10, 0], ..Default::default() };
        let mut pace = Pace::new(&job);
        pace.begin(5);
        assert_eq!(pace.due(Direction::Read), 5);
        pace.issued(Direction::Read, 500);
        assert_eq!(pace.due(Direction::Read), 500_000_005);
        pace.issued(Direction::Write, 1);
        assert_eq!(pace.due(Direction::Write), 100_000_005);
    }

    #[test]
    fn pauses_wait_for_what_is_in_flight() {
        let job = JobOptions { thinktime: 100, thinktime_blocks: 2, ..Default::default() };
        let mut pace = Pace::new(&job);
        pace.completed();
        assert_eq!(pace.pause(0, 1), None);
        pace.completed();
        assert_eq!(pace.pause(1, 1), Some(0));
        assert_eq!(pace.pause(2, 0), Some(102));
        assert_eq!(pace.pause(50, 0), Some(102));
        assert_eq!(pace.pause(102, 0), None);
        assert_eq!(pace.pause(103, 0), None);
    }
}
