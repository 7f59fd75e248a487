//! Each option's effect on the I/O that a target sees, on a simulated clock.

use std::cell::RefCell;
use std::collections::HashSet;

use proptest::prelude::*;

use super::*;
use crate::num;
use crate::target::{MemoryTarget, Seen};
use crate::{Report, parse};

const SIZE: u64 = 1 << 20;

fn run_on(target: &mut MemoryTarget, options: &str) -> Report {
    let file = parse(&format!("[j]\n{options}\n"), "t").unwrap();
    run(&file, target, &RunOptions::default()).unwrap()
}

fn stream_of(options: &str) -> (Vec<Seen>, Report) {
    let mut target = MemoryTarget::new(SIZE);
    let report = run_on(&mut target, options);
    (target.seen, report)
}

fn kinds(seen: &[Seen]) -> String {
    seen.iter().map(|io| io.kind).collect()
}

#[test]
fn every_pattern_moves_size_bytes_and_covers_each_block_once() {
    for (rw, expected) in [
        ("read", "r"),
        ("write", "w"),
        ("trim", "t"),
        ("randread", "r"),
        ("randwrite", "w"),
        ("randtrim", "t"),
        ("randrw", "rw"),
    ] {
        let (seen, report) = stream_of(&format!("rw={rw}\niodepth=4"));
        let found: HashSet<char> = seen.iter().map(|io| io.kind).collect();
        assert_eq!(found, expected.chars().collect(), "{rw}");
        let blocks: HashSet<u64> = seen.iter().map(|io| io.offset).collect();
        assert_eq!((seen.len(), blocks.len()), (256, 256), "{rw}");
        assert_eq!(report.jobs[0].stats.bytes(), SIZE);
        let ascending = seen.windows(2).all(|pair| pair[0].offset < pair[1].offset);
        assert_eq!(ascending, !rw.starts_with("rand"), "{rw}");
    }
}

#[test]
fn elapsed_is_to_the_end_of_each_job() {
    let file = parse("[short]\nsize=4k\n[long]\nsize=1m\n", "t").unwrap();
    let report = run(&file, &mut MemoryTarget::new(SIZE), &RunOptions::default()).unwrap();
    assert!(report.jobs[0].elapsed * 10 < report.jobs[1].elapsed, "{report:?}");
}

#[test]
fn times_beyond_the_clock_are_its_end() {
    let (seen, report) = stream_of("rw=read\nsize=64k\nstartdelay=213503d\nruntime=213503d");
    assert_eq!((seen.len(), report.errno()), (16, 0));
    let paced = "rw=read\nsize=8k\nstartdelay=213503d\nruntime=9000\nthinktime=213503d";
    let (seen, report) = stream_of(paced);
    assert_eq!((seen.len(), report.errno()), (1, 0));
}

#[test]
fn trimwrite_writes_what_it_trimmed() {
    for rw in ["trimwrite", "randtrimwrite"] {
        let (seen, _) = stream_of(&format!("rw={rw}\nbs=64k"));
        assert_eq!(kinds(&seen), "tw".repeat(16));
        assert!(seen.chunks(2).all(|pair| pair[0].offset == pair[1].offset));
    }
}

#[test]
fn sequential_mixes_ascend_per_direction() {
    let (seen, report) = stream_of("rw=rw\nrwmixread=75");
    for kind in ['r', 'w'] {
        let mine: Vec<u64> = seen.iter().filter(|io| io.kind == kind).map(|io| io.offset).collect();
        assert!(mine.iter().zip((0..).step_by(4096)).all(|(offset, due)| *offset == due));
    }
    let reads = report.jobs[0].read().ios;
    assert!((170..215).contains(&reads), "{reads} of 256 are reads");
}

