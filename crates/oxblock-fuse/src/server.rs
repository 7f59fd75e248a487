//! The loop: messages in, requests to the volume, replies out, all in the thread that drives the volume.
//!
//! Who owns what: a write's payload is received into a buffer of the [`Pool`], which goes to the volume as it is and comes
//! back with the completion; a read's buffer goes the same way, and the reply is sent from it. Of each request under way
//! [`Server::jobs`] keeps the number and the rest of its buffer; its place there is the tag of the volume's request.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use oxblock::volume::{Mailbox, Patience, Remote};
use oxblock::{Buf, Completion, Error, Request, RequestKind, Result, Volume};
use rustix::io::Errno;
use slab::Slab;

use crate::errno;
use crate::pool::Pool;
use crate::proto::{self, Reply, WRITE_HEAD};
use crate::seek::{Found, Seek};
use crate::session::{Received, Session};
use crate::tree::{Answer, Tree, Work};

/// Requests under way. While there are as many, no more are taken from the kernel.
const JOBS_MAX: usize = 256;

/// Bytes of requests under way, as above.
const BYTES_MAX: u64 = 64 << 20;

/// Messages that are taken before anything else is done: so many writes can leave together.
const BATCH: usize = 64;

/// The same in bytes: as many as a record holds. With more at once, writes of 1 MiB on a device in memory come to nine tenths.
const BATCH_BYTES: u64 = 1 << 20;

/// The longest look for messages before a sleep.
const LOOK: Duration = Duration::from_micros(60);

/// Rounds, when there is always something to do, after which calls from other threads are looked for all the same.
const ROUNDS: u32 = 256;

/// The longest that the volume is waited for before the rest is looked at; a safety net, not a pace.
const NAP: Duration = Duration::from_millis(100);

/// How serving ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It was unmounted.
    Unmounted,
    /// The connection was cut off (`/sys/fs/fuse/connections/N/abort`), and the mount is still there.
    Aborted,
    /// It was asked to stop. What was under way is answered.
    Stopped,
}

/// A request of the volume, and what its answer needs.
#[derive(Debug)]
struct Job {
    unique: u64,
    /// Bytes of the answer.
    bytes: u32,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// With the rest of the buffer; the first byte; whether less than asked for may be given.
    Read(Buf, u64, bool),
    /// With the rest of the buffer.
    Write(Buf),
    Other,
}

/// A volume behind a session.
#[derive(Debug)]
pub struct Server {
    volume: Volume,
    session: Session,
    tree: Tree,
    jobs: Slab<Job>,
    /// Bytes of all jobs.
    bytes: u64,
    seeks: VecDeque<Seek>,
    pool: Pool,
    /// Where messages are received.
    head: [u8; WRITE_HEAD],
    inbox: Option<Buf>,
    done: Vec<Completion>,
    patience: Patience,
    mailbox: Mailbox<Volume>,
    /// How the session ended, once it has.
    gone: Option<Ended>,
    /// Notices of the volume that its user knows.
    known: usize,
}

impl Server {
    /// A server of `volume`; `wake` polls readable when its `stop` was set.
    ///
    /// # Errors
    /// When the volume cannot be waited for.
    pub fn new(
        mut volume: Volume,
        session: Session,
        tree: Tree,
        wake: Arc<OwnedFd>,
    ) -> Result<Self> {
        volume.watch(session.descriptor())?;
        volume.watch(wake)?;
        let mailbox = Mailbox::new().map_err(|error| Error::io("set up the mount", error))?;
        volume.watch(mailbox.descriptor())?;
        let known = volume.notices().len();
        Ok(Self {
            volume,
            session,
            tree,
            jobs: Slab::new(),
            bytes: 0,
            seeks: VecDeque::new(),
            pool: Pool::default(),
            head: [0; WRITE_HEAD],
            inbox: None,
            done: Vec::new(),
            patience: Patience::new(LOOK),
            mailbox,
            gone: None,
            known,
        })
    }

