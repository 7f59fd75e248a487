//! The loop: choose an input, change it, run it, keep it if it is of a new shape.
//!
//! A run of so many inputs is a function of its seed and of the corpus. One of so many seconds does what it can.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, io};

use oxblock::device::sim::Rng;

use crate::mutate;
use crate::shape::{Shape, plain};
use crate::target::Target;
use crate::watch::Watch;

/// The most inputs that are kept.
const POOL: usize = 4096;
/// The most different findings of one run.
const FINDINGS: usize = 20;

/// When a run ends.
#[derive(Debug, Clone, Copy)]
pub enum Until {
    /// After so long.
    Seconds(f64),
    /// After so many inputs.
    Runs(u64),
}

/// Something that must not be.
#[derive(Debug, Clone)]
pub struct Finding {
    /// What happened.
    pub what: String,
    /// The input, as small as it could be made.
    pub input: Vec<u8>,
}

/// What a run did.
#[derive(Debug, Default)]
pub struct Tally {
    /// Inputs that were run.
    pub runs: u64,
    /// Different shapes among them.
    pub shapes: usize,
    /// The most bytes that one of them had allocated.
    pub peak: usize,
    /// How long it took.
    pub taken: Duration,
    /// What was found, each once.
    pub findings: Vec<Finding>,
    /// Inputs that were kept and are not of the corpus, the smallest first.
    pub kept: Vec<Vec<u8>>,
}

/// The folder of committed inputs.
pub fn corpus_of(target: &dyn Target) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target.name())
}

/// The committed inputs, by name.
///
/// # Errors
/// Those of reading them; a folder that does not exist is one.
pub fn corpus(target: &dyn Target) -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(corpus_of(target))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        all.push((name, fs::read(path)?));
    }
    all.sort();
    Ok(all)
}

/// Saves an input and says how to run it again.
pub fn save(target: &dyn Target, input: &[u8], what: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("failures");
    let mut name = Shape::default();
    name.text(what);
    let path = folder.join(format!("{}-{:016x}", target.name(), name.value()));
    let written = fs::create_dir_all(&folder).and_then(|()| fs::write(&path, input));
    println!("FOUND {}: {what}", target.name());
    match written {
        Ok(()) => println!(
            "  replay: cargo run --profile fuzz -p oxblock-fuzz -- replay {} {}",
            target.name(),
            path.display()
        ),
        Err(error) => println!("  cannot save it as {}: {error}", path.display()),
    }
}

/// A watch that saves what breaks a limit in `target`.
pub fn watch(target: &'static dyn Target) -> Watch {
    Watch::new(move |input, what| save(target, input, what))
}

/// Runs one input.
///
/// # Errors
/// What must not be.
pub fn once(watch: &Watch, target: &dyn Target, input: &[u8]) -> (Result<Shape, String>, usize) {
    let run = watch.run(input, target.memory(), || target.run(input));
    let result = match run.result {
        Ok(Ok(shape)) => Ok(shape),
        Ok(Err(what)) => Err(what),
        Err(panic) => Err(format!("panic: {panic}")),
    };
    (result, run.peak)
}

/// Makes a failing input smaller while it fails in the same way.
fn shrink(watch: &Watch, target: &dyn Target, input: Vec<u8>, what: &str) -> Vec<u8> {
    let mut best = input;
    let mut left = 200;
    'again: while left > 0 {
        for smaller in target.smaller(&best) {
            left -= 1;
            let fails =
                once(watch, target, &smaller).0.is_err_and(|other| plain(&other) == plain(what));
            if fails {
                best = smaller;
                continue 'again;
            }
            if left <= 0 {
                break;
            }
        }
        break;
    }
    best
}

/// Fuzzes a target; `tell` is called every few seconds.
pub fn fuzz(
    target: &'static dyn Target,
    seed: u64,
    until: Until,
    mut tell: impl FnMut(&Tally),
) -> Tally {
    let watch = watch(target);
    let mut rng = Rng::new(seed);
    let mut tally = Tally::default();
    let mut shapes: HashSet<u64> = HashSet::new();
    let mut known: HashSet<String> = HashSet::new();
    let mut pool: Vec<Vec<u8>> = target.seeds();
    pool.extend(corpus(target).unwrap_or_default().into_iter().map(|(_, input)| input));
    let given = pool.len();
    let began = Instant::now();
    let mut told = began;
    let mut first = 0;
    loop {
        let over = match until {
            Until::Runs(runs) => tally.runs >= runs,
            Until::Seconds(seconds) => began.elapsed().as_secs_f64() >= seconds,
        };
        if over || known.len() >= FINDINGS {
            break;
        }
        let input = if first < given {
            first += 1;
            pool[first - 1].clone()
        } else {
            // Of what was kept, the newest more often.
            let at = mutate::index(&mut rng, pool.len());
            let at =
                if rng.below(2) == 0 { at.max(mutate::index(&mut rng, pool.len())) } else { at };
            let mut input = pool[at].clone();
            for _ in 0..1 + rng.below(4) {
                target.mutate(&mut rng, &mut input);
            }
            input
        };
        tally.runs += 1;
        let (result, peak) = once(&watch, target, &input);
        tally.peak = tally.peak.max(peak);
        match result {
            Ok(shape) => {
                if shapes.insert(shape.value()) && first >= given && pool.len() < POOL {
                    pool.push(input);
                }
            }
            Err(what) => {
                if known.insert(plain(&what)) {
                    let input = shrink(&watch, target, input, &what);
                    save(target, &input, &what);
                    tally.findings.push(Finding { what, input });
                }
            }
        }
        if told.elapsed() > Duration::from_secs(20) {
            told = Instant::now();
            tally.shapes = shapes.len();
            tally.taken = began.elapsed();
            tell(&tally);
        }
    }
    tally.shapes = shapes.len();
    tally.taken = began.elapsed();
    tally.kept = pool.split_off(given);
    tally.kept.sort_by_key(Vec::len);
    tally
}
