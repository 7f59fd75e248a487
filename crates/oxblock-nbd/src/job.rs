//! Requests under way in the engine, from the command to its reply.

use oxblock::{Buf, Completion, Error, RequestKind};
use oxblock_nbd_proto::{Errno, ReplyTo};

use crate::buffers::{Buffers, Lease};
use crate::connection::Output;
use crate::read_reply::ReadDone;

/// The bytes that are read at once to have a range at hand.
const CACHE_STEP: u64 = 1 << 20;

/// What is to be answered, and what is left to do until then.
#[derive(Debug)]
pub(crate) struct Job {
    /// Whose it is.
    pub connection: usize,
    /// Bytes of buffers that it holds.
    pub held: u64,
    to: ReplyTo,
    step: Step,
    /// What is behind the buffer that the engine has.
    tail: Option<Buf>,
}

#[derive(Debug)]
enum Step {
    Read {
        offset: u64,
        whole: bool,
    },
    /// A read that nobody sees.
    Cache {
        next: u64,
        end: u64,
    },
    Write,
    /// A trim whose effect shall be durable.
    TrimThenFlush,
    /// Anything without a buffer.
    Plain,
}

/// What became of a job.
pub(crate) enum Next {
    /// It is answered.
    Answered,
    /// The engine has to do this first.
    More(Job, RequestKind),
}

impl Job {
    fn new(
        connection: usize,
        to: ReplyTo,
        step: Step,
        lease: Option<Lease>,
    ) -> (Self, Option<Buf>) {
        let held = lease.as_ref().map_or(0, Lease::held);
        let (buf, tail) = lease.map(|Lease { buf, tail }| (buf, tail)).unzip();
        (Self { connection, held, to, step, tail }, buf)
    }

    /// A read into `lease`.
    pub fn read(
        connection: usize,
        to: ReplyTo,
        offset: u64,
        whole: bool,
        lease: Lease,
    ) -> (Self, RequestKind) {
        let (job, buf) = Self::new(connection, to, Step::Read { offset, whole }, Some(lease));
        (job, RequestKind::Read { offset, buf: buf.unwrap_or_else(|| Buf::new(0)) })
    }

    /// A write of `lease`.
    pub fn write(
        connection: usize,
        to: ReplyTo,
        offset: u64,
        fua: bool,
        lease: Lease,
    ) -> (Self, RequestKind) {
        let (job, buf) = Self::new(connection, to, Step::Write, Some(lease));
        (job, RequestKind::Write { offset, buf: buf.unwrap_or_else(|| Buf::new(0)), fua })
    }

    /// Reads of a range, one after the other, that nobody sees; it is not empty.
    pub fn cache(
        connection: usize,
        to: ReplyTo,
        offset: u64,
        len: u64,
        buffers: &mut Buffers,
    ) -> (Self, RequestKind) {
        let first = len.min(CACHE_STEP);
        let lease = buffers.take(usize::try_from(first).unwrap_or(0));
        let step = Step::Cache { next: offset + first, end: offset + len };
        let (job, buf) = Self::new(connection, to, step, Some(lease));
        (job, RequestKind::Read { offset, buf: buf.unwrap_or_else(|| Buf::new(0)) })
    }

    /// A trim that is durable when it is answered.
    pub fn durable_trim(
        connection: usize,
        to: ReplyTo,
        offset: u64,
        len: u64,
    ) -> (Self, RequestKind) {
        let (job, _) = Self::new(connection, to, Step::TrimThenFlush, None);
        (job, RequestKind::Discard { offset, len })
    }

    /// Anything without a buffer.
    pub fn plain(connection: usize, to: ReplyTo, kind: RequestKind) -> (Self, RequestKind) {
        let (job, _) = Self::new(connection, to, Step::Plain, None);
        (job, kind)
    }

    /// Goes on after the engine is done with it; an answer goes to `output`, which nobody may see any more.
    pub fn go_on(
        mut self,
        completion: Completion,
        output: &mut Output,
        buffers: &mut Buffers,
    ) -> Next {
        let Completion { buf, result, .. } = completion;
        let lease = buf.zip(self.tail.take()).map(|(buf, tail)| Lease { buf, tail });
        let to = self.to;
        match (self.step, lease) {
            (Step::Read { offset, whole }, Some(lease)) => {
                ReadDone { to, offset, whole, lease }.answer(result, output, buffers);
            }
            (Step::Cache { next, end }, lease) if result.is_ok() && next < end => {
                lease.into_iter().for_each(|lease| buffers.give(lease));
                let (mut job, kind) = Self::cache(self.connection, to, next, end - next, buffers);
                // Counted once.
                job.held = self.held;
                return Next::More(job, kind);
            }
            (Step::TrimThenFlush, _) if result.is_ok() => {
                let (job, kind) = Self::plain(self.connection, to, RequestKind::Flush);
                return Next::More(job, kind);
            }
            (_, lease) => {
                lease.into_iter().for_each(|lease| buffers.give(lease));
                answer(&to, result, output);
            }
        }
        Next::Answered
    }
}

/// The reply to a request without data.
fn answer(to: &ReplyTo, result: Result<(), Error>, output: &mut Output) {
    output.write(|out| match result {
        Ok(()) => to.done(out),
        Err(error) => to.error(Errno::of_system(error.errno()), &error.to_string(), out),
    });
}