    /// Serves until it is unmounted or `stop` is set, and tells of every request that the volume fails, and what the volume has
    /// to say meanwhile.
    ///
    /// # Errors
    /// When the kernel is too old, or talks in a way that nobody can answer.
    pub fn run(&mut self, stop: &AtomicBool, tell: &mut dyn FnMut(&str)) -> Result<Ended> {
        // Memory that this thread needs must never wait for data to be written through this very mount.
        rustix::process::configure_io_flusher_behavior(true).ok();
        let mut rounds = 0;
        loop {
            let stopped = stop.load(Ordering::Relaxed);
            let ended = self.gone.or(stopped.then_some(Ended::Stopped));
            if let Some(ended) = ended.filter(|_| self.jobs.is_empty() && self.seeks.is_empty()) {
                return Ok(ended);
            }
            let full = self.jobs.len() >= JOBS_MAX || self.bytes >= BYTES_MAX;
            let closed = ended.is_some() || full;
            let mut any = !closed && self.receive()?;
            self.volume.submit();
            any |= self.complete(tell)?;
            any |= self.search()?;
            rounds += 1;
            if !any || rounds >= ROUNDS {
                rounds = 0;
                self.mailbox.take().into_iter().for_each(|call| call(&mut self.volume));
            }
            if any {
                self.patience.found();
            } else if closed {
                // What is watched has nothing to say now, and may be readable for ever.
                self.volume.wait(Some(NAP));
            } else if !self.patience.lasts() {
                self.volume.wait_watching(None);
            }
        }
    }

    /// How others look at the volume while it is served.
    pub fn remote(&self) -> Remote<Volume> {
        self.mailbox.remote()
    }

    /// The volume, to be closed.
    pub fn into_volume(self) -> Volume {
        self.volume
    }

    /// Takes messages in; true when there were any.
    fn receive(&mut self) -> Result<bool> {
        let before = self.bytes;
        for count in 0..BATCH {
            let full = self.jobs.len() >= JOBS_MAX || self.bytes >= BYTES_MAX;
            if full || self.bytes - before >= BATCH_BYTES {
                return Ok(true);
            }
            let mut body = self.inbox.take().unwrap_or_else(|| self.pool.take());
            let received = self.session.receive(&mut self.head, &mut body);
            match received.map_err(|error| Error::io("reading /dev/fuse failed", error))? {
                Received::Message(len) => self.take(len, body)?,
                Received::Nothing => {
                    self.inbox = Some(body);
                    return Ok(count > 0);
                }
                Received::Gone => {
                    self.gone = Some(Ended::Unmounted);
                    return Ok(true);
                }
                Received::Aborted => {
                    self.gone = Some(Ended::Aborted);
                    return Ok(true);
                }
            }
        }
        Ok(true)
    }

    /// Deals with a message of `len` bytes.
    fn take(&mut self, len: usize, body: Buf) -> Result<()> {
        let first = self.head.get(..len).unwrap_or(&self.head);
        let rest = body.get(..len.saturating_sub(WRITE_HEAD)).unwrap_or(&body);
        let answer = match proto::decode(first, rest) {
            Ok(request) => match self.tree.answer(&request, self.volume.used()) {
                Answer::Work(work) => {
                    self.begin(request.unique, work, body);
                    return Ok(());
                }
                answer => answer,
            },
            Err(malformed) => match malformed.unique {
                Some(unique) => Answer::Reply(Reply::error(unique, Errno::INVAL)),
                None => Answer::Nothing,
            },
        };
        self.inbox = Some(body);
        match answer {
            Answer::Nothing | Answer::Work(_) => Ok(()),
            Answer::Reply(reply) => self.send(&reply, &[]),
            Answer::Refuse(reply, why) => {
                self.send(&reply, &[])?;
                Err(Error::new(oxblock::ErrorKind::Unsupported, why))
            }
        }
    }

    /// Has the volume do something. A write takes `body` along.
    fn begin(&mut self, unique: u64, work: Work, mut body: Buf) {
        if matches!(work, Work::Write { .. } | Work::Discard { .. } | Work::Zero { .. }) {
            self.tree.touch(now());
        }
        let other = Job { unique, bytes: 0, kind: Kind::Other };
        match work {
            Work::Write { offset, len, durable } => {
                let rest = body.split_off(size(len));
                let job = Job { unique, bytes: len, kind: Kind::Write(rest) };
                self.queue(job, RequestKind::Write { offset, buf: body, fua: durable });
                return;
            }
            Work::Read { offset, len, partial } => {
                let mut buf = self.pool.take();
                let rest = buf.split_off(size(len));
                let job = Job { unique, bytes: len, kind: Kind::Read(rest, offset, partial) };
                self.queue(job, RequestKind::Read { offset, buf });
            }
            Work::Flush => self.queue(other, RequestKind::Flush),
            Work::Discard { offset, len } => {
                self.queue(other, RequestKind::Discard { offset, len });
            }
            Work::Zero { offset, len } => {
                self.queue(other, RequestKind::WriteZeroes { offset, len, fua: false });
            }
            Work::Seek { offset, hole } => self.seeks.push_back(Seek::new(unique, offset, hole)),
        }
        self.inbox = Some(body);
    }

