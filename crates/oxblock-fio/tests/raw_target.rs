//! A bare device behind the seam: what reaches the queue, and what comes back.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a device for tests"
)]

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use oxblock::device::{Action, Done, Fua, IoQueue, Op, QueueLimits, Waiter};
use oxblock_fio::{RawTarget, RunOptions, Target, parse, run};

/// A device in memory that notes what it is asked.
struct Device {
    limits: [QueueLimits; 1],
    data: Vec<u8>,
    pushed: Vec<Op>,
    done: Vec<Done>,
    log: Arc<Mutex<String>>,
}

impl Device {
    fn new(size: usize) -> Self {
        let limits = QueueLimits {
            size: size as u64,
            block_size: 512,
            dma_alignment: 512,
            io_opt: 0,
            bio_max_bytes: 1 << 20,
            write_cache: true,
            fua: Fua::Native,
            discard: true,
            zoned: false,
            rotational: false,
            direct: true,
        };
        let (pushed, done, log) = (Vec::new(), Vec::new(), Arc::default());
        Self { limits: [limits], data: vec![0; size], pushed, done, log }
    }
}

impl IoQueue for Device {
    fn limits(&self) -> &[QueueLimits] {
        &self.limits
    }

    fn push(&mut self, op: Op) {
        self.pushed.push(op);
    }

    fn run(&mut self, _job: oxblock::device::Job) {
        unreachable!("the bare target computes nothing");
    }

    fn submit(&mut self) {
        for Op { tag, device, offset, action } in self.pushed.drain(..) {
            let mut at = offset as usize;
            let mut log = self.log.lock().unwrap();
            let (bufs, result) = match action {
                Action::Read(mut bufs) => {
                    log.push('r');
                    for buf in &mut bufs {
                        let len = buf.len();
                        buf.copy_from_slice(&self.data[at..at + len]);
                        at += len;
                    }
                    (bufs, Ok(()))
                }
                Action::Write { bufs, durable } => {
                    log.push(if durable { 'W' } else { 'w' });
                    let full = offset >= 1 << 19;
                    for buf in bufs.iter().filter(|_| !full) {
                        self.data[at..at + buf.len()].copy_from_slice(buf);
                        at += buf.len();
                    }
                    let error = io::Error::from_raw_os_error(28);
                    (bufs, if full { Err(error) } else { Ok(()) })
                }
                Action::Flush => {
                    log.push('f');
                    (Default::default(), Ok(()))
                }
                Action::Discard { .. } => {
                    log.push('d');
                    (Default::default(), Ok(()))
                }
            };
            self.done.push(Done { tag, device: Some(device), bufs, work: None, result });
        }
    }

    fn reap(&mut self, done: &mut Vec<Done>) -> usize {
        let count = self.done.len();
        done.append(&mut self.done);
        count
    }

    fn wait(&mut self, _: Option<Duration>) {}

    fn waiter(&self) -> Option<Waiter> {
        None
    }

    fn in_flight(&self) -> usize {
        self.pushed.len() + self.done.len()
    }

    fn now(&self) -> u64 {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    }

    fn describe(&self) -> String {
        "memory".to_owned()
    }
}

#[test]
fn requests_reach_the_device_as_they_are() {
    let device = Device::new(1 << 20);
    let log = Arc::clone(&device.log);
    let mut target = RawTarget::new(Box::new(device));
    assert_eq!((target.size(), target.block_size()), (1 << 20, 512));
    let text = "[w]\nrw=write\nsize=16k\nverify=crc32c\nsync=1\nfsync=2\nsize=32k\nbs=8k\n\
                [t]\nstonewall\nrw=trim\nsize=8k\n[f]\nstonewall\nrw=write\noffset=512k\n";
    let file = parse(text, "t").unwrap();
    let report = run(&file, &mut target, &RunOptions::default()).unwrap();
    assert_eq!(*log.lock().unwrap(), "WWfWWrrrrddw");
    let errors: Vec<i32> = report.jobs.iter().map(|job| job.errno).collect();
    assert_eq!(errors, [0, 0, 28]);
}
