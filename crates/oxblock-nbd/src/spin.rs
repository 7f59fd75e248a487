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
        loop {
            if look() {
                self.misses = 0;
                return true;
            }
            let elapsed = began.elapsed();
            if elapsed >= MOST {
                break;
            }
            if elapsed >= POLITE {
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
        let mut looks = 0;
        for _ in 0..MISSES {
            assert!(!spin.until(|| {
                looks += 1;
                false
            }));
        }
        assert!(looks >= MISSES);
        let before = looks;
        for _ in 0..PAUSE {
            assert!(!spin.until(|| {
                looks += 1;
                true
            }));
        }
        assert_eq!(looks, before);
        assert!(spin.until(|| true));
    }
}
