//! Fetching map nodes: each at most once at a time, with whoever waits for it.
//!
//! A node that cannot be had is *lost*: its range fails, nothing else does. Bytes that never verify stay lost. A device
//! that fails its reads may do better later, so that mark is taken back when the next request comes; whoever works without
//! a request looks again right after the fetch has ended, and finds the mark.

use hashbrown::HashMap;
use slab::Slab;

use super::{Class, Lane, tag};
use crate::device::{Action, Buf, Done, Op};
use crate::format::layout::BLOCK_SIZE;
use crate::map::{Key, Miss};
use crate::profile;

/// Reads of a map node, while it does not come well, before it is given up.
pub(crate) const TRIES: u32 = 3;

/// Why a node cannot be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lost {
    /// It was read each time, and never verified.
    Damaged,
    /// The device failed a read of it. What is there is not known.
    Unreadable,
}

#[derive(Debug)]
struct Fetch {
    miss: Miss,
    /// Reads that go on when it has come, by their places in the table of reads.
    reads: Vec<usize>,
    tries: u32,
    /// The device has failed one of the tries.
    failed: bool,
}

/// Nodes on their way, and nodes that are lost.
#[derive(Debug, Default)]
pub(crate) struct Fetches {
    flying: Slab<Fetch>,
    index: HashMap<Key, usize>,
    lost: HashMap<Key, Lost>,
}

impl Fetches {
    /// The node cannot be had.
    pub fn is_lost(&self, key: Key) -> bool {
        !self.lost.is_empty() && self.lost.contains_key(&key)
    }

    /// Why the node cannot be had, if it cannot.
    pub fn why_lost(&self, key: Key) -> Option<Lost> {
        self.lost.get(&key).copied()
    }

    /// The node cannot be had.
    pub fn mark_lost(&mut self, key: Key, why: Lost) {
        self.lost.insert(key, why);
    }

    /// How many nodes cannot be had.
    pub fn lost(&self) -> usize {
        self.lost.len()
    }

    /// All that was lost has been made anew.
    pub fn forget_lost(&mut self) {
        self.lost.clear();
    }

    /// A request has come: nodes that could not be read are worth another try.
    pub fn forgive(&mut self) {
        if !self.lost.is_empty() {
            self.lost.retain(|_, why| *why == Lost::Damaged);
        }
    }

    /// The node is on its way.
    pub fn flies(&self, key: Key) -> bool {
        self.index.contains_key(&key)
    }

    /// Fetches in flight.
    pub fn flying(&self) -> usize {
        self.flying.len()
    }
}

impl Lane {
    /// Begins to fetch a node, or joins a fetch that is under way. The caller has checked that it is not lost. `read` goes
    /// on when it has come; retirement, gathering and cleaning look again at every step and need no call.
    pub fn fetch(&mut self, miss: Miss, read: Option<usize>) {
        if let Some(fetch) = self.fetches.index.get(&miss.key) {
            if let Some(fetch) = self.fetches.flying.get_mut(*fetch) {
                fetch.reads.extend(read);
            }
            return;
        }
        let reads = read.into_iter().collect();
        let id = self.fetches.flying.insert(Fetch { miss, reads, tries: 1, failed: false });
        self.fetches.index.insert(miss.key, id);
        self.map.begin_fetch(miss);
        self.segments.pin(self.segments.of(miss.pointer.addr));
        self.push_fetch(id, miss);
    }

    fn push_fetch(&mut self, id: usize, miss: Miss) {
        let (device, offset) = profile::locate(&self.geometry.superblock, miss.pointer.addr);
        let bufs = smallvec::smallvec![Buf::new(BLOCK_SIZE)];
        self.queue.push(Op {
            tag: tag(Class::Node, id as u64),
            device,
            offset,
            action: Action::Read(bufs),
        });
    }

    /// The bytes are the node that was asked for, and point nowhere outside the lane.
    pub fn node_is_good(&self, miss: Miss, page: &[u8]) -> bool {
        let width = self.geometry.width;
        let limit = self.geometry.superblock.log_blocks();
        let lost = miss.key.level == 0 && self.geometry.superblock.features.has_lost();
        self.geometry.csum.of(miss.key.identity(), page) == miss.pointer.csum
            && (0..width.fanout()).all(|slot| {
                let pointer = width.get(page, slot);
                pointer.addr < limit || lost && pointer.is_lost()
            })
    }

    /// Gives up a node after [`TRIES`] reads, of which the device has `failed` some or none.
    pub fn lose(&mut self, key: Key, failed: bool) {
        // Only what was read and did not verify is a checksum error.
        self.counters.checksum_errors += u64::from(!failed);
        self.fetches.mark_lost(key, if failed { Lost::Unreadable } else { Lost::Damaged });
    }

    /// A node has arrived, or not.
    pub fn fetched(&mut self, id: u64, done: &Done) {
        let id = usize::try_from(id).unwrap_or(usize::MAX);
        let page: &[u8] = done.bufs.first().map_or(&[], |buf| buf);
        let miss = self.fetches.flying.get(id).map(|fetch| fetch.miss);
        let good = done.result.is_ok() && miss.is_some_and(|miss| self.node_is_good(miss, page));
        let (Some(miss), Some(fetch)) = (miss, self.fetches.flying.get_mut(id)) else {
            unreachable!("fetch {id} is not in flight")
        };
        fetch.failed |= done.result.is_err();
        if !good && fetch.tries < TRIES {
            fetch.tries += 1;
            self.counters.second_reads += 1;
            self.push_fetch(id, miss);
            return;
        }
        let fetch = self.fetches.flying.remove(id);
        self.fetches.index.remove(&miss.key);
        self.segments.unpin(self.segments.of(miss.pointer.addr));
        if good {
            self.map.insert(miss, page);
        } else {
            self.map.abandon(miss.key);
            self.lose(miss.key, fetch.failed);
        }
        for read in fetch.reads {
            self.advance_read(read);
        }
    }
}
