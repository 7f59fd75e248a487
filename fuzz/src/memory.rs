//! What is allocated, counted, with a limit.
//!
//! The limit is there so that "allocates without bound" is a finding and not the end of the machine: the thread that goes
//! beyond it stops where it is, and the watch (`watch.rs`) finds it there, saves the input and ends the process. Nothing
//! here unwinds, which an allocator must not, and nothing here allocates.
#![expect(
    unsafe_code,
    reason = "a global allocator is an unsafe trait; this one counts and passes on"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);
static LIMIT: AtomicUsize = AtomicUsize::new(usize::MAX);
static BROKEN: AtomicBool = AtomicBool::new(false);

thread_local! {
    static EXEMPT: Cell<bool> = const { Cell::new(false) };
}

#[global_allocator]
static COUNTING: Counting = Counting;

struct Counting;

// SAFETY: every call goes on to `System` with the arguments that the caller vouched for, and its answer goes back as it
// is. What is added touches atomics and a thread-local flag that needs neither set-up nor a destructor, may sleep for
// good, and never unwinds or allocates.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        take(layout.size());
        // SAFETY: the caller vouches for the layout.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        take(layout.size());
        // SAFETY: the caller vouches for the layout.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller vouches that `memory` came from here, hence from `System`, with this layout.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        take(size);
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller vouches that `memory` came from here, hence from `System`, with this layout, and for the
        // new size.
        unsafe { System.realloc(memory, layout, size) }
    }
}

fn take(size: usize) {
    let live = LIVE.fetch_add(size, Ordering::Relaxed).wrapping_add(size);
    PEAK.fetch_max(live, Ordering::Relaxed);
    if live > LIMIT.load(Ordering::Relaxed) && !EXEMPT.get() {
        BROKEN.store(true, Ordering::Release);
        loop {
            std::thread::sleep(Duration::from_secs(1));
        }
    }
}

/// No limit holds for this thread.
pub fn exempt_this_thread() {
    EXEMPT.set(true);
}

/// From now on at most `more` bytes above what is allocated now, and the peak is measured from here. Returns what is
/// allocated now.
pub fn allow(more: usize) -> usize {
    let live = LIVE.load(Ordering::Relaxed);
    PEAK.store(live, Ordering::Relaxed);
    LIMIT.store(live.saturating_add(more), Ordering::Relaxed);
    live
}

/// No limit from now on. Returns the peak since [`allow`].
pub fn allow_all() -> usize {
    LIMIT.store(usize::MAX, Ordering::Relaxed);
    PEAK.load(Ordering::Relaxed)
}

/// The limit was broken, and whoever did it waits.
pub fn is_broken() -> bool {
    BROKEN.load(Ordering::Acquire)
}
