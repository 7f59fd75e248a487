//! Whether there is a core to spare.
//!
//! A worker that has to share a core with its issuer, or with other programs, takes more than it gives: both spin while
//! neither gets on. So the number of tasks that want to run, the workers aside, is looked at now and then, and while these
//! leave no core for a worker nothing is given away. The workers are left out because they come and go by the verdict:
//! counted, they would bring about its opposite each time.
//!
//! One look sees what happens to run at that moment; a client that sends and waits in turn is there in one and not in
//! the next. The verdict goes by the mean of the last ones, and has room between its two bounds.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// Nanoseconds between two looks, each of which costs a few microseconds.
const PAUSE: u64 = 10_000_000;

/// Looks that the mean goes back.
const LOOKS: f64 = 8.0;

/// Part of a core by which the demand must exceed the cores for there to be none to spare ...
const FULL: f64 = 0.5;

/// ... and below which it must fall for there to be one again.
const FREE: f64 = 0.25;

/// How busy the machine is, as far as it matters here.
#[derive(Debug)]
pub(crate) struct Load {
    /// `None` where it cannot be known; then there is always a core to spare.
    source: Option<File>,
    cores: u32,
    looked: u64,
    /// Tasks that want to run beside the workers, the issuer among them: the mean of the last looks.
    others: f64,
    saturated: bool,
}

impl Load {
    /// Asks the system. The cores are those of the machine, as the tasks are.
    pub fn new() -> Self {
        let online = std::fs::read_to_string("/sys/devices/system/cpu/online").ok();
        let cores = online.as_deref().and_then(listed);
        Self {
            source: File::open("/proc/loadavg").ok(),
            cores: cores.unwrap_or_else(|| u32::try_from(super::cores()).unwrap_or(u32::MAX)),
            looked: 0,
            others: 1.0,
            saturated: false,
        }
    }

    /// Whether a worker would have no core to itself, at `now` in nanoseconds and while `workers` of them are awake.
    pub fn is_saturated(&mut self, now: u64, workers: usize) -> bool {
        if now.saturating_sub(self.looked) < PAUSE {
            return self.saturated;
        }
        self.looked = now;
        let mut line = [0; 64];
        let read = self.source.as_ref().and_then(|file| file.read_at(&mut line, 0).ok());
        let line = line.get(..read.unwrap_or(0)).unwrap_or_default();
        if let Some(runnable) = std::str::from_utf8(line).ok().and_then(runnable) {
            let workers = u32::try_from(workers).unwrap_or(u32::MAX);
            self.note(runnable.saturating_sub(workers).max(1));
        }
        self.saturated
    }

    /// The verdict of the last look.
    pub fn was_saturated(&self) -> bool {
        self.saturated
    }

    fn note(&mut self, others: u32) {
        self.others += (f64::from(others) - self.others) / LOOKS;
        let bound = if self.saturated { FREE } else { FULL };
        self.saturated = self.others + 1.0 > f64::from(self.cores) + bound;
    }
}

/// Tasks that want to run, out of a line of `/proc/loadavg`: three averages, then `runnable/all`.
fn runnable(line: &str) -> Option<u32> {
    line.split_whitespace().nth(3)?.split_once('/')?.0.parse().ok()
}

/// CPUs in a list of the system: `0-3,8`.
fn listed(list: &str) -> Option<u32> {
    list.trim().split(',').try_fold(0_u32, |sum, range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        sum.checked_add(last.checked_sub(first)?.checked_add(1)?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cores_are_understood() {
        assert_eq!(listed("0-1\n"), Some(2));
        assert_eq!(listed("0,2-3,8-63"), Some(59));
        assert_eq!([listed(""), listed("3-1"), listed("a")], [None; 3]);
    }

    #[test]
    fn the_line_is_understood() {
        assert_eq!(runnable("7.69 7.58 6.81 5/312 23938\n"), Some(5));
        assert_eq!(runnable(""), None);
        assert_eq!(runnable("1 2 3 x/4 5"), None);
    }

    #[test]
    fn the_verdict_goes_by_the_mean() {
        let mut load = Load { cores: 2, ..Load::new() };
        for others in [1, 1, 2, 1, 2, 2, 1, 1] {
            load.note(others);
            assert!(!load.saturated, "what passes is no load");
        }
        for _ in 0..8 {
            load.note(2);
        }
        assert!(load.saturated, "a client that always runs is");
        // One that waits for every third answer.
        for look in 0..100 {
            load.note(if look % 3 == 0 { 1 } else { 2 });
            assert!(load.saturated, "at look {look}");
        }
        for _ in 0..16 {
            load.note(1);
        }
        assert!(!load.saturated, "it has gone");
    }
}