#[test]
fn offset_size_io_size_loops_and_clones() {
    let (seen, _) = stream_of("rw=write\noffset=25%\nsize=50%");
    assert_eq!((seen[0].offset, seen.len()), (SIZE / 4, 128));
    let (seen, _) = stream_of("rw=write\nsize=64k\nio_size=160k");
    assert_eq!((seen.len(), seen[16].offset), (40, 0));
    let (seen, _) = stream_of("rw=randread\nsize=64k\nloops=3");
    assert_eq!(seen.len(), 48);
    let pass: Vec<HashSet<u64>> =
        seen.chunks(16).map(|ios| ios.iter().map(|io| io.offset).collect()).collect();
    assert!(pass.iter().all(|offsets| offsets.len() == 16));
    assert_ne!(
        seen[..16].iter().map(|s| s.offset).collect::<Vec<_>>(),
        seen[16..32].iter().map(|s| s.offset).collect::<Vec<_>>()
    );
    let (seen, report) = stream_of("rw=write\nsize=64k\nnumjobs=3\noffset_increment=128k");
    let starts: HashSet<u64> = seen.iter().map(|io| io.offset >> 17).collect();
    assert_eq!((seen.len(), starts.len(), report.jobs.len()), (48, 3, 3));
    let (seen, _) = stream_of("rw=randread\nnumber_ios=7");
    assert_eq!(seen.len(), 7);
}

#[test]
fn block_sizes() {
    let (seen, _) = stream_of("rw=randrw\nbs=4k,8k");
    assert!(
        seen.iter().all(|io| io.len == if io.kind == 'r' { 4096 } else { 8192 } || io.len == 4096)
    );
    assert_eq!(seen.iter().map(|io| io.len).sum::<u64>(), SIZE);
    let (seen, _) = stream_of("rw=randwrite\nbsrange=4k-32k\nnorandommap\nio_size=16m");
    let sizes: HashSet<u64> = seen.iter().map(|io| io.len).collect();
    assert_eq!(sizes, (1..=8).map(|n| n * 4096).collect());
    assert!(seen.iter().all(|io| io.offset + io.len <= SIZE));
    let (seen, _) = stream_of("rw=read\nbssplit=4k/20:16k/80\nio_size=64m");
    let large = seen.iter().filter(|io| io.len == 16384).count() * 100 / seen.len();
    assert!((75..85).contains(&large), "{large} %");
    // Each byte once, although sizes differ.
    let (seen, _) = stream_of("rw=randread\nbssplit=4k/20:12k/80");
    let mut hit = vec![false; 256];
    for io in &seen {
        for block in io.offset / 4096..(io.offset + io.len) / 4096 {
            assert!(!std::mem::replace(&mut hit[num::index(block)], true));
        }
    }
    assert!(hit.iter().all(|hit| *hit));
}

#[test]
fn modifiers_run_on_or_skip() {
    let (seen, _) = stream_of("rw=randread:4\nsize=256k");
    assert!(
        seen.chunks(4).all(|run| run
            .windows(2)
            .all(|p| p[1].offset == p[0].offset + 4096 || p[1].offset == 0))
    );
    let (seen, _) = stream_of("rw=write:12k\nio_size=64k");
    assert!(seen.windows(2).all(|pair| pair[1].offset == pair[0].offset + 16384));
}

#[test]
fn random_sequences_repeat_unless_told_otherwise() {
    let offsets =
        |options: &str| -> Vec<u64> { stream_of(options).0.iter().map(|io| io.offset).collect() };
    assert_eq!(offsets("rw=randread"), offsets("rw=randread"));
    assert_ne!(offsets("rw=randread"), offsets("rw=randread\nrandseed=5"));
    assert_ne!(offsets("rw=randread\nrandrepeat=0"), offsets("rw=randread\nrandrepeat=0"));
    let repeats = offsets("rw=randread\nnorandommap");
    assert!(repeats.iter().collect::<HashSet<_>>().len() < 220);
    let skewed = offsets("rw=randread\nrandom_distribution=zipf:1.5\nio_size=16m");
    assert!(skewed.iter().collect::<HashSet<_>>().len() < 256);
}

