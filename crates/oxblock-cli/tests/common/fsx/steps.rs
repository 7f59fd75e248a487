//! The steps: each does something to the file, and to the copy.

use std::io::{IoSlice, IoSliceMut};
use std::ops::Range;

use oxblock::Buf;
use rustix::fs::{FallocateFlags, SeekFrom, copy_file_range, fallocate, seek};
use rustix::io::{Errno, preadv, pwritev};

use super::{BLOCK, Fsx, Kind, Open};

/// With which of the open files, and with what memory.
struct Way {
    file: usize,
    /// Memory begins so many bytes behind an aligned address.
    skip: usize,
    /// It is in two parts, of which the first has so many bytes.
    split: usize,
}

impl Fsx {
    /// One step.
    pub fn step(&mut self) {
        if self.open.is_none() {
            self.open = Some(Open::of(&self.path, self.kind));
        }
        let range = self.place();
        let resizes = self.kind != Kind::Volume;
        let collapses = self.kind == Kind::File { collapses: true };
        match self.random.below(100) {
            0..22 => self.read(range),
            22..46 => self.write(range),
            46..54 => self.punch(range),
            54..60 => self.zero(range),
            60..64 => self.sync(),
            64..72 => self.seek(range.start),
            72..76 => self.copy_range(range),
            76..80 => self.read_mapped(range),
            80..86 => self.write_mapped(range),
            86 => self.open = None,
            87..93 if resizes => self.resize(range.start),
            93..95 if resizes => self.allocate(range),
            95..97 if collapses => self.collapse(range),
            97..99 if collapses => self.insert(range),
            _ => self.read(range),
        }
    }

    fn file(&self, way: usize) -> &std::fs::File {
        &self.open.as_ref().unwrap().files[way]
    }

    fn way(&mut self, range: &Range<u64>) -> Way {
        let aligned = self.blocks(range) == *range;
        let direct = aligned || self.kind == Kind::Volume;
        let file = match self.random.below(8) {
            0..3 if direct => 1,
            3 => 2,
            _ => 0,
        };
        // In file systems O_DIRECT is for whole blocks.
        let any = file != 1 || self.kind == Kind::Volume;
        let len = range.end - range.start;
        let (skip, split) = match self.random.below(4) {
            0 if any => (self.random.below(BLOCK), self.random.below(len + 1)),
            1 if any => (self.random.below(BLOCK), 0),
            2 => (0, self.random.below(len / BLOCK + 1) * BLOCK),
            _ => (0, 0),
        };
        Way { file, skip: skip as usize, split: split as usize }
    }

    fn read(&mut self, range: Range<u64>) {
        let Way { file, skip, split } = self.way(&range);
        self.say(format!("read {range:?} from {file}, memory {skip} {split}"));
        let mut buf = Buf::new(skip + (range.end - range.start) as usize);
        let (first, second) = buf[skip..].split_at_mut(split);
        let mut parts = [IoSliceMut::new(first), IoSliceMut::new(second)];
        let len = preadv(self.file(file), &mut parts, self.base + range.start).unwrap();
        let within = range.end.min(self.size()).saturating_sub(range.start);
        assert_eq!(len as u64, within, "read {}", self.story());
        self.expect(range.start, &buf[skip..][..len], "read");
    }

    fn write(&mut self, range: Range<u64>) {
        let Way { file, skip, split } = self.way(&range);
        self.say(format!("write {range:?} to {file}, memory {skip} {split}"));
        let bytes = self.random.bytes((range.end - range.start) as usize);
        let mut buf = Buf::new(skip + bytes.len());
        buf[skip..].copy_from_slice(&bytes);
        let (first, second) = buf[skip..].split_at(split);
        let parts = [IoSlice::new(first), IoSlice::new(second)];
        let len = pwritev(self.file(file), &parts, self.base + range.start).unwrap();
        assert_eq!(len, bytes.len(), "written {}", self.story());
        self.changes(&range).copy_from_slice(&bytes);
    }

    fn fallocate(&mut self, mode: FallocateFlags, range: &Range<u64>) {
        self.say(format!("fallocate {range:?} {mode:?}"));
        let (offset, len) = (self.base + range.start, range.end - range.start);
        if let Err(errno) = fallocate(self.file(0), mode, offset, len) {
            panic!("{errno} {}", self.story());
        }
    }

    fn punch(&mut self, range: Range<u64>) {
        self.fallocate(FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, &range);
        let within = range.start.min(self.size())..range.end.min(self.size());
        self.changes(&within).fill(0);
        if self.kind == Kind::Volume {
            self.is_hole(range);
        }
    }

    fn zero(&mut self, range: Range<u64>) {
        let keep = self.random.below(2) == 0;
        let keep = if keep { FallocateFlags::KEEP_SIZE } else { FallocateFlags::empty() };
        self.fallocate(FallocateFlags::ZERO_RANGE | keep, &range);
        let end = if keep.is_empty() { range.end } else { range.end.min(self.size()) };
        self.changes(&(range.start.min(end)..end)).fill(0);
    }

