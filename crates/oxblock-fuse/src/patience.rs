//! Whether to look once more before blocking.
//!
//! A caller at depth one sends its next request as soon as it has had its answer. To be woken for it takes longer than that
//! on a virtual machine: 45-60 us, against some 10 us of looking. So the server looks for a while before it blocks, as long
//! as that goes well.

use std::time::{Duration, Instant};

/// The longest that is looked without anything coming.
const LIMIT: Duration = Duration::from_micros(60);

/// From then on others may have the core in between: whoever is to send the next request may be waiting for it.
const POLITE: Duration = Duration::from_micros(20);

/// After so many fruitless spells in a row there is a pause ...
const MISSES: u32 = 4;
/// ... of so many waits that block at once.
const PAUSE: u32 = 64;

/// What became of looking, lately.
#[derive(Debug, Default)]
pub(crate) struct Patience {
    /// When nothing was found for the first time.
    since: Option<Instant>,
    misses: u32,
    pause: u32,
}

impl Patience {
    /// Something was found.
    pub(crate) fn found(&mut self) {
        if self.since.take().is_some() {
            self.misses = 0;
        }
    }

    /// Nothing was found: true to look again, false to block.
    pub(crate) fn lasts(&mut self) -> bool {
        if self.pause > 0 {
            self.pause -= 1;
            return false;
        }
        let spent = self.since.get_or_insert_with(Instant::now).elapsed();
        if spent < LIMIT {
            if spent > POLITE {
                std::thread::yield_now();
            } else {
                std::hint::spin_loop();
            }
            return true;
        }
        self.since = None;
        self.misses += 1;
        if self.misses >= MISSES {
            self.misses = 0;
            self.pause = PAUSE;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks until it is time to block.
    fn spell(patience: &mut Patience) -> Duration {
        let began = Instant::now();
        while patience.lasts() {
            assert!(began.elapsed() < Duration::from_secs(10));
        }
        began.elapsed()
    }

    #[test]
    fn it_pauses_after_misses_and_tries_again() {
        let mut patience = Patience::default();
        for _ in 0..MISSES {
            assert!(spell(&mut patience) >= LIMIT);
        }
        for _ in 0..PAUSE {
            assert!(!patience.lasts());
        }
        assert!(patience.lasts());
    }

    #[test]
    fn a_find_makes_up_for_misses() {
        let mut patience = Patience::default();
        for _ in 0..10 {
            for _ in 1..MISSES {
                spell(&mut patience);
            }
            assert!(patience.lasts());
            patience.found();
        }
        assert!(patience.lasts());
    }
}
