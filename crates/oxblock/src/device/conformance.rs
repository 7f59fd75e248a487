//! One suite for every implementation of the seam.
//!
//! Each case gets a fresh queue over one device of the size it asks for, filled with zeroes or holes. What may differ
//! between implementations (order of completion, whether there is anything to wait for) is not asked.
#![expect(clippy::cast_possible_truncation, reason = "tests, with small constants")]

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Action, Buf, Bufs, Done, Event, IoQueue, Job, Op, Work};

const BLOCK: usize = 4096;
const MIB: u64 = 1 << 20;

/// Makes a queue over one device of so many bytes.
pub(crate) type Make<'a> = &'a mut dyn FnMut(u64) -> Box<dyn IoQueue>;

/// Runs every case against fresh queues.
pub(crate) fn suite(make: Make<'_>) {
    what_is_written_is_read(&mut *make(4 * MIB));
    gathers_and_scatters_of_any_count(&mut *make(32 * MIB));
    more_in_flight_than_any_ring_holds(&mut *make(32 * MIB));
    every_buffer_comes_back_itself(&mut *make(4 * MIB));
    nothing_reaches_beyond_the_end(&mut *make(MIB));
    unknown_devices_and_empty_operations_end(&mut *make(MIB));
    flushes_and_durable_writes_end(&mut *make(4 * MIB));
    a_discard_ends_and_the_range_can_be_written(&mut *make(4 * MIB));
    waits_end(&mut *make(4 * MIB));
    a_waiter_wakes_another_thread(&mut *make(4 * MIB));
    a_watched_descriptor_ends_a_wait(&mut *make(4 * MIB));
    operations_end_a_wait_that_watches(&mut *make(32 * MIB));
    a_wait_that_watches_sleeps_through_a_job(&mut *make(4 * MIB));
    jobs_end_once_and_done(&mut *make(4 * MIB));
    a_waiter_wakes_for_jobs(&mut *make(4 * MIB));
    a_queue_dropped_in_flight_is_harmless(make);
}