    fn sync(&mut self) {
        self.say("sync".to_owned());
        let way = self.random.below(3) as usize;
        match self.random.below(2) {
            0 => self.file(way).sync_all().unwrap(),
            _ => self.file(way).sync_data().unwrap(),
        }
    }

    /// From there on, to the end of the part, or nothing if there is no such place.
    fn sought(&self, from: SeekFrom) -> u64 {
        match seek(self.file(0), from) {
            Ok(found) => found.checked_sub(self.base).unwrap().min(self.size()),
            Err(Errno::NXIO) => self.size(),
            Err(errno) => panic!("{errno} {}", self.story()),
        }
    }

    /// What is not in data is zero, and known holes are not in data.
    fn seek(&mut self, from: u64) {
        if from >= self.size() {
            return;
        }
        // A volume does not hear before of what was written by a mapping.
        if std::mem::take(&mut self.unflushed) {
            self.file(0).sync_data().unwrap();
        }
        let data = self.sought(SeekFrom::Data(self.base + from));
        let hole = self.sought(SeekFrom::Hole(self.base + from));
        let behind = match hole < self.size() {
            true => self.sought(SeekFrom::Data(self.base + hole)),
            false => hole,
        };
        self.say(format!("seek {from}: data {data}, hole {hole}, data {behind}"));
        for empty in [from..data, hole..behind] {
            assert!(self.part(&empty).iter().all(|byte| *byte == 0), "no hole {}", self.story());
        }
        for full in [data..(data + 1).min(self.size()), from..hole] {
            assert!(!self.known(&full).contains(&true), "a hole {}", self.story());
        }
    }

    /// From one place to another by the kernel.
    fn copy_range(&mut self, to: Range<u64>) {
        let from = self.random.below(self.room);
        let from = from..from + (to.end - to.start);
        let overlap = from.start < to.end && to.start < from.end;
        if overlap || from.end > self.size() {
            return;
        }
        self.say(format!("copy {from:?} to {to:?}"));
        let (mut source, mut target) = (self.base + from.start, self.base + to.start);
        let len = (to.end - to.start) as usize;
        let file = self.file(0);
        let len = copy_file_range(file, Some(&mut source), file, Some(&mut target), len).unwrap();
        assert!(len > 0, "nothing {}", self.story());
        let bytes = self.part(&from)[..len].to_vec();
        self.changes(&(to.start..to.start + len as u64)).copy_from_slice(&bytes);
    }

    fn read_mapped(&mut self, range: Range<u64>) {
        let range = range.start..range.end.min(self.size());
        let base = self.base;
        let Some(mapping) = &mut self.open.as_mut().unwrap().mapping else { return };
        if !range.is_empty() {
            let found = mapping.read(base + range.start, (range.end - range.start) as usize);
            self.say(format!("read {range:?} mapped"));
            self.expect(range.start, &found, "mapped");
        }
    }

    fn write_mapped(&mut self, range: Range<u64>) {
        // What is mapped is written in pages: one that is shared with a neighbour is not ours.
        let own = match self.kind {
            Kind::Volume => self.blocks(&(0..self.size())),
            Kind::File { .. } => 0..self.size(),
        };
        let range = range.start.max(own.start)..range.end.min(own.end);
        if range.is_empty() || self.open.as_ref().unwrap().mapping.is_none() {
            return;
        }
        let flush = self.random.below(2) == 0;
        self.say(format!("write {range:?} mapped, flush {flush}"));
        let bytes = self.random.bytes((range.end - range.start) as usize);
        let base = self.base;
        if let Some(mapping) = &mut self.open.as_mut().unwrap().mapping {
            mapping.write(base + range.start, &bytes, flush);
        }
        self.changes(&range).copy_from_slice(&bytes);
        self.unflushed |= !flush;
    }

    fn resize(&mut self, size: u64) {
        self.say(format!("resize to {size}"));
        self.file(0).set_len(size).unwrap();
        self.copy.resize(size as usize, 0);
    }

    fn allocate(&mut self, range: Range<u64>) {
        self.fallocate(FallocateFlags::empty(), &range);
        let size = self.size().max(range.end);
        self.copy.resize(size as usize, 0);
    }

    fn collapse(&mut self, range: Range<u64>) {
        if self.blocks(&range) == range && range.end < self.size() {
            self.fallocate(FallocateFlags::COLLAPSE_RANGE, &range);
            self.copy.drain(range.start as usize..range.end as usize);
        }
    }

    fn insert(&mut self, range: Range<u64>) {
        let len = range.end - range.start;
        let fits = range.start < self.size() && self.size() + len <= self.room;
        if self.blocks(&range) == range && fits {
            self.fallocate(FallocateFlags::INSERT_RANGE, &range);
            let at = range.start as usize;
            self.copy.splice(at..at, std::iter::repeat_n(0, len as usize));
        }
    }
}