#[test]
fn depth_and_batches() {
    let at = |options: &str| {
        let mut target = MemoryTarget::new(SIZE);
        let report = run_on(&mut target, options);
        (target.deepest, target.seen, report)
    };
    let (deepest, seen, _) = at("rw=read\niodepth=8");
    assert_eq!(deepest, 8);
    // By default every I/O is submitted at once.
    assert!(seen.windows(2).all(|pair| pair[0].batch + 1 == pair[1].batch));
    let (deepest, seen, report) = at("rw=read\niodepth=64\niodepth_batch=64\n\
                                 iodepth_batch_complete=64\niodepth_low=64");
    assert_eq!(deepest, 64);
    assert!(seen.iter().zip(0..).all(|(io, n)| io.batch == n / 64));
    assert_eq!(report.jobs[0].stats.submit.classes, [0, 0, 0, 0, 0, 4, 0]);
    assert_eq!(report.jobs[0].stats.depth.classes, [0, 0, 0, 0, 0, 0, 256]);
    let (_, seen, _) = at("rw=read\niodepth=8\niodepth_batch=8\niodepth_low=2\n\
                           iodepth_batch_complete=1");
    // Refilled only when two are left: never fewer than six at a time, but for the last.
    let mut sizes = std::collections::BTreeMap::new();
    seen.iter().for_each(|io| *sizes.entry(io.batch).or_insert(0) += 1);
    assert!(sizes.values().rev().skip(1).all(|size| *size >= 6), "{sizes:?}");
    let (_, _, report) = at("rw=read\niodepth=4\niodepth_batch_complete=0");
    assert_eq!(report.jobs[0].read().ios, 256);
}

#[test]
fn durability() {
    let (seen, _) = stream_of("rw=write\nsize=64k\nsync=1");
    assert_eq!(kinds(&seen), "W".repeat(16));
    let (seen, report) = stream_of("rw=write\nsize=40k\nfsync=4");
    assert_eq!(kinds(&seen), "wwwwfwwwwfww");
    assert_eq!(report.jobs[0].stats.sync.moments.count, 2);
    let (seen, _) = stream_of("rw=write\nsize=40k\nfdatasync=5\nend_fsync=1");
    assert_eq!(kinds(&seen), "wwwwwfwwwwwf");
}

#[test]
fn time() {
    // 1 us a request and a few clock steps around it.
    let (seen, report) = stream_of("rw=randread\ntime_based\nruntime=5ms");
    assert!((4000..5000).contains(&seen.len()), "{}", seen.len());
    assert_eq!(report.jobs[0].read().runtime_ms(), 5);
    let (seen, _) = stream_of("rw=read\nruntime=100us");
    assert!(seen.len() < 101, "stopped early: {}", seen.len());
    let (seen, report) = stream_of("rw=read\ntime_based\nruntime=2ms\nramp_time=3ms");
    assert!(seen.len() > 4000);
    assert!((1700..2000).contains(&report.jobs[0].read().ios), "{}", report.jobs[0].read().ios);
    let (seen, _) = stream_of("rw=read\nsize=4k\nstartdelay=7");
    assert!(seen[0].at >= 7_000_000_000);
}

#[test]
fn rates_and_pauses() {
    let seconds = |options: &str| {
        let (seen, _) = stream_of(options);
        (seen[seen.len() - 1].at as f64 / 1e9, seen)
    };
    let (time, _) = seconds("rw=read\nrate=64k");
    assert!((15.8..16.1).contains(&time), "1 MiB at 64 KiB/s takes 16 s, not {time}");
    let (time, _) = seconds("rw=write\nrate_iops=,32");
    assert!((7.9..8.1).contains(&time), "{time}");
    let (time, seen) = seconds("rw=read\nsize=40k\nthinktime=1s\nthinktime_blocks=2\niodepth=4");
    assert!(time > 4.0 || seen.len() == 10, "{time}");
    let (time, _) = seconds("rw=read\nsize=16k\nthinktime=1s\nthinktime_spin=1ms");
    assert!((2.9..3.1).contains(&time), "{time}");
}

