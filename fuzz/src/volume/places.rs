//! Where everything is in a volume: superblocks, nodes, records, data, and what holds whose checksum.

use std::collections::HashMap;

use oxblock::csum::Csum;
use oxblock::device::sim::SimDisk;
use oxblock::format::layout::{AREA_BYTES, BLOCK_BYTES, BLOCK_SIZE, SUPERBLOCK_SIZE};
use oxblock::format::pointer::{Pointer, PointerWidth, identity};
use oxblock::format::record::{decode, payload_identity};
use oxblock::format::superblock::{Superblock, offsets};

use crate::target::seal_superblock;

/// What a place holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PlaceKind {
    /// A node of the map.
    Node,
    /// A node of the segment table above its entries.
    TableNode,
    /// A block of segment entries.
    Entries,
    /// A record header.
    Header,
    /// A data block that the checkpoint's map points to.
    Data,
    /// Any other payload block of a record.
    Payload,
}

impl PlaceKind {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Node, Self::TableNode, Self::Entries, Self::Header, Self::Data, Self::Payload];

    /// Its name in scripts.
    pub fn name(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::TableNode => "tablenode",
            Self::Entries => "entries",
            Self::Header => "header",
            Self::Data => "data",
            Self::Payload => "payload",
        }
    }
}

/// Who holds the checksum of a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parent {
    /// The superblock, at this offset of it (a wide pointer).
    Root(usize),
    /// A node, by its index among the places, and the slot in it.
    Node(usize, usize),
    /// A record header, by its index among the places, and the entry in it.
    Entry(usize, usize),
}

/// A place.
#[derive(Debug, Clone)]
pub struct Place {
    /// What is there.
    pub kind: PlaceKind,
    /// Address in blocks of the log space.
    pub addr: u64,
    /// Blocks.
    pub blocks: u32,
    /// What its checksum is seeded with.
    pub identity: u64,
    /// Who holds its checksum; a header does so itself.
    pub parents: Vec<Parent>,
}

impl Place {
    /// Byte offset on the device.
    pub fn offset(&self) -> u64 {
        AREA_BYTES + self.addr * BLOCK_BYTES
    }
}

/// Offsets of the roots in a superblock.
const MAP_ROOT: usize = 248;
const TABLE_ROOT: usize = 280;

/// All places of a volume.
#[derive(Debug)]
pub struct Places {
    /// The superblock in force.
    pub newest: Superblock,
    /// Bytes of the device.
    pub size: u64,
    list: Vec<Place>,
    by_kind: HashMap<PlaceKind, Vec<usize>>,
    by_addr: HashMap<u64, usize>,
    csum: Csum,
    width: PointerWidth,
}

impl Places {
    /// Looks through the volume on `disk`.
    pub fn find(disk: &SimDisk) -> Self {
        let size = disk.limits(0).unwrap().size;
        let copies = [0, 1].into_iter().flat_map(|generation| offsets(0, generation, size));
        let found = copies
            .filter_map(|at| Superblock::decode(&disk.read_raw(0, at, SUPERBLOCK_SIZE)).ok()?);
        let newest = found.max_by_key(|found| found.checkpoint.generation).unwrap();
        let csum = Csum::new(newest.csum, newest.volume);
        let mut places = Self {
            size,
            list: Vec::new(),
            by_kind: HashMap::new(),
            by_addr: HashMap::new(),
            csum,
            width: PointerWidth::for_csum(newest.csum.width()),
            newest,
        };
        let point = places.newest.checkpoint.clone();
        places.tree(disk, false, point.map_root, (point.map_height - 1, 0), Parent::Root(MAP_ROOT));
        places.tree(
            disk,
            true,
            point.table_root,
            (point.table_height - 1, 0),
            Parent::Root(TABLE_ROOT),
        );
        for segment in 0..places.newest.segments {
            places.chain(disk, segment);
        }
        places
    }

    fn add(&mut self, place: Place) -> usize {
        let at = self.list.len();
        self.by_kind.entry(place.kind).or_default().push(at);
        self.by_addr.insert(place.addr, at);
        self.list.push(place);
        at
    }

