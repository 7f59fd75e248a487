//! Runs one input at a time within limits: a panic is caught and told, an input that takes too long or too much memory is
//! saved by a thread that watches, and ends the process.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
use std::time::{Duration, Instant};

use crate::memory;

/// The longest that one input may take. They take milliseconds; this is for a machine that is busy with other work.
const LONGEST: Duration = Duration::from_secs(30);

/// What the last panic said, and where.
static PANIC: Mutex<String> = Mutex::new(String::new());
/// An input is under way, so that a panic is told and not printed.
static UNDER_WAY: AtomicBool = AtomicBool::new(false);

/// How an input ended, and the most memory that it took.
#[derive(Debug)]
pub struct Run<R> {
    /// What it returned, or the panic.
    pub result: Result<R, String>,
    /// Bytes.
    pub peak: usize,
}

/// The watch over one thread.
pub struct Watch {
    shared: Arc<Shared>,
}

struct Shared {
    began: Instant,
    /// When the input under way began, in milliseconds since `began`, plus one; 0 for none.
    since: AtomicU64,
    input: Mutex<Vec<u8>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Watch {
    /// Begins to watch. `report` is called with the input that broke a limit and what it did; the process ends then.
    pub fn new(report: impl Fn(&[u8], &str) + Send + 'static) -> Self {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let usual = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |info| {
                if UNDER_WAY.load(Ordering::Relaxed) {
                    *lock(&PANIC) = info.to_string().replace('\n', " ");
                } else {
                    usual(info);
                }
            }));
        });
        let shared = Arc::new(Shared {
            began: Instant::now(),
            since: AtomicU64::new(0),
            input: Mutex::new(Vec::new()),
        });
        let watched = Arc::downgrade(&shared);
        std::thread::spawn(move || {
            memory::exempt_this_thread();
            while let Some(shared) = watched.upgrade() {
                if let Some(what) = shared.broken() {
                    report(&lock(&shared.input), &what);
                    std::process::exit(1);
                }
                drop(shared);
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        Self { shared }
    }

    /// Runs `act`, which works on `input`, within `bytes` of memory.
    pub fn run<R>(&self, input: &[u8], bytes: usize, act: impl FnOnce() -> R) -> Run<R> {
        {
            let mut held = lock(&self.shared.input);
            held.clear();
            held.extend_from_slice(input);
        }
        let base = memory::allow(bytes);
        self.shared.since.store(self.shared.now() + 1, Ordering::Release);
        UNDER_WAY.store(true, Ordering::Relaxed);
        let result = catch_unwind(AssertUnwindSafe(act));
        UNDER_WAY.store(false, Ordering::Relaxed);
        self.shared.since.store(0, Ordering::Release);
        let peak = memory::allow_all().saturating_sub(base);
        Run { result: result.map_err(|_| std::mem::take(&mut *lock(&PANIC))), peak }
    }
}

impl Shared {
    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn broken(&self) -> Option<String> {
        if memory::is_broken() {
            return Some("takes more memory than it may".into());
        }
        let since = self.since.load(Ordering::Acquire).checked_sub(1)?;
        let taken = Duration::from_millis(self.now().saturating_sub(since));
        (taken > LONGEST).then(|| format!("is not done after {} s", taken.as_secs()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_told_with_its_place() {
        let watch = Watch::new(|_, _| {});
        let run = watch.run::<()>(b"x", 1 << 30, || panic!("nothing there"));
        let panic = run.result.unwrap_err();
        assert!(panic.contains("nothing there") && panic.contains("watch.rs"), "{panic}");
    }
}
