//! Every job ends exactly once, whoever runs it and whenever the worker sleeps.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::Workers;

/// A worker that squares, and counts what it ran.
fn squares(always: bool) -> (Workers<u64, u64>, Arc<AtomicU64>) {
    let ran = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&ran);
    let workers = Workers::new(always, move |job: u64| {
        count.fetch_add(1, Ordering::Relaxed);
        job * job
    });
    (workers.unwrap(), ran)
}

/// Reaps until nothing is out, taking back what the worker does not take.
fn finish(workers: &mut Workers<u64, u64>, done: &mut Vec<u64>) {
    while workers.out() > 0 {
        workers.reap(done);
        if !workers.spin(Duration::from_millis(1))
            && let Some(job) = workers.take_back()
        {
            done.push(job * job);
        }
    }
}

#[test]
fn every_job_ends_once() {
    let (mut workers, _) = squares(false);
    workers.wake();
    let mut done = Vec::new();
    for job in 0..10_000 {
        workers.offer(job);
        if job % 7 == 0
            && let Some(job) = workers.take_back()
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
    let (mut workers, ran) = squares(false);
    for job in 0..100 {
        workers.offer(job);
    }
    let back: Vec<u64> = std::iter::from_fn(|| workers.take_back()).collect();
    assert_eq!(back, (0..100).collect::<Vec<_>>());
    assert_eq!((workers.out(), ran.load(Ordering::Relaxed)), (0, 0));
}

#[test]
fn a_worker_without_work_goes_to_sleep_and_can_be_woken() {
    let (mut workers, ran) = squares(false);
    for round in 1..=3 {
        workers.wake();
        if !workers.is_awake() {
            eprintln!("skipped: there is one core only, so the worker is never woken");
            return;
        }
        workers.offer(round);
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
fn the_event_tells_of_finished_jobs() {
    let (mut workers, _) = squares(true);
    workers.wake();
    if !workers.is_awake() {
        eprintln!("skipped: there is one core only, so the worker is never woken");
        return;
    }
    workers.offer(3);
    let event = workers.event();
    let mut fds = [rustix::event::PollFd::new(&*event, rustix::event::PollFlags::IN)];
    let limit = rustix::event::Timespec { tv_sec: 10, tv_nsec: 0 };
    assert_eq!(rustix::event::poll(&mut fds, Some(&limit)), Ok(1));
    let mut done = Vec::new();
    while workers.reap(&mut done) == 0 {}
    assert_eq!(done, [9]);
}

#[test]
fn dropping_ends_what_was_offered() {
    let (mut workers, ran) = squares(false);
    workers.wake();
    for job in 0..1000 {
        workers.offer(job);
    }
    let awake = workers.is_awake();
    drop(workers);
    assert_eq!(ran.load(Ordering::Relaxed), if awake { 1000 } else { 0 });
}
