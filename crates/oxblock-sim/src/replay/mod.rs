//! Real files: a mixed run is recorded below the engine, and every state in which a power cut could have left its device
//! is built from the record, opened, checked and compared with the model.
//!
//! - [`record`] runs the mix ([`drive`]) on a new file. A [`recorder`] between the engine and the real queue writes down
//!   each device operation, and the driver each request and what became of it, on one [`tape`], in order.
//! - [`walk`] goes along the tape. [`media`] says what a device may hold at each place; [`examine`] opens it through a
//!   [`queue`] over memory, runs `check` and reads everything; [`ledger`] is the model, which sees only the caller's side.
//!
//! Images are judged at *every* boundary, which is the end of a flush or of a durable write, with only what is durable,
//! and at samples in between, with any subset of what is not, torn at 4096 or at 512 bytes. A seed says what is done and
//! what is drawn. Since the device has its own times, it is the tape that repeats a run exactly, and a tape with a
//! violation on it is kept.

pub mod drive;
pub mod event;
pub mod examine;
pub mod ledger;
pub mod media;
pub mod queue;
pub mod record;
pub mod recorder;
pub mod tape;
pub mod walk;

use std::path::Path;
use std::thread;

pub use recorder::Lie;
pub use walk::{Counts, Failure, Route};

use tape::Recording;

/// Judges all points of the tape at `path`, or only the one of number `only`, with `threads` threads. `progress` is told
/// each image, by any of them.
///
/// # Errors
/// It is no tape, or the first violation on it.
pub fn replay(
    path: &Path,
    samples: u64,
    only: Option<u64>,
    threads: u64,
    progress: &(dyn Fn() + Sync),
) -> Result<Counts, Failure> {
    let no_tape = |what| Failure { point: 0, what };
    let tape = Recording::load(path).map_err(|error| no_tape(format!("the tape: {error}")))?;
    let route = Route::new(tape, samples).map_err(no_tape)?;
    if let Some(point) = only {
        return route.walk(point..point + 1, (0, 1), progress);
    }
    let threads = threads.max(1);
    let route = &route;
    let walked: Vec<Result<Counts, Failure>> = thread::scope(|scope| {
        let walk =
            |share| scope.spawn(move || route.walk(0..route.points(), (share, threads), progress));
        let walks: Vec<_> = (0..threads).map(walk).collect();
        let panicked = |_| Err(no_tape("the replay panicked".to_owned()));
        walks.into_iter().map(|walk| walk.join().unwrap_or_else(panicked)).collect()
    });
    let mut sum = Counts::default();
    let mut first: Option<Failure> = None;
    for walked in walked {
        match walked {
            Ok(counts) => sum.add(&counts),
            Err(failure) if first.as_ref().is_none_or(|first| failure.point < first.point) => {
                first = Some(failure);
            }
            Err(_) => {}
        }
    }
    first.map_or(Ok(sum), Err)
}
