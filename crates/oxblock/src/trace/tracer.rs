//! What is open in a trace, and the marks that follow from what happens to it.
//!
//! A request is known by its number, an operation by its tag. Records and bios carry *parts* of requests; the table of
//! what they carry is how a device operation finds the requests that it takes along. Whatever is not known, because it
//! began before the trace did, is passed over.

use std::collections::BTreeMap;

use smallvec::{SmallVec, smallvec};

use super::{BioKind, Event, Kind, Mark, Span, Stage, TraceSink};
use crate::device::{Action, Op};
use crate::lane::{Class, classify, tag};

/// Numbers that have been given out.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Numbers {
    requests: u64,
    bios: u64,
    background: [u64; JOBS],
}

/// What the lane does for itself, one at a time each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Background {
    Checkpoint,
    Cleaning,
}

const JOBS: usize = 2;

impl Background {
    fn span(self) -> Span {
        match self {
            Self::Checkpoint => Span::Checkpoint,
            Self::Cleaning => Span::Cleaning,
        }
    }
}

/// What is seen of a background job from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Which one is under way, by a number that the next one does not have, and what it begins with, in bytes.
    pub running: Option<(u64, u64)>,
    /// Bytes that such jobs have done so far.
    pub done: u64,
}

/// A background job that is under way.
#[derive(Debug, Clone, Copy)]
struct Running {
    key: u64,
    began: u64,
    /// Bytes that such jobs had done when it began.
    done: u64,
}

/// A stage that is open.
#[derive(Debug, Clone, Copy)]
struct Open {
    stage: Stage,
    began: u64,
    bytes: u64,
    bio: u64,
}

/// A part of a request.
#[derive(Debug, Clone, Copy, Default)]
struct Part {
    /// What is left to be sent of it.
    bytes: u64,
    open: Option<Open>,
    /// When its last stage ended.
    ended: u64,
}

/// A request that is open.
#[derive(Debug)]
struct Request {
    kind: Kind,
    bytes: u64,
    began: u64,
    parts: SmallVec<[Part; 1]>,
}

/// A device operation that is open.
#[derive(Debug, Clone, Copy)]
struct Bio {
    span: Span,
    number: u64,
    bytes: u64,
    began: u64,
}

/// A part on its way, with its share in bytes.
#[derive(Debug, Clone, Copy)]
struct Carried {
    request: u64,
    part: u32,
    bytes: u64,
}

/// A share of a request that goes into a record.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Taken {
    /// The request's number.
    pub request: u64,
    pub bytes: u64,
    /// More of the same part is to follow.
    pub cut: bool,
}

/// The trace of a lane.
pub(crate) struct Tracer {
    sink: Box<dyn TraceSink>,
    numbers: Numbers,
    requests: BTreeMap<u64, Request>,
    /// What records and bios carry, by the tag of their device operation.
    carried: BTreeMap<u64, SmallVec<[Carried; 4]>>,
    bios: BTreeMap<u64, Bio>,
    /// Tags of operations that are pushed and not submitted.
    pushed: Vec<u64>,
    /// Requests whose completion is on its way to the caller.
    finished: Vec<u64>,
    running: [Option<Running>; JOBS],
}

impl Tracer {
    /// Nothing so far; numbers go on after `numbers`.
    pub fn new(sink: Box<dyn TraceSink>, numbers: Numbers) -> Self {
        Self {
            sink,
            numbers,
            requests: BTreeMap::new(),
            carried: BTreeMap::new(),
            bios: BTreeMap::new(),
            pushed: Vec::new(),
            finished: Vec::new(),
            running: [None; JOBS],
        }
    }

    /// A request has come. Returns its number.
    pub fn request(&mut self, kind: Kind, bytes: u64, now: u64) -> u64 {
        self.numbers.requests += 1;
        let number = self.numbers.requests;
        self.mark(Mark::Begin, Span::Request(kind), number, bytes, now, now);
        let parts = smallvec![Part { bytes, open: None, ended: now }];
        self.requests.insert(number, Request { kind, bytes, began: now, parts });
        self.enter(number, 0, Some(Stage::Queued), bytes, 0, now);
        number
    }

    /// Shares of requests were taken from the queue at `began` and make a record, whose checksums begin.
    pub fn gathered(
        &mut self,
        sequence: u64,
        taken: impl Iterator<Item = Taken>,
        began: u64,
        now: u64,
    ) {
        let mut carried = SmallVec::new();
        for Taken { request, bytes, cut } in taken {
            let Some(open) = self.requests.get_mut(&request) else { continue };
            let queued = |part: &Part| part.open.is_some_and(|open| open.stage == Stage::Queued);
            let part = open.parts.iter().position(queued).unwrap_or_else(|| {
                open.parts.push(Part { bytes, open: None, ended: began });
                open.parts.len() - 1
            });
            let left = open.parts.get(part).map_or(0, |part| part.bytes.saturating_sub(bytes));
            if cut {
                open.parts.push(Part { bytes: left, open: None, ended: began });
            }
            let rest = number_of(open.parts.len() - 1);
            let part = number_of(part);
            self.enter(request, part, Some(Stage::Gathered), bytes, 0, began);
            self.enter(request, part, Some(Stage::Checksummed), bytes, 0, now);
            if cut {
                self.enter(request, rest, Some(Stage::Queued), left, 0, began);
            }
            carried.push(Carried { request, part, bytes });
        }
        self.carried.insert(tag(Class::Record, sequence), carried);
    }