#[test]
fn stonewalls_and_groups() {
    let text =
        "[a]\nrw=write\nsize=64k\n[b]\nrw=read\nsize=64k\n[c]\nstonewall\nrw=trim\nsize=64k\n";
    let mut target = MemoryTarget::new(SIZE);
    let report = run(&parse(text, "t").unwrap(), &mut target, &RunOptions::default()).unwrap();
    let order = kinds(&target.seen);
    assert!(order[..32].contains("rw") && order.ends_with(&"t".repeat(16)), "{order}");
    let groups: Vec<u32> = report.jobs.iter().map(|job| job.group).collect();
    assert_eq!(groups, [0, 0, 1]);
    let text = "[a]\nnumjobs=3\ngroup_reporting\nrw=read\n";
    let report = run(&parse(text, "t").unwrap(), &mut target, &RunOptions::default()).unwrap();
    assert_eq!((report.jobs.len(), report.entries().len()), (3, 1));
    assert_eq!(report.entries()[0].stats.ios(), 768);
}

#[test]
fn verify_reads_back_what_was_written() {
    for check in ["crc32c", "md5", "sha256", "xxhash", "pattern\nverify_pattern=0xdeadbeef%o"] {
        for rw in [
            "write",
            "randwrite",
            "randrw",
            "randwrite\nbssplit=4k/50:12k/50",
            "randwrite\nnorandommap\nloops=3",
            "trimwrite",
            "randwrite\nverify_interval=512",
        ] {
            let (seen, report) = stream_of(&format!("rw={rw}\nverify={check}\niodepth=8"));
            assert_eq!(report.errno(), 0, "{rw} {check}: {:?}", report.jobs[0].mismatches);
            let written: u64 = seen.iter().filter(|io| io.kind == 'w').map(|io| io.len).sum();
            let read: u64 = seen.iter().filter(|io| io.kind == 'r').map(|io| io.len).sum();
            assert!(read > 0 && written > 0 && (read >= written || rw.contains("no")), "{rw}");
        }
    }
    let (seen, _) = stream_of("rw=write\nverify=crc32c\ndo_verify=0");
    assert!(!kinds(&seen).contains('r'));
}

#[test]
fn verify_backlog_interleaves() {
    let (seen, report) = stream_of("rw=write\nsize=64k\nverify=crc32c\nverify_backlog=4");
    assert_eq!(kinds(&seen)[..12], *"wwwwrrrrwwww");
    assert_eq!((kinds(&seen).len(), report.errno()), (32, 0));
}

#[test]
fn verify_catches_a_flipped_byte_later_and_names_it() {
    let mut target = MemoryTarget::new(SIZE);
    let write = "rw=randwrite\nverify=crc32c\niodepth=4";
    assert_eq!(run_on(&mut target, write).mismatch_count(), 0);
    target.data[81_234] ^= 4;
    for read in [
        "rw=read\nverify=crc32c",
        "rw=randread\nverify=crc32c",
        "rw=randwrite\nverify=crc32c\nverify_only",
    ] {
        let report = run_on(&mut target, read);
        assert_eq!((report.errno(), report.mismatch_count()), (84, 1), "{read}");
        assert_eq!(report.jobs[0].mismatches[0].offset, 77_824);
        assert!(report.normal().contains("err=84"));
    }
    let report = run_on(&mut target, "rw=read\nverify=crc32c\nverify_fatal=1\niodepth=1");
    assert_eq!(report.mismatch_count(), 1);
}

#[test]
fn verify_only_after_a_crash_knows_what_must_be_there() {
    let marks = RefCell::new(0);
    let note = |durable: &Durable| *marks.borrow_mut() = durable.writes;
    let text = "[j]\nrw=randwrite\nverify=xxhash\nfsync=32\niodepth=4\nnumber_ios=200\ndo_verify=0";
    let file = parse(text, "t").unwrap();
    let mut target = MemoryTarget::new(SIZE);
    let options = RunOptions { durable: Some(&note), ..RunOptions::default() };
    run(&file, &mut target, &options).unwrap();
    let durable = *marks.borrow();
    assert!((180..=192).contains(&durable), "{durable}");
    let report = verify_only(&file, &mut target, &[durable]).unwrap();
    assert_eq!(report.mismatches, []);
    assert_eq!((report.jobs[0].good, report.jobs[0].blank, report.jobs[0].newest), (200, 56, 200));
    // Losing the last write is allowed, losing the first is not.
    let written: Vec<usize> =
        target.seen.iter().filter(|io| io.kind == 'w').map(|io| num::index(io.offset)).collect();
    target.data[written[199]..written[199] + 4096].fill(0);
    assert_eq!(verify_only(&file, &mut target, &[durable]).unwrap().mismatch_count, 0);
    target.data[written[0]..written[0] + 4096].fill(0);
    let report = verify_only(&file, &mut target, &[durable]).unwrap();
    assert_eq!(report.mismatch_count, 1);
    assert_eq!(report.mismatches[0].reason, verify::Reason::Blank);
    assert_eq!(report.mismatches[0].expected, 1);
}

