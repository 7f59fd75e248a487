//! Traces: the marks of requests in order, their sizes, their ends, and that they follow from the seed alone.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests"
)]

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};

use oxblock::device::sim::{Rng, SimConfig, SimDisk};
use oxblock::trace::{
    BioKind, ChromeTrace, Event, FirstSubmission, Kind, Mark, Recent, Span, Stage, StageTimes,
    TraceSink,
};
use oxblock::volume::{create_on, required_size};
use oxblock::{Buf, CreateOptions, ErrorKind, OpenOptions, Request, RequestKind, Volume};

const SIZE: u64 = 32 << 20;

/// A volume on a simulated disk, and what is traced of it.
fn traced<S: TraceSink + 'static>(seed: u64, sink: S) -> (SimDisk, Volume, Arc<Mutex<S>>) {
    traced_of(SIZE, seed, sink)
}

/// The same, of so many bytes.
fn traced_of<S: TraceSink + 'static>(
    size: u64,
    seed: u64,
    sink: S,
) -> (SimDisk, Volume, Arc<Mutex<S>>) {
    let disk = SimDisk::single(SimConfig::new(required_size(size).unwrap(), seed));
    let options = CreateOptions { size: Some(size), ..CreateOptions::default() };
    create_on(&mut disk.queue(), &options, "sim").unwrap();
    let mut volume = Volume::open_on(Box::new(disk.queue()), &OpenOptions::default()).unwrap();
    let sink = Arc::new(Mutex::new(sink));
    volume.set_trace(Some(Box::new(Arc::clone(&sink))));
    (disk, volume, sink)
}

/// Runs requests, all queued at once, to their ends.
fn run(volume: &mut Volume, kinds: impl IntoIterator<Item = RequestKind>) {
    let mut left = 0;
    for kind in kinds {
        // Tags are the caller's: a trace must not need them to differ.
        volume.queue(Request { tag: 7, kind });
        left += 1;
    }
    let mut done = Vec::new();
    for _ in 0..100_000 {
        volume.submit();
        volume.poll(&mut done);
        for completion in done.drain(..) {
            assert_eq!(completion.tag, 7);
            completion.result.unwrap();
            left -= 1;
        }
        if left == 0 {
            return;
        }
        volume.wait(None);
    }
    panic!("requests never completed");
}

fn write(offset: u64, len: usize) -> RequestKind {
    RequestKind::Write { offset, buf: Buf::copy_of(&vec![5; len]), fua: false }
}

fn read(offset: u64, len: usize) -> RequestKind {
    RequestKind::Read { offset, buf: Buf::new(len) }
}

fn events(sink: &Mutex<Recent>) -> Vec<Event> {
    sink.lock().unwrap().events().copied().collect()
}

/// The marks of one part of a request, as names.
fn marks(events: &[Event], id: u64, part: u32) -> Vec<(Mark, &'static str, u64)> {
    events
        .iter()
        .filter(|event| matches!(event.span, Span::Request(_) | Span::Stage(..)))
        .filter(|event| event.id == id && event.part == part)
        .map(|event| (event.mark, event.span.name(), event.bytes))
        .collect()
}

