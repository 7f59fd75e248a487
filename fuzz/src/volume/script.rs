//! Changes to a volume, as text: what the inputs of the target `image` are.
//!
//! ```text
//! volume crc32c tail
//! set tree node:3 16 8 12345      field of 8 bytes at offset 16, and all checksums above made good
//! add block super:0 200 8 1       the same, by so much; its own checksum made good
//! flip raw data:7 123             a bit; no checksum made good
//! copy raw node:1 data:4          from the second to the first: a misplaced write
//! zero raw header:2
//! noise raw copy:1 99             seed
//! ```
//!
//! `super:0` are both copies of the superblock in force, `super:1` those of the one before, `copy:N` is any one of the four.
//! All others are counted round. A line that says nothing is passed over, so every text is a script.

use std::fmt;

use oxblock::csum::CsumKind;
use oxblock::device::sim::{Rng, SimDisk};
use oxblock::format::layout::{BLOCK_SIZE, SUPERBLOCK_SIZE};

use super::base::{Base, State};
use super::places::{Place, PlaceKind, Places};
use crate::mutate;
use crate::target::seal_superblock;

/// What is made good again after a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seal {
    /// Nothing.
    Raw,
    /// The structure's own checksum: a superblock's or a record header's.
    Block,
    /// Every checksum above it, too.
    Tree,
}

/// What is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Where {
    /// Both copies of a superblock: the one in force, or the one before.
    Super(bool),
    /// One of the four.
    Copy(u64),
    /// Anything else.
    Place(PlaceKind, u64),
}

/// One change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edit {
    /// A field of some bytes becomes a number.
    Set(Seal, Where, usize, usize, u64),
    /// A number is added to it.
    Add(Seal, Where, usize, usize, u64),
    /// A bit is flipped.
    Flip(Seal, Where, u64),
    /// The first becomes what the second is.
    Copy(Seal, Where, Where),
    /// It becomes zeroes.
    Zero(Seal, Where),
    /// It becomes noise.
    Noise(Seal, Where, u64),
}

/// A volume and what is changed in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    /// Checksum type.
    pub csum: CsumKind,
    /// State.
    pub state: State,
    /// In order.
    pub edits: Vec<Edit>,
}

impl fmt::Display for Seal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Raw => "raw",
            Self::Block => "block",
            Self::Tree => "tree",
        })
    }
}

impl fmt::Display for Where {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Super(older) => write!(f, "super:{}", u8::from(*older)),
            Self::Copy(number) => write!(f, "copy:{number}"),
            Self::Place(kind, number) => write!(f, "{}:{number}", kind.name()),
        }
    }
}

impl fmt::Display for Edit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Set(seal, to, offset, size, number) => {
                write!(f, "set {seal} {to} {offset} {size} {number}")
            }
            Self::Add(seal, to, offset, size, number) => {
                write!(f, "add {seal} {to} {offset} {size} {number}")
            }
            Self::Flip(seal, to, bit) => write!(f, "flip {seal} {to} {bit}"),
            Self::Copy(seal, to, from) => write!(f, "copy {seal} {to} {from}"),
            Self::Zero(seal, to) => write!(f, "zero {seal} {to}"),
            Self::Noise(seal, to, seed) => write!(f, "noise {seal} {to} {seed}"),
        }
    }
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "volume {} {}", self.csum.name(), self.state.name())?;
        self.edits.iter().try_for_each(|edit| writeln!(f, "{edit}"))
    }
}

fn parse_where(word: &str) -> Option<Where> {
    let (name, number) = word.split_once(':')?;
    let number: u64 = number.parse().ok()?;
    match name {
        "super" => Some(Where::Super(number % 2 == 1)),
        "copy" => Some(Where::Copy(number)),
        _ => {
            let kind = PlaceKind::ALL.into_iter().find(|kind| kind.name() == name)?;
            Some(Where::Place(kind, number))
        }
    }
}

fn parse_edit(line: &str) -> Option<Edit> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let word = |at: usize| words.get(at).copied();
    let number = |at: usize| word(at)?.parse::<u64>().ok();
    let size = |at: usize| Some(usize::try_from(number(at)?).unwrap_or(0));
    let seal = [Seal::Raw, Seal::Block, Seal::Tree]
        .into_iter()
        .find(|seal| Some(&*seal.to_string()) == word(1))?;
    let to = parse_where(word(2)?)?;
    match word(0)? {
        "set" => Some(Edit::Set(seal, to, size(3)?, size(4)?, number(5)?)),
        "add" => Some(Edit::Add(seal, to, size(3)?, size(4)?, number(5)?)),
        "flip" => Some(Edit::Flip(seal, to, number(3)?)),
        "copy" => Some(Edit::Copy(seal, to, parse_where(word(3)?)?)),
        "zero" => Some(Edit::Zero(seal, to)),
        "noise" => Some(Edit::Noise(seal, to, number(3)?)),
        _ => None,
    }
}

