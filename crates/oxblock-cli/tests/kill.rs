//! `kill -9` at random moments: the volume is sound, and everything that was flushed is there.
//!
//! The victim is this test binary itself, started again with a volume in `OXBLOCK_VICTIM`: it runs a verifying job and
//! prints, each time a flush is acknowledged, how many writes are durable. Whatever was printed in full before the end
//! must be there afterwards.

mod common;

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use common::{Random, arg, given, oxblock, seed};
use oxblock::volume::{OpenOptions, Volume};
use oxblock_fio::{Durable, RunOptions, VolumeTarget, parse, run, verify_only};

const VICTIM: &str = "OXBLOCK_VICTIM";

/// Two jobs on halves of the volume, small and large writes, over and over until the end.
const JOB: &str = "[global]\nverify=crc32c\ndo_verify=0\nsize=50%\nloops=10000\n\
    [small]\nrw=randwrite\nbs=4k\niodepth=16\nfsync=20\n\
    [large]\nrw=write\nbs=64k\noffset=50%\niodepth=4\nfsync=7\n";

#[test]
fn victim() {
    let Ok(device) = std::env::var(VICTIM) else { return };
    let volume = Volume::open(&[PathBuf::from(device)], &OpenOptions::default()).unwrap();
    let mut target = VolumeTarget::new(volume);
    let told = |durable: &Durable| {
        let mut stdout = std::io::stdout().lock();
        writeln!(stdout, "\ndurable {} {} .", durable.job, durable.writes).unwrap();
        stdout.flush().unwrap();
    };
    let options = RunOptions { durable: Some(&told), ..RunOptions::default() };
    run(&parse(JOB, "kill").unwrap(), &mut target, &options).unwrap();
}

#[test]
fn what_was_flushed_survives_kill_9() {
    let kills = given("OXBLOCK_KILLS").unwrap_or(6);
    println!("{kills} kills (OXBLOCK_KILLS)");
    let mut random = Random(seed());
    let folder = tempfile::tempdir().unwrap();
    let device = folder.path().join("disk.ox");
    let mut flushed = 0;
    for kill in 0..kills {
        // From time to time a new one: the others go on from where they were killed.
        if kill % 3 == 0 {
            std::fs::remove_file(&device).ok();
            oxblock(["create", arg(&device), "--size", "32M"]).ended(0);
        }
        let mut victim = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "victim", "--nocapture"])
            .env(VICTIM, &device)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(victim.stdout.take().unwrap());
        let pause = Duration::from_micros(random.below(1_500_000));
        let reader = std::thread::spawn(move || {
            let mut durable = [0_u64; 2];
            let mut line = String::new();
            while lines.read_line(&mut line).unwrap_or(0) > 0 {
                let words: Vec<&str> = line.split_whitespace().collect();
                if let ["durable", job, writes, "."] = words.as_slice() {
                    durable[job.parse::<usize>().unwrap()] = writes.parse().unwrap();
                }
                line.clear();
            }
            durable
        });
        std::thread::sleep(pause);
        victim.kill().unwrap();
        victim.wait().unwrap();
        let durable = reader.join().unwrap();
        flushed += durable[0] + durable[1];
        let checked = oxblock(["check", arg(&device), "--json"]);
        assert_eq!(checked.code, 0, "kill {kill} after {pause:?}: {checked:#?}");
        let volume = Volume::open(std::slice::from_ref(&device), &OpenOptions::default()).unwrap();
        let mut target = VolumeTarget::new(volume);
        let file = parse(JOB, "kill").unwrap();
        let report = verify_only(&file, &mut target, &durable).unwrap();
        assert_eq!(report.mismatch_count, 0, "kill {kill} after {pause:?}: {report:#?}");
        // Half of them are killed again before anything is written.
        if kill % 2 == 0 {
            target.into_volume().close().unwrap();
        }
    }
    println!("{flushed} writes were flushed and are there");
}
