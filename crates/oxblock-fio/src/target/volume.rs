//! A volume as a target.

use std::time::Duration;

use oxblock::Volume;

use super::{Completion, Request, Target};

/// An open volume.
///
/// fio submits one request at a time unless a job says otherwise (`iodepth_batch`). A volume gathers what is submitted
/// together, so starting is put off until the loop next looks for completions: requests that the job issues in one go
/// leave in one go. A request's latency still counts from the job's own submission.
pub struct VolumeTarget {
    volume: Volume,
    queued: bool,
}

impl VolumeTarget {
    /// Runs jobs on `volume`.
    pub fn new(volume: Volume) -> Self {
        Self { volume, queued: false }
    }

    /// The volume, with whatever is in flight.
    pub fn into_volume(self) -> Volume {
        self.volume
    }

    /// The volume, to look at.
    pub fn volume(&self) -> &Volume {
        &self.volume
    }

    fn start(&mut self) {
        if std::mem::take(&mut self.queued) {
            self.volume.submit();
        }
    }
}

impl Target for VolumeTarget {
    fn size(&self) -> u64 {
        self.volume.size()
    }

    fn block_size(&self) -> u32 {
        1
    }

    fn queue(&mut self, request: Request) {
        self.volume.queue(request);
        self.queued = true;
    }

    fn submit(&mut self) {
        // See the type: `poll` and `wait` start what is queued.
    }

    fn poll(&mut self, done: &mut Vec<Completion>) -> usize {
        self.start();
        self.volume.poll(done)
    }

    fn wait(&mut self, timeout: Option<Duration>) {
        self.start();
        self.volume.wait(timeout);
    }
}