    fn queue(&mut self, job: Job, kind: RequestKind) {
        self.bytes += u64::from(job.bytes);
        let tag = self.jobs.insert(job) as u64;
        self.volume.queue(Request { tag, kind });
    }

    /// Answers what the volume has done; true when there was any.
    fn complete(&mut self, tell: &mut dyn FnMut(&str)) -> Result<bool> {
        let mut done = std::mem::take(&mut self.done);
        let any = self.volume.poll(&mut done) > 0;
        for completion in done.drain(..) {
            if let Err(error) = &completion.result {
                tell(&error.to_string());
            }
            self.finish(completion)?;
        }
        self.done = done;
        let notices = self.volume.notices();
        notices.get(self.known..).into_iter().flatten().for_each(|notice| tell(notice));
        self.known = notices.len();
        Ok(any)
    }

    fn finish(&mut self, completion: Completion) -> Result<()> {
        let job = usize::try_from(completion.tag).ok().and_then(|tag| self.jobs.try_remove(tag));
        let Some(Job { unique, bytes, kind }) = job else {
            unreachable!("a completion that nobody waits for")
        };
        self.bytes -= u64::from(bytes);
        let Completion { buf, result, .. } = completion;
        match kind {
            Kind::Read(rest, offset, partial) => {
                let data = buf.as_deref().unwrap_or_default();
                let good = match &result {
                    Ok(()) => Ok(data),
                    Err(error) if partial => before_damage(data, offset, error),
                    Err(error) => Err(errno::of(error)),
                };
                match good {
                    Ok(data) => {
                        let len = u32::try_from(data.len()).unwrap_or(0);
                        self.send(&Reply::read(unique, len), data)?;
                    }
                    Err(errno) => self.send(&Reply::error(unique, errno), &[])?,
                }
                self.give(buf, rest);
            }
            Kind::Write(rest) => {
                let reply = match &result {
                    Ok(()) => Reply::written(unique, bytes),
                    Err(error) => Reply::error(unique, errno::of(error)),
                };
                self.send(&reply, &[])?;
                self.give(buf, rest);
            }
            Kind::Other => {
                let reply = match &result {
                    Ok(()) => Reply::done(unique),
                    Err(error) => Reply::error(unique, errno::of(error)),
                };
                self.send(&reply, &[])?;
            }
        }
        Ok(())
    }

    fn give(&mut self, front: Option<Buf>, rest: Buf) {
        if let Some(front) = front {
            self.pool.give(front, rest);
        }
    }

    /// Brings the first search on; true when there is one.
    fn search(&mut self) -> Result<bool> {
        let Some(mut seek) = self.seeks.pop_front() else { return Ok(false) };
        let reply = match seek.step(&mut self.volume) {
            // The next one is next.
            None => {
                self.seeks.push_back(seek);
                return Ok(true);
            }
            Some(Found::At(offset)) => Reply::place(seek.unique, offset),
            Some(Found::Nothing) => Reply::error(seek.unique, Errno::NXIO),
        };
        self.send(&reply, &[])?;
        Ok(true)
    }

    /// Answers. An answer that the kernel does not take becomes an error, so that nobody waits for ever.
    fn send(&self, reply: &Reply, data: &[u8]) -> Result<()> {
        let Err(error) = self.session.send(reply, data) else { return Ok(()) };
        let failed = |error| Error::io("writing to /dev/fuse failed", error);
        if reply.is_error() {
            return Err(failed(error));
        }
        self.session.send(&Reply::error(reply.unique(), Errno::IO), &[]).map_err(failed)
    }
}

/// Of what was read from `offset` on, what comes before the first block that is not good: a read of a file ends there, and the
/// next one, which begins there, fails.
fn before_damage<'a>(data: &'a [u8], offset: u64, error: &Error) -> Result<&'a [u8], Errno> {
    let first = error.blocks().iter().map(|bad| bad.block).min();
    let good = first.and_then(|block| (block * 4096).checked_sub(offset)).filter(|len| *len > 0);
    let good = good.and_then(|len| usize::try_from(len).ok());
    good.and_then(|len| data.get(..len)).ok_or(errno::of(error))
}

/// A size that fits, as a message cannot be larger than memory.
fn size(len: u32) -> usize {
    usize::try_from(len).unwrap_or(usize::MAX)
}

/// Seconds and nanoseconds since 1970.
pub(crate) fn now() -> (u64, u32) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (now.as_secs(), now.subsec_nanos())
}
