//! A queue over an image in memory: the durable pages below, shared, and the image's own above.

use std::collections::HashSet;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use oxblock::device::sim::Rng;
use oxblock::device::{Action, Done, IoQueue, Job, Op, QueueLimits, Waiter};

use super::media::{Overlay, Page};
use crate::content::{BLOCK, BLOCK_LEN, small};

/// An image, and what those who open it change in it.
#[derive(Debug, Clone)]
pub struct Image {
    base: Arc<Vec<Page>>,
    state: Arc<Mutex<State>>,
    limits: QueueLimits,
}

#[derive(Debug)]
struct State {
    overlay: Overlay,
    /// What was there before each write of a page that no flush has covered since, in the order of the writes.
    volatile: Vec<(u64, Option<Arc<[u8; BLOCK_LEN]>>)>,
    /// Writes and flushes until the power fails, and everything with it.
    left: Option<u64>,
}

impl Image {
    /// `overlay` over `base`, on a device with `limits`.
    pub fn new(base: Arc<Vec<Page>>, overlay: Overlay, limits: QueueLimits) -> Self {
        let state = State { overlay, volatile: Vec::new(), left: None };
        Self { base, state: Arc::new(Mutex::new(state)), limits }
    }

    /// A queue over it. Only one may be in use at a time.
    pub fn queue(&self) -> Box<dyn IoQueue + Send> {
        Box::new(ImageQueue { image: self.clone(), pushed: Vec::new(), ready: Vec::new() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The power fails after so many writes and flushes.
    pub fn cut_after(&self, changes: u64) {
        self.state().left = Some(changes);
    }

    /// The power fails, unless it has failed already, and comes back: of what no flush has covered, any pages are as they
    /// were before.
    pub fn power_cut(&self, rng: &mut Rng) {
        let mut state = self.state();
        state.left = None;
        let mut kept = HashSet::new();
        for (page, before) in std::mem::take(&mut state.volatile).into_iter().rev() {
            if kept.contains(&page) || rng.below(2) == 0 {
                kept.insert(page);
                continue;
            }
            match before {
                Some(bytes) => state.overlay.insert(page, bytes),
                None => state.overlay.remove(&page),
            };
        }
    }

    fn perform(&self, op: &mut Op) -> io::Result<()> {
        let mut state = self.state();
        let state = &mut *state;
        if state.left == Some(0) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let mut page = op.offset / BLOCK;
        match &mut op.action {
            Action::Read(bufs) => {
                for to in bufs.iter_mut().flat_map(|buf| buf.chunks_exact_mut(BLOCK_LEN)) {
                    let below = || self.base.get(small(page)).and_then(Option::as_ref);
                    match state.overlay.get(&page).or_else(below) {
                        Some(from) => to.copy_from_slice(&**from),
                        None => to.fill(0),
                    }
                    page += 1;
                }
                return Ok(());
            }
            Action::Write { bufs, durable } => {
                for from in bufs.iter().flat_map(|buf| buf.chunks_exact(BLOCK_LEN)) {
                    if let Ok(from) = <&[u8; BLOCK_LEN]>::try_from(from) {
                        let before = state.overlay.insert(page, Arc::new(*from));
                        match durable {
                            true => state.volatile.retain(|(other, _)| *other != page),
                            false => state.volatile.push((page, before)),
                        }
                    }
                    page += 1;
                }
            }
            Action::Flush => state.volatile.clear(),
            Action::Discard { .. } => {}
        }
        state.left = state.left.map(|left| left - 1);
        Ok(())
    }
}

/// Runs every operation inside `submit`.
#[derive(Debug)]
struct ImageQueue {
    image: Image,
    pushed: Vec<Op>,
    ready: Vec<Done>,
}

impl IoQueue for ImageQueue {
    fn limits(&self) -> &[QueueLimits] {
        std::slice::from_ref(&self.image.limits)
    }

    fn push(&mut self, op: Op) {
        self.pushed.push(op);
    }

    fn run(&mut self, job: Job) {
        self.ready.push(job.run());
    }

    fn submit(&mut self) {
        for mut op in self.pushed.drain(..) {
            let result = self.image.perform(&mut op);
            let bufs = match op.action {
                Action::Read(bufs) | Action::Write { bufs, .. } => bufs,
                Action::Flush | Action::Discard { .. } => Default::default(),
            };
            self.ready.push(Done {
                tag: op.tag,
                device: Some(op.device),
                bufs,
                work: None,
                result,
            });
        }
    }

    fn reap(&mut self, done: &mut Vec<Done>) -> usize {
        let count = self.ready.len();
        done.append(&mut self.ready);
        count
    }

    fn wait(&mut self, _timeout: Option<Duration>) {
        self.submit();
    }

    fn waiter(&self) -> Option<Waiter> {
        None
    }

    fn in_flight(&self) -> usize {
        self.pushed.len() + self.ready.len()
    }

    fn has_cheap_reads(&self) -> bool {
        true
    }

    fn has_workers(&self) -> bool {
        false
    }

    fn describe(&self) -> String {
        "image in memory".to_owned()
    }
}