/// A block that tells where it belongs.
fn pattern(seed: u64, len: usize) -> Buf {
    let mut buf = Buf::new(len);
    for (index, word) in buf.chunks_exact_mut(8).enumerate() {
        let mixed = (seed << 32 | index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        word.copy_from_slice(&mixed.to_le_bytes());
    }
    buf
}

fn write(tag: u64, offset: u64, bufs: impl IntoIterator<Item = Buf>) -> Op {
    let bufs = bufs.into_iter().collect();
    Op { tag, device: 0, offset, action: Action::Write { bufs, durable: false } }
}

fn read(tag: u64, offset: u64, lens: impl IntoIterator<Item = usize>) -> Op {
    let bufs = lens.into_iter().map(Buf::new).collect();
    Op { tag, device: 0, offset, action: Action::Read(bufs) }
}

/// Drives the queue until nothing is in flight; every tag must come back exactly once.
fn drain(queue: &mut dyn IoQueue) -> HashMap<u64, Done> {
    let mut found = HashMap::new();
    let mut done = Vec::new();
    let began = Instant::now();
    queue.submit();
    while queue.in_flight() > 0 {
        assert!(began.elapsed() < Duration::from_secs(60), "the queue is stuck");
        queue.wait(Some(Duration::from_secs(5)));
        let before = done.len();
        let count = queue.reap(&mut done);
        assert_eq!(count, done.len() - before, "reap miscounts");
        for one in done.drain(..) {
            let tag = one.tag;
            assert!(found.insert(tag, one).is_none(), "tag {tag} came back twice");
        }
    }
    assert_eq!(queue.reap(&mut done), 0);
    found
}

fn one(queue: &mut dyn IoQueue, op: Op) -> Done {
    let tag = op.tag;
    queue.push(op);
    let mut found = drain(queue);
    assert_eq!(found.len(), 1);
    found.remove(&tag).expect("another tag came back")
}

fn read_back(queue: &mut dyn IoQueue, offset: u64, len: usize) -> Buf {
    let mut done = one(queue, read(u64::MAX, offset, [len]));
    done.result.unwrap();
    assert_eq!(done.bufs.len(), 1);
    done.bufs.pop().unwrap()
}

fn what_is_written_is_read(queue: &mut dyn IoQueue) {
    assert_eq!(queue.limits().len(), 1);
    assert_eq!(queue.limits()[0].size, 4 * MIB);
    assert!(!queue.describe().is_empty());
    for (tag, len) in [BLOCK, 8 * BLOCK, MIB as usize].into_iter().enumerate() {
        let offset = tag as u64 * MIB;
        let data = pattern(offset + 1, len);
        let copy = Buf::copy_of(&data);
        let done = one(queue, write(tag as u64, offset, [data]));
        done.result.unwrap();
        assert!(*done.bufs[0] == *copy, "a write changed its buffer");
        assert!(*read_back(queue, offset, len) == *copy, "{len} bytes at {offset} differ");
    }
    // The last block of the device, and one never written.
    let data = pattern(5, BLOCK);
    let copy = Buf::copy_of(&data);
    one(queue, write(9, 4 * MIB - 4096, [data])).result.unwrap();
    assert!(*read_back(queue, 4 * MIB - 4096, BLOCK) == *copy);
    assert!(read_back(queue, 3 * MIB + MIB / 2, BLOCK).iter().all(|byte| *byte == 0));
}

fn gathers_and_scatters_of_any_count(queue: &mut dyn IoQueue) {
    for (tag, count) in [1usize, 2, 17, 300, 2000].into_iter().enumerate() {
        let tag = tag as u64;
        let offset = tag * 8192;
        let whole = pattern(tag + 77, count * BLOCK);
        let parts: Vec<Buf> = whole.chunks(BLOCK).map(Buf::copy_of).collect();
        let done = one(queue, write(tag, offset, parts));
        done.result.unwrap();
        assert_eq!(done.bufs.len(), count);
        for (part, expected) in done.bufs.iter().zip(whole.chunks(BLOCK)) {
            assert!(**part == *expected, "a gathered write changed its buffers");
        }
        assert!(*read_back(queue, offset, count * BLOCK) == *whole, "gather of {count} differs");
        let done = one(queue, read(tag, offset, vec![BLOCK; count]));
        done.result.unwrap();
        assert_eq!(done.bufs.len(), count);
        for (part, expected) in done.bufs.iter().zip(whole.chunks(BLOCK)) {
            assert!(**part == *expected, "scatter of {count} differs");
        }
        // Parts of different sizes.
        let lens = [BLOCK, 3 * BLOCK, 2 * BLOCK];
        if count >= 6 {
            let done = one(queue, read(tag, offset, lens));
            done.result.unwrap();
            let joined: Vec<u8> = done.bufs.iter().flat_map(|buf| buf.to_vec()).collect();
            assert!(joined == whole[..6 * BLOCK]);
        }
    }
}

fn more_in_flight_than_any_ring_holds(queue: &mut dyn IoQueue) {
    const COUNT: u64 = 5000;
    // Visits every block once, far from in order.
    let place = |index: u64| index * 1237 % COUNT * 4096;
    for index in 0..COUNT {
        queue.push(write(index << 20, place(index), [pattern(index, BLOCK)]));
        if index % 700 == 0 {
            queue.submit();
        }
        assert_eq!(queue.in_flight(), usize::try_from(index + 1).unwrap());
    }
    let found = drain(queue);
    assert_eq!(found.len(), COUNT as usize);
    for (tag, done) in found {
        assert_eq!(tag & 0xf_ffff, 0);
        done.result.unwrap();
    }
    for index in 0..COUNT {
        queue.push(read(index, place(index), [BLOCK]));
    }
    let found = drain(queue);
    for index in 0..COUNT {
        let done = &found[&index];
        assert!(done.result.is_ok());
        assert!(*done.bufs[0] == *pattern(index, BLOCK), "block {index} differs");
    }
}

fn every_buffer_comes_back_itself(queue: &mut dyn IoQueue) {
    let addresses = |bufs: &Bufs| -> Vec<(usize, usize)> {
        bufs.iter().map(|buf| (buf.as_ptr().addr(), buf.len())).collect()
    };
    let mut sent = HashMap::new();
    for tag in 0..40u64 {
        let lens = vec![BLOCK; 1 + tag as usize % 3];
        let mut op = read(tag, tag * 16384, lens);
        if tag % 2 == 0 {
            let Action::Read(bufs) = op.action else { unreachable!() };
            op.action = Action::Write { bufs, durable: tag % 4 == 0 };
        }
        let (Action::Read(bufs) | Action::Write { bufs, .. }) = &op.action else { unreachable!() };
        sent.insert(tag, addresses(bufs));
        queue.push(op);
    }
    for (tag, done) in drain(queue) {
        done.result.unwrap();
        assert_eq!(sent[&tag], addresses(&done.bufs), "other buffers came back");
    }
}

fn nothing_reaches_beyond_the_end(queue: &mut dyn IoQueue) {
    for (offset, lens) in
        [(MIB, vec![BLOCK]), (MIB - 4096, vec![2 * BLOCK]), (MIB - 4096, vec![BLOCK; 3])]
    {
        let count = lens.len();
        let done = one(queue, read(1, offset, lens));
        assert_eq!(done.result.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!(done.bufs.len(), count, "the buffers come back after an error too");
        let data = (0..count.max(2)).map(|_| Buf::new(BLOCK));
        let done = one(queue, write(2, offset, data));
        assert!(done.result.is_err());
        assert_eq!(done.bufs.len(), count.max(2));
    }
    let done = one(queue, read(3, u64::MAX - 4095, [BLOCK]));
    assert!(done.result.is_err());
    // It did not grow, and works on.
    assert_eq!(queue.limits()[0].size, MIB);
    assert!(one(queue, read(4, MIB, [BLOCK])).result.is_err());
    assert!(one(queue, read(5, MIB - 4096, [BLOCK])).result.is_ok());
}

fn unknown_devices_and_empty_operations_end(queue: &mut dyn IoQueue) {
    let mut op = read(1, 0, [BLOCK]);
    op.device = 7;
    let done = one(queue, op);
    assert!(done.result.is_err());
    assert_eq!(done.bufs.len(), 1);
    assert!(one(queue, read(2, 0, [])).result.is_ok());
    assert!(one(queue, write(3, 4096, [])).result.is_ok());
}

fn flushes_and_durable_writes_end(queue: &mut dyn IoQueue) {
    for tag in 0..8 {
        let bufs = (0..=tag).map(|part| pattern(tag * 100 + part, BLOCK)).collect();
        let action = Action::Write { bufs, durable: true };
        queue.push(Op { tag, device: 0, offset: tag * 65536, action });
        queue.push(Op { tag: tag + 100, device: 0, offset: 0, action: Action::Flush });
    }
    let found = drain(queue);
    assert_eq!(found.len(), 16);
    for (tag, done) in found {
        done.result.unwrap();
        assert_eq!(done.bufs.is_empty(), tag >= 100);
    }
    for tag in 0..8 {
        for part in 0..=tag {
            let got = read_back(queue, tag * 65536 + part * 4096, BLOCK);
            assert!(*got == *pattern(tag * 100 + part, BLOCK));
        }
    }
}

fn a_discard_ends_and_the_range_can_be_written(queue: &mut dyn IoQueue) {
    one(queue, write(1, 0, [pattern(1, MIB as usize)])).result.unwrap();
    let action = Action::Discard { len: MIB / 2 };
    let done = one(queue, Op { tag: 2, device: 0, offset: 65536, action });
    done.result.unwrap();
    assert!(done.bufs.is_empty());
    // The range reads without an error, its neighbours as before.
    assert_eq!(read_back(queue, 65536, BLOCK).len(), BLOCK);
    let whole = pattern(1, MIB as usize);
    assert!(*read_back(queue, 0, 65536) == whole[..65536]);
    let after = 65536 + MIB / 2;
    assert!(*read_back(queue, after, BLOCK) == whole[after as usize..][..BLOCK]);
    one(queue, write(3, 65536, [pattern(3, BLOCK)])).result.unwrap();
    assert!(*read_back(queue, 65536, BLOCK) == *pattern(3, BLOCK));
    let action = Action::Discard { len: 0 };
    one(queue, Op { tag: 4, device: 0, offset: 0, action }).result.unwrap();
}

fn waits_end(queue: &mut dyn IoQueue) {
    let began = Instant::now();
    let clock = queue.now();
    // Nothing in flight: no reason to wait, with or without a limit.
    queue.wait(None);
    queue.wait(Some(Duration::from_secs(30)));
    assert!(began.elapsed() < Duration::from_secs(10));
    assert!(queue.now() >= clock, "the clock ran backwards");
    for tag in 0..32 {
        queue.push(write(tag, tag * 4096, [pattern(tag, BLOCK)]));
    }
    assert_eq!(queue.in_flight(), 32);
    queue.submit();
    let mut done = Vec::new();
    let mut left = 32;
    while left > 0 {
        assert!(began.elapsed() < Duration::from_secs(30), "the queue is stuck");
        queue.wait(Some(Duration::ZERO));
        left -= queue.reap(&mut done);
        assert_eq!(queue.in_flight(), left);
        queue.wait(Some(Duration::from_micros(50)));
    }
    // Finished but not reaped: there is something to reap, so waiting ends at once.
    queue.push(read(1, 0, [BLOCK]));
    queue.submit();
    queue.wait(None);
    queue.wait(None);
    assert_eq!(queue.reap(&mut done), 1);
}

fn a_waiter_wakes_another_thread(queue: &mut dyn IoQueue) {
    let mut done = Vec::new();
    for round in 0..20 {
        let Some(waiter) = queue.waiter() else { return };
        let wait = || {
            let waiter = waiter.clone();
            std::thread::spawn(move || {
                let began = Instant::now();
                waiter.wait(Some(Duration::from_secs(20)));
                began.elapsed()
            })
        };
        let mut thread = wait();
        if round % 2 == 0 {
            std::thread::sleep(Duration::from_millis(2));
        }
        queue.push(write(round, round * 4096, [pattern(round, BLOCK)]));
        queue.push(Op { tag: round + 100, device: 0, offset: 0, action: Action::Flush });
        queue.submit();
        // What ended inside `submit` is not the waiter's business.
        let mut reaped = queue.reap(&mut done);
        for spurious in 0.. {
            if reaped > 0 && queue.in_flight() == 0 {
                break;
            }
            assert!(spurious < 10, "the waiter keeps waking for nothing");
            // This thread neither reaps nor waits meanwhile: only the waiter can notice.
            let waited = thread.join().unwrap();
            assert!(waited < Duration::from_secs(10), "the waiter slept through a completion");
            let more = queue.reap(&mut done);
            reaped += more;
            if more > 0 {
                break;
            }
            thread = wait();
        }
        drain(queue);
    }
}

fn a_watched_descriptor_ends_a_wait(queue: &mut dyn IoQueue) {
    let events = [Event::new().unwrap(), Event::new().unwrap()];
    for event in &events {
        if queue.watch(Arc::clone(event.descriptor())).is_err() {
            return;
        }
    }
    // With nothing in flight it waits, other than `wait`.
    let began = Instant::now();
    queue.wait_watching(Some(Duration::from_millis(20)));
    assert!(began.elapsed() >= Duration::from_millis(15), "it did not wait");
    let mut done = Vec::new();
    for round in 0..200_u64 {
        let event = &events[round as usize % 2];
        // With something in flight, or not; signalled before, or meanwhile.
        if round % 4 < 2 {
            queue.push(write(round, round * 4096, [pattern(round, BLOCK)]));
            queue.submit();
        }
        let signal = event.clone();
        let thread = (round % 16 == 7).then(|| {
            std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(1));
                signal.signal();
            })
        });
        if thread.is_none() {
            event.signal();
        }
        // Whatever ends first, both are seen.
        let began = Instant::now();
        let mut left = usize::from(round % 4 < 2);
        while left > 0 || !event.is_signalled() {
            queue.wait_watching(Some(Duration::from_secs(20)));
            left -= queue.reap(&mut done);
            assert!(began.elapsed() < Duration::from_secs(10), "round {round} slept through it");
        }
        // Nobody has cleared it: the next wait ends at once too.
        queue.wait_watching(Some(Duration::from_secs(20)));
        event.clear();
        assert!(began.elapsed() < Duration::from_secs(10), "round {round} slept through it");
        if let Some(thread) = thread {
            thread.join().unwrap();
        }
    }
}

