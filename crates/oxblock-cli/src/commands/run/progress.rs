//! How far the jobs of a run are: how many are running, how fast, how long still.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use oxblock_fio::Progress;

use crate::progress::{Display, rate};
use crate::size::human;

/// The progress of a run, which is told it by the runner.
pub struct JobsProgress {
    display: Display,
    /// When the phase began, ns.
    first: Option<u64>,
    /// What was shown last of the phase: rates are over the time since.
    last: Option<Progress>,
}

impl JobsProgress {
    /// Nothing so far; nothing at all with `quiet`.
    pub fn new(quiet: bool) -> Self {
        Self { display: Display::new(bar, quiet), first: None, last: None }
    }

    /// Shows `now`, if it is time to.
    pub fn show(&mut self, now: &Progress) {
        // A new phase counts from zero again.
        if self.last.is_some_and(|last| now.ios < last.ios) {
            (self.first, self.last) = (None, None);
        }
        let first = *self.first.get_or_insert(now.nanos);
        if self.display.is_due() {
            self.display.show(line(now, self.last.as_ref(), first));
            self.last = Some(*now);
        }
    }
}

/// A message and no bar proper: the figures of the jobs say more.
fn bar() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(5));
    match ProgressStyle::with_template("{msg}") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// `jobs: 2  45 %  120 MiB/s  30720 IOPS  12 s left`.
fn line(now: &Progress, last: Option<&Progress>, first: u64) -> String {
    let percent = (now.fraction * 100.0).clamp(0.0, 100.0);
    let mut line = format!("jobs: {}  {percent:.0} %", now.running);
    if let Some(last) = last {
        let since = Duration::from_nanos(now.nanos.saturating_sub(last.nanos));
        line += &format!(
            "  {}/s  {} IOPS",
            human(rate(now.bytes.saturating_sub(last.bytes), since)),
            rate(now.ios.saturating_sub(last.ios), since)
        );
    }
    let elapsed = Duration::from_nanos(now.nanos.saturating_sub(first));
    if now.fraction > 0.01 && now.fraction < 1.0 {
        let left = elapsed.as_secs_f64() * (1.0 - now.fraction) / now.fraction;
        line += &format!("  {left:.0} s left");
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_how_far_how_fast_and_how_long_still() {
        let at =
            |fraction, ios, nanos| Progress { running: 2, fraction, ios, bytes: ios * 4096, nanos };
        let last = at(0.25, 1000, 2_000_000_000);
        let now = at(0.5, 2000, 3_000_000_000);
        assert_eq!(
            line(&now, Some(&last), 1_000_000_000),
            "jobs: 2  50 %  3.9 MiB/s  1000 IOPS  2 s left"
        );
        assert_eq!(line(&at(0.0, 0, 5), None, 5), "jobs: 2  0 %");
    }
}