/// The marks of a request that passes `stages`, each with so many bytes.
fn passes(bytes: u64, stages: &[&'static str]) -> Vec<(Mark, &'static str, u64)> {
    let mut marks = vec![(Mark::Begin, "total", bytes)];
    for stage in stages {
        marks.extend([(Mark::Begin, *stage, bytes), (Mark::End, *stage, bytes)]);
    }
    marks.push((Mark::End, "total", bytes));
    marks
}

/// Every begin has its end, of the same size where it is a request's, and time does not go back within a part.
fn assert_closed(events: &[Event]) {
    let mut open = BTreeMap::new();
    let mut last = BTreeMap::new();
    for event in events {
        let key = (event.span, event.id, event.part);
        match event.mark {
            Mark::Begin => {
                assert_eq!(event.began, event.at);
                assert!(open.insert(key, *event).is_none(), "{event:?} begins twice");
            }
            Mark::End => {
                let begin = open.remove(&key).unwrap_or_else(|| panic!("{event:?} never began"));
                assert_eq!(event.began, begin.at);
                assert!(event.at >= begin.at);
                if matches!(event.span, Span::Request(_) | Span::Stage(..) | Span::Bio(_)) {
                    assert_eq!(event.bytes, begin.bytes);
                }
            }
        }
        if matches!(event.span, Span::Request(_) | Span::Stage(..)) {
            let before = last.insert((event.id, event.part), event.at).unwrap_or(0);
            assert!(event.at >= before, "{event:?} goes back in time");
        }
    }
    assert!(open.is_empty(), "{open:?} never ended");
}

const WRITE: [&str; 7] =
    ["queued", "gathered", "checksummed", "submitted", "device", "retired", "completed"];
const READ: [&str; 6] = ["queued", "looked_up", "submitted", "device", "verified", "completed"];

#[test]
fn requests_pass_their_stages_in_order_with_their_sizes() {
    let (_disk, mut volume, sink) = traced(1, Recent::all());
    run(&mut volume, [write(0, 4096), write(1 << 20, 16384)]);
    run(&mut volume, [read(0, 4096)]);
    run(&mut volume, [read(2 << 20, 8192)]);
    run(&mut volume, [RequestKind::Flush]);
    run(&mut volume, [RequestKind::Discard { offset: 0, len: 4096 }]);
    volume.set_trace(None);
    let events = events(&sink);
    assert_closed(&events);
    assert_eq!(marks(&events, 1, 0), passes(4096, &WRITE));
    assert_eq!(marks(&events, 2, 0), passes(16384, &WRITE));
    assert_eq!(marks(&events, 3, 0), passes(4096, &READ));
    // Nothing was ever written there, so no device is asked.
    assert_eq!(marks(&events, 4, 0), passes(8192, &["queued", "looked_up", "completed"]));
    assert_eq!(marks(&events, 5, 0), passes(0, &["queued", "completed"]));
    assert_eq!(marks(&events, 6, 0), passes(4096, &WRITE));
    let bio = |id| {
        let device = |event: &&Event| event.id == id && event.span.name() == "device";
        let number = events.iter().find(device).unwrap().bio;
        let bio = |event: &&Event| event.id == number && matches!(event.span, Span::Bio(_));
        let bio = events.iter().find(bio).unwrap();
        (bio.span, number, bio.bytes)
    };
    // Both writes left in one record: a block of header and five of payload.
    assert_eq!(bio(1), bio(2));
    assert_eq!((bio(1).0, bio(1).2), (Span::Bio(BioKind::Record), 6 * 4096));
    assert_eq!((bio(3).0, bio(3).2), (Span::Bio(BioKind::Read), 4096));
    assert!(events.iter().any(|event| event.span == Span::Flush));
}

#[test]
fn what_travels_in_pieces_has_parts() {
    let (_disk, mut volume, sink) = traced(2, Recent::all());
    run(&mut volume, [write(0, 3 << 20)]);
    run(&mut volume, [read(0, 3 << 20)]);
    // Both edges are read before it can be written.
    run(&mut volume, [write(1000, 8192)]);
    volume.set_trace(None);
    let events = events(&sink);
    assert_closed(&events);
    for (id, stage) in [(1, Stage::Device), (2, Stage::Device), (3, Stage::Verified)] {
        let shares = events.iter().filter(|event| event.mark == Mark::End && event.id == id);
        let shares = shares.filter(|event| matches!(event.span, Span::Stage(_, at) if at == stage));
        let shares: Vec<u64> = shares.map(|event| event.bytes).collect();
        assert!(shares.len() > 1, "request {id}: {shares:?}");
        let sum = if id == 3 { 2 * 4096 } else { 3 << 20 };
        assert_eq!(shares.iter().sum::<u64>(), sum, "request {id}");
    }
}

/// Random work with everything in it, at depth 8, enough to need checkpoints and cleaning.
fn work(volume: &mut Volume, seed: u64, rounds: u32) {
    let mut rng = Rng::new(seed);
    for _ in 0..rounds {
        let batch: Vec<RequestKind> = (0..8)
            .map(|_| {
                let len = 1 + rng.below(100_000);
                let offset = rng.below(SIZE - len);
                match rng.below(12) {
                    0 => RequestKind::Flush,
                    1 => RequestKind::Discard { offset, len },
                    2 => RequestKind::WriteZeroes { offset, len, fua: true },
                    3..6 => read(offset, usize::try_from(len).unwrap()),
                    6 => write(offset, usize::try_from(len).unwrap()),
                    _ => write(offset / 4096 * 4096, 4096),
                }
            })
            .collect();
        run(volume, batch);
    }
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    let trace = |seed| {
        let (_disk, mut volume, sink) = traced(seed, Recent::all());
        work(&mut volume, seed, 150);
        volume.close().unwrap();
        events(&sink)
    };
    let first = trace(3);
    assert_closed(&first);
    assert!(first == trace(3), "the same seed gave another trace");
    assert!(first != trace(4), "another seed gave the same trace");
}

#[test]
fn checkpoints_and_cleaning_are_spans_of_their_own() {
    let (_disk, mut volume, sink) = traced(5, StageTimes::default());
    let mut rng = Rng::new(5);
    let mut writes = 0;
    while volume.counters().cleaned_segments < 2 {
        let batch: Vec<_> = (0..16).map(|_| write(rng.below(SIZE / 4096) * 4096, 4096)).collect();
        run(&mut volume, batch);
        writes += 16;
        assert!(writes < 100_000, "no segment was ever cleaned");
    }
    let counters = volume.counters();
    volume.set_trace(None);
    let stages = sink.lock().unwrap();
    let count = |span| stages.of(span).map_or(0, |times| times.count);
    let open = counters.checkpoints_begun - counters.checkpoints;
    assert_eq!(count(Span::Checkpoint), counters.checkpoints + open);
    assert!(count(Span::Cleaning) >= 2);
    assert_eq!(count(Span::Request(Kind::Write)), writes);
    for stage in [Stage::Queued, Stage::Device, Stage::Retired, Stage::Completed] {
        assert_eq!(count(Span::Stage(Kind::Write, stage)), writes, "{stage:?}");
    }
    let total = stages.of(Span::Request(Kind::Write)).unwrap();
    assert!(total.min > 0 && total.min <= total.p50 && total.p50 <= total.p999);
}

#[test]
fn nothing_is_recorded_when_it_is_off() {
    let (_disk, mut volume, sink) = traced(6, Recent::all());
    // Taken away in the middle of a request: it ends there, and what is left of it is in nobody's trace.
    volume.queue(Request { tag: 7, kind: write(0, 4096) });
    volume.submit();
    volume.set_trace(None);
    let before = events(&sink);
    assert_closed(&before);
    let later = Arc::new(Mutex::new(Recent::all()));
    volume.set_trace(Some(Box::new(Arc::clone(&later))));
    run(&mut volume, []);
    let mut done = Vec::new();
    while done.is_empty() {
        volume.submit();
        volume.poll(&mut done);
        volume.wait(None);
    }
    volume.set_trace(None);
    run(&mut volume, [write(0, 4096), read(0, 4096), RequestKind::Flush]);
    assert_eq!(events(&sink), before);
    let later = events(&later);
    assert_closed(&later);
    assert!(!later.iter().any(|event| matches!(event.span, Span::Request(_) | Span::Stage(..))));
}

#[test]
fn a_ring_keeps_the_last_marks() {
    let trace = |sink| {
        let (_disk, mut volume, sink) = traced(7, sink);
        run(&mut volume, [write(0, 4096)]);
        volume.set_trace(None);
        (events(&sink), sink.lock().unwrap().dropped())
    };
    let ((all, _), (last, dropped)) = (trace(Recent::all()), trace(Recent::last(3)));
    assert_eq!(last, all[all.len() - 3..]);
    assert_eq!(dropped, all.len() as u64 - 3);
}

#[test]
fn the_delay_before_the_first_submission_shrinks_with_the_limit() {
    let delays = |policy: &str| {
        let (disk, mut volume, _) = traced_of(4 << 30, 8, Recent::last(0));
        run(&mut volume, [write(0, 8 << 20)]);
        volume.close().unwrap();
        let options = OpenOptions { policy: policy.parse().unwrap(), ..OpenOptions::default() };
        let mut volume = Volume::open_on(Box::new(disk.queue()), &options).unwrap();
        // Where a map node must be fetched first, what is known of the bio leaves without waiting for it.
        run(&mut volume, [read(0, 8 << 20)]);
        let first = Arc::new(Mutex::new(FirstSubmission::default()));
        volume.set_trace(Some(Box::new(Arc::clone(&first))));
        run(&mut volume, [read(0, 8 << 20)]);
        volume.set_trace(None);
        let first = first.lock().unwrap();
        assert_eq!(first.delays().len(), 1);
        first.median().unwrap()
    };
    let (whole, limited) = (delays("bio_max_bytes=0"), delays("bio_max_bytes=1M"));
    assert_eq!((whole.kind, whole.bytes), (Kind::Read, 8 << 20));
    assert!(
        limited.bio_bytes <= 1 << 20 && limited.bio_bytes < whole.bio_bytes,
        "{limited:?} {whole:?}"
    );
}

/// A writer whose content can be looked at.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Checks the file as a whole; returns how many spans it has.
fn assert_nests(json: &[u8]) -> usize {
    let events: Vec<serde_json::Value> = serde_json::from_slice(json).unwrap();
    let mut tracks: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut spans = 0;
    for event in &events[1..] {
        let track = format!("{} {}", event["cat"], event["id"]);
        let (name, open) = (event["name"].to_string(), tracks.entry(track).or_default());
        assert!(event["args"]["bytes"].is_u64() && event["ts"].is_f64(), "{event}");
        match event["ph"].as_str() {
            Some("b") => open.push(name),
            Some("e") => assert_eq!(open.pop(), Some(name), "{event} ends out of turn"),
            _ => panic!("{event}"),
        }
        spans += usize::from(event["ph"] == "e");
    }
    assert!(tracks.values().all(Vec::is_empty), "a span never ends");
    spans
}

#[test]
fn chrome_json_parses_and_nests_also_when_the_run_ends_early() {
    let out = Shared::default();
    let (_disk, mut volume, sink) =
        traced(9, ChromeTrace::to_writer(Path::new("trace.json"), out.clone()));
    work(&mut volume, 9, 40);
    // The volume is dropped with a request in flight, as after an error.
    volume.queue(Request { tag: 7, kind: write(0, 3 << 20) });
    volume.submit();
    drop(volume);
    drop(sink);
    assert!(assert_nests(&out.0.lock().unwrap()) > 1000);
}

#[test]
fn several_volumes_in_one_file_are_processes_with_tracks_of_their_own() {
    let out = Shared::default();
    let sink = ChromeTrace::to_writer(Path::new("trace.json"), out.clone());
    let (_disk, mut volume, sink) = traced(11, sink);
    volume.set_trace(None);
    let names = ["one, 4k", "two \"quoted\" \\\n"];
    for (seed, name) in names.into_iter().enumerate() {
        let (_disk, mut volume, _) = traced(seed as u64, Recent::last(0));
        sink.lock().unwrap().begin_process(name);
        volume.set_trace(Some(Box::new(Arc::clone(&sink))));
        run(&mut volume, [write(0, 3 << 20)]);
        volume.set_trace(None);
    }
    sink.lock().unwrap().finish().unwrap();
    let whole = out.0.lock().unwrap().clone();
    sink.lock().unwrap().begin_process("after the end");
    assert_eq!(whole, *out.0.lock().unwrap());
    let events: Vec<serde_json::Value> = serde_json::from_slice(&whole).unwrap();
    let (named, marks): (Vec<_>, Vec<_>) = events.iter().partition(|event| event["ph"] == "M");
    for (index, (named, name)) in named.iter().zip(names).enumerate() {
        assert_eq!(
            (&named["name"], &named["args"]["name"]),
            (&"process_name".into(), &name.into())
        );
        assert_eq!(named["pid"], index + 1);
        let of_it = || marks.iter().filter(|event| event["pid"] == named["pid"]);
        // Times begin anew, and so do numbers: the process in front of them keeps the tracks apart.
        assert_eq!(of_it().next().unwrap()["ts"], 0.0);
        let ids: Vec<&str> = of_it().map(|event| event["id"].as_str().unwrap()).collect();
        let first = format!("{}:1", index + 1);
        assert!(ids.contains(&&*first) && ids.contains(&&*format!("{first}.1")), "{ids:?}");
        assert!(ids.iter().all(|id| id.starts_with(&format!("{}:", index + 1))), "{ids:?}");
    }
    assert_eq!(named.len(), names.len());
    assert!(assert_nests(&serde_json::to_vec(&[vec![named[0]], marks].concat()).unwrap()) > 20);
}

#[test]
fn one_volume_is_one_process_also_when_nothing_is_traced() {
    let out = Shared::default();
    ChromeTrace::to_writer(Path::new("trace.json"), out.clone()).finish().unwrap();
    let events: Vec<serde_json::Value> = serde_json::from_slice(&out.0.lock().unwrap()).unwrap();
    assert_eq!(events.len(), 1);
    assert_eq!((&events[0]["pid"], &events[0]["args"]["name"]), (&1.into(), &"oxblock".into()));
}

#[test]
fn an_error_of_the_file_is_told_once_with_its_name() {
    struct Full;
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::Error::from(io::ErrorKind::StorageFull))
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let (_disk, mut volume, sink) =
        traced(10, ChromeTrace::to_writer(Path::new("/full/trace.json"), Full));
    run(&mut volume, [write(0, 4096)]);
    drop(volume);
    let error = sink.lock().unwrap().finish().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoSpace);
    assert!(error.to_string().contains("/full/trace.json"), "{error}");
    sink.lock().unwrap().finish().unwrap();
}
