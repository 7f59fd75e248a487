//! Whether to look for news a while before sleeping, from how it went lately.
//!
//! Waking a thread takes 45-60 us on a virtual machine, several times what a request takes. A client that answers at once is
//! served faster by a server that is awake; one that does not shall not cost a core.

use std::time::{Duration, Instant};

/// The longest look: a wake-up on the client's side, and what it does then.
const MOST: Duration = Duration::from_micros(150);
/// After so many fruitless looks in a row there is none ...
const MISSES: u32 = 4;
/// ... for so many times.
const PAUSE: u32 = 32;
/// From here on others get the core in between: the client may be waiting for it.
const POLITE: Duration = Duration::from_micros(30);
/// Between two looks that are so far apart somebody else had the core. Where cores are wanted, a thread that sleeps gets one
/// sooner than a thread that has used up its time by looking ...
const TAKEN: Duration = Duration::from_micros(60);
/// ... so there is none for so many times; twice as many each time it happens again ...
const TAKEN_PAUSE: u32 = 256;
/// ... up to so many doublings: a look that ends in somebody else's turn costs that request some milliseconds ...
const TAKEN_MOST: u32 = 8;
/// ... and half as many again after so many looks that found something.
const FORGIVEN: u32 = 4096;

/// The rule, and what it goes by.
#[derive(Debug, Default)]
pub(crate) struct Spin {
    misses: u32,
    pause: u32,
    /// How often it was somebody else's turn, lately.
    taken: u32,
    hits: u32,
}

impl Spin {
    /// Calls `look` until it finds something, for as long as that is worth it; true when it did.
    pub fn until(&mut self, mut look: impl FnMut() -> bool) -> bool {
        if self.pause > 0 {
            self.pause -= 1;
            return false;
        }
        let began = Instant::now();
        let mut last = began;
        loop {
            if look() {
                self.found();
                return true;
            }
            let now = Instant::now();
            if now.duration_since(last) >= TAKEN {
                self.pause = TAKEN_PAUSE << self.taken;
                self.taken = (self.taken + 1).min(TAKEN_MOST);
                return false;
            }
            last = now;
            if now.duration_since(began) >= MOST {
                break;
            }
            if now.duration_since(began) >= POLITE {
                std::thread::yield_now();
            }
        }
        self.misses += 1;
        if self.misses >= MISSES {
            self.misses = 0;
            self.pause = PAUSE;
        }
        false
    }

    fn found(&mut self) {
        self.misses = 0;
        self.hits += 1;
        if self.hits >= FORGIVEN {
            self.hits = 0;
            self.taken = self.taken.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_gives_up_for_a_while() {
        let mut spin = Spin::default();
        let mut tries = 0;
        // The test may lose its core too, which only makes it give up sooner, and for longer.
        while spin.pause == 0 {
            assert!(!spin.until(|| false));
            tries += 1;
        }
        assert!((1..=MISSES).contains(&tries));
        for _ in 0..spin.pause {
            assert!(!spin.until(|| true));
        }
        assert!(spin.until(|| true));
    }

    #[test]
    fn it_gives_up_at_once_where_others_want_the_core() {
        let mut spin = Spin::default();
        for pause in [TAKEN_PAUSE, 2 * TAKEN_PAUSE, 4 * TAKEN_PAUSE] {
            assert!(!spin.until(|| {
                std::thread::sleep(TAKEN);
                false
            }));
            assert_eq!(spin.pause, pause);
            spin.pause = 0;
        }
        for _ in 0..3 * FORGIVEN {
            assert!(spin.until(|| true));
        }
        assert_eq!(spin.taken, 0);
    }
}