    fn tree(
        &mut self,
        disk: &SimDisk,
        table: bool,
        to: Pointer,
        (level, index): (u8, u64),
        parent: Parent,
    ) {
        if to.is_null() {
            return;
        }
        let kind = match (table, level) {
            (false, _) => PlaceKind::Node,
            (true, 0) => PlaceKind::Entries,
            (true, _) => PlaceKind::TableNode,
        };
        let id = identity::node(table, level, index);
        let at =
            self.add(Place { kind, addr: to.addr, blocks: 1, identity: id, parents: vec![parent] });
        if kind == PlaceKind::Entries {
            return;
        }
        let page = disk.read_raw(0, self.list[at].offset(), BLOCK_SIZE);
        for slot in 0..self.width.fanout() {
            let child = self.width.get(&page, slot);
            let number = index << self.width.fanout_shift() | slot as u64;
            if level > 0 {
                self.tree(disk, table, child, (level - 1, number), Parent::Node(at, slot));
            } else if !child.is_null() {
                let parents = vec![Parent::Node(at, slot)];
                let id = identity::data(number);
                self.add(Place {
                    kind: PlaceKind::Data,
                    addr: child.addr,
                    blocks: 1,
                    identity: id,
                    parents,
                });
            }
        }
    }

    /// The records of one segment.
    fn chain(&mut self, disk: &SimDisk, segment: u32) {
        let blocks = u64::from(self.newest.segment_blocks);
        let first = u64::from(segment) * blocks;
        let mut at = first;
        while at < first + blocks {
            let bytes = disk.read_raw(0, AREA_BYTES + at * BLOCK_BYTES, 3 * BLOCK_SIZE);
            let Ok((header, entries)) = decode(&bytes, at, self.width, &self.csum) else { return };
            let place = self.add(Place {
                kind: PlaceKind::Header,
                addr: at,
                blocks: header.header_blocks.into(),
                identity: identity::record(at),
                parents: Vec::new(),
            });
            for (index, entry) in entries.iter().enumerate().filter(|_| header.kind.has_payload()) {
                let addr = header.payload_addr() + index as u64;
                let parent = Parent::Entry(place, index);
                if let Some(known) = self.by_addr.get(&addr) {
                    self.list[*known].parents.push(parent);
                    continue;
                }
                let identity = payload_identity(header.kind, entry);
                let parents = vec![parent];
                self.add(Place { kind: PlaceKind::Payload, addr, blocks: 1, identity, parents });
            }
            at += u64::from(header.blocks());
        }
    }

    /// The place of this kind with this number, counted round.
    pub fn get(&self, kind: PlaceKind, number: u64) -> Option<&Place> {
        let all = self.by_kind.get(&kind)?;
        self.list.get(all[(number % all.len() as u64) as usize])
    }

    /// How many there are.
    pub fn count(&self, kind: PlaceKind) -> u64 {
        self.by_kind.get(&kind).map_or(0, |all| all.len() as u64)
    }

    /// Where the copies of the superblock in force are, or those of the one before.
    pub fn copies(&self, older: bool) -> [u64; 2] {
        let generation = self.newest.checkpoint.generation;
        offsets(0, generation + u64::from(older), self.size)
    }

    /// Makes the checksum of a superblock good.
    pub fn seal_copies(&self, disk: &SimDisk, older: bool) {
        for at in self.copies(older) {
            let mut bytes = disk.read_raw(0, at, SUPERBLOCK_SIZE);
            seal_superblock(&mut bytes);
            disk.write_raw(0, at, &bytes);
        }
    }

    /// Makes the checksum of a record header good.
    pub fn seal_header(&self, disk: &SimDisk, place: &Place) {
        let mut bytes = disk.read_raw(0, place.offset(), place.blocks as usize * BLOCK_SIZE);
        bytes[16..32].fill(0);
        let sum = self.csum.of(place.identity, &bytes).to_le_bytes();
        disk.write_raw(0, place.offset() + 16, &sum);
    }

    /// Makes everything above a place fit what is there now, up to the superblock.
    pub fn seal_above(&self, disk: &SimDisk, place: &Place) {
        if place.kind == PlaceKind::Header {
            self.seal_header(disk, place);
            return;
        }
        let bytes = disk.read_raw(0, place.offset(), BLOCK_SIZE);
        let sum = self.csum.of(place.identity, &bytes).to_le_bytes();
        let (skip, len) = if self.width == PointerWidth::Narrow { (8, 8) } else { (16, 16) };
        let value = &sum[..len];
        for parent in &place.parents {
            match *parent {
                Parent::Root(offset) => {
                    for at in self.copies(false) {
                        disk.write_raw(0, at + offset as u64 + 16, &sum);
                    }
                    self.seal_copies(disk, false);
                }
                Parent::Node(node, slot) => {
                    let node = &self.list[node];
                    let at = node.offset() + (slot * self.width.size() + skip) as u64;
                    disk.write_raw(0, at, value);
                    self.seal_above(disk, node);
                }
                Parent::Entry(header, index) => {
                    let header = &self.list[header];
                    let at = header.offset() + (128 + index * self.width.size() + skip) as u64;
                    disk.write_raw(0, at, value);
                    self.seal_header(disk, header);
                }
            }
        }
    }
}