    /// A read is taken up: its blocks are being looked up.
    pub fn looking_up(&mut self, request: u64, now: u64) {
        let Some(open) = self.requests.get(&request) else { return };
        let first = open.parts.first().and_then(|part| part.open);
        if open.kind == Kind::Read && first.is_some_and(|open| open.stage == Stage::Queued) {
            self.enter(request, 0, Some(Stage::LookedUp), open.bytes, 0, now);
        }
    }

    /// A bio of a read, or of the edge of a write, is about to be pushed with the tag `tag`. Returns the part that it is.
    pub fn read_bio(&mut self, request: u64, tag: u64, bytes: u64, now: u64) -> u32 {
        let Some(open) = self.requests.get_mut(&request) else { return 0 };
        let first = open.parts.first().and_then(|part| part.open);
        let part = match first {
            Some(open) if open.stage == Stage::LookedUp => 0,
            _ => {
                open.parts.push(Part { bytes, open: None, ended: now });
                number_of(open.parts.len() - 1)
            }
        };
        self.carried.insert(tag, smallvec![Carried { request, part, bytes }]);
        part
    }

    /// An operation is pushed to the device queue.
    pub fn pushed(&mut self, op: &Op, now: u64) {
        let (class, _) = classify(op.tag);
        let span = match class {
            Class::Record => Span::Bio(BioKind::Record),
            Class::Read => Span::Bio(BioKind::Read),
            Class::Node => Span::Bio(BioKind::Node),
            Class::Superblock => Span::Bio(BioKind::Superblock),
            Class::Clean => Span::Bio(BioKind::Clean),
            Class::Discard => Span::Bio(BioKind::Discard),
            Class::Flush => Span::Flush,
            // Jobs, not operations of a device.
            Class::Sum | Class::End => return,
        };
        let bytes = match &op.action {
            Action::Read(bufs) | Action::Write { bufs, .. } => {
                bufs.iter().map(|buf| buf.len() as u64).sum()
            }
            Action::Flush => 0,
            Action::Discard { len } => *len,
        };
        self.numbers.bios += 1;
        let number = self.numbers.bios;
        self.bios.insert(op.tag, Bio { span, number, bytes, began: now });
        self.pushed.push(op.tag);
        self.mark(Mark::Begin, span, number, bytes, now, now);
        self.enter_all(op.tag, Stage::Submitted, number, now);
    }

    /// Everything that was pushed goes to the devices.
    pub fn submitted(&mut self, now: u64) {
        let mut pushed = std::mem::take(&mut self.pushed);
        for tag in pushed.drain(..) {
            self.started(tag, now);
        }
        self.pushed = pushed;
    }

    /// The operation that was pushed last went to its device with that.
    pub fn submitted_last(&mut self, now: u64) {
        if let Some(tag) = self.pushed.pop() {
            self.started(tag, now);
        }
    }

    fn started(&mut self, tag: u64, now: u64) {
        // One that was started early may have ended already.
        if let Some(bio) = self.bios.get(&tag) {
            let number = bio.number;
            self.enter_all(tag, Stage::Device, number, now);
        }
    }

    /// An operation has been reaped.
    pub fn reaped(&mut self, tag: u64, now: u64) {
        let Some(bio) = self.bios.remove(&tag) else { return };
        let Bio { span, number, bytes, began } = bio;
        // Tags are used again: what was never submitted must not be taken for the next one.
        self.pushed.retain(|pushed| *pushed != tag);
        match span {
            Span::Bio(BioKind::Record) => self.enter_all(tag, Stage::Retired, 0, now),
            Span::Bio(BioKind::Read) => {
                self.enter_all(tag, Stage::Verified, 0, now);
                self.carried.remove(&tag);
            }
            _ => {}
        }
        self.mark(Mark::End, span, number, bytes, began, now);
    }

    /// A record is retired.
    pub fn retired(&mut self, sequence: u64, now: u64) {
        let carried = self.carried.remove(&tag(Class::Record, sequence));
        for Carried { request, part, .. } in carried.into_iter().flatten() {
            self.enter(request, part, None, 0, 0, now);
        }
    }

