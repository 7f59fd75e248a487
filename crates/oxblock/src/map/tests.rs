//! The map against a plain ordered map: random changes, tiny caches, checkpoints in the middle, and an exact account of
//! every block.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::*;
use crate::device::sim::Rng;
use crate::format::layout::BLOCK_SIZE;
use crate::format::pointer::PointerWidth;

#[derive(Default, Clone)]
struct Account(BTreeSet<u64>);

impl Space for Account {
    fn born(&mut self, addr: u64) {
        assert!(self.0.insert(addr), "{addr} born twice");
    }
    fn died(&mut self, addr: u64) {
        assert!(self.0.remove(&addr), "{addr} died twice");
    }
}

struct World {
    map: Map,
    live: Account,
    point: Account,
    media: HashMap<u64, Vec<u8>>,
    model: BTreeMap<u64, u64>,
    next_addr: u64,
    /// What the running checkpoint has placed, where it may yet be given up.
    placed: Option<Vec<(Key, u64)>>,
}

impl World {
    fn fetch(&mut self, miss: Miss) {
        let page = self.media.get(&miss.pointer.addr).expect("node on media").clone();
        assert_eq!(sum(miss.key.identity(), &page), miss.pointer.csum, "{miss:?}");
        self.map.begin_fetch(miss);
        self.map.insert(miss, &page);
    }

    fn retry<T>(&mut self, mut call: impl FnMut(&mut Map, &mut Account) -> Result<T, Miss>) -> T {
        loop {
            match call(&mut self.map, &mut self.live) {
                Ok(value) => return value,
                Err(miss) => self.fetch(miss),
            }
        }
    }

    fn addr(&mut self) -> u64 {
        self.next_addr += 1;
        self.next_addr
    }

    fn set(&mut self, block: u64) {
        let pointer = Pointer { addr: self.addr(), csum: 1 };
        let old = self.retry(|map, live| map.set(block, pointer, live));
        assert_eq!(old.addr, self.model.insert(block, pointer.addr).unwrap_or(0));
    }

    fn trim(&mut self, from: u64, end: u64) {
        let mut at = from;
        self.retry(|map, live| map.trim(&mut at, end, live));
        self.model.retain(|block, _| !(from..end).contains(block));
    }

    fn freeze(&mut self) {
        self.map.freeze();
        self.point = self.live.clone();
    }

    fn place(&mut self) -> bool {
        let addr = self.addr();
        let mut page = vec![0; BLOCK_SIZE];
        let Some(placed) = self.map.place(addr, &mut page, &mut |id, data| sum(id, data)) else {
            return false;
        };
        self.media.insert(addr, page);
        match &mut self.placed {
            Some(all) => all.push((placed.key, addr)),
            None => self.map.settled(),
        }
        for (account, counts) in [(&mut self.point, true), (&mut self.live, placed.alive)] {
            if counts {
                if placed.old != 0 {
                    account.died(placed.old);
                }
                account.born(addr);
            }
        }
        true
    }

    /// Some of what was placed is lost, and the checkpoint is given up.
    fn abort(&mut self, rng: &mut Rng) {
        for (key, addr) in self.placed.iter_mut().flat_map(std::mem::take) {
            if rng.below(2) == 0 {
                self.media.remove(&addr);
                self.map.misplaced(key, addr);
            }
        }
        self.map.unfreeze();
    }

    /// The checkpoint is durable.
    fn settle(&mut self) {
        self.map.settled();
        self.placed.iter_mut().for_each(Vec::clear);
    }
}

fn sum(identity: u64, data: &[u8]) -> u128 {
    data.iter().fold(u128::from(identity), |sum, byte| {
        (sum.wrapping_mul(31)).wrapping_add(u128::from(*byte)) & u128::from(u64::MAX)
    })
}

/// Every block that a tree from `root` reaches, nodes included, and its entries.
fn walk(world: &World, root: Pointer, blocks: u64) -> (BTreeSet<u64>, BTreeMap<u64, u64>) {
    let mut reader = World {
        map: Map::new(world.map.width, blocks, root, 0, 64),
        live: Account::default(),
        point: Account::default(),
        media: world.media.clone(),
        model: BTreeMap::new(),
        next_addr: 0,
        placed: None,
    };
    let (mut seen, mut entries) = (BTreeSet::new(), BTreeMap::new());
    let mut at = 0;
    while let Some((block, pointer)) = reader.retry(|map, _| map.next_mapped(at)) {
        for level in 0..reader.map.height() {
            let shift = world.map.width.fanout_shift() * (u32::from(level) + 1);
            let key = Key { level, index: block >> shift };
            seen.insert(reader.retry(|map, _| map.node_addr(key)));
        }
        seen.insert(pointer.addr);
        entries.insert(block, pointer.addr);
        at = block + 1;
    }
    (seen, entries)
}

