//! What this machine can do, measured in about a quarter of a second. Nothing here touches a device.

use std::time::Duration;

use crate::csum::{Csum, CsumKind, speed_of};
use crate::format::layout::BLOCK_SIZE;
use crate::workers::{cores, hand_off};

/// Time for each checksum.
const BUDGET: Duration = Duration::from_millis(5);

/// How long the cores are watched.
const WATCH: Duration = Duration::from_millis(100);

/// How fast one thread computes a checksum.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CsumSpeed {
    /// The type.
    pub csum: CsumKind,
    /// By a plain table, for the type that has one.
    pub table: bool,
    /// 10^9 bytes a second, in blocks of 4096 bytes.
    pub gb_per_second: f64,
}

impl CsumSpeed {
    /// The same as nanoseconds for a block, at least 1.
    pub fn block_ns(&self) -> u64 {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a positive number far from the limits"
        )]
        let ns = (BLOCK_SIZE as f64 / self.gb_per_second.max(1e-3)).round() as u64;
        ns.max(1)
    }
}

/// This machine.
#[derive(Debug, Clone, PartialEq)]
pub struct Machine {
    /// Cores that this process may use.
    pub cores: usize,
    /// Of all cores of the machine, those that had nothing to do while they were watched; `None` when the system does not
    /// say.
    pub idle_cores: Option<f64>,
    /// A job at a worker that is awake, in nanoseconds beyond the work itself.
    pub hand_off_ns: u64,
    /// The same at a worker that must be woken.
    pub wake_ns: u64,
    /// Every checksum type, and the first by table too.
    pub checksums: Vec<CsumSpeed>,
}

impl Machine {
    /// Measures it. The costs of a hand-off are measured once for a process.
    pub fn measure() -> Self {
        let idle_cores = idle_cores();
        let costs = hand_off();
        let speed = |csum, table| {
            let function = Csum::new(csum, *b"speed probe only");
            let function = if table { function.with_table_crc() } else { function };
            CsumSpeed { csum, table, gb_per_second: speed_of(&function, BUDGET) }
        };
        let mut checksums: Vec<CsumSpeed> =
            CsumKind::ALL.into_iter().map(|csum| speed(csum, false)).collect();
        checksums.insert(1, speed(CsumKind::Crc32c, true));
        Self {
            cores: cores(),
            idle_cores,
            hand_off_ns: costs.awake,
            wake_ns: costs.woken,
            checksums,
        }
    }
}

/// How many cores were idle while this one watched, which is itself idle meanwhile.
fn idle_cores() -> Option<f64> {
    let (idle, all, cores) = ticks()?;
    std::thread::sleep(WATCH);
    let (idle_then, all_then, _) = ticks()?;
    let (idle, all) = (idle_then.checked_sub(idle)?, all_then.checked_sub(all)?);
    let share = f64::from(u32::try_from(idle).ok()?) / f64::from(u32::try_from(all).ok()?.max(1));
    Some(share * f64::from(u32::try_from(cores).ok()?))
}

fn ticks() -> Option<(u64, u64, usize)> {
    parse(&std::fs::read_to_string("/proc/stat").ok()?)
}

/// Ticks that all cores together were idle, all their ticks, and how many cores there are: proc(5), `/proc/stat`.
fn parse(stat: &str) -> Option<(u64, u64, usize)> {
    let total = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let cores = stat.lines().filter(|line| line.starts_with("cpu")).count().checked_sub(1)?;
    // The last two of the ten, the time of guests, are counted in the first two already.
    let ticks: Option<Vec<u64>> =
        total.split_whitespace().take(8).map(|number| number.parse().ok()).collect();
    let ticks = ticks?;
    // Idle, and idle while something waits for a device.
    let idle = ticks.iter().skip(3).take(2).sum();
    Some((idle, ticks.iter().sum(), cores))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_measured() {
        let machine = Machine::measure();
        assert!(machine.cores > 0 && machine.hand_off_ns > 0 && machine.wake_ns > 0);
        assert_eq!(machine.checksums.len(), CsumKind::ALL.len() + 1);
        assert!(machine.checksums.iter().all(|speed| speed.gb_per_second > 0.0));
        assert!(machine.checksums.iter().filter(|speed| speed.table).count() == 1);
    }

    #[test]
    fn idle_time_is_read_from_what_the_system_says() {
        let stat = "cpu  10 20 30 400 50 6 7 8 9 10\ncpu0 1 2 3 4\ncpu1 1 2 3 4\nintr 5\n";
        assert_eq!(parse(stat), Some((450, 531, 2)));
        assert_eq!(parse("cpu  10 x 30\ncpu0 1\n"), None);
        assert_eq!(parse(""), None);
    }
}
