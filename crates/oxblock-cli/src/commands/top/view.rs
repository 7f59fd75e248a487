//! The live view: the terminal, its keys, and what was found so far.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use oxblock_control::report::{Stats, Status};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::asker::{Asker, Told};
use super::rates::rates;
use super::screen::{REMEMBERED, Screen, draw};

/// How long keys are waited for before the server and signals are looked at.
const STEP: Duration = Duration::from_millis(50);
/// The intervals that + and - go through, in milliseconds.
const PACES: [u64; 9] = [100, 200, 500, 1000, 2000, 5000, 10_000, 30_000, 60_000];

/// Shows what `asker` finds until somebody ends it, or `count` intervals are over.
pub fn run(asker: &Asker, count: Option<u64>, socket: &Path, stop: &AtomicBool) -> Result<()> {
    // It is put back on a panic too.
    let mut terminal = ratatui::try_init().context("take the terminal")?;
    let shown = show(&mut terminal, asker, count, socket, stop);
    let restored = ratatui::try_restore().context("give the terminal back");
    shown.and(restored)
}

fn show(
    terminal: &mut DefaultTerminal,
    asker: &Asker,
    count: Option<u64>,
    socket: &Path,
    stop: &AtomicBool,
) -> Result<()> {
    let mut screen = Screen::new(socket.display().to_string(), asker.interval());
    let mut told = 0;
    while !stop.load(Ordering::Relaxed) && count.is_none_or(|count| told < count) {
        match asker.next(Duration::ZERO) {
            Some(Told::Look(look)) if !screen.paused => told += u64::from(screen.take(*look)),
            Some(Told::Look(_)) | None => {}
            Some(Told::Gone(why)) => screen.gone = Some(why),
        }
        terminal.draw(|frame| draw(&screen, frame)).context("draw on the terminal")?;
        while event::poll(STEP).context("wait for keys")? {
            match event::read().context("read keys")? {
                Event::Key(key)
                    if key.kind != KeyEventKind::Release && !screen.press(key, asker) =>
                {
                    return Ok(());
                }
                // It is drawn anew anyway.
                Event::Resize(..) => break,
                _ => {}
            }
        }
    }
    Ok(())
}

impl Screen {
    /// Takes a look in; true when that ends an interval.
    fn take(&mut self, (status, stats): (Status, Stats)) -> bool {
        self.gone = None;
        let found = self.stats.as_ref().and_then(|before| rates(before, &stats));
        let ended = found.is_some();
        if !ended {
            // The first look at this server.
            self.history.clear();
        }
        self.rates = found.unwrap_or_default();
        for volume in &self.rates {
            let history = self.history.entry(volume.name.clone()).or_default();
            history.push_back(volume.requests.values().map(|flow| flow.iops).sum());
            if history.len() > REMEMBERED {
                history.pop_front();
            }
        }
        self.chosen = self.chosen.min(stats.volumes.len().saturating_sub(1));
        (self.status, self.stats) = (Some(status), Some(stats));
        ended
    }

    /// Does what a key means; false when that is the end.
    fn press(&mut self, key: KeyEvent, asker: &Asker) -> bool {
        let count = self.stats.as_ref().map_or(0, |stats| stats.volumes.len());
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return false,
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return false,
            KeyCode::Char(' ') => self.paused = !self.paused,
            KeyCode::Up | KeyCode::Char('k') => self.chosen = self.chosen.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => {
                self.chosen = (self.chosen + 1).min(count.saturating_sub(1));
            }
            KeyCode::Char('+') => self.change_pace(asker, |pace, now| pace > now, false),
            KeyCode::Char('-') => self.change_pace(asker, |pace, now| pace < now, true),
            _ => {}
        }
        true
    }

    /// Takes the next interval that is `better`, if there is one.
    fn change_pace(&mut self, asker: &Asker, better: fn(Duration, Duration) -> bool, last: bool) {
        let now = self.interval;
        let mut paces =
            PACES.map(Duration::from_millis).into_iter().filter(|pace| better(*pace, now));
        if let Some(pace) = if last { paces.next_back() } else { paces.next() } {
            self.interval = pace;
            asker.set_interval(pace);
        }
    }
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::super::rates::tests::stats;
    use super::*;

    fn status() -> Status {
        Status {
            version: 1,
            program: "0.1.0".into(),
            pid: 7,
            uptime: 3_700_000_000_000,
            volumes: Vec::new(),
        }
    }

    fn drawn(screen: &Screen, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(screen, frame)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn what_is_going_on_is_to_be_seen() {
        let mut screen = Screen::new("/run/ox.ctl".into(), Duration::from_secs(1));
        assert!(drawn(&screen, 80, 24).contains("waiting for the server"));
        assert!(!screen.take((status(), stats(1_000_000_000, 0, &[]))));
        assert!(screen.take((status(), stats(2_000_000_000, 5000, &[(123_456, 5000)]))));
        let text = drawn(&screen, 80, 24);
        for part in [
            "up 1:01:40",
            "5000",
            "19.5 MiB",
            "123",
            "working",
            "clients: 2",
            "50 %",
            "40 free",
            "1.50",
            "/dev/disk",
            "90.0 %",
            "at most 15000",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        screen.gone = Some("the server does not answer".into());
        assert!(drawn(&screen, 80, 24).contains("does not answer; looking again"));
        // One that has begun anew has no rates yet, and no past.
        assert!(!screen.take((status(), stats(1_000_000_000, 3, &[]))));
        assert!(screen.gone.is_none() && screen.history.is_empty());
    }

    #[test]
    fn every_size_and_every_figure_can_be_drawn() {
        let mut screen = Screen::new("/run/ox.ctl".into(), Duration::from_secs(1));
        let mut many = stats(u64::MAX, u64::MAX / 8192, &[(u64::MAX, u64::MAX / 8192)]);
        let volume = many.volumes[0].clone();
        many.volumes = (0..50)
            .map(|place| {
                let mut volume = volume.clone();
                volume.name = format!("{place} {}", "long name ".repeat(30));
                volume.devices = vec![volume.devices[0].clone(); place];
                volume
            })
            .collect();
        let mut before = many.clone();
        before.uptime -= 1;
        screen.take((status(), before));
        screen.take((status(), many));
        for chosen in [0, 1, 20, 49] {
            screen.chosen = chosen;
            for (width, height) in [(1, 1), (59, 15), (60, 16), (80, 24), (200, 50), (300, 3)] {
                drawn(&screen, width, height);
            }
        }
    }
}
