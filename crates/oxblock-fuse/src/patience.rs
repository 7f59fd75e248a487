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

/// Between two looks that are so far apart somebody else had the core. Where cores are wanted, a thread that sleeps gets one
/// sooner than a thread that has used up its time by looking.
const TAKEN: Duration = Duration::from_micros(60);

/// After so many fruitless spells in a row, or after one in which the core was taken, there is a pause ...
const MISSES: u32 = 4;
/// ... of so many waits that block at once.
const PAUSE: u32 = 64;
const TAKEN_PAUSE: u32 = 256;

/// What became of looking, lately.
#[derive(Debug, Default)]
pub(crate) struct Patience {
    /// When nothing was found for the first time, and for the last.
    spell: Option<(Instant, Instant)>,
    misses: u32,
    pause: u32,
}

impl Patience {
    /// Something was found.
    pub(crate) fn found(&mut self) {
        if self.spell.take().is_some() {
            self.misses = 0;
        }
    }

    /// Nothing was found: true to look again, false to block.
    pub(crate) fn lasts(&mut self) -> bool {
        if self.pause > 0 {
            self.pause -= 1;
            return false;
        }
        let now = Instant::now();
        let (began, last) = self.spell.unwrap_or((now, now));
        let spent = now.duration_since(began);
        if now.duration_since(last) >= TAKEN {
            self.spell = None;
            self.pause = TAKEN_PAUSE;
            return false;
        }
        if spent >= LIMIT {
            self.spell = None;
            self.misses += 1;
            if self.misses >= MISSES {
                self.misses = 0;
                self.pause = PAUSE;
            }
            return false;
        }
        self.spell = Some((began, now));
        if spent > POLITE {
            std::thread::yield_now();
        } else {
            std::hint::spin_loop();
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_pauses_after_misses_and_tries_again() {
        let mut patience = Patience::default();
        let mut spells = 0;
        // The test may lose its core too, which only makes it give up sooner, and for longer.
        while patience.pause == 0 {
            while patience.lasts() {}
            spells += 1;
        }
        assert!((1..=MISSES).contains(&spells));
        for _ in 0..patience.pause {
            assert!(!patience.lasts());
        }
        assert!(patience.lasts());
    }

    #[test]
    fn a_find_makes_up_for_misses() {
        let mut patience = Patience { misses: MISSES - 1, ..Patience::default() };
        assert!(patience.lasts());
        patience.found();
        assert_eq!(patience.misses, 0);
        // But only one that was looked for.
        patience.misses = 1;
        patience.found();
        assert_eq!(patience.misses, 1);
    }

    #[test]
    fn it_pauses_at_once_where_others_want_the_core() {
        let mut patience = Patience::default();
        assert!(patience.lasts());
        std::thread::sleep(TAKEN);
        assert!(!patience.lasts());
        assert_eq!(patience.pause, TAKEN_PAUSE);
    }
}