fn operations_end_a_wait_that_watches(queue: &mut dyn IoQueue) {
    let event = Event::new().unwrap();
    if queue.watch(Arc::clone(event.descriptor())).is_err() {
        return;
    }
    let mut done = Vec::new();
    let began = Instant::now();
    for round in 0..300_u64 {
        // Depths from one to more than the ring takes at once, and now and then a job.
        let depth = if round % 100 == 99 { 2500 } else { 1 + round % 20 };
        for tag in 0..depth {
            queue.push(write(tag, tag * 4096, [pattern(tag, BLOCK)]));
        }
        let jobs = u64::from(round % 7 == 0);
        if jobs > 0 {
            queue.run(sum_job(1 << 40, 2_000, round % 2 == 0));
        }
        queue.submit();
        let mut left = usize::try_from(depth + jobs).unwrap();
        while left > 0 {
            left -= queue.reap(&mut done);
            if left > 0 {
                queue.wait_watching(Some(Duration::from_secs(20)));
            }
            assert!(began.elapsed() < Duration::from_secs(60), "it slept through a completion");
        }
        assert!(done.drain(..).all(|done| done.result.is_ok()));
    }
}

fn a_wait_that_watches_sleeps_through_a_job(queue: &mut dyn IoQueue) {
    let event = Event::new().unwrap();
    if queue.watch(Arc::clone(event.descriptor())).is_err() {
        return;
    }
    let mut done = Vec::new();
    for round in 0..4 {
        // What an operation has left behind must not keep the wait awake.
        queue.push(write(round, 0, [pattern(round, BLOCK)]));
        queue.submit();
        while queue.reap(&mut done) == 0 {
            queue.wait_watching(Some(Duration::from_secs(20)));
        }
        queue.run(sum_job(100, 500_000, true));
        let mut waits = 0;
        while queue.reap(&mut done) == 0 {
            queue.wait_watching(Some(Duration::from_secs(20)));
            waits += 1;
        }
        assert!(waits < 50, "round {round}: {waits} waits for one job");
    }
}

