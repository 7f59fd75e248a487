//! The delay before the first submission: how long a device idles while a request is being prepared (experiment 3).

use hashbrown::HashMap;

use super::{Event, Kind, Mark, Span, Stage, TraceSink};

/// The delays that are kept: enough for a median, and no matter for memory.
const KEPT: usize = 1 << 16;

/// How long one request took to reach a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FirstDelay {
    /// What was asked for.
    pub kind: Kind,
    /// Bytes of the request.
    pub bytes: u64,
    /// Nanoseconds from being queued to the submission of its first bio.
    pub delay: u64,
    /// Bytes of that bio, headers included.
    pub bio_bytes: u64,
}

/// Measures the delay of each request from being queued to its first device submission, and the size of that first bio.
/// Requests that need no device (reads of what was never written) have none. The first 65536 are kept.
#[derive(Debug, Default)]
pub struct FirstSubmission {
    /// When requests that have not reached a device were queued, and their bytes.
    waiting: HashMap<u64, (u64, u64)>,
    /// Bytes of the bios in flight.
    bios: HashMap<u64, u64>,
    delays: Vec<FirstDelay>,
}

impl FirstSubmission {
    /// The delays, in the order of submission.
    pub fn delays(&self) -> &[FirstDelay] {
        &self.delays
    }

    /// The request with the median delay; `None` when no request reached a device.
    pub fn median(&self) -> Option<FirstDelay> {
        let mut delays = self.delays.clone();
        delays.sort_by_key(|delay| delay.delay);
        delays.get(delays.len() / 2).copied()
    }
}

impl TraceSink for FirstSubmission {
    fn event(&mut self, event: &Event) {
        match (event.span, event.mark) {
            (Span::Request(_), Mark::Begin) => {
                self.waiting.insert(event.id, (event.at, event.bytes));
            }
            (Span::Request(_), Mark::End) => {
                self.waiting.remove(&event.id);
            }
            (Span::Bio(_), Mark::Begin) => {
                self.bios.insert(event.id, event.bytes);
            }
            (Span::Bio(_), Mark::End) => {
                self.bios.remove(&event.id);
            }
            (Span::Stage(kind, Stage::Device), Mark::Begin) => {
                let Some((queued, bytes)) = self.waiting.remove(&event.id) else { return };
                let bio_bytes = self.bios.get(&event.bio).copied().unwrap_or(0);
                if self.delays.len() < KEPT {
                    let delay = event.at.saturating_sub(queued);
                    self.delays.push(FirstDelay { kind, bytes, delay, bio_bytes });
                }
            }
            _ => {}
        }
    }
}
