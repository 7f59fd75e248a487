//! A queue over an image in memory: the durable pages below, shared, and the image's own above.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use oxblock::device::{Action, Done, IoQueue, Job, Op, QueueLimits, Waiter};

use super::media::{Overlay, Page};
use crate::content::{BLOCK, BLOCK_LEN, small};

/// An image, and what those who open it change in it.
#[derive(Debug, Clone)]
pub struct Image {
    base: Arc<Vec<Page>>,
    overlay: Arc<Mutex<Overlay>>,
    limits: QueueLimits,
}

impl Image {
    /// `overlay` over `base`, on a device with `limits`.
    pub fn new(base: Arc<Vec<Page>>, overlay: Overlay, limits: QueueLimits) -> Self {
        Self { base, overlay: Arc::new(Mutex::new(overlay)), limits }
    }

    /// A queue over it. Only one may be in use at a time.
    pub fn queue(&self) -> Box<dyn IoQueue + Send> {
        Box::new(ImageQueue { image: self.clone(), pushed: Vec::new(), ready: Vec::new() })
    }

    fn perform(&self, op: &mut Op) {
        let mut overlay = self.overlay.lock().unwrap_or_else(PoisonError::into_inner);
        let mut page = op.offset / BLOCK;
        match &mut op.action {
            Action::Read(bufs) => {
                for to in bufs.iter_mut().flat_map(|buf| buf.chunks_exact_mut(BLOCK_LEN)) {
                    let below = || self.base.get(small(page)).and_then(Option::as_ref);
                    match overlay.get(&page).or_else(below) {
                        Some(from) => to.copy_from_slice(&**from),
                        None => to.fill(0),
                    }
                    page += 1;
                }
            }
            Action::Write { bufs, .. } => {
                for from in bufs.iter().flat_map(|buf| buf.chunks_exact(BLOCK_LEN)) {
                    if let Ok(from) = <&[u8; BLOCK_LEN]>::try_from(from) {
                        overlay.insert(page, Arc::new(*from));
                    }
                    page += 1;
                }
            }
            Action::Flush | Action::Discard { .. } => {}
        }
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
        let Job { tag, mut work, .. } = job;
        work.run();
        self.ready.push(Done { tag, bufs: Default::default(), work: Some(work), result: Ok(()) });
    }

    fn submit(&mut self) {
        for mut op in self.pushed.drain(..) {
            self.image.perform(&mut op);
            let bufs = match op.action {
                Action::Read(bufs) | Action::Write { bufs, .. } => bufs,
                Action::Flush | Action::Discard { .. } => Default::default(),
            };
            self.ready.push(Done { tag: op.tag, bufs, work: None, result: Ok(()) });
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
