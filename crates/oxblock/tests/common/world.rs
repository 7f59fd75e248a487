//! A volume on a simulated disk, what it must hold, and where its structures are.

use std::collections::{BTreeMap, BTreeSet};

use oxblock::csum::Csum;
use oxblock::device::sim::{DiscardMode, Fault, FaultRule, OpKind, SimConfig, SimDisk};
use oxblock::format::layout::{AREA_BYTES, BLOCK_BYTES, BLOCK_SIZE};
use oxblock::format::pointer::{Pointer, PointerWidth};
use oxblock::format::record::{Entry, Header, decode};
use oxblock::format::superblock::Superblock;
use oxblock::volume::{Costs, RepairReport, check_on, create_on, repair_on, required_size};
use oxblock::{Buf, CreateOptions, OpenOptions, RequestKind, Result, Volume};

use crate::newest::newest;
use crate::run::run;

/// A disk, and what each block of the volume on it holds: a version, 0 for zeroes.
pub struct World {
    pub disk: SimDisk,
    pub held: BTreeMap<u64, u64>,
    /// What writes that failed may have left in a block instead: versions, newest last.
    perhaps: BTreeMap<u64, Vec<u64>>,
    next: u64,
}

/// What a block holds that was written as `version`.
fn page(block: u64, version: u64) -> Vec<u8> {
    let mut page = vec![0; BLOCK_SIZE];
    if version > 0 {
        for pair in page.chunks_mut(16) {
            pair[..8].copy_from_slice(&block.to_le_bytes());
            pair[8..].copy_from_slice(&version.to_le_bytes());
        }
    }
    page
}

/// How volumes are opened here: nothing is measured, so that runs repeat.
pub fn options() -> OpenOptions {
    let costs = Some(Costs { block_ns: 400, hand_off_ns: 1_000_000, wake_ns: 1_000_000 });
    OpenOptions { costs, ..OpenOptions::default() }
}

impl World {
    pub fn new(size: u64, seed: u64) -> Self {
        let mut config = SimConfig::new(required_size(size).unwrap(), seed);
        config.discard = DiscardMode::Ignored;
        let disk = SimDisk::single(config);
        let create = CreateOptions { size: Some(size), ..CreateOptions::default() };
        create_on(&mut disk.queue(), &create, "sim").unwrap();
        Self { disk, held: BTreeMap::new(), perhaps: BTreeMap::new(), next: 0 }
    }

    pub fn open(&self) -> Volume {
        Volume::open_on(Box::new(self.disk.queue()), &options()).unwrap()
    }

    /// The volume, unless it does not open.
    pub fn try_open(&self) -> Option<Volume> {
        Volume::open_on(Box::new(self.disk.queue()), &options()).ok()
    }

    /// Has a fault hit one write of the log, after `skip` others.
    pub fn fail_log_write(&self, fault: Fault, skip: u64) {
        let size = self.disk.limits(0).unwrap().size;
        let rule = FaultRule::new(OpKind::Write, fault);
        self.disk.add_fault(rule.within(AREA_BYTES..size - AREA_BYTES).skip(skip));
    }

    pub fn write(&mut self, volume: &mut Volume, block: u64, count: u64) {
        self.try_write(volume, block, count).unwrap();
    }

    /// A write, of which nobody knows what it has done where it fails.
    pub fn try_write(&mut self, volume: &mut Volume, block: u64, count: u64) -> Result<()> {
        let pages = (block..block + count).zip(self.next + 1..);
        self.next += count;
        let bytes: Vec<u8> =
            pages.clone().flat_map(|(block, version)| page(block, version)).collect();
        let buf = Buf::copy_of(&bytes);
        let kind = RequestKind::Write { offset: block * BLOCK_BYTES, buf, fua: false };
        let result = run(volume, kind).result;
        for (block, version) in pages {
            if result.is_ok() {
                self.held.insert(block, version);
                self.perhaps.remove(&block);
            } else {
                self.held.entry(block).or_default();
                self.perhaps.entry(block).or_default().push(version);
            }
        }
        result
    }

    pub fn trim(&mut self, volume: &mut Volume, block: u64, count: u64) {
        for block in block..block + count {
            self.held.insert(block, 0);
            self.perhaps.remove(&block);
        }
        let kind = RequestKind::Discard { offset: block * BLOCK_BYTES, len: count * BLOCK_BYTES };
        run(volume, kind).result.unwrap();
    }