/// A job that works for a while and then adds up.
struct Sum {
    numbers: Vec<u64>,
    rounds: u64,
    sum: u64,
}

impl Work for Sum {
    fn run(&mut self) {
        for _ in 0..self.rounds {
            self.sum = std::hint::black_box(self.numbers.iter().sum());
        }
    }
}

fn sum_job(tag: u64, rounds: u64, handed_over: bool) -> Job {
    let work = Box::new(Sum { numbers: vec![tag; 100], rounds, sum: 0 });
    Job { tag, work, cost: rounds * 30, handed_over }
}

/// Light and heavy jobs, handed over and not, among operations.
fn jobs_end_once_and_done(queue: &mut dyn IoQueue) {
    for tag in 0..200_u64 {
        let rounds = if tag.is_multiple_of(7) { 5000 } else { 1 };
        queue.run(sum_job(tag, rounds, tag.is_multiple_of(3)));
        if tag.is_multiple_of(5) {
            queue.push(write(1000 + tag, tag * 4096, [pattern(tag, BLOCK)]));
        }
        if tag.is_multiple_of(11) {
            queue.submit();
        }
    }
    let found = drain(queue);
    assert_eq!(found.len(), 240);
    for (tag, done) in found {
        assert!(done.result.is_ok());
        let Some(work) = done.work else {
            assert!(tag >= 1000, "job {tag} lost its work");
            continue;
        };
        let work: Box<dyn std::any::Any> = work;
        assert_eq!(work.downcast::<Sum>().unwrap().sum, tag * 100);
    }
}

/// A waiter that is used without the queue wakes when a job ends, like for an operation.
fn a_waiter_wakes_for_jobs(queue: &mut dyn IoQueue) {
    let Some(waiter) = queue.waiter() else { return };
    queue.run(sum_job(1, 20_000, true));
    queue.submit();
    let mut done = Vec::new();
    let began = Instant::now();
    while queue.reap(&mut done) == 0 {
        waiter.wait(Some(Duration::from_secs(5)));
        assert!(
            began.elapsed() < Duration::from_secs(4),
            "the waiter slept through the end of a job"
        );
    }
}

fn a_queue_dropped_in_flight_is_harmless(make: Make<'_>) {
    for submit in [true, false] {
        let mut queue = make(8 * MIB);
        for tag in 0..600 {
            queue.push(if tag % 3 == 0 {
                read(tag, tag * 4096, [BLOCK, 2 * BLOCK])
            } else {
                write(tag, tag * 4096, [pattern(tag, 2 * BLOCK)])
            });
        }
        if submit {
            queue.submit();
        }
        drop(queue);
    }
}
