//! What can be proved of lost map nodes.
//!
//! The segment table is sound and says how much is live in each segment. What the rest of the map reaches there is
//! taken off, so that it is known exactly how many of the lost pointers lead into it: it is *owed*. What they may lead to
//! is known too: every record in the segment says what it holds. So where as many places are possible as are owed, each of
//! them is live; where nothing is owed, none is; and an item that is found in one place is in no other. That goes on until
//! nothing more follows. What is possible in more ways than one then is not known, and nobody guesses.
//!
//! A place is not possible when a record that counts shows that it is not: newer data of the block, a newer trim, a
//! relocation that took it away, a relocation of what was out of date already. That holds as long as every record took
//! effect. Where the superblock says that some were refused, since a node was lost, all places are possible.

use std::collections::{BinaryHeap, VecDeque};
use std::ops::Range;

use hashbrown::{HashMap, HashSet};

use crate::format::pointer::Pointer;

/// Where a record entry is in the order of the log: its record, and its place in it.
pub(super) type Order = (u64, u32);

/// A place where an item was put once: a block, or a node of the map.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    /// The item's identity.
    pub item: u64,
    /// The first block that it stands for.
    pub block: u64,
    pub to: Pointer,
    pub order: Order,
    /// Where it was moved from; 0: it came as new.
    pub source: u64,
}

/// Blocks that were given up.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kill {
    pub from: u64,
    pub end: u64,
    pub order: Order,
}

/// What is known of the segments.
#[derive(Debug)]
pub(super) struct Account {
    pub shift: u32,
    /// Lost pointers that lead into each segment.
    pub owed: Vec<i64>,
    /// Every record of the segment was seen, and it holds items of this sort only.
    pub firm: Vec<bool>,
}

/// What came out for an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Here(Pointer),
    Nowhere,
    Unknown,
}

/// The account contradicts the records: nothing follows from it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Contradiction;

/// Lost blocks, and the record up to which their node knows what became of them.
pub(super) type Bounded = (Range<u64>, u64);

/// Drops the places that are out of date, of blocks; `lost` is in order. Only where the log is `ordered`: an entry that was
/// refused is newer than what it would have replaced, and that is live all the same.
pub(super) fn thin_blocks(
    places: &mut Vec<Place>,
    kills: &[Kill],
    lost: &[Bounded],
    ordered: bool,
) {
    within_bounds(places, lost);
    if !ordered {
        return;
    }
    places.sort_unstable_by_key(|place| (place.item, place.order));
    let mut kept = Vec::new();
    let mut left = places.as_slice();
    for (range, bound) in lost {
        let mut here: Vec<&Kill> = kills
            .iter()
            .filter(|kill| {
                kill.from < range.end && kill.end > range.start && kill.order.0 <= *bound
            })
            .collect();
        here.sort_unstable_by_key(|kill| kill.from);
        let mut here = here.into_iter().peekable();
        let mut open: BinaryHeap<(Order, u64)> = BinaryHeap::new();
        while let Some(first) = left.first().filter(|place| place.block < range.end) {
            let block = first.block;
            let (group, rest) =
                left.split_at(left.iter().take_while(|place| place.block == block).count());
            left = rest;
            while let Some(kill) = here.next_if(|kill| kill.from <= block) {
                open.push((kill.order, kill.end));
            }
            while open.peek().is_some_and(|(_, end)| *end <= block) {
                open.pop();
            }
            possible(group, open.peek().map(|(order, _)| *order), &mut kept);
        }
    }
    *places = kept;
}

/// The places of one block that may be live, given the newest record that gave it up.
fn possible(group: &[Place], killed: Option<Order>, kept: &mut Vec<Place>) {
    let data = group.iter().filter(|place| place.source == 0).map(|place| place.order).max();
    let least = data.max(killed).unwrap_or_default();
    let stale: HashMap<u64, Order> = group
        .iter()
        .filter(|place| place.order < least)
        .map(|place| (place.to.addr, place.order))
        .collect();
    let mut moved: HashMap<u64, Order> = HashMap::new();
    for place in group.iter().filter(|place| place.source != 0) {
        let order = moved.entry(place.source).or_insert(place.order);
        *order = place.order.max(*order);
    }
    kept.extend(group.iter().copied().filter(|place| {
        let was_moved = moved.get(&place.to.addr).is_some_and(|order| *order > place.order);
        let of_stale = stale.get(&place.source).is_some_and(|order| *order < place.order);
        place.order >= least && !was_moved && !of_stale
    }));
}

/// Drops the places that are out of date, of nodes: whatever is written again has the newest content, since a checkpoint
/// that was cut short is followed by one that writes the same nodes.
pub(super) fn thin_nodes(places: &mut Vec<Place>, lost: &[Bounded]) {
    within_bounds(places, lost);
    places.sort_unstable_by_key(|place| (place.item, place.order));
    let mut kept = Vec::new();
    for group in places.chunk_by(|one, other| one.item == other.item) {
        let newest = group.last().map(|place| place.to.csum);
        kept.extend(group.iter().copied().filter(|place| Some(place.to.csum) == newest));
    }
    *places = kept;
}

fn within_bounds(places: &mut Vec<Place>, lost: &[Bounded]) {
    places.retain(|place| {
        let at = lost.partition_point(|(range, _)| range.end <= place.block);
        let Some((range, bound)) = lost.get(at) else { return false };
        range.contains(&place.block) && place.order.0 <= *bound
    });
}

