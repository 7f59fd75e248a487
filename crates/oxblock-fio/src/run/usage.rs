//! CPU time, context switches and page faults of the process, from `/proc` and the CPU clock.
//!
//! The whole process is counted, kernel I/O workers and checksum workers included: work that was
//! handed off is still work. `/proc/self/stat` splits user from system time in ticks; the CPU clock
//! gives the sum in nanoseconds.

use crate::num;
use crate::target::nanos;

/// A reading, or the difference of two.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Usage {
    /// User time, seconds.
    pub user: f64,
    /// System time, seconds.
    pub system: f64,
    /// Context switches, voluntary and not.
    pub switches: u64,
    /// Page faults that needed I/O.
    pub major_faults: u64,
    /// Page faults that did not.
    pub minor_faults: u64,
}

/// A raw reading.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Reading {
    cpu: u64,
    user_ticks: u64,
    system_ticks: u64,
    switches: u64,
    major_faults: u64,
    minor_faults: u64,
}

impl Reading {
    /// Reads the counters of this process. What cannot be read is 0.
    pub(crate) fn take() -> Self {
        let clock = rustix::time::ClockId::ProcessCPUTime;
        let mut reading =
            Self { cpu: nanos(rustix::time::clock_gettime(clock)), ..Self::default() };
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
        // The fields are counted from behind the command name, which may hold anything but ')'.
        let fields: Vec<u64> = stat
            .rsplit_once(')')
            .map(|(_, rest)| rest.split_whitespace().map(|f| f.parse().unwrap_or(0)).collect())
            .unwrap_or_default();
        let field = |number: usize| fields.get(number - 3).copied().unwrap_or(0);
        reading.minor_faults = field(10);
        reading.major_faults = field(12);
        reading.user_ticks = field(14);
        reading.system_ticks = field(15);
        reading.switches = switches();
        reading
    }

    /// What happened between `earlier` and this reading.
    pub(crate) fn since(&self, earlier: &Self) -> Usage {
        let cpu = num::float(self.cpu.saturating_sub(earlier.cpu)) / 1e9;
        let user = self.user_ticks.saturating_sub(earlier.user_ticks);
        let system = self.system_ticks.saturating_sub(earlier.system_ticks);
        // Too short for a tick: call it user time.
        let share =
            if user + system == 0 { 1.0 } else { num::percent(user, user + system) / 100.0 };
        Usage {
            user: cpu * share,
            system: cpu * (1.0 - share),
            switches: self.switches.saturating_sub(earlier.switches),
            major_faults: self.major_faults.saturating_sub(earlier.major_faults),
            minor_faults: self.minor_faults.saturating_sub(earlier.minor_faults),
        }
    }
}

/// Context switches of all live threads.
fn switches() -> u64 {
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else { return 0 };
    let of_task = |status: String| -> u64 {
        let lines = status.lines().filter(|line| line.contains("ctxt_switches:"));
        lines.filter_map(|line| line.split_whitespace().last()?.parse::<u64>().ok()).sum()
    };
    let statuses = tasks.flatten().map(|task| std::fs::read_to_string(task.path().join("status")));
    statuses.flatten().map(of_task).sum()
}

impl Usage {
    /// CPU time, seconds.
    pub fn cpu(&self) -> f64 {
        self.user + self.system
    }

    /// One of `parts` equal parts, for jobs that shared the loop.
    pub(crate) fn share(mut self, parts: u64) -> Self {
        let parts = parts.max(1);
        self.user /= num::float(parts);
        self.system /= num::float(parts);
        self.switches /= parts;
        self.major_faults /= parts;
        self.minor_faults /= parts;
        self
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.user += other.user;
        self.system += other.system;
        self.switches += other.switches;
        self.major_faults += other.major_faults;
        self.minor_faults += other.minor_faults;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spinning_shows_as_cpu_time() {
        let before = Reading::take();
        let mut x = 1u64;
        while Reading::take().cpu - before.cpu < 30_000_000 {
            x = std::hint::black_box(x.wrapping_mul(3));
        }
        let usage = Reading::take().since(&before);
        assert!(usage.cpu() >= 0.03, "{usage:?}");
    }
}
