//! From a request to the first device operation that it causes.

use std::sync::{Arc, Mutex, PoisonError};

use oxblock::csum::CsumKind;
use oxblock::trace::FirstSubmission;
use oxblock::volume::Policy;
use oxblock::{Buf, Request, RequestKind};

use crate::commands::bench::lab::Lab;

/// Nanoseconds from a read of `bytes` bytes to its first device operation, under `policy`, as the library's own trace
/// tells; `None` when there was none.
pub fn first_submission_delay(
    lab: &mut Lab,
    csum: CsumKind,
    policy: &Policy,
    bytes: u64,
) -> Option<f64> {
    let mut volume = lab.stage.volume(csum, policy, true).ok()?.into_volume();
    let buf = Buf::new(usize::try_from(bytes.min(volume.size())).ok()?);
    let sink = Arc::new(Mutex::new(FirstSubmission::default()));
    volume.set_trace(Some(Box::new(Arc::clone(&sink))));
    volume.queue(Request { tag: 0, kind: RequestKind::Read { offset: 0, buf } });
    let mut done = Vec::new();
    while done.is_empty() {
        volume.submit();
        if volume.poll(&mut done) == 0 {
            volume.wait(None);
        }
    }
    let first = sink.lock().unwrap_or_else(PoisonError::into_inner).median()?;
    Some(u32::try_from(first.delay).map_or(f64::MAX, f64::from))
}
