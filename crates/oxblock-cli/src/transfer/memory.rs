//! A volume in memory for tests: completions come late and in reverse, blocks can be bad, writes can fail.

use std::collections::BTreeSet;
use std::time::Duration;

use oxblock::error::{BadBlock, Error, ErrorKind};
use oxblock::submit::request::{Completion, Request, RequestKind};
use oxblock::volume::{Extent, ExtentKind};

use super::{BLOCK, bytes};
use crate::engine::BlockTarget;

pub struct Memory {
    pub data: Vec<u8>,
    pub bad: BTreeSet<u64>,
    /// Bytes whose map node is damaged.
    pub lost: Option<std::ops::Range<u64>>,
    pub fail_writes_after: Option<usize>,
    /// Everything that was written before is durable.
    pub flushed: bool,
    pub requests: usize,
    pub most_in_flight: usize,
    queued: Vec<Request>,
    started: Vec<Request>,
    finished: Vec<Completion>,
}

impl Memory {
    pub fn new(size: usize) -> Self {
        Self {
            data: vec![0; size],
            bad: BTreeSet::new(),
            lost: None,
            fail_writes_after: None,
            flushed: false,
            requests: 0,
            most_in_flight: 0,
            queued: Vec::new(),
            started: Vec::new(),
            finished: Vec::new(),
        }
    }

    fn run(&mut self, request: Request) -> Completion {
        let mut result = Ok(());
        let buf = match request.kind {
            RequestKind::Read { offset, mut buf } => {
                let from = usize::try_from(offset).unwrap();
                let end = from + buf.len();
                buf.copy_from_slice(&self.data[from..end]);
                let blocks =
                    offset / bytes(BLOCK)..(offset + bytes(buf.len())).div_ceil(bytes(BLOCK));
                let bad: Vec<u64> = self.bad.range(blocks).copied().collect();
                for block in &bad {
                    let at = usize::try_from(block * bytes(BLOCK) - offset).unwrap();
                    let end = (at + BLOCK).min(buf.len());
                    buf[at..end].fill(0);
                }
                if !bad.is_empty() {
                    result = Err(Error::bad_blocks(bad.into_iter().map(bad_block).collect()));
                }
                Some(buf)
            }
            RequestKind::Write { offset, buf, .. } => {
                self.flushed = false;
                if self.fail_writes_after == Some(0) {
                    result = Err(Error::new(ErrorKind::NoSpace, "no space left"));
                } else {
                    self.fail_writes_after = self.fail_writes_after.map(|left| left - 1);
                    let from = usize::try_from(offset).unwrap();
                    self.data[from..from + buf.len()].copy_from_slice(&buf);
                }
                Some(buf)
            }
            RequestKind::Flush => {
                self.flushed = true;
                None
            }
            RequestKind::Discard { offset, len } | RequestKind::WriteZeroes { offset, len, .. } => {
                assert_eq!((offset % 4096, len % 4096), (0, 0), "only whole blocks are given up");
                let from = usize::try_from(offset).unwrap();
                self.data[from..from + usize::try_from(len).unwrap()].fill(0);
                None
            }
        };
        Completion { tag: request.tag, buf, result }
    }
}

fn bad_block(block: u64) -> BadBlock {
    BadBlock { block, device: 0, offset: block * 4096 + 77 * 4096, expected: 0xAB, got: Some(0xCD) }
}

impl BlockTarget for Memory {
    fn size(&self) -> u64 {
        bytes(self.data.len())
    }

    fn queue(&mut self, request: Request) {
        self.requests += 1;
        self.queued.push(request);
    }

    fn submit(&mut self) {
        self.started.append(&mut self.queued);
        self.most_in_flight = self.most_in_flight.max(self.started.len());
    }

    fn poll(&mut self, done: &mut Vec<Completion>) -> usize {
        let count = self.finished.len();
        done.append(&mut self.finished);
        count
    }

    /// Blocks that are not zero count as written; every other stretch is handed out in two parts.
    fn next_data(&mut self, from: u64) -> oxblock::Result<Option<Extent>> {
        let first = usize::try_from(from).unwrap() / BLOCK;
        let lost = self.lost.clone().filter(|lost| lost.end > from);
        for (block, data) in self.data.chunks(BLOCK).enumerate().skip(first) {
            let start = bytes(block * BLOCK);
            if let Some(lost) = lost.clone().filter(|lost| lost.contains(&start)) {
                return Ok(Some(Extent { start, end: lost.end, kind: ExtentKind::Lost }));
            }
            if data.iter().any(|byte| *byte != 0) {
                let end = start + bytes(BLOCK) * if block % 2 == 0 { 1 } else { 3 };
                let end = end.min(self.size()).min(lost.map_or(u64::MAX, |lost| lost.start));
                return Ok(Some(Extent { start, end, kind: ExtentKind::Data }));
            }
        }
        Ok(None)
    }

    fn wait(&mut self, _timeout: Option<Duration>) {
        // The newest first: nobody may count on the order.
        let request = self.started.pop().expect("somebody waits for nothing");
        let completion = self.run(request);
        self.finished.push(completion);
    }
}
