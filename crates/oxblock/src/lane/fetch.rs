//! Fetching map nodes: each at most once at a time, with whoever waits for it.

use hashbrown::{HashMap, HashSet};
use slab::Slab;

use super::{Class, Lane, tag};
use crate::device::{Action, Buf, Done, Op};
use crate::format::layout::BLOCK_SIZE;
use crate::map::{Key, Miss};
use crate::profile;

/// Who goes on when a node has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waiter {
    /// A read, by its place in the table of reads.
    Read(usize),
    /// Retirement, gathering and cleaning look again at every step; they need no call.
    Loop,
}

#[derive(Debug)]
struct Fetch {
    miss: Miss,
    waiters: Vec<Waiter>,
    retried: bool,
}

/// Nodes on their way, and nodes that are lost.
#[derive(Debug, Default)]
pub(crate) struct Fetches {
    flying: Slab<Fetch>,
    index: HashMap<Key, usize>,
    /// Nodes that could not be read or verified: their ranges fail, nothing else does.
    lost: HashSet<Key>,
}

impl Fetches {
    /// The node cannot be had.
    pub fn is_lost(&self, key: Key) -> bool {
        !self.lost.is_empty() && self.lost.contains(&key)
    }

    /// The node cannot be had.
    pub fn mark_lost(&mut self, key: Key) {
        self.lost.insert(key);
    }

    /// Nodes that cannot be had.
    pub fn lost(&self) -> impl Iterator<Item = Key> {
        self.lost.iter().copied()
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
    /// Begins to fetch a node, or joins a fetch that is under way. The caller has checked that it is not lost.
    pub fn fetch(&mut self, miss: Miss, waiter: Waiter) {
        if let Some(fetch) = self.fetches.index.get(&miss.key) {
            if let Some(fetch) = self.fetches.flying.get_mut(*fetch)
                && waiter != Waiter::Loop
            {
                fetch.waiters.push(waiter);
            }
            return;
        }
        let waiters = if waiter == Waiter::Loop { Vec::new() } else { vec![waiter] };
        let id = self.fetches.flying.insert(Fetch { miss, waiters, retried: false });
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
        let limit = u64::from(self.segments.count()) * u64::from(self.segments.blocks());
        self.geometry.csum.of(miss.key.identity(), page) == miss.pointer.csum
            && (0..width.fanout()).all(|slot| width.get(page, slot).addr < limit)
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
        if !good && !std::mem::replace(&mut fetch.retried, true) {
            self.push_fetch(id, miss);
            return;
        }
        let fetch = self.fetches.flying.remove(id);
        self.fetches.index.remove(&miss.key);
        self.segments.unpin(self.segments.of(miss.pointer.addr));
        if good {
            self.map.insert(miss, page);
        } else {
            self.counters.checksum_errors += 1;
            self.map.abandon(miss.key);
            self.fetches.lost.insert(miss.key);
        }
        for waiter in fetch.waiters {
            match waiter {
                Waiter::Read(read) => self.advance_read(read),
                Waiter::Loop => {}
            }
        }
    }
}
