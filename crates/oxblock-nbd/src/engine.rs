//! The volume, and the requests that are under way in it.

use std::collections::VecDeque;
use std::sync::Arc;

use oxblock::stats::Traffic;
use oxblock::volume::Info;
use oxblock::{Completion, Request, RequestKind, Volume};
use oxblock_nbd_proto::{Command, Errno, Export, Offer, ReplyTo, TlsOffer, wire};
use slab::Slab;

use crate::buffers::{Buffers, Lease};
use crate::connection::Output;
use crate::job::{Job, Next};
use crate::status;

/// Bytes of a block.
const BLOCK: u64 = 4096;

/// A volume that is served, as it is now.
#[derive(Debug)]
pub struct Look {
    /// What there is to know about it.
    pub info: Info,
    /// Its requests.
    pub traffic: Traffic,
    /// Clients that have chosen it.
    pub clients: u64,
}

/// The volume, and what it has to do for connections.
#[derive(Debug)]
pub(crate) struct Engine {
    pub volume: Volume,
    pub buffers: Buffers,
    /// All that the server offers, and which of it this volume is.
    pub exports: Arc<[Export]>,
    pub place: usize,
    /// Nothing is begun any more.
    pub shutdown: bool,
    jobs: Slab<Job>,
    /// Something was queued and not submitted.
    queued: bool,
    /// What the last poll brought.
    fresh: Vec<Completion>,
    /// What is to be answered, in the order in which it was done.
    done: VecDeque<Completion>,
}

/// What becomes of a command.
pub(crate) enum Started {
    /// It is answered already.
    Answered,
    /// It is under way, and holds so many bytes.
    UnderWay(u64),
}

impl Engine {
    /// The volume that is `exports[place]`.
    pub fn new(volume: Volume, exports: Arc<[Export]>, place: usize) -> Self {
        Self {
            volume,
            buffers: Buffers::default(),
            exports,
            place,
            shutdown: false,
            jobs: Slab::new(),
            queued: false,
            fresh: Vec::new(),
            done: VecDeque::new(),
        }
    }

    /// What clients can have.
    pub fn offer(&self, tls: TlsOffer) -> Offer<'_> {
        Offer { exports: &self.exports, shutdown: self.shutdown, tls }
    }

    /// Begins a command that was judged; `payload` is what came with it.
    pub fn start(
        &mut self,
        connection: usize,
        to: ReplyTo,
        command: Command,
        payload: Option<Lease>,
        output: &mut Output,
    ) -> Started {
        let (job, kind) = match (command, payload) {
            (Command::Read { len: 0, .. } | Command::Cache { len: 0, .. }, _) => {
                output.write(|out| to.done(out));
                return Started::Answered;
            }
            (Command::Read { offset, len, whole }, _) => {
                let lease = self.buffers.take(usize::try_from(len).unwrap_or(usize::MAX));
                Job::read(connection, to, offset, whole, lease)
            }
            (Command::Write { offset, fua, .. }, Some(lease)) => {
                Job::write(connection, to, offset, fua, lease)
            }
            (Command::Cache { offset, len }, _) => {
                Job::cache(connection, to, offset, len, &mut self.buffers)
            }
            (Command::Flush, _) => Job::plain(connection, to, RequestKind::Flush),
            (Command::Trim { offset, len, fua: true }, _) => {
                Job::durable_trim(connection, to, offset, len)
            }
            (Command::Trim { offset, len, .. }, _) => {
                Job::plain(connection, to, RequestKind::Discard { offset, len })
            }
            (Command::WriteZeroes { offset, len, fast: true, .. }, _)
                if offset.div_ceil(BLOCK) >= (offset + len) / BLOCK =>
            {
                // Only whole blocks are zeroed without writing them.
                let text = "no whole block in it: as slow as a write";
                output.write(|out| to.error(Errno::NotSupported, text, out));
                return Started::Answered;
            }
            // There is room for every block of a volume, written or not: no hole needs to be avoided.
            (Command::WriteZeroes { offset, len, fua, .. }, _) => {
                Job::plain(connection, to, RequestKind::WriteZeroes { offset, len, fua })
            }
            (Command::BlockStatus { offset, len, one }, _) => {
                let extents = status::extents(&mut self.volume, offset, len, one);
                output.write(|out| to.block_status(wire::ALLOCATION_ID, &extents, true, out));
                return Started::Answered;
            }
            (Command::Write { .. } | Command::Disconnect, _) => return Started::Answered,
        };
        let held = job.held;
        self.queue(job, kind);
        Started::UnderWay(held)
    }

    fn queue(&mut self, job: Job, kind: RequestKind) {
        let tag = self.jobs.insert(job) as u64;
        self.volume.queue(Request { tag, kind });
        self.queued = true;
    }

    /// True when something waits to be submitted.
    pub fn has_queued(&self) -> bool {
        self.queued
    }

    /// Submits what was queued and collects what is done; true when anything is.
    pub fn advance(&mut self) -> bool {
        if std::mem::take(&mut self.queued) {
            self.volume.submit();
        }
        self.volume.poll(&mut self.fresh);
        self.done.extend(self.fresh.drain(..));
        !self.done.is_empty()
    }

    /// The next job that the engine is done with, and how.
    pub fn finished(&mut self) -> Option<(Job, Completion)> {
        let completion = self.done.pop_front()?;
        let key = usize::try_from(completion.tag).unwrap_or(usize::MAX);
        let job = self.jobs.try_remove(key);
        let Some(job) = job else { unreachable!("a completion that nobody waits for") };
        Some((job, completion))
    }

    /// Goes on with a job; true when it is over, and answered in `output`.
    pub fn go_on(&mut self, job: Job, completion: Completion, output: &mut Output) -> bool {
        match job.go_on(completion, output, &mut self.buffers) {
            Next::Answered => true,
            Next::More(job, kind) => {
                self.queue(job, kind);
                false
            }
        }
    }
}