    /// A bio of a read is verified.
    pub fn verified(&mut self, request: u64, part: u32, now: u64) {
        self.enter(request, part, None, 0, 0, now);
    }

    /// A request is completed, and waits for the caller to take its completion.
    pub fn completed(&mut self, request: u64, now: u64) {
        let Some(open) = self.requests.get(&request) else { return };
        let bytes = open.bytes;
        let parts = number_of(open.parts.len());
        // Stages that an error cut short end here.
        (0..parts).for_each(|part| self.enter(request, part, None, 0, 0, now));
        let Some(open) = self.requests.get(&request) else { return };
        let settled = open.parts.iter().map(|part| part.ended).max().unwrap_or(now);
        self.enter(request, 0, Some(Stage::Completed), bytes, 0, settled);
        self.finished.push(request);
    }

    /// The caller has taken all completions.
    pub fn handed_over(&mut self, now: u64) {
        let mut finished = std::mem::take(&mut self.finished);
        finished.drain(..).for_each(|request| self.end_request(request, now));
        self.finished = finished;
    }

    /// How a background job is now.
    pub fn background(&mut self, job: Background, seen: Seen, now: u64) {
        let at = job as usize;
        let running = self.running.get(at).copied().flatten();
        if running.map(|running| running.key) == seen.running.map(|(key, _)| key) {
            return;
        }
        let number = self.numbers.background.get(at).copied().unwrap_or(0);
        if let Some(Running { began, done, .. }) = running {
            let bytes = seen.done.saturating_sub(done);
            self.mark(Mark::End, job.span(), number, bytes, began, now);
        }
        let next = seen.running.map(|(key, _)| Running { key, began: now, done: seen.done });
        if let Some((_, bytes)) = seen.running {
            self.mark(Mark::Begin, job.span(), number + 1, bytes, now, now);
            if let Some(number) = self.numbers.background.get_mut(at) {
                *number += 1;
            }
        }
        if let Some(running) = self.running.get_mut(at) {
            *running = next;
        }
    }

    /// Ends everything that is open. Returns the numbers that have been given out.
    pub fn close(mut self, now: u64) -> Numbers {
        let requests: Vec<u64> = self.requests.keys().copied().collect();
        for request in requests {
            let parts = self.requests.get(&request).map_or(0, |open| number_of(open.parts.len()));
            (1..parts).for_each(|part| self.enter(request, part, None, 0, 0, now));
            self.end_request(request, now);
        }
        for Bio { span, number, bytes, began } in std::mem::take(&mut self.bios).into_values() {
            self.mark(Mark::End, span, number, bytes, began, now);
        }
        for job in [Background::Checkpoint, Background::Cleaning] {
            let running = self.running.get(job as usize).copied().flatten();
            let done = running.map_or(0, |running| running.done);
            self.background(job, Seen { running: None, done }, now);
        }
        self.numbers
    }

    fn end_request(&mut self, request: u64, now: u64) {
        self.enter(request, 0, None, 0, 0, now);
        if let Some(Request { kind, bytes, began, .. }) = self.requests.remove(&request) {
            self.mark(Mark::End, Span::Request(kind), request, bytes, began, now);
        }
    }

    /// All parts that an operation carries come to `stage`.
    fn enter_all(&mut self, tag: u64, stage: Stage, bio: u64, now: u64) {
        let carried = self.carried.get(&tag).cloned().unwrap_or_default();
        for Carried { request, part, bytes } in carried {
            self.enter(request, part, Some(stage), bytes, bio, now);
        }
    }

    /// A part leaves the stage that it is in, and comes to the next if there is one.
    fn enter(
        &mut self,
        number: u64,
        part: u32,
        next: Option<Stage>,
        bytes: u64,
        bio: u64,
        now: u64,
    ) {
        let Some(request) = self.requests.get_mut(&number) else { return };
        let Some(state) = request.parts.get_mut(part as usize) else { return };
        let mut event = Event {
            at: now,
            mark: Mark::End,
            began: now,
            span: Span::Request(request.kind),
            id: number,
            part,
            bytes,
            bio,
        };
        if let Some(Open { stage, began, bytes, bio }) = state.open.take() {
            state.ended = now;
            let span = Span::Stage(request.kind, stage);
            self.sink.event(&Event { began, span, bytes, bio, ..event });
        }
        if let Some(stage) = next {
            state.open = Some(Open { stage, began: now, bytes, bio });
            event.mark = Mark::Begin;
            event.span = Span::Stage(request.kind, stage);
            self.sink.event(&event);
        }
    }

    /// Marks something that has no parts.
    fn mark(&mut self, mark: Mark, span: Span, id: u64, bytes: u64, began: u64, at: u64) {
        self.sink.event(&Event { at, mark, began, span, id, part: 0, bytes, bio: 0 });
    }
}

fn number_of(part: usize) -> u32 {
    u32::try_from(part).unwrap_or(u32::MAX)
}
