//! What of a plan is played: all of it, or what shrinking has left.
//!
//! Every life and every turn of a life (one random request) draws from a generator of its own, which depends on the seed
//! and on its number alone. So lives and turns can be left out, and those that stay ask for the same as before.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use oxblock::complete::policy::CompletePolicy;
use oxblock::csum::CsumKind;
use oxblock::device::Fua;
use oxblock::device::sim::{DiscardMode, Rng};
use oxblock::submit::policy::SubmitPolicy;
use oxblock::volume::{CrcCode, Policy};

use crate::plan::Plan;
use crate::trouble::Trouble;

/// The turn of a life that stands for its opening.
pub const OPENING: u64 = u64::MAX;
/// The turn of a life that stands for how it goes on once it is open.
pub const COURSE: u64 = u64::MAX - 1;
/// The turn of a life that stands for its end.
pub const END: u64 = u64::MAX - 2;

/// The generator of one turn.
pub fn chance(seed: u64, life: u64, turn: u64) -> Rng {
    let life = Rng::new(seed).next_u64() ^ life.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let turn = Rng::new(life).next_u64() ^ turn.wrapping_mul(0xd6e8_feb8_6659_fd93);
    Rng::new(turn).fork()
}

macro_rules! plain {
    ($($(#[doc = $doc:literal])* $name:ident: $label:literal => |$plan:ident| $simplify:expr;)*) => {
        /// A part of a plan made as plain as it can be.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Plain {
            $($(#[doc = $doc])* $name,)*
        }

        impl Plain {
            /// All of them, those that say most first.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The name in a mask.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $label),* }
            }

            /// Simplifies `plan`.
            pub fn apply(self, plan: &mut Plan) {
                match self { $(Self::$name => { let $plan = plan; $simplify; })* }
            }
        }
    };
}

plain! {
    /// No device faults.
    Trouble: "trouble" => |plan| plan.trouble = Trouble::None;
    /// One request at a time.
    Depth: "depth" => |plan| plan.depth = 1;
    /// Operations end in the order in which they were sent.
    Order: "order" => |plan| plan.device.reorder = false;
    /// Nothing is filled or worn before the first life.
    Fill: "fill" => |plan| { plan.fill = false; plan.wear = 0 };
    /// One outcome of each power cut.
    Outcomes: "outcomes" => |plan| plan.outcomes = 0;
    /// CRC-32C.
    Csum: "csum" => |plan| plan.csum = CsumKind::Crc32c;
    /// Everything done by the issuer.
    Policy: "policy" => |plan| plan.policy = Policy {
        submit: SubmitPolicy::Auto,
        complete: CompletePolicy::Issuer,
        bio_max_bytes: None,
        crc: CrcCode::Fast,
    };
    /// A device with a volatile cache and native FUA.
    Cache: "cache" => |plan| {
        plan.device.write_cache = true;
        plan.device.fua = Fua::Native;
    };
    /// Discards do nothing.
    Discards: "discards" => |plan| plan.device.discard = DiscardMode::Ignored;
    /// An ordinary device.
    Nature: "nature" => |plan| { plan.cheap_reads = false; plan.works_beside = false };
}

/// See the module. The default plays everything.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Mask {
    /// The lives that are played, if not all.
    pub lives: Option<BTreeSet<u64>>,
    /// The turns that are played of a life, if not all.
    pub turns: BTreeMap<u64, BTreeSet<u64>>,
    /// What is made plain.
    pub plain: BTreeSet<Plain>,
}

impl Mask {
    /// Whether a life is played.
    pub fn has_life(&self, life: u64) -> bool {
        self.lives.as_ref().is_none_or(|lives| lives.contains(&life))
    }

    /// Whether a turn of a life is played.
    pub fn has_turn(&self, life: u64, turn: u64) -> bool {
        self.turns.get(&life).is_none_or(|turns| turns.contains(&turn))
    }

    /// True when it plays everything.
    pub fn is_all(&self) -> bool {
        *self == Self::default()
    }
}

fn write_set(f: &mut fmt::Formatter<'_>, set: &BTreeSet<u64>) -> fmt::Result {
    let mut numbers = set.iter().copied().peekable();
    let mut comma = "";
    while let Some(first) = numbers.next() {
        let mut last = first;
        while let Some(next) = numbers.next_if(|next| *next == last + 1) {
            last = next;
        }
        match last == first {
            true => write!(f, "{comma}{first}")?,
            false => write!(f, "{comma}{first}-{last}")?,
        }
        comma = ",";
    }
    Ok(())
}

impl fmt::Display for Mask {
    /// What [`from_str`](FromStr::from_str) reads: `lives=0,4-6;turns@4=3,9;plain=depth,csum`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut between = "";
        if let Some(lives) = &self.lives {
            write!(f, "lives=")?;
            write_set(f, lives)?;
            between = ";";
        }
        for (life, turns) in &self.turns {
            write!(f, "{between}turns@{life}=")?;
            write_set(f, turns)?;
            between = ";";
        }
        if !self.plain.is_empty() {
            let names: Vec<&str> = self.plain.iter().map(|plain| plain.name()).collect();
            write!(f, "{between}plain={}", names.join(","))?;
        }
        Ok(())
    }
}

fn read_set(text: &str) -> Option<BTreeSet<u64>> {
    let mut set = BTreeSet::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
        // No life has as many turns.
        if last > 10_000_000 {
            return None;
        }
        set.extend(first..=last);
    }
    Some(set)
}

impl FromStr for Mask {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut mask = Self::default();
        for part in text.split(';').filter(|part| !part.is_empty()) {
            let wrong = || format!("not part of a mask: {part}");
            let (name, value) = part.split_once('=').ok_or_else(wrong)?;
            if name == "lives" {
                mask.lives = Some(read_set(value).ok_or_else(wrong)?);
            } else if let Some(life) = name.strip_prefix("turns@") {
                let life = life.parse().map_err(|_| wrong())?;
                mask.turns.insert(life, read_set(value).ok_or_else(wrong)?);
            } else if name == "plain" {
                for name in value.split(',') {
                    let found = Plain::ALL.iter().find(|plain| plain.name() == name);
                    mask.plain.insert(*found.ok_or_else(wrong)?);
                }
            } else {
                return Err(wrong());
            }
        }
        Ok(mask)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_is_read_as_it_is_written() {
        let mut mask = Mask { lives: Some([0, 4, 5, 6, 9].into()), ..Mask::default() };
        mask.turns.insert(4, [1, 3, 4].into());
        mask.turns.insert(9, BTreeSet::new());
        mask.plain.extend([Plain::Depth, Plain::Csum]);
        let text = mask.to_string();
        assert_eq!(text, "lives=0,4-6,9;turns@4=1,3-4;turns@9=;plain=depth,csum");
        assert_eq!(text.parse(), Ok(mask));
        assert_eq!("".parse(), Ok(Mask::default()));
        for wrong in
            ["lives", "lives=x", "turns=3", "plain=everything", "lives=0-18446744073709551615"]
        {
            assert!(wrong.parse::<Mask>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn turns_draw_from_generators_of_their_own() {
        let mut seen = BTreeSet::new();
        for (life, turn) in [(0, 0), (0, 1), (1, 0), (1, 1), (0, OPENING), (0, COURSE), (0, END)] {
            assert!(seen.insert(chance(7, life, turn).next_u64()));
            assert_eq!(chance(7, life, turn), chance(7, life, turn));
        }
    }
}