impl Script {
    /// The script that a text is.
    pub fn parse(text: &str) -> Self {
        let mut script = Self { csum: CsumKind::Crc32c, state: State::Clean, edits: Vec::new() };
        for line in text.lines() {
            let mut words = line.split_whitespace();
            if words.next() == Some("volume") {
                for word in words {
                    script.csum = CsumKind::ALL
                        .into_iter()
                        .find(|csum| csum.name() == word)
                        .unwrap_or(script.csum);
                    script.state = State::ALL
                        .into_iter()
                        .find(|state| state.name() == word)
                        .unwrap_or(script.state);
                }
            }
            script.edits.extend(parse_edit(line));
        }
        script.edits.truncate(64);
        script
    }

    /// Every change is raw, so that nothing may be believed that was changed.
    pub fn is_raw(&self) -> bool {
        self.edits.iter().all(|edit| edit.seal() == Seal::Raw)
    }

    /// Carries the changes out on a disk that has the volume.
    pub fn apply(&self, base: &Base, disk: &SimDisk) {
        for edit in &self.edits {
            edit.apply(&base.places, disk);
        }
    }
}

/// A stretch of the device.
struct Stretch<'p> {
    at: u64,
    len: usize,
    place: Option<&'p Place>,
}

fn stretches(places: &Places, to: Where) -> Vec<Stretch<'_>> {
    let copy = |at: u64| Stretch { at, len: SUPERBLOCK_SIZE, place: None };
    match to {
        Where::Super(older) => places.copies(older).map(copy).into(),
        Where::Copy(number) => {
            let all = [places.copies(false), places.copies(true)].concat();
            vec![copy(all[(number % 4) as usize])]
        }
        Where::Place(kind, number) => places
            .get(kind, number)
            .map(|place| Stretch {
                at: place.offset(),
                len: place.blocks as usize * BLOCK_SIZE,
                place: Some(place),
            })
            .into_iter()
            .collect(),
    }
}

impl Edit {
    /// What is made good again.
    pub fn seal(&self) -> Seal {
        match self {
            Self::Set(seal, ..)
            | Self::Add(seal, ..)
            | Self::Flip(seal, ..)
            | Self::Copy(seal, ..)
            | Self::Zero(seal, ..)
            | Self::Noise(seal, ..) => *seal,
        }
    }

    /// What is changed.
    pub fn to(&self) -> Where {
        match self {
            Self::Set(_, to, ..)
            | Self::Add(_, to, ..)
            | Self::Flip(_, to, ..)
            | Self::Copy(_, to, ..)
            | Self::Zero(_, to)
            | Self::Noise(_, to, ..) => *to,
        }
    }

    fn apply(&self, places: &Places, disk: &SimDisk) {
        for stretch in stretches(places, self.to()) {
            let mut bytes = disk.read_raw(0, stretch.at, stretch.len);
            match *self {
                Self::Set(_, _, offset, size, number) => {
                    mutate::set(&mut bytes, offset, size, number)
                }
                Self::Add(_, _, offset, size, number) => {
                    let old = mutate::get(&bytes, offset, size);
                    mutate::set(&mut bytes, offset, size, old.wrapping_add(number));
                }
                Self::Flip(_, _, bit) => {
                    let bit = bit % (bytes.len() as u64 * 8);
                    bytes[(bit / 8) as usize] ^= 1 << (bit % 8);
                }
                Self::Copy(_, _, from) => {
                    if let Some(from) = stretches(places, from).first() {
                        let new = disk.read_raw(0, from.at, from.len);
                        for (to, from) in bytes.iter_mut().zip(new) {
                            *to = from;
                        }
                    }
                }
                Self::Zero(..) => bytes.fill(0),
                Self::Noise(_, _, seed) => Rng::new(seed).fill(&mut bytes),
            }
            if self.seal() != Seal::Raw && stretch.place.is_none() {
                seal_superblock(&mut bytes);
            }
            disk.write_raw(0, stretch.at, &bytes);
            match (self.seal(), stretch.place) {
                (Seal::Block, Some(place)) if place.kind == PlaceKind::Header => {
                    places.seal_header(disk, place)
                }
                (Seal::Tree, Some(place)) => places.seal_above(disk, place),
                _ => {}
            }
        }
    }
}
