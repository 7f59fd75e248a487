//! The job-file language. Input: text.

use oxblock::device::sim::Rng;

use super::{Target, without_a_line};
use crate::mutate;
use crate::shape::Shape;

/// The target.
pub struct JobFile;

/// The most bytes of an input.
const MOST: usize = 64 << 10;

/// Words that mean something, and values at the edge.
const WORDS: &[&str] = &[
    "[global]",
    "[a]",
    "[",
    "]",
    "=",
    ",",
    ":",
    "/",
    "%",
    "-",
    "\"",
    ";",
    "#",
    "${HOME}",
    "${",
    "0x",
    "%o",
    "k",
    "kib",
    "p",
    "0",
    "1",
    "-1",
    "100%",
    "1e9",
    "nan",
    "inf",
    "18446744073709551615",
    "18446744073709551616",
    "4294967296",
    "0-1023",
    "zipf:1.1",
    "pareto:0.9",
    "bssplit=4k/30:8k/70",
    "bsrange=4k-1m",
    "percentile_list=1:99.9",
    "cpus_allowed=0-3",
    "verify=pattern",
    "verify_pattern=0xdeadbeef%o\"abc\"",
    "policy=submit=offload,bio_max_bytes=4M",
    "rw=randrw:8",
    "rate=1m,2m,3m",
    "numjobs=4096",
    "include x",
    "runtime=99999999d",
    "name=x",
];

impl Target for JobFile {
    fn name(&self) -> &'static str {
        "jobfile"
    }

    fn seeds(&self) -> Vec<Vec<u8>> {
        let mut seeds: Vec<Vec<u8>> = [
            include_str!("../../../jobs/submit.fio"),
            include_str!("../../../jobs/complete.fio"),
            include_str!("../../../jobs/split.fio"),
            include_str!("../../../jobs/crc.fio"),
        ]
        .map(|text| text.as_bytes().to_vec())
        .into();
        // Every option that the listing knows, with the listing's own words for its value.
        let listing = oxblock_fio::option_listing();
        let names = listing
            .lines()
            .filter(|line| line.starts_with("  "))
            .filter_map(|line| line.split_whitespace().next());
        let names: Vec<&str> = names.map(|name| name.trim_end_matches(',')).collect();
        seeds.extend(names.chunks(8).map(|names| {
            let lines: String = names.iter().map(|name| format!("{name}=1\n")).collect();
            format!("[global]\nsize=1m\n[job]\n{lines}").into_bytes()
        }));
        seeds.extend(
            WORDS
                .iter()
                .filter(|word| word.contains('='))
                .map(|word| format!("[a]\n{word}\n").into_bytes()),
        );
        seeds
    }

    fn mutate(&self, rng: &mut Rng, input: &mut Vec<u8>) {
        let lines: Vec<&[u8]> = input.split_inclusive(|byte| *byte == b'\n').collect();
        let line = lines.get(mutate::index(rng, lines.len())).copied().unwrap_or_default().to_vec();
        let at = mutate::index(rng, input.len() + 1).min(input.len());
        match rng.below(6) {
            0 => mutate::plain(rng, input, MOST),
            1 => {
                // The same again, many times.
                let times = 1usize << rng.below(13);
                for _ in 0..times.min((MOST - input.len().min(MOST)) / line.len().max(1)) {
                    input.extend_from_slice(&line);
                }
            }
            2 => {
                let end = input
                    .iter()
                    .skip(at)
                    .position(|byte| *byte == b'\n')
                    .map_or(input.len(), |len| at + len);
                input.splice(at..end, WORDS[mutate::index(rng, WORDS.len())].bytes());
            }
            3 => {
                input.splice(at..at, line);
            }
            4 => {
                let number = mutate::number(rng).to_string();
                let end = input
                    .iter()
                    .skip(at)
                    .position(|byte| !byte.is_ascii_digit())
                    .map_or(input.len(), |len| at + len);
                input.splice(at..end, number.bytes());
            }
            _ => {
                input.splice(at..at, WORDS[mutate::index(rng, WORDS.len())].bytes());
            }
        }
        input.truncate(MOST);
    }

    fn run(&self, input: &[u8]) -> Result<Shape, String> {
        let text = String::from_utf8_lossy(input);
        let mut shape = Shape::default();
        match oxblock_fio::parse(&text, "fuzz") {
            Ok(file) => {
                shape.size(file.jobs.len() as u64);
                for job in file.jobs.iter().take(4) {
                    shape.text(job.rw.name());
                    job.given.iter().for_each(|given| shape.text(given.name));
                }
            }
            Err(error) => shape.text(&error.to_string()),
        }
        Ok(shape)
    }

    fn memory(&self) -> usize {
        128 << 20
    }

    fn smoke_runs(&self) -> u64 {
        20_000
    }

    fn smaller(&self, input: &[u8]) -> Vec<Vec<u8>> {
        if input.len() > 4096 { Vec::new() } else { without_a_line(input) }
    }
}
