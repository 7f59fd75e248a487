//! Every job ends exactly once, whoever runs it and whenever the worker sleeps.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::{Claim, Workers};

/// A worker that squares, and counts what it ran.
fn squares() -> (Workers<u64, u64>, Arc<AtomicU64>) {
    let ran = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&ran);
    let run = move |job: u64| {
        count.fetch_add(1, Ordering::Relaxed);
        job * job
    };
    (Workers::new(|| (), run), ran)
}

/// Jobs of both sorts in turn.
fn claim(job: u64) -> Claim {
    if job.is_multiple_of(2) { Claim::Worker } else { Claim::Anybody }
}

/// Reaps until nothing is out, taking back what the worker does not take.
fn finish(workers: &mut Workers<u64, u64>, done: &mut Vec<u64>) {
    while workers.out() > 0 {
        workers.reap(done);
        if !workers.spin(Duration::from_millis(1))
            && let Some(job) = workers.reclaim()
        {
            done.push(job * job);
        }
    }
}

#[test]
fn every_job_ends_once() {
    let (mut workers, _) = squares();
    workers.wake();
    let mut done = Vec::new();
    for job in 0..10_000 {
        workers.offer(job, claim(job));
        if job % 7 == 0
            && let Some(job) = workers.reclaim()
        {
            done.push(job * job);
        }
        if job % 1000 == 0 {
            // Long enough for it to fall asleep in between.
            std::thread::sleep(super::SPIN * 2);
            workers.wake();
        }
    }
    finish(&mut workers, &mut done);
    done.sort_unstable();
    assert_eq!(done, (0..10_000).map(|job| job * job).collect::<Vec<_>>());
}

#[test]
fn offers_to_a_sleeping_worker_can_be_taken_back() {
    let (mut workers, ran) = squares();
    for job in 0..100 {
        workers.offer(job, claim(job));
    }
    let back: Vec<u64> = std::iter::from_fn(|| workers.reclaim()).collect();
    assert_eq!(back.len(), 100);
    assert_eq!((workers.out(), ran.load(Ordering::Relaxed)), (0, 0));
}

#[test]
fn a_worker_without_work_goes_to_sleep_and_can_be_woken() {
    let (mut workers, ran) = squares();
    for round in 1..=3 {
        workers.wake();
        if !workers.is_awake() {
            eprintln!("skipped: there is one core only, so the worker is never woken");
            return;
        }
        workers.offer(round, claim(round));
        let mut done = Vec::new();
        while done.is_empty() {
            workers.reap(&mut done);
        }
        while workers.is_awake() {
            std::thread::yield_now();
        }
        assert_eq!(ran.load(Ordering::Relaxed), round);
    }
}

#[test]
fn a_listening_issuer_is_told() {
    let (told, hears) = std::sync::mpsc::channel();
    let tell = move || told.send(()).unwrap_or_default();
    let mut workers = Workers::new(tell, |job: u64| {
        std::thread::sleep(Duration::from_millis(job));
        job
    });
    workers.wake();
    if !workers.is_awake() {
        eprintln!("skipped: there is one core only, so the worker is never woken");
        return;
    }
    workers.offer(20, Claim::Worker);
    assert!(workers.listen(), "it takes a while");
    hears.recv_timeout(Duration::from_secs(10)).unwrap();
    workers.unlisten();
    let mut done = Vec::new();
    assert_eq!((workers.reap(&mut done), done), (1, vec![20]));
}

#[test]
fn what_is_the_workers_is_not_taken_but_reclaimed() {
    let (mut workers, _) = squares();
    workers.offer(1, Claim::Worker);
    workers.offer(2, Claim::Anybody);
    assert_eq!((workers.take(), workers.take()), (Some(2), None));
    assert_eq!((workers.reclaim(), workers.out()), (Some(1), 0));
}

#[test]
fn on_one_core_a_summoned_worker_runs_what_is_handed_over_while_the_issuer_blocks() {
    let all = sched_getaffinity(None).unwrap();
    let first = (0..CpuSet::MAX_CPU).find(|cpu| all.is_set(*cpu)).unwrap();
    let mut one = CpuSet::new();
    one.set(first);
    // This thread's, and that of what it starts.
    sched_setaffinity(None, &one).unwrap();
    let (told, hears) = std::sync::mpsc::channel();
    let tell = move || told.send(()).unwrap_or_default();
    let here = std::thread::current().id();
    let mut workers = Workers::new(tell, move |job: u64| {
        assert_ne!(std::thread::current().id(), here);
        job
    });
    workers.wake();
    assert!(!workers.is_awake() && workers.is_crowded(), "there is no core for it");
    let mut done = Vec::new();
    for round in 0..1000_u64 {
        workers.offer(round, Claim::Worker);
        workers.summon();
        assert!(!workers.spin(Duration::MAX) || workers.has_finished(), "it does not spin");
        while workers.listen() {
            hears.recv_timeout(Duration::from_secs(10)).unwrap();
        }
        workers.unlisten();
        workers.reap(&mut done);
    }
    sched_setaffinity(None, &all).unwrap();
    assert_eq!(done, (0..1000).collect::<Vec<_>>());
}

/// Sleeping and being woken cross each other all the time here, since the worker sleeps after every job although it has a
/// core of its own.
#[test]
fn no_job_is_left_with_a_worker_that_only_seems_awake() {
    let (mut workers, _) = squares();
    workers.shared.crowded.store(true, Ordering::Relaxed);
    // No other look at the cores.
    workers.looked = Some(Instant::now() + Duration::from_secs(3600));
    let mut done = Vec::new();
    for job in 0..200_000 {
        workers.offer(job, Claim::Worker);
        if !workers.is_awake() {
            workers.summon();
        }
        let begin = Instant::now();
        while workers.reap(&mut done) == 0 {
            assert!(begin.elapsed() < Duration::from_secs(10), "job {job} was never run");
            if super::cores() == 1 {
                std::thread::yield_now();
            }
        }
    }
    while workers.is_awake() {
        std::thread::yield_now();
    }
    assert_eq!(workers.shared.places.load(Ordering::Relaxed), 0);
}

#[test]
fn dropping_ends_what_was_offered() {
    let (mut workers, ran) = squares();
    workers.wake();
    // It may have gone to sleep again already; there is a thread, though.
    for job in 0..1000 {
        workers.offer(job, claim(job));
    }
    drop(workers);
    assert_eq!(ran.load(Ordering::Relaxed), if super::cores() > 1 { 1000 } else { 0 });
}
