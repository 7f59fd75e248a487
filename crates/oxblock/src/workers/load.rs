//! Whether there is a core to spare.
//!
//! A worker that has to share a core with its issuer, or with other programs, takes more than it gives: both spin while
//! neither gets on. So the number of tasks that want to run is looked at now and then, and when there are more of them
//! than cores, several times in a row, nothing is given away until that is over.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// Nanoseconds between two looks, each of which costs a few microseconds.
const PAUSE: u64 = 10_000_000;

/// Looks in a row that it takes to change the verdict.
const SAME: u32 = 3;

/// How busy the machine is, as far as it matters here.
#[derive(Debug)]
pub(crate) struct Load {
    /// `None` where it cannot be known; then there is always a core to spare.
    source: Option<File>,
    cores: u32,
    looked: u64,
    /// Looks in a row that contradict the verdict.
    against: u32,
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
            against: 0,
            saturated: false,
        }
    }

    /// Whether there are more tasks than cores at `now`, in nanoseconds.
    pub fn is_saturated(&mut self, now: u64) -> bool {
        if now.saturating_sub(self.looked) < PAUSE {
            return self.saturated;
        }
        self.looked = now;
        let mut line = [0; 64];
        let read = self.source.as_ref().and_then(|file| file.read_at(&mut line, 0).ok());
        let line = line.get(..read.unwrap_or(0)).unwrap_or_default();
        let runnable = std::str::from_utf8(line).ok().and_then(runnable);
        self.note(runnable.is_some_and(|runnable| runnable > self.cores));
        self.saturated
    }

    /// The verdict of the last look.
    pub fn was_saturated(&self) -> bool {
        self.saturated
    }

    fn note(&mut self, over: bool) {
        self.against = if over == self.saturated { 0 } else { self.against + 1 };
        if self.against >= SAME {
            self.saturated = over;
            self.against = 0;
        }
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
    fn the_verdict_changes_only_after_several_looks() {
        let mut load = Load { cores: 2, ..Load::new() };
        for over in [true, true, false, true, true] {
            load.note(over);
            assert!(!load.saturated);
        }
        load.note(true);
        assert!(load.saturated);
        for over in [false, false, true, false, false] {
            load.note(over);
            assert!(load.saturated);
        }
        load.note(false);
        assert!(!load.saturated);
    }
}
