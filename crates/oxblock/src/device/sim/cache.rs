//! The media of one device and the volatile cache in front of it.
//!
//! The store holds what a read sees. A page with volatile content also has an entry in `volatile`:
//! its durable content and every later version, in write order, each with a mask of the 512-byte
//! sectors that it wrote. A flush folds versions into the durable content; a power cut picks a
//! version per sector. Pages that are durable have no entry, so the common case is one lookup.
//!
//! A failed flush abandons what it covered: those versions stay volatile for good, and no later
//! flush makes them durable. This is what the Linux page cache does (it drops the dirty mark), and
//! it is what catches an engine that retries a flush and believes the second answer.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use smallvec::SmallVec;

use super::config::DiscardMode;
use super::rng::{MILLION, Rng, mix};
use super::store::{PAGE, PAGE_BYTES, Page, Store, WHOLE, overlay, pages, sectors, writable};

/// Versions kept per page; beyond it the oldest is written back, as a full cache would.
const MAX_VERSIONS: usize = 8;

/// What a power cut leaves of the volatile content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// For every sector, by the seed, its durable version or any later one.
    Arbitrary,
    /// Only what was durable.
    KeepNone,
    /// Everything, writes in flight included.
    KeepAll,
}

#[derive(Clone)]
struct Version {
    write: u64,
    mask: u16,
    data: Page,
}

#[derive(Clone)]
struct Pending {
    durable: Page,
    versions: SmallVec<[Version; 2]>,
}

/// What a write does to the versions of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Durability {
    /// Volatile until a flush.
    Volatile,
    /// On stable media at once.
    Durable,
}

/// Content and volatile cache of one device.
#[derive(Clone, Default)]
pub(super) struct Media {
    store: Store,
    volatile: BTreeMap<u64, Pending>,
    /// Number of the last write that was done; writes are numbered in the order they are done.
    last_write: u64,
    /// Writes up to here were covered by a flush that failed.
    abandoned: u64,
}

impl Media {
    /// What a read sees.
    pub(super) fn store(&self) -> &Store {
        &self.store
    }

    /// The number of the last write that was done: what a flush pushed now has to cover.
    pub(super) fn last_write(&self) -> u64 {
        self.last_write
    }

    /// How many pages have volatile content.
    pub(super) fn volatile_pages(&self) -> usize {
        self.volatile.len()
    }

    /// Starts the next write: all parts stored until the next call share one fate in a cut.
    pub(super) fn begin_write(&mut self) {
        self.last_write += 1;
    }

    /// Stores a part of the current write.
    pub(super) fn store_part(&mut self, offset: u64, data: &[u8], durability: Durability) {
        pages(offset, data.len(), |page, at, range| {
            if let Some(part) = data.get(range) {
                self.store_page(page, at, part, durability);
            }
        });
    }

    fn store_page(&mut self, page: u64, at: usize, data: &[u8], durability: Durability) {
        let mask = sectors(at, data.len());
        if durability == Durability::Durable && !self.volatile.contains_key(&page) {
            self.store.change(page, |slot| match slot.as_mut().and_then(Arc::get_mut) {
                Some(own) => patch(own, at, data),
                None if data.len() == PAGE => *slot = Some(Arc::from(data)),
                None => patch(writable(slot), at, data),
            });
            return;
        }
        let content = if data.len() == PAGE {
            Some(Arc::from(data))
        } else {
            let mut content = self.store.get(page).clone();
            patch(writable(&mut content), at, data);
            content
        };
        self.add_version(page, mask, content, durability);
    }

    /// Makes `content` the newest version of the sectors in `mask` of a page.
    fn add_version(&mut self, page: u64, mask: u16, content: Page, durability: Durability) {
        let old = self.store.set(page, content.clone());
        if durability == Durability::Volatile {
            let fresh = || Pending { durable: old, versions: SmallVec::new() };
            let pending = self.volatile.entry(page).or_insert_with(fresh);
            if pending.versions.len() >= MAX_VERSIONS {
                let oldest = pending.versions.remove(0);
                overlay(&mut pending.durable, &oldest.data, oldest.mask);
            }
            pending.versions.push(Version { write: self.last_write, mask, data: content });
        } else if let Some(pending) = self.volatile.get_mut(&page) {
            overlay(&mut pending.durable, &content, mask);
            pending.forget(mask);
            if pending.versions.is_empty() {
                self.volatile.remove(&page);
            }
        }
    }

