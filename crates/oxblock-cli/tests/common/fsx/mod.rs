//! Every kind of access to a file, at random, against a copy in memory; after the program `fsx`.
//!
//! Several may work on parts of one file at the same time. Parts need not begin at blocks: neighbours share one then, and
//! nothing that is done to the bytes of the one may change those of the other.
#![allow(clippy::cast_possible_truncation, reason = "tests")]

mod steps;

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::ops::Range;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use super::Random;
use super::mapping::Mapping;

const BLOCK: u64 = 4096;

/// Steps that are told when something differs.
const TOLD: usize = 60;

/// What may be done to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A volume: its size is fixed, `O_DIRECT` is as other access, and it is known what are holes.
    Volume,
    /// A file in a file system, which becomes larger and smaller.
    File {
        /// Ranges can be taken out and put in.
        collapses: bool,
    },
}

/// A part of a file, and what must be in it. Offsets are from its beginning on.
pub struct Fsx {
    path: PathBuf,
    kind: Kind,
    /// Where the part begins in the file.
    base: u64,
    /// The most bytes that it may have.
    room: u64,
    random: Random,
    copy: Vec<u8>,
    /// Of a volume: the blocks that must be holes, the first being the one in which the part begins.
    holes: Vec<bool>,
    /// Something was written by a mapping, and not flushed.
    unflushed: bool,
    open: Option<Open>,
    said: VecDeque<String>,
}

/// The file, opened in every way: as usual, with `O_DIRECT`, with `O_DSYNC`, and mapped.
struct Open {
    files: [File; 3],
    mapping: Option<Mapping>,
}

impl Fsx {
    /// The `range` of a volume in which nothing was written yet.
    pub fn on_volume(path: &Path, range: Range<u64>, seed: u64) -> Self {
        let copy = vec![0; (range.end - range.start) as usize];
        let mut new = Self::new(path, Kind::Volume, range, copy, seed);
        let blocks = (new.base + new.room).div_ceil(BLOCK) - new.base / BLOCK;
        new.holes = vec![false; blocks as usize];
        // Those that are shared with neighbours are theirs too.
        new.is_hole(0..new.room);
        new
    }

    /// A new file that has at most `room` bytes.
    pub fn on_file(path: &Path, collapses: bool, room: u64, seed: u64) -> Self {
        File::create_new(path).unwrap();
        Self::new(path, Kind::File { collapses }, 0..room, Vec::new(), seed)
    }

    fn new(path: &Path, kind: Kind, range: Range<u64>, copy: Vec<u8>, seed: u64) -> Self {
        Self {
            path: path.to_owned(),
            kind,
            base: range.start,
            room: range.end - range.start,
            random: Random(seed),
            copy,
            holes: Vec::new(),
            unflushed: false,
            open: None,
            said: VecDeque::new(),
        }
    }

    /// Takes `steps` steps, compares, and closes the file.
    pub fn run(&mut self, steps: u64) {
        for _ in 0..steps {
            self.step();
        }
        self.compare();
        self.open = None;
    }

    /// All of it is as it must be.
    pub fn compare(&self) {
        let file = File::open(&self.path).unwrap();
        let mut found = vec![0; self.copy.len()];
        file.read_exact_at(&mut found, self.base).unwrap();
        self.expect(0, &found, "compared");
        if self.kind != Kind::Volume {
            assert_eq!(file.metadata().unwrap().len(), self.size(), "{}", self.story());
        }
    }

    /// Puts the part where it must be in the whole.
    pub fn put(&self, whole: &mut [u8]) {
        whole[self.base as usize..][..self.copy.len()].copy_from_slice(&self.copy);
    }

    fn size(&self) -> u64 {
        self.copy.len() as u64
    }

    /// A range that a file may have: mostly small, half of them whole blocks.
    fn place(&mut self) -> Range<u64> {
        let random = &mut self.random;
        let len = match random.below(32) {
            0..8 => 1 + random.below(100),
            8..31 => 1 + random.below(64 << 10),
            _ => 1 + random.below(3 << 20),
        };
        let len = len.min(self.room);
        // Mostly where something is.
        let limit = match random.below(4) {
            0 => self.room - len,
            _ => (self.room - len).min(self.copy.len() as u64),
        };
        let start = random.below(limit + 1);
        let aligned = random.below(2) == 0;
        let range = start..start + len;
        match self.blocks(&range) {
            blocks if aligned && !blocks.is_empty() => blocks,
            _ => range,
        }
    }

    /// What of a range is whole blocks of the file.
    fn blocks(&self, range: &Range<u64>) -> Range<u64> {
        let start = (self.base + range.start).next_multiple_of(BLOCK) - self.base;
        let end = (self.base + range.end) / BLOCK * BLOCK;
        start..end.saturating_sub(self.base).max(start)
    }

    /// The range in the copy.
    fn part(&mut self, range: &Range<u64>) -> &mut [u8] {
        &mut self.copy[range.start as usize..range.end as usize]
    }

    /// The blocks that a range touches, in what is known of holes.
    fn known(&mut self, range: &Range<u64>) -> &mut [bool] {
        if self.kind != Kind::Volume || range.is_empty() {
            return &mut [];
        }
        let first = self.base / BLOCK;
        let start = (self.base + range.start) / BLOCK - first;
        let end = (self.base + range.end).div_ceil(BLOCK) - first;
        &mut self.holes[start as usize..end as usize]
    }

    /// Whole blocks of a range are holes now.
    fn is_hole(&mut self, range: Range<u64>) {
        let blocks = self.blocks(&range);
        self.known(&blocks).fill(true);
    }

    /// A range of the copy changes, which becomes longer for that, and may be no hole any more.
    fn changes(&mut self, range: &Range<u64>) -> &mut [u8] {
        let size = self.size().max(range.end);
        self.copy.resize(size as usize, 0);
        self.known(range).fill(false);
        self.part(range)
    }

    fn say(&mut self, what: String) {
        if self.said.len() == TOLD {
            self.said.pop_front();
        }
        self.said.push_back(what);
    }

    /// What was done, for whoever finds something wrong.
    fn story(&self) -> String {
        let name = self.path.display();
        let said: Vec<&str> = self.said.iter().map(String::as_str).collect();
        format!("in {name} from {} on, after:\n{}", self.base, said.join("\n"))
    }

    /// That is what must be there.
    fn expect(&self, offset: u64, found: &[u8], how: &str) {
        let expected = self.copy.iter().skip(offset as usize).take(found.len());
        if found.iter().eq(expected.clone()) {
            return;
        }
        let expected: Vec<u8> = expected.copied().collect();
        let wrong: Vec<usize> = (0..found.len()).filter(|at| found[*at] != expected[*at]).collect();
        let at = wrong[0];
        panic!(
            "{how}: {} bytes differ, the first at {}, which is {} and not {}, {}",
            wrong.len(),
            offset + at as u64,
            found[at],
            expected[at],
            self.story()
        );
    }
}

impl Open {
    fn of(path: &Path, kind: Kind) -> Self {
        let files = [OFlags::empty(), OFlags::DIRECT, OFlags::DSYNC].map(|flags| {
            let mut options = OpenOptions::new();
            options.read(true).write(true).custom_flags(flags.bits().cast_signed());
            options.open(path).unwrap()
        });
        let mapping = match kind {
            Kind::Volume => Mapping::of_mounted(path),
            Kind::File { .. } => Mapping::of(path),
        };
        Self { files, mapping }
    }
}
