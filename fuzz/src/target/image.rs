//! Whole volumes with changes in them. Input: a script (`volume/script.rs`).

use std::sync::OnceLock;

use oxblock::csum::CsumKind;
use oxblock::device::sim::Rng;

use super::{Target, without_a_line};
use crate::mutate;
use crate::shape::Shape;
use crate::spec::{self, Field};
use crate::volume::{Base, Edit, PlaceKind, Script, Seal, State, Trust, Where, exercise};

/// The target.
pub struct Image;

impl Target for Image {
    fn name(&self) -> &'static str {
        "image"
    }

    fn seeds(&self) -> Vec<Vec<u8>> {
        let volumes =
            CsumKind::ALL.into_iter().flat_map(|csum| State::ALL.map(|state| (csum, state)));
        let script = |(csum, state)| {
            // Made here, so that no input is charged for it.
            Base::get(csum, state);
            Script { csum, state, edits: Vec::new() }.to_string().into_bytes()
        };
        volumes.map(script).collect()
    }

    fn mutate(&self, rng: &mut Rng, input: &mut Vec<u8>) {
        let mut script = Script::parse(&String::from_utf8_lossy(input));
        let at = mutate::index(rng, script.edits.len());
        match rng.below(8) {
            0 => script.csum = CsumKind::ALL[mutate::index(rng, 4)],
            1 => script.state = State::ALL[mutate::index(rng, 3)],
            2 if script.edits.len() > 1 => {
                script.edits.remove(at);
            }
            3 if !script.edits.is_empty() => script.edits[at] = edit(rng, script.csum),
            4 => {
                // Nothing made good: the data must be right then.
                let raw = (0..1 + rng.below(3)).map(|_| raw(rng)).collect();
                script.edits = raw;
            }
            _ => script.edits.push(edit(rng, script.csum)),
        }
        if script.edits.len() > 12 {
            script.edits.truncate(4);
        }
        *input = script.to_string().into_bytes();
    }

    fn run(&self, input: &[u8]) -> Result<Shape, String> {
        let script = Script::parse(&String::from_utf8_lossy(input));
        let base = Base::get(script.csum, script.state);
        let disk = base.disk();
        script.apply(base, &disk);
        exercise(base, &disk, if script.is_raw() { Trust::Data } else { Trust::None })
    }

    fn memory(&self) -> usize {
        160 << 20
    }

    fn smoke_runs(&self) -> u64 {
        600
    }

    fn smaller(&self, input: &[u8]) -> Vec<Vec<u8>> {
        without_a_line(input)
    }
}

fn place(rng: &mut Rng) -> Where {
    match rng.below(8) {
        0 | 1 => Where::Super(rng.below(4) == 0),
        2 => Where::Copy(rng.below(4)),
        _ => Where::Place(PlaceKind::ALL[mutate::index(rng, 6)], number_of_place(rng)),
    }
}

fn number_of_place(rng: &mut Rng) -> u64 {
    if rng.below(2) == 0 { rng.below(4) } else { rng.below(2000) }
}

/// A change of which nothing is made good.
fn raw(rng: &mut Rng) -> Edit {
    let to = place(rng);
    match rng.below(8) {
        0 => Edit::Zero(Seal::Raw, to),
        1 => Edit::Noise(Seal::Raw, to, rng.below(100)),
        2 => Edit::Copy(Seal::Raw, to, place(rng)),
        3 => Edit::Set(Seal::Raw, to, mutate::index(rng, 4096), 8, mutate::number(rng)),
        _ => Edit::Flip(Seal::Raw, to, rng.below(4096 * 8)),
    }
}

fn edit(rng: &mut Rng, csum: CsumKind) -> Edit {
    let to = place(rng);
    let seal = match rng.below(8) {
        0 => Seal::Raw,
        1 => Seal::Block,
        _ => Seal::Tree,
    };
    match rng.below(12) {
        0 => Edit::Flip(seal, to, rng.below(4096 * 8)),
        1 => Edit::Copy(seal, to, place(rng)),
        2 => Edit::Zero(seal, to),
        3 => Edit::Noise(seal, to, rng.below(100)),
        kind => {
            let fields = fields_of(to, csum.width() == 16);
            let field = fields.get(mutate::index(rng, fields.len())).copied();
            let field = mutate::part(rng, field.unwrap_or(Field { offset: 0, size: 8 }));
            if kind < 7 {
                let change = rng.below(9).wrapping_sub(4);
                Edit::Add(seal, to, field.offset, field.size, change)
            } else {
                Edit::Set(seal, to, field.offset, field.size, mutate::number(rng))
            }
        }
    }
}

fn fields_of(to: Where, wide: bool) -> &'static [Field] {
    static ENTRIES: OnceLock<Vec<Field>> = OnceLock::new();
    static NODES: [OnceLock<Vec<Field>>; 2] = [const { OnceLock::new() }; 2];
    static HEADERS: [OnceLock<Vec<Field>>; 2] = [const { OnceLock::new() }; 2];
    let pointer = if wide { 32 } else { 16 };
    match to {
        Where::Super(_) | Where::Copy(_) => spec::superblock(),
        Where::Place(PlaceKind::Entries, _) => ENTRIES.get_or_init(spec::entries),
        Where::Place(PlaceKind::Header, _) => {
            HEADERS[usize::from(wide)].get_or_init(|| spec::header(pointer))
        }
        Where::Place(..) => NODES[usize::from(wide)].get_or_init(|| spec::node(pointer)),
    }
}
