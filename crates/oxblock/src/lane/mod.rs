//! One lane: a single-threaded, run-to-completion state machine from requests to device operations and back.
//!
//! ```text
//! queue ─► submit/ (gather, read, read-modify-write, ranges) ─► records, bios ─► device queue
//!                                                                                    │
//! completions ◄─ complete/ (retire in order, verify, flush) ◄────────────────────────┘
//!                          log/ (checkpoint, clean) works in the gaps
//! ```
//!
//! Nothing blocks and nothing locks: every step does what can be done now and leaves the rest to be taken up when what
//! it waits for has come. The parts live in the modules above; this one holds the state and the loop.

mod config;
mod drive;
mod fetch;
mod tag;

pub(crate) use config::{Geometry, Placement, Tuning};
pub(crate) use fetch::{Fetches, Lost, TRIES};
pub(crate) use tag::{Class, NUMBER_LIMIT, classify, tag};

use std::collections::VecDeque;

use crate::complete::flush::Flushes;
use crate::complete::verify::Claim;
use crate::device::{Done, IoQueue};
use crate::error::Error;
use crate::format::superblock::Checkpoint;
use crate::log::append::Log;
use crate::log::checkpoint::Point;
use crate::log::clean::Cleaner;
use crate::log::segments::Segments;
use crate::log::table::Table;
use crate::map::Map;
use crate::stats::{Counters, Traffic};
use crate::submit::read::Reads;
use crate::submit::request::Completion;
use crate::submit::rmw::Rmws;
use crate::submit::write::Writes;
use crate::trace::Traced;

/// The state of one lane. See the module.
pub(crate) struct Lane {
    pub queue: Traced,
    pub geometry: Geometry,
    pub tuning: Tuning,
    pub placement: Placement,
    pub map: Map,
    pub segments: Segments,
    pub table: Table,
    pub log: Log,
    pub writes: Writes,
    pub rmws: Rmws,
    pub reads: Reads,
    pub fetches: Fetches,
    pub flushes: Flushes,
    pub point: Point,
    pub cleaner: Cleaner,
    pub out: VecDeque<Completion>,
    /// What clients have to verify, by the tags of their requests, in the order of `out`.
    pub claims: VecDeque<(u64, Claim)>,
    /// Why nothing can be written any more.
    pub latched: Option<Error>,
    pub counters: Counters,
    pub traffic: Traffic,
    /// Damaged nodes in the log are somebody's concern who replays it.
    pub makes_nodes_anew: bool,
    /// What the user should know, one sentence each.
    pub notices: Vec<String>,
    /// Jobs sent to workers since the lane was opened.
    pub jobs_sent: u64,
    /// The time, if it was read since something last took any.
    moment: Option<u64>,
    /// Operations that have ended and are not dealt with yet, the first one last.
    done: Vec<Done>,
}

impl Lane {
    /// The lane at its checkpoint `point`; recovery goes on from there.
    pub fn new(
        queue: Box<dyn IoQueue + Send>,
        geometry: Geometry,
        placement: Placement,
        map: Map,
        segments: Segments,
        table: Table,
        point: Checkpoint,
    ) -> Self {
        let superblock = &geometry.superblock;
        let (blocks, count) = (superblock.segment_blocks, superblock.segments);
        let tuning = Tuning::new(blocks, count, queue.has_cheap_reads());
        let mut log = Log::new(point.epoch, point.sequence);
        for (head, stored) in log.heads.iter_mut().zip(&point.heads) {
            *head = stored.map(|head| head.segment);
        }
        Self {
            queue: Traced::new(queue),
            geometry,
            tuning,
            placement,
            map,
            segments,
            table,
            log,
            writes: Writes::default(),
            rmws: Rmws::default(),
            reads: Reads::default(),
            fetches: Fetches::default(),
            flushes: Flushes::default(),
            point: Point::new(point),
            cleaner: Cleaner::default(),
            out: VecDeque::new(),
            claims: VecDeque::new(),
            latched: None,
            counters: Counters::default(),
            traffic: Traffic::default(),
            makes_nodes_anew: false,
            notices: Vec::new(),
            jobs_sent: 0,
            moment: None,
            done: Vec::new(),
        }
    }

    /// Blocks that failed verification in the volume's life: what the superblock knew when the lane was opened, and what
    /// has come since. Not what the last checkpoint says, which counts part of the latter.
    pub fn checksum_errors(&self) -> u64 {
        self.geometry
            .superblock
            .checkpoint
            .checksum_errors
            .saturating_add(self.counters.checksum_errors)
    }
}