    /// Everything that is not read as it was written must fail; returns which blocks do.
    pub fn failing(&self, volume: &mut Volume) -> BTreeSet<u64> {
        let mut failing = BTreeSet::new();
        for (block, version) in &self.held {
            let buf = Buf::new(BLOCK_SIZE);
            let done = run(volume, RequestKind::Read { offset: block * BLOCK_BYTES, buf });
            match done.result {
                Ok(()) => {
                    let read = done.buf.unwrap();
                    let perhaps = self.perhaps.get(block).into_iter().flatten();
                    assert!(
                        std::iter::once(version)
                            .chain(perhaps)
                            .any(|v| *read == page(*block, *v)[..]),
                        "block {block} is not as it was written"
                    );
                }
                Err(error) => {
                    assert_eq!(error.blocks().len(), 1, "{error}");
                    assert!(done.buf.unwrap().iter().all(|byte| *byte == 0));
                    failing.insert(*block);
                }
            }
        }
        failing
    }

    /// What does not read as it was written, now that the volume is opened again.
    pub fn reopened(&self) -> BTreeSet<u64> {
        let mut volume = self.open();
        let failing = self.failing(&mut volume);
        volume.close().unwrap();
        failing
    }

    pub fn repair(&self) -> RepairReport {
        self.repair_with(&options())
    }

    pub fn repair_with(&self, options: &OpenOptions) -> RepairReport {
        repair_on(Box::new(self.disk.queue()), options, &mut |_, _| {}).unwrap()
    }

    /// What a check has to say, one line each.
    pub fn check(&self) -> Vec<String> {
        let report = check_on(Box::new(self.disk.queue()), &options(), &mut |_, _| {}).unwrap();
        report.findings.iter().map(ToString::to_string).collect()
    }

    /// The nodes of the checkpoint's map: level, index, address.
    pub fn nodes(&self) -> Vec<(u8, u64, u64)> {
        let point = newest(&self.disk).checkpoint;
        let mut nodes = Vec::new();
        let mut left = vec![(point.map_height - 1, 0, point.map_root)];
        while let Some((level, index, to)) = left.pop() {
            if to.is_null() {
                continue;
            }
            nodes.push((level, index, to.addr));
            let node = self.page_at(to.addr);
            let pointers = (0..256).map(|slot| PointerWidth::Narrow.get(&node, slot));
            if level > 0 {
                left.extend(
                    pointers
                        .enumerate()
                        .map(|(slot, to)| (level - 1, index << 8 | slot as u64, to)),
                );
            }
        }
        nodes.sort_unstable();
        nodes
    }

    /// Where the blocks are by the checkpoint's map, in their order.
    pub fn addresses(&self) -> Vec<u64> {
        let leaves = self.nodes().into_iter().filter(|(level, ..)| *level == 0);
        leaves
            .flat_map(|(.., addr)| {
                let node = self.page_at(addr);
                (0..256).map(move |slot| PointerWidth::Narrow.get(&node, slot).addr)
            })
            .filter(|addr| *addr != 0)
            .collect()
    }

    /// Where a block is by the checkpoint's map.
    pub fn pointer(&self, block: u64) -> Pointer {
        let leaf =
            self.nodes().into_iter().find(|(level, index, _)| (*level, *index) == (0, block >> 8));
        let Some((.., addr)) = leaf else { return Pointer::NULL };
        PointerWidth::Narrow.get(&self.page_at(addr), (block & 255) as usize)
    }

    fn page_at(&self, addr: u64) -> Vec<u8> {
        self.disk.read_raw(0, place(addr), BLOCK_SIZE)
    }

    /// The records of all segments, as far as each can be followed.
    pub fn records(&self) -> Vec<(Header, Vec<Entry>)> {
        let superblock = newest(&self.disk);
        let csum = Csum::new(superblock.csum, superblock.volume);
        let blocks = u64::from(superblock.segment_blocks);
        let mut records = Vec::new();
        for segment in 0..u64::from(superblock.segments) {
            let mut at = segment * blocks;
            let mut last = 0;
            while at < (segment + 1) * blocks {
                let bytes = self.disk.read_raw(0, place(at), 3 * BLOCK_SIZE);
                let Ok((header, entries)) = decode(&bytes, at, PointerWidth::Narrow, &csum) else {
                    break;
                };
                if header.sequence <= last {
                    break;
                }
                last = header.sequence;
                at += u64::from(header.blocks());
                records.push((header, entries));
            }
        }
        records
    }

    /// Damages the block at an address.
    pub fn damage(&self, addr: u64) {
        self.disk.flip_bit(0, place(addr) + 33, 2);
    }

    pub fn superblock(&self) -> Superblock {
        newest(&self.disk)
    }
}

/// Where on the device an address is.
pub fn place(addr: u64) -> u64 {
    AREA_BYTES + addr * BLOCK_BYTES
}