#[test]
fn overlapping_io_is_held_back() {
    let (seen, report) = stream_of(
        "rw=randwrite\nsize=16k\nio_size=1m\nnorandommap\nserialize_overlap=1\niodepth=4",
    );
    assert_eq!((seen.len(), report.errno()), (256, 0));
    let mut target = MemoryTarget::new(SIZE);
    run_on(
        &mut target,
        "rw=randwrite\nsize=4k\nio_size=64k\nnorandommap\nserialize_overlap=1\niodepth=4",
    );
    assert_eq!(target.deepest, 1);
}

#[test]
fn the_first_error_stops_the_job() {
    let mut target = MemoryTarget::new(SIZE);
    target.fail_writes_from = Some(SIZE / 2);
    let report = run_on(&mut target, "rw=write\nverify=crc32c\nend_fsync=1");
    assert_eq!((report.errno(), target.seen.len()), (5, 129));
    assert!(report.normal().contains("err= 5 (told to fail)"));
}

#[test]
fn what_does_not_fit_the_target_is_refused_by_line() {
    let table = [
        ("bs=1000\nrw=read", 2, "multiples of the target's 512 bytes"),
        ("rw=read\noffset=100", 3, "offset 100 is not a multiple"),
        ("bs=2m\nrw=read", 1, "do not hold one block"),
        ("rw=write\nverify=md5\nnumjobs=2", 3, "writes the same range"),
        ("rw=write\nverify=md5\nverify_interval=3000", 4, "must divide"),
        ("cpus_allowed=1000", 2, "cannot run there"),
        ("bs=1m\niodepth=65536\nnumjobs=4096", 3, "MiB of memory"),
    ];
    for (options, line, expected) in table {
        let mut target = MemoryTarget::new(SIZE);
        target.block_size = 512;
        let file = parse(&format!("[j]\n{options}\n"), "t").unwrap();
        let error = run(&file, &mut target, &RunOptions::default()).unwrap_err();
        assert!(error.message().contains(expected), "{options}: {error}");
        assert_eq!(error.line(), Some(line), "{options}");
    }
    let (_, report) = stream_of("rw=read\nsize=8g\nfilename=/x\nioengine=libaio");
    assert_eq!(report.notes.len(), 1);
    assert_eq!(report.jobs[0].stats.bytes(), SIZE);
}

#[test]
fn buffers() {
    let content = |options: &str| {
        let mut target = MemoryTarget::new(SIZE);
        run_on(&mut target, &format!("rw=write\nsize=64k\n{options}"));
        target.data
    };
    assert!(content("zero_buffers").iter().all(|byte| *byte == 0));
    assert!(content("buffer_pattern=0xab")[..65536].iter().all(|byte| *byte == 0xab));
    let blocks: HashSet<Vec<u8>> = content("").chunks(4096).take(16).map(<[u8]>::to_vec).collect();
    assert_eq!(blocks.len(), 16);
    let blocks: HashSet<Vec<u8>> =
        content("scramble_buffers=0").chunks(4096).take(16).map(<[u8]>::to_vec).collect();
    assert_eq!(blocks.len(), 1);
    let blocks: HashSet<Vec<u8>> =
        content("refill_buffers").chunks(64).take(1024).map(<[u8]>::to_vec).collect();
    assert_eq!(blocks.len(), 1024);
}

