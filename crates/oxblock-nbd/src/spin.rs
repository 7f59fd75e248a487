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
/// ... so there is none for so many times.
const TAKEN_PAUSE: u32 = 256;

/// The rule, and what it goes by.
#[derive(Debug, Default)]
pub(crate) struct Spin {
    misses: u32,
    pause: u32,
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
                self.misses = 0;
                return true;
            }
            let now = Instant::now();
            if now.duration_since(last) >= TAKEN {
                self.pause = TAKEN_PAUSE;
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
        assert!(!spin.until(|| {
            std::thread::sleep(TAKEN);
            false
        }));
        assert_eq!(spin.pause, TAKEN_PAUSE);
    }
}
