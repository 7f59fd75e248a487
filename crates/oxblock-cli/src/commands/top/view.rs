//! The live view: the terminal, its keys, and what was found so far.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::asker::{Asker, Told};
use super::screen::{Screen, draw};

/// How long keys are waited for before the server and signals are looked at.
const STEP: Duration = Duration::from_millis(50);
/// The intervals that + and - go through, in milliseconds.
const PACES: [u64; 9] = [100, 200, 500, 1000, 2000, 5000, 10_000, 30_000, 60_000];

/// Shows what `asker` finds until somebody ends it, or `count` intervals are over.
pub fn run(asker: &Asker, count: Option<u64>, socket: &Path, stop: &AtomicBool) -> Result<()> {
    // It is put back on a panic too.
    let mut terminal = match ratatui::try_init() {
        Ok(terminal) => terminal,
        Err(error) => {
            // It may have got half of the way. What it says is why.
            ratatui::try_restore().ok();
            return Err(error).context("take the terminal");
        }
    };
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
    let (mut told, mut changed) = (0, true);
    while !stop.load(Ordering::Relaxed) && count.is_none_or(|count| told < count) {
        match asker.next(Duration::ZERO) {
            None => {}
            Some(Told::Look(look)) => {
                told += u64::from(screen.take(*look));
                changed = true;
            }
            Some(Told::Gone(why)) => {
                screen.lose(why);
                changed = true;
            }
        }
        if std::mem::take(&mut changed) {
            terminal.draw(|frame| draw(&screen, frame)).context("draw on the terminal")?;
        }
        // A terminal of another size is an event too.
        if event::poll(STEP).context("wait for keys")? {
            changed = true;
            if let Event::Key(key) = event::read().context("read keys")?
                && key.kind != KeyEventKind::Release
                && !screen.press(key, asker)
            {
                break;
            }
        }
    }
    Ok(())
}

impl Screen {
    /// Does what a key means; false when that is the end.
    fn press(&mut self, key: KeyEvent, asker: &Asker) -> bool {
        let count = self.stats.as_ref().map_or(0, |stats| stats.volumes.len());
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return false,
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return false,
            KeyCode::Char(' ') => self.pause(),
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
