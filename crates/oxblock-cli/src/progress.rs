//! Progress of long work, on standard error: a bar with rate and time left on a terminal, else a plain line every few
//! seconds, and nothing at all for work that is done before the first of them.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::output::note;
use crate::size::human;

/// Seconds between two plain lines.
const EVERY: Duration = Duration::from_secs(5);

/// Where progress is shown, whatever it is the progress of.
pub struct Display(Shown);

enum Shown {
    Bar(ProgressBar),
    Lines { last: Instant },
    Nothing,
}

impl Display {
    /// A display that is `bar` on a terminal. With `quiet` it shows nothing.
    pub fn new(bar: impl FnOnce() -> ProgressBar, quiet: bool) -> Self {
        Self(if quiet {
            Shown::Nothing
        } else if std::io::stderr().is_terminal() {
            Shown::Bar(bar())
        } else {
            Shown::Lines { last: Instant::now() }
        })
    }

    /// It is time to show something: always on a terminal, every few seconds otherwise.
    pub fn is_due(&self) -> bool {
        match &self.0 {
            Shown::Bar(_) => true,
            Shown::Lines { last } => last.elapsed() >= EVERY,
            Shown::Nothing => false,
        }
    }

    /// Shows `text`, as the bar's message where there is one.
    pub fn show(&mut self, text: String) {
        match &mut self.0 {
            Shown::Bar(bar) => bar.set_message(text),
            Shown::Lines { last } => {
                *last = Instant::now();
                note(&text);
            }
            Shown::Nothing => {}
        }
    }

    /// Says `text` without tearing the bar.
    fn say(&self, text: &str) {
        match &self.0 {
            Shown::Bar(bar) => bar.suspend(|| note(text)),
            Shown::Lines { .. } | Shown::Nothing => note(text),
        }
    }
}

impl Drop for Display {
    fn drop(&mut self) {
        if let Shown::Bar(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

/// The progress of one piece of work, counted in bytes.
pub struct Progress {
    what: &'static str,
    total: Option<u64>,
    start: Instant,
    display: Display,
}

impl Progress {
    /// Starts to show `what` ("import"), over `total` bytes when that is known.
    pub fn new(what: &'static str, total: Option<u64>, quiet: bool) -> Self {
        let display = Display::new(|| bar(what, total), quiet);
        Self { what, total, start: Instant::now(), display }
    }

    /// `done` bytes are behind us.
    pub fn set(&mut self, done: u64) {
        if let Shown::Bar(bar) = &self.display.0 {
            bar.set_position(done);
        } else if self.display.is_due() {
            self.display.show(line(self.what, done, self.total, self.start.elapsed()));
        }
    }

    /// Says `text` without tearing the bar.
    pub fn say(&self, text: &str) {
        self.display.say(text);
    }

    /// Removes the bar and returns how long the work took.
    pub fn finish(self) -> Duration {
        self.start.elapsed()
    }
}

fn bar(what: &'static str, total: Option<u64>) -> ProgressBar {
    let target = ProgressDrawTarget::stderr_with_hz(5);
    let bar = ProgressBar::with_draw_target(total, target).with_prefix(what);
    let template = match total {
        Some(_) => {
            "{prefix} {wide_bar} {percent:>3} %  {binary_bytes} of {binary_total_bytes}  \
             {binary_bytes_per_sec}  {eta} left"
        }
        None => "{prefix} {spinner}  {binary_bytes}  {binary_bytes_per_sec}",
    };
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// `import: 1.2 GiB of 4 GiB (30 %), 310 MiB/s, 9 s left`.
fn line(what: &str, done: u64, total: Option<u64>, elapsed: Duration) -> String {
    let rate = rate(done, elapsed);
    let Some(total) = total else {
        return format!("{what}: {}, {}/s", human(done), human(rate));
    };
    let percent = (u128::from(done) * 100).checked_div(u128::from(total)).unwrap_or(100);
    let left = match total.saturating_sub(done).checked_div(rate) {
        Some(seconds) => format!(", {seconds} s left"),
        None => String::new(),
    };
    format!("{what}: {} of {} ({percent} %), {}/s{left}", human(done), human(total), human(rate))
}

/// Bytes a second.
pub fn rate(bytes: u64, elapsed: Duration) -> u64 {
    let per_second = u128::from(bytes) * 1_000_000_000 / elapsed.as_nanos().max(1);
    u64::try_from(per_second).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_lines_say_how_much_how_fast_and_how_long_still() {
        let ten = Duration::from_secs(10);
        assert_eq!(
            line("import", 1 << 30, Some(4 << 30), ten),
            "import: 1 GiB of 4 GiB (25 %), 102 MiB/s, 30 s left"
        );
        assert_eq!(line("import", 10 << 20, None, ten), "import: 10 MiB, 1 MiB/s");
        assert_eq!(line("export", 0, Some(0), Duration::ZERO), "export: 0 B of 0 B (100 %), 0 B/s");
    }

    #[test]
    fn the_templates_are_valid() {
        for total in [Some(100), None] {
            let bar = bar("x", total);
            bar.set_position(50);
            bar.finish_and_clear();
        }
    }
}
