//! Whether to look once more before sleeping, from how it went lately.
//!
//! Waking a thread takes 45-60 us on a virtual machine, several times what a request takes. A client that answers at once is
//! served faster by a server that is awake; one that does not shall not cost a core.

use std::time::{Duration, Instant};

/// After so many fruitless spells in a row there is a pause ...
const MISSES: u32 = 4;
/// ... of so many waits that sleep at once.
const PAUSE: u32 = 32;
/// From here on others get the core in between: whoever is to send the next request may be waiting for it.
const POLITE: Duration = Duration::from_micros(30);
/// Between two looks that are so far apart somebody else had the core. Where cores are wanted, a thread that sleeps gets one
/// sooner than a thread that has used up its time by looking ...
const TAKEN: Duration = Duration::from_micros(60);
/// ... so there is a pause of so many waits; twice as many each time it happens again ...
const TAKEN_PAUSE: u32 = 256;
/// ... up to so many doublings: a look that ends in somebody else's turn costs that request some milliseconds ...
const TAKEN_MOST: u32 = 8;
/// ... and half as many again after so many spells that found something.
const FORGIVEN: u32 = 4096;

/// The rule, and what it goes by. For front-ends, which wait with [`Volume::wait_watching`](crate::Volume::wait_watching):
/// tell it what each look has [found](Self::found), or ask whether it [lasts](Self::lasts).
#[derive(Debug)]
pub struct Patience {
    /// The longest that is looked without anything coming.
    limit: Duration,
    /// When nothing was found for the first time, and for the last.
    spell: Option<(Instant, Instant)>,
    misses: u32,
    pause: u32,
    /// How often it was somebody else's turn, lately.
    taken: u32,
    hits: u32,
}

impl Patience {
    /// One that looks for up to `limit`: a wake-up on the client's side, and what it does then.
    pub fn new(limit: Duration) -> Self {
        Self { limit, spell: None, misses: 0, pause: 0, taken: 0, hits: 0 }
    }

    /// Something was found.
    pub fn found(&mut self) {
        if self.spell.take().is_none() {
            return;
        }
        self.misses = 0;
        self.hits += 1;
        if self.hits >= FORGIVEN {
            self.hits = 0;
            self.taken = self.taken.saturating_sub(1);
        }
    }

    /// Nothing was found: true to look again, false to sleep.
    pub fn lasts(&mut self) -> bool {
        if self.pause > 0 {
            self.pause -= 1;
            return false;
        }
        let now = Instant::now();
        let (began, last) = self.spell.unwrap_or((now, now));
        let spent = now.duration_since(began);
        if now.duration_since(last) >= TAKEN {
            self.spell = None;
            self.pause = TAKEN_PAUSE << self.taken;
            self.taken = (self.taken + 1).min(TAKEN_MOST);
            return false;
        }
        if spent >= self.limit {
            self.spell = None;
            self.misses += 1;
            if self.misses >= MISSES {
                self.misses = 0;
                self.pause = PAUSE;
            }
            return false;
        }
        self.spell = Some((began, now));
        if spent >= POLITE {
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

    const LIMIT: Duration = Duration::from_micros(100);

    #[test]
    fn it_pauses_after_misses_and_tries_again() {
        let mut patience = Patience::new(LIMIT);
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
        let mut patience = Patience { misses: MISSES - 1, ..Patience::new(LIMIT) };
        assert!(patience.lasts());
        patience.found();
        assert_eq!(patience.misses, 0);
        // But only one that was looked for.
        patience.misses = 1;
        patience.found();
        assert_eq!(patience.misses, 1);
    }

    #[test]
    fn it_pauses_at_once_where_others_want_the_core_and_longer_each_time() {
        let mut patience = Patience::new(LIMIT);
        for pause in [TAKEN_PAUSE, 2 * TAKEN_PAUSE, 4 * TAKEN_PAUSE] {
            assert!(patience.lasts());
            std::thread::sleep(TAKEN);
            assert!(!patience.lasts());
            assert_eq!(patience.pause, pause);
            patience.pause = 0;
        }
        for _ in 0..3 * FORGIVEN {
            patience.spell = Some((Instant::now(), Instant::now()));
            patience.found();
        }
        assert_eq!(patience.taken, 0);
    }
}