    /// Gives up whole pages of a range as `mode` says.
    pub(super) fn discard(
        &mut self,
        range: Range<u64>,
        mode: DiscardMode,
        durability: Durability,
        rng: &mut Rng,
    ) {
        if mode == DiscardMode::Ignored {
            return;
        }
        self.begin_write();
        let whole = range.start.div_ceil(PAGE_BYTES)..range.end / PAGE_BYTES;
        let mut noise = vec![0; PAGE];
        rng.fill(&mut noise);
        let noise: Page = Some(Arc::from(noise));
        for page in self.store.allocated_in(whole) {
            let content = match (mode, rng.below(4)) {
                (DiscardMode::Arbitrary, 0) => continue,
                (DiscardMode::Arbitrary, 1) => noise.clone(),
                _ => None,
            };
            self.add_version(page, WHOLE, content, durability);
        }
    }

    /// Makes durable what was done up to the write `upto`, unless a failed flush abandoned it.
    pub(super) fn flush(&mut self, upto: u64) {
        if upto >= self.last_write && self.abandoned == 0 {
            self.volatile.clear();
            return;
        }
        let abandoned = self.abandoned;
        self.volatile.retain(|_, pending| {
            let covered = |version: &Version| version.write > abandoned && version.write <= upto;
            if pending.versions.first().is_some_and(covered)
                && pending.versions.last().is_some_and(covered)
            {
                return false;
            }
            let mut index = 0;
            while let Some(version) = pending.versions.get(index) {
                if !covered(version) {
                    index += 1;
                    continue;
                }
                let version = pending.versions.remove(index);
                overlay(&mut pending.durable, &version.data, version.mask);
                // What came before can no longer be what a sector holds.
                let later = pending.versions.drain(index..).collect::<SmallVec<[Version; 2]>>();
                pending.forget(version.mask);
                index = pending.versions.len();
                pending.versions.extend(later);
            }
            !pending.versions.is_empty()
        });
        if self.volatile.is_empty() {
            self.abandoned = 0;
        }
    }

    /// Something that is volatile was abandoned.
    pub(super) fn has_abandoned(&self) -> bool {
        self.abandoned > 0
    }

    /// A flush that covered the writes up to `upto` failed.
    pub(super) fn abandon(&mut self, upto: u64) {
        if !self.volatile.is_empty() {
            self.abandoned = self.abandoned.max(upto);
        }
    }

    /// Resolves all volatile content as a power cut does.
    pub(super) fn cut(&mut self, how: Cut, rng: &mut Rng) {
        let fates = Fates::draw(rng);
        self.abandoned = 0;
        for (page, pending) in std::mem::take(&mut self.volatile) {
            if how == Cut::KeepAll {
                continue;
            }
            let mut content = pending.durable;
            if how == Cut::Arbitrary {
                for version in &pending.versions {
                    let kept = version.mask & fates.survivors(version.write, rng);
                    overlay(&mut content, &version.data, kept);
                }
            }
            self.store.set(page, content);
        }
    }

    /// Changes bytes as if they had always been so: visible, and durable at once.
    pub(super) fn set_raw(&mut self, offset: u64, data: &[u8]) {
        self.store_part(offset, data, Durability::Durable);
    }
}

impl Pending {
    /// Drops the versions of the sectors in `mask`.
    fn forget(&mut self, mask: u16) {
        self.versions.retain(|version| {
            version.mask &= !mask;
            version.mask != 0
        });
    }
}

fn patch(page: &mut [u8], at: usize, data: &[u8]) {
    if let Some(to) = page.get_mut(at..at + data.len()) {
        to.copy_from_slice(data);
    }
}

/// How a cut treats writes: each is kept, lost or torn. Independent choices per sector alone would
/// tear every large write; drawing the mood per cut, then the fate per write, then sectors within
/// torn writes reaches every combination and makes the realistic ones common.
struct Fates {
    salt: u64,
    kept_ppm: u32,
    lost_ppm: u32,
}

impl Fates {
    fn draw(rng: &mut Rng) -> Self {
        let (kept_ppm, lost_ppm) = match rng.below(5) {
            0 => (0, 0),
            1 => (800_000, 100_000),
            2 => (100_000, 800_000),
            3 => (500_000, 500_000),
            _ => (400_000, 300_000),
        };
        Self { salt: rng.next_u64(), kept_ppm, lost_ppm }
    }

    /// The sectors of one page that survive of the write with this number.
    fn survivors(&self, write: u64, rng: &mut Rng) -> u16 {
        let draw = mix(self.salt ^ mix(write)) % u64::from(MILLION);
        if draw < u64::from(self.kept_ppm) {
            return WHOLE;
        }
        if draw < u64::from(self.kept_ppm + self.lost_ppm) {
            return 0;
        }
        match rng.below(4) {
            0 => WHOLE,
            1 => 0,
            _ => u16::try_from(rng.below(u64::from(WHOLE) + 1)).unwrap_or(WHOLE),
        }
    }
}
