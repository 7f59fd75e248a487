//! From a request to the first device operation that it causes.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use oxblock::csum::CsumKind;
use oxblock::trace::{FirstSubmission, TraceSink};
use oxblock::volume::Policy;
use oxblock::{Buf, Request, RequestKind, Volume};

use crate::commands::bench::stage::Stage;

/// Nanoseconds from a read of `bytes` bytes to its first device operation, under `policy`, as the library's own trace
/// tells; `None` when there was none.
pub fn first_submission_delay(
    stage: &mut Stage,
    csum: CsumKind,
    policy: &Policy,
    bytes: u64,
) -> Result<Option<f64>> {
    let sink = Arc::new(Mutex::new(FirstSubmission::default()));
    traced_read(stage, csum, policy, bytes, || Box::new(Arc::clone(&sink)))?;
    let first = sink.lock().unwrap_or_else(PoisonError::into_inner).median();
    Ok(first.map(|first| u32::try_from(first.delay).map_or(f64::MAX, f64::from)))
}

/// Reads `bytes` bytes under `policy`, with a sink that is made when the read is about to begin. Another read goes before
/// it, so that no map node has to be fetched.
pub fn traced_read(
    stage: &mut Stage,
    csum: CsumKind,
    policy: &Policy,
    bytes: u64,
    sink: impl FnOnce() -> Box<dyn TraceSink>,
) -> Result<()> {
    let mut volume = stage.volume(csum, policy, true)?.into_volume();
    let len = usize::try_from(bytes.min(volume.size()))?;
    let buf = read(&mut volume, Buf::new(len))?;
    volume.set_trace(Some(sink()));
    read(&mut volume, buf)?;
    volume.set_trace(None);
    Ok(volume.close()?)
}

/// Reads from the beginning of the volume.
fn read(volume: &mut Volume, buf: Buf) -> Result<Buf> {
    volume.queue(Request { tag: 0, kind: RequestKind::Read { offset: 0, buf } });
    let mut done = Vec::new();
    loop {
        volume.submit();
        volume.poll(&mut done);
        if let Some(done) = done.pop() {
            done.result?;
            return done.buf.context("a read without its buffer");
        }
        volume.wait(None);
    }
}