fn storm(seed: u64, width: PointerWidth, blocks: u64, steps: u64, aborts: bool) {
    println!("seed {seed}");
    let mut rng = Rng::new(seed);
    let mut world = World {
        map: Map::new(width, blocks, Pointer::NULL, 0, 64),
        live: Account::default(),
        point: Account::default(),
        media: HashMap::new(),
        model: BTreeMap::new(),
        next_addr: 0,
        placed: aborts.then(Vec::new),
    };
    let mut frozen_model: Option<BTreeMap<u64, u64>> = None;
    for _ in 0..steps {
        let block = if rng.below(2) == 0 { rng.below(blocks) } else { rng.below(2000.min(blocks)) };
        match rng.below(20) {
            0..=11 => {
                if world.map.stats().dirty < world.map.dirty_limit() {
                    world.set(block);
                }
            }
            12 => world.trim(block, (block + 1 + rng.below(600)).min(blocks)),
            13 if rng.below(10) == 0 => world.trim(rng.below(block + 1), blocks),
            14 => {
                let found = world.retry(|map, _| map.get(block));
                assert_eq!(found.addr, world.model.get(&block).copied().unwrap_or(0));
            }
            15 => {
                let old =
                    if rng.below(2) == 0 { world.model.get(&block).copied() } else { Some(1) };
                let pointer = Pointer { addr: world.addr(), csum: 1 };
                let old = old.unwrap_or(1);
                let done = world.retry(|map, live| map.swap(block, old, pointer, live));
                assert_eq!(done, world.model.get(&block) == Some(&old));
                if done {
                    world.model.insert(block, pointer.addr);
                }
            }
            16 => world.retry(|map, _| map.rewrite(Key { level: 0, index: block >> 8 })),
            _ => match &frozen_model {
                None => {
                    world.freeze();
                    frozen_model = Some(world.model.clone());
                }
                Some(_) if aborts && rng.below(6) == 0 => {
                    world.abort(&mut rng);
                    frozen_model = None;
                }
                Some(model) => {
                    let model = model.clone();
                    if !world.place() {
                        let root = world.map.frozen_root();
                        let (seen, entries) = walk(&world, root, blocks);
                        assert_eq!(entries, model, "the checkpoint is the tree at its freeze");
                        assert_eq!(
                            seen, world.point.0,
                            "every block of the checkpoint is accounted"
                        );
                        world.settle();
                        frozen_model = None;
                    }
                }
            },
        }
    }
    while world.place() {}
    world.freeze();
    while world.place() {}
    let (seen, entries) = walk(&world, world.map.frozen_root(), blocks);
    assert_eq!(entries, world.model);
    assert_eq!(world.map.mapped(), entries.len() as u64);
    assert_eq!(seen, world.live.0);
    assert_eq!(seen, world.point.0);
    if !aborts {
        assert!(world.map.stats().cached <= 64 + 40, "{:?}", world.map.stats());
    }
}

#[test]
fn random_changes_and_checkpoints_agree_with_a_plain_map() {
    for seed in 0..20 {
        storm(seed, PointerWidth::Narrow, 200_000, 3000, false);
        storm(seed, PointerWidth::Wide, 3_000_000, 2000, false);
        storm(seed, PointerWidth::Narrow, 200, 500, false);
    }
}

#[test]
fn checkpoints_that_are_given_up_lose_nothing_and_leave_the_account_exact() {
    for seed in 0..20 {
        storm(seed, PointerWidth::Narrow, 200_000, 3000, true);
        storm(seed, PointerWidth::Wide, 3_000_000, 2000, true);
        storm(seed, PointerWidth::Narrow, 200, 500, true);
    }
}

#[test]
fn trimming_an_empty_giant_touches_nothing() {
    let mut map = Map::new(PointerWidth::Narrow, 1 << 32, Pointer::NULL, 0, 64);
    let mut live = Account::default();
    map.set(5, Pointer { addr: 9, csum: 0 }, &mut live).unwrap();
    map.set((1 << 32) - 1, Pointer { addr: 10, csum: 0 }, &mut live).unwrap();
    let mut at = 0;
    map.trim(&mut at, 1 << 32, &mut live).unwrap();
    assert_eq!((at, live.0.len(), map.stats().cached), (1 << 32, 0, 0));
}

#[test]
fn what_lies_behind_the_end_of_the_volume_is_not_there() {
    let width = PointerWidth::Narrow;
    let fanout = width.fanout() as u64;
    // Two leaves, the second half used; the nodes say more.
    let blocks = fanout + 10;
    let mut full = vec![0; BLOCK_SIZE];
    for slot in 0..width.fanout() {
        width.set(&mut full, slot, Pointer { addr: 100 + slot as u64, csum: 1 });
    }
    let root = Pointer { addr: 7, csum: 1 };
    let mut map = Map::new(width, blocks, root, blocks, 64);
    for (level, index) in [(1, 0), (0, 1), (0, 2)] {
        let miss = Miss { key: Key { level, index }, pointer: root };
        map.begin_fetch(miss);
        map.insert(miss, &full);
    }
    assert_eq!(map.next_mapped(blocks - 1).unwrap().map(|(block, _)| block), Some(blocks - 1));
    assert_eq!(map.next_mapped(blocks), Ok(None));
    assert_eq!(map.next_mapped(2 * fanout), Ok(None));
    // A record header may name what no request can.
    let beyond = fanout * fanout;
    assert_eq!(map.get(beyond), Ok(Pointer::NULL));
    assert_eq!(map.node_addr(Key { level: 0, index: fanout }), Ok(0));
    assert_eq!(map.node_addr(Key { level: 1, index: 1 }), Ok(0));
}