/// Draws the conclusions for `places`, which are in order of items. What is found out is taken off the account.
///
/// # Errors
/// [`Contradiction`].
pub(super) fn prove(
    places: &[Place],
    account: &mut Account,
) -> Result<Vec<(u64, Verdict)>, Contradiction> {
    let mut proof = Proof::new(places, account.shift);
    let mut queue: VecDeque<u32> = proof.segments.keys().copied().collect();
    queue.make_contiguous().sort_unstable();
    while let Some(segment) = queue.pop_front() {
        proof.look_at(segment, account, &mut queue)?;
    }
    let short = |(owed, firm): (&i64, &bool)| *owed < 0 || (*owed > 0 && *firm);
    let open: HashSet<u32> =
        proof.segments.keys().copied().filter(|id| proof.is_open(*id)).collect();
    for (id, pair) in (0..).zip(account.owed.iter().zip(&account.firm)) {
        if short(pair) && !open.contains(&id) {
            return Err(Contradiction);
        }
    }
    Ok(proof.verdicts())
}

struct Proof<'a> {
    places: &'a [Place],
    /// The places of each item, as ranges.
    items: Vec<Range<usize>>,
    item_of: Vec<usize>,
    segment_of: Vec<u32>,
    /// The places in each segment.
    segments: HashMap<u32, Vec<usize>>,
    possible: Vec<bool>,
    verdicts: Vec<Option<Verdict>>,
}

impl<'a> Proof<'a> {
    fn new(places: &'a [Place], shift: u32) -> Self {
        let mut items = Vec::new();
        let mut item_of = Vec::with_capacity(places.len());
        let mut start = 0;
        for group in places.chunk_by(|one, other| one.item == other.item) {
            item_of.extend(std::iter::repeat_n(items.len(), group.len()));
            items.push(start..start + group.len());
            start += group.len();
        }
        let segment = |place: &Place| u32::try_from(place.to.addr >> shift).unwrap_or(u32::MAX);
        let segment_of: Vec<u32> = places.iter().map(segment).collect();
        let mut segments: HashMap<u32, Vec<usize>> = HashMap::new();
        for (at, segment) in segment_of.iter().enumerate() {
            segments.entry(*segment).or_default().push(at);
        }
        let verdicts = vec![None; items.len()];
        let possible = vec![true; places.len()];
        Self { places, items, item_of, segment_of, segments, possible, verdicts }
    }

    fn is_possible(&self, place: usize) -> bool {
        self.possible.get(place).copied().unwrap_or(false)
    }

    fn exclude(&mut self, place: usize) {
        if let Some(possible) = self.possible.get_mut(place) {
            *possible = false;
        }
    }

    fn item(&self, place: usize) -> usize {
        self.item_of.get(place).copied().unwrap_or(usize::MAX)
    }

    fn is_decided(&self, item: usize) -> bool {
        self.verdicts.get(item).is_some_and(Option::is_some)
    }

    /// The possible places in a segment of items that are not decided.
    fn open_places(&self, segment: u32) -> Vec<usize> {
        let all = self.segments.get(&segment).map_or(&[][..], Vec::as_slice);
        let open =
            |place: &&usize| self.is_possible(**place) && !self.is_decided(self.item(**place));
        all.iter().filter(open).copied().collect()
    }

    fn is_open(&self, segment: u32) -> bool {
        !self.open_places(segment).is_empty()
    }

    /// Draws what follows for one segment.
    fn look_at(
        &mut self,
        segment: u32,
        account: &mut Account,
        queue: &mut VecDeque<u32>,
    ) -> Result<(), Contradiction> {
        let at = segment as usize;
        let firm = account.firm.get(at).copied().unwrap_or(false);
        let Some(owed) = account.owed.get_mut(at) else { return Ok(()) };
        let open = self.open_places(segment);
        if *owed == 0 {
            open.into_iter().for_each(|place| self.exclude(place));
            return Ok(());
        }
        let mut items: Vec<usize> = open.iter().map(|place| self.item(*place)).collect();
        items.sort_unstable();
        items.dedup();
        match i64::try_from(items.len()).unwrap_or(i64::MAX).cmp(owed) {
            std::cmp::Ordering::Less if firm || *owed < 0 => return Err(Contradiction),
            std::cmp::Ordering::Equal if firm => {}
            _ if *owed < 0 => return Err(Contradiction),
            _ => return Ok(()),
        }
        *owed = 0;
        for item in items {
            self.settle(item, segment, queue);
        }
        Ok(())
    }

    /// An item is in this segment for sure, and so in no other.
    fn settle(&mut self, item: usize, segment: u32, queue: &mut VecDeque<u32>) {
        let mut here: Option<Place> = None;
        let mut same = true;
        for place in self.items.get(item).cloned().unwrap_or(0..0) {
            if !self.is_possible(place) {
                continue;
            }
            let in_segment = self.segment_of.get(place).copied().unwrap_or(u32::MAX);
            if in_segment != segment {
                self.exclude(place);
                queue.push_back(in_segment);
                continue;
            }
            let Some(found) = self.places.get(place) else { continue };
            same &= here.is_none_or(|before| before.to.csum == found.to.csum);
            here = Some(*found);
        }
        let verdict = match here {
            Some(place) if same => Verdict::Here(place.to),
            _ => Verdict::Unknown,
        };
        if let Some(slot) = self.verdicts.get_mut(item) {
            *slot = Some(verdict);
        }
    }

    fn verdicts(&self) -> Vec<(u64, Verdict)> {
        let mut out = Vec::with_capacity(self.items.len());
        for (range, verdict) in self.items.iter().zip(&self.verdicts) {
            let Some(first) = self.places.get(range.start) else { continue };
            let open = range.clone().any(|place| self.is_possible(place));
            let otherwise = if open { Verdict::Unknown } else { Verdict::Nowhere };
            out.push((first.item, verdict.unwrap_or(otherwise)));
        }
        out
    }
}
