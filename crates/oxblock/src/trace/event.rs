//! What a trace consists of: plain marks.

/// Whether a span begins or ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// It begins.
    Begin,
    /// It ends.
    End,
}

/// What a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A read.
    Read,
    /// A write.
    Write,
    /// A flush.
    Flush,
    /// A discard.
    Discard,
    /// Zeroes over a range.
    WriteZeroes,
}

impl Kind {
    /// Every kind, in the order of reports.
    pub const ALL: [Self; 5] =
        [Self::Read, Self::Write, Self::Flush, Self::Discard, Self::WriteZeroes];

    /// The name in output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Flush => "flush",
            Self::Discard => "discard",
            Self::WriteZeroes => "write_zeroes",
        }
    }
}

/// A stage on the way of a request, named for what is done at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// From being queued to being taken up: by a record, or by the look-up of a read. Of a flush, all of its way.
    Queued,
    /// Its record is being put together, with what else joins it.
    Gathered,
    /// The record's checksums are being computed, by the issuer or by workers, and its header is being made.
    Checksummed,
    /// A read is looked up in the map, and its bio is being put together.
    LookedUp,
    /// The bio is with the device's queue, and not started.
    Submitted,
    /// The device has it, until the engine reaps it.
    Device,
    /// What was read waits for being verified, and is; a read that its client verifies only waits.
    Verified,
    /// The record waits for those before it, and is applied to the map.
    Retired,
    /// All parts are done. What is left is the flush of a durable write, and the way to the caller.
    Completed,
}

impl Stage {
    /// Every stage, in the order in which requests pass them.
    pub const ALL: [Self; 9] = [
        Self::Queued,
        Self::Gathered,
        Self::Checksummed,
        Self::LookedUp,
        Self::Submitted,
        Self::Device,
        Self::Verified,
        Self::Retired,
        Self::Completed,
    ];

    /// The name in output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Gathered => "gathered",
            Self::Checksummed => "checksummed",
            Self::LookedUp => "looked_up",
            Self::Submitted => "submitted",
            Self::Device => "device",
            Self::Verified => "verified",
            Self::Retired => "retired",
            Self::Completed => "completed",
        }
    }
}

/// What a bio is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BioKind {
    /// A write of a record: data, moved data or map nodes.
    Record,
    /// A read for a request.
    Read,
    /// A read of a map node.
    Node,
    /// A write of a copy of the superblock.
    Superblock,
    /// A read of what is being cleaned.
    Clean,
    /// A discard of a segment.
    Discard,
}

impl BioKind {
    /// Every kind, in the order of reports.
    pub const ALL: [Self; 6] =
        [Self::Record, Self::Read, Self::Node, Self::Superblock, Self::Clean, Self::Discard];

    /// The name in output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Record => "record",
            Self::Read => "read",
            Self::Node => "node",
            Self::Superblock => "superblock",
            Self::Clean => "clean",
            Self::Discard => "discard",
        }
    }
}

/// What begins or ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Span {
    /// A request, from being queued to its completion being in the caller's hands.
    Request(Kind),
    /// One stage of a part of a request.
    Stage(Kind, Stage),
    /// One device operation, from being pushed to being reaped.
    Bio(BioKind),
    /// A flush of the devices, likewise.
    Flush,
    /// A checkpoint, from freezing the map to its superblock being durable.
    Checkpoint,
    /// One segment being cleaned.
    Cleaning,
}

impl Span {
    /// The group of spans that it is of, in output.
    pub const fn group(self) -> &'static str {
        match self {
            Self::Request(kind) | Self::Stage(kind, _) => kind.name(),
            Self::Bio(_) => "bio",
            Self::Flush | Self::Checkpoint | Self::Cleaning => "engine",
        }
    }

    /// Its name within the group, in output; `total` for a whole request.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Request(_) => "total",
            Self::Stage(_, stage) => stage.name(),
            Self::Bio(kind) => kind.name(),
            Self::Flush => "flush",
            Self::Checkpoint => "checkpoint",
            Self::Cleaning => "cleaning",
        }
    }

    /// Every span that there is, by group, in the order of reports.
    pub fn all() -> impl Iterator<Item = Self> {
        let requests = Kind::ALL.into_iter().flat_map(|kind| {
            let stages = Stage::ALL.into_iter().map(move |stage| Self::Stage(kind, stage));
            stages.chain([Self::Request(kind)])
        });
        let bios = BioKind::ALL.into_iter().map(Self::Bio);
        requests.chain(bios).chain([Self::Flush, Self::Checkpoint, Self::Cleaning])
    }
}

/// One mark of a trace.
///
/// The marks of one `(id, part)` come in the order of their times. Over all of a trace they nearly do: `completed` is
/// marked with the time when the last part was done, which may be a little before other marks that came already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// Nanoseconds on the clock of the device queue.
    pub at: u64,
    /// Begin or end.
    pub mark: Mark,
    /// When the span began, in nanoseconds; `at` itself for a begin.
    pub began: u64,
    /// What begins or ends.
    pub span: Span,
    /// Which one. Requests with their stages are numbered from 1, so are bios with flushes, checkpoints, and cleanings.
    pub id: u64,
    /// Which part of the request, from 0; 0 for what has no parts.
    pub part: u32,
    /// How much it is about, in bytes: of a request, what it asks for; of a stage, the part's share; of a bio, all that
    /// it carries, headers included; of a checkpoint, the nodes that were dirty when it begins and the nodes written
    /// when it ends; of cleaning, what was live in the segment when it begins and what was moved when it ends.
    pub bytes: u64,
    /// The bio in which the part travels, for the stages `submitted` and `device`; otherwise 0.
    pub bio: u64,
}