#[test]
fn progress_and_stop() {
    let calls = RefCell::new(0);
    let stop = AtomicBool::new(false);
    let tell = |progress: &Progress| {
        *calls.borrow_mut() += 1;
        assert!((0.0..=1.0).contains(&progress.fraction));
        if *calls.borrow() == 3 {
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
        }
    };
    let options = RunOptions {
        progress: Some(&tell),
        progress_interval: 1_000_000,
        stop: Some(&stop),
        ..RunOptions::default()
    };
    let file = parse("[j]\nrw=randread\ntime_based\nruntime=10h\n", "t").unwrap();
    let report = run(&file, &mut MemoryTarget::new(SIZE), &options).unwrap();
    assert!((1000..6000).contains(&report.jobs[0].read().ios));
}

/// Any mixture of options that shape the stream, the depth and the pace.
fn any_options() -> impl Strategy<Value = Vec<&'static str>> {
    let choices: Vec<Vec<&'static str>> = vec![
        vec![
            "rw=read",
            "rw=write",
            "rw=randwrite",
            "rw=randrw",
            "rw=rw",
            "rw=trimwrite",
            "rw=randtrim",
            "rw=randtrimwrite",
            "rw=randread:8",
            "rw=write:8k",
        ],
        vec!["bs=4k", "bs=4k,8k", "bsrange=4k-16k", "bssplit=4k/50:12k/50", "bs=16k"],
        vec!["", "size=50%", "size=100k", "io_size=300k", "offset=25%", "loops=3"],
        vec!["", "iodepth=4", "iodepth=16"],
        vec!["", "iodepth_batch=4", "iodepth_batch=0"],
        vec!["", "iodepth_batch_complete=0", "iodepth_batch_complete=8"],
        vec!["", "iodepth_low=1", "iodepth_low=3"],
        vec!["", "fsync=3", "sync=1", "end_fsync=1"],
        vec![
            "",
            "verify=crc32c",
            "verify=md5\nverify_backlog=5",
            "verify=xxhash\nverify_backlog=9\nverify_backlog_batch=2",
        ],
        vec!["", "norandommap", "random_distribution=zipf", "random_distribution=pareto:0.1"],
        vec!["", "thinktime=10us\nthinktime_blocks=3", "rate_iops=100000", "rate=100m"],
        vec!["", "time_based\nruntime=2ms", "runtime=1ms", "ramp_time=1ms\nruntime=1ms"],
        vec!["", "serialize_overlap=1", "numjobs=2\noffset_increment=50%\nsize=50%"],
    ];
    choices.into_iter().map(proptest::sample::select).collect::<Vec<_>>()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Every job ends, stays in its target, and finds what it wrote.
    #[test]
    fn any_job_ends_well(options in any_options()) {
        let mut target = MemoryTarget::new(SIZE / 2);
        let text = format!("[j]\n{}\n", options.join("\n"));
        let file = parse(&text, "t").unwrap();
        // A refusal is an answer.
        if let Ok(report) = run(&file, &mut target, &RunOptions::default()) {
            let kinds = kinds(&target.seen);
            // Read-only jobs verify what nobody wrote.
            if kinds.contains(['w', 'W']) {
                let first = report.jobs[0].mismatches.first();
                prop_assert_eq!(report.errno(), 0, "{}\n{:?}", text, first);
            }
            prop_assert!(target.seen.iter().all(|io| io.offset.is_multiple_of(4096)));
            let depth = file.jobs[0].depth.max * file.jobs[0].numjobs;
            prop_assert!(target.deepest <= depth as usize);
        }
    }
}

#[test]
fn bytes_are_counted_over_stretches_of_time() {
    let file = parse("[j]\nrw=write\nbs=4k\nsize=256k\nrate=64k\n", "t").unwrap();
    let options = RunOptions { window: 1_000_000_000, ..RunOptions::default() };
    let report = run(&file, &mut MemoryTarget::new(SIZE), &options).unwrap();
    let windows = &report.jobs[0].stats.windows;
    assert_eq!(windows.length(), 1_000_000_000);
    assert!((3..=4).contains(&windows.bytes().len()), "{windows:?}");
    let even = |bytes: &u64| (60 << 10..=72 << 10).contains(bytes);
    assert!(windows.bytes().iter().all(even), "{windows:?}");
    let silent = run(&file, &mut MemoryTarget::new(SIZE), &RunOptions::default()).unwrap();
    assert!(silent.jobs[0].stats.windows.bytes().is_empty());
}
