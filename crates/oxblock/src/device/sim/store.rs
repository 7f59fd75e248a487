//! Sparse content of one device: 4096-byte pages, shared copy-on-write.
//!
//! Two levels, so that a clone costs one reference per 512 KiB of content and the first change
//! after it copies the references of one region. Both levels are ordered: nothing here depends on
//! a hash order.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Bytes in a page.
pub(super) const PAGE: usize = 4096;
/// [`PAGE`] for device arithmetic.
pub(super) const PAGE_BYTES: u64 = 4096;
/// What a device writes atomically, in bytes.
pub(super) const SECTOR: usize = 512;
/// All sectors of a page.
pub(super) const WHOLE: u16 = 0xff;
/// Pages in a region.
const SLOTS: usize = 128;
/// [`SLOTS`] for page arithmetic.
const REGION: u64 = SLOTS as u64;

/// The content of a page; `None` was never written and reads as zeros.
pub(super) type Page = Option<Arc<[u8]>>;

/// A count of bytes or pages that is known to fit in memory.
pub(super) fn small(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

/// The sectors that the bytes `at..at + len` of a page touch, one bit each.
pub(super) fn sectors(at: usize, len: usize) -> u16 {
    if len == 0 {
        return 0;
    }
    let first = (at / SECTOR).min(8);
    let end = (at + len).div_ceil(SECTOR).min(8);
    (WHOLE << first) & (WHOLE >> (8 - end))
}

/// Puts the sectors in `mask` of `top` over `base`.
pub(super) fn overlay(base: &mut Page, top: &Page, mask: u16) {
    if mask & WHOLE == WHOLE {
        base.clone_from(top);
        return;
    }
    if mask & WHOLE == 0 || (base.is_none() && top.is_none()) {
        return;
    }
    let bytes = writable(base);
    for (sector, to) in bytes.chunks_mut(SECTOR).enumerate() {
        if mask >> sector & 1 == 0 {
            continue;
        }
        let at = sector * SECTOR;
        match top.as_ref().and_then(|top| top.get(at..at + SECTOR)) {
            Some(from) => to.copy_from_slice(from),
            None => to.fill(0),
        }
    }
}

/// The page's bytes, its own from now on.
pub(super) fn writable(page: &mut Page) -> &mut [u8] {
    Arc::make_mut(page.get_or_insert_with(|| Arc::from(&[0; PAGE][..])))
}

/// Calls `each` with every page that `len` bytes at `offset` touch: its number, where the bytes
/// start within it, and where they lie in the whole.
pub(super) fn pages(offset: u64, len: usize, mut each: impl FnMut(u64, usize, Range<usize>)) {
    let mut start = 0;
    while start < len {
        let position = offset + start as u64;
        let at = small(position % PAGE_BYTES);
        let end = len.min(start + PAGE - at);
        each(position / PAGE_BYTES, at, start..end);
        start = end;
    }
}

#[derive(Clone)]
struct Region {
    pages: [Page; SLOTS],
    used: u64,
}

/// A sparse array of pages.
#[derive(Clone, Default)]
pub(super) struct Store {
    regions: BTreeMap<u64, Arc<Region>>,
    allocated: u64,
}

impl Store {
    /// The page's content.
    pub(super) fn get(&self, page: u64) -> &Page {
        let region = self.regions.get(&(page / REGION));
        region.and_then(|region| region.pages.get(small(page % REGION))).unwrap_or(&None)
    }

    /// Replaces the page's content and returns the old one.
    pub(super) fn set(&mut self, page: u64, content: Page) -> Page {
        self.change(page, |slot| std::mem::replace(slot, content))
    }

    /// Lets `edit` change the page's content in place.
    pub(super) fn change<R>(&mut self, page: u64, edit: impl FnOnce(&mut Page) -> R) -> R {
        let empty = || Arc::new(Region { pages: [const { None }; SLOTS], used: 0 });
        let region = Arc::make_mut(self.regions.entry(page / REGION).or_insert_with(empty));
        let Some(slot) = region.pages.get_mut(small(page % REGION)) else {
            return edit(&mut None); // Not reachable: the remainder is below the length.
        };
        let before = u64::from(slot.is_some());
        let result = edit(slot);
        let after = u64::from(slot.is_some());
        region.used = region.used + after - before;
        self.allocated = self.allocated + after - before;
        if region.used == 0 {
            self.regions.remove(&(page / REGION));
        }
        result
    }

    /// How many pages hold content.
    pub(super) fn allocated(&self) -> u64 {
        self.allocated
    }

    /// The pages in `range` that hold content, in order.
    pub(super) fn allocated_in(&self, range: Range<u64>) -> Vec<u64> {
        let mut found = Vec::new();
        if range.is_empty() {
            return found;
        }
        for (index, region) in self.regions.range(range.start / REGION..=(range.end - 1) / REGION) {
            let numbered = (index * REGION..).zip(&region.pages);
            let held = numbered.filter(|(page, content)| range.contains(page) && content.is_some());
            found.extend(held.map(|(page, _)| page));
        }
        found
    }

    /// Some page that holds content, chosen by `pick`, or `None` when the store is empty.
    pub(super) fn some_page(&self, pick: u64) -> Option<u64> {
        let (last, _) = self.regions.last_key_value()?;
        let from = pick % (last + 1);
        let (index, region) = self.regions.range(from..).next()?;
        let nth = small((pick >> 32) % region.used.max(1));
        let numbered = (index * REGION..).zip(&region.pages);
        numbered.filter(|(_, content)| content.is_some()).map(|(page, _)| page).nth(nth)
    }

    /// Fills `to` with the bytes at `offset`.
    pub(super) fn read(&self, offset: u64, to: &mut [u8]) {
        pages(offset, to.len(), |page, at, range| {
            let Some(to) = to.get_mut(range) else { return };
            match self.get(page).as_ref().and_then(|bytes| bytes.get(at..at + to.len())) {
                Some(from) => to.copy_from_slice(from),
                None => to.fill(0),
            }
        });
    }
}
