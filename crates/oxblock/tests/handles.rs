//! The blocking and the asynchronous handle: many callers at once, on every kind of device call.
#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use oxblock::device::DeviceCall;
use oxblock::volume::{AsyncHandle, Handle, create};
use oxblock::{Buf, CreateOptions, ErrorKind, OpenOptions};

const SIZE: u64 = 16 << 20;

fn each_call(test: impl Fn(Handle)) {
    for dir in [std::env::temp_dir(), "/dev/shm".into()] {
        for call in [DeviceCall::Auto, DeviceCall::Ring, DeviceCall::Inline, DeviceCall::Threads] {
            let folder = tempfile::tempdir_in(&dir).unwrap();
            let paths = [folder.path().join("volume.ox")];
            let options = CreateOptions { size: Some(SIZE), ..CreateOptions::default() };
            create(&paths, &options, &mut |_, _| {}).unwrap();
            let options = OpenOptions { device_call: call, ..OpenOptions::default() };
            match Handle::open(&paths, &options) {
                Ok(handle) => test(handle),
                Err(error) if error.kind() == ErrorKind::Unsupported => {
                    println!("skipped {call:?} in {}: {error}", dir.display());
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
}

#[test]
fn buffers_move_in_and_come_back() {
    each_call(|handle| {
        assert_eq!(handle.size(), SIZE);
        let buf = Buf::copy_of(&[5; 8192]);
        let place = buf.as_ptr();
        let buf = handle.write_at(4096, buf).unwrap();
        assert_eq!(buf.as_ptr(), place);
        handle.flush().unwrap();
        let buf = handle.read_at(0, Buf::new(16384)).unwrap();
        assert!(buf[..4096].iter().chain(&buf[12288..]).all(|byte| *byte == 0));
        assert!(buf[4096..12288].iter().all(|byte| *byte == 5));
        handle.discard(4096, 4096).unwrap();
        handle.write_zeroes(8192 + 100, 50).unwrap();
        let buf = handle.read_at(4096, buf).unwrap();
        assert_eq!((buf[0], buf[4096], buf[4096 + 100], buf[4096 + 150]), (0, 5, 0, 5));
        let failed = handle.read_at(SIZE, Buf::new(10)).unwrap_err();
        assert_eq!((failed.error.kind(), failed.buf.len()), (ErrorKind::OutOfRange, 10));
        handle.write_durable_at(0, &b"x"[..]).unwrap();
        handle.close().unwrap();
        assert_eq!(handle.flush().unwrap_err().kind(), ErrorKind::Closed);
        assert_eq!(handle.close().unwrap_err().kind(), ErrorKind::Closed);
    });
}

#[test]
fn threads_on_clones_see_each_others_writes() {
    each_call(|handle| {
        let threads: Vec<_> = (0..8u64)
            .map(|id| {
                let handle = handle.clone();
                thread::spawn(move || {
                    for round in 0..60u64 {
                        let offset = (round * 8 + id) * 4096;
                        let stamp = [u8::try_from(id * 17 + 1).unwrap(); 4096];
                        let buf = handle.write_at(offset, Buf::copy_of(&stamp)).unwrap();
                        if round % 16 == 0 {
                            handle.flush().unwrap();
                        }
                        let buf = handle.read_at(offset, buf).unwrap();
                        assert_eq!(*buf, stamp);
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        handle.close().unwrap();
    });
}

#[test]
fn neighbours_within_a_block_keep_each_others_bytes() {
    each_call(|handle| {
        let threads: Vec<_> = (0..8u64)
            .map(|id| {
                let handle = handle.clone();
                thread::spawn(move || {
                    for round in 1..40u8 {
                        handle.write_at(id * 512, vec![round; 512]).unwrap();
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        let buf = handle.read_at(0, Buf::new(4096)).unwrap();
        assert!(buf.iter().all(|byte| *byte == 39));
    });
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// The smallest executor there is.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park(),
        }
    }
}

async fn worker(handle: AsyncHandle, id: u64) {
    for round in 0..60u64 {
        let offset = (round * 8 + id) * 4096;
        let stamp = [u8::try_from(id * 17 + 1).unwrap(); 4096];
        let buf = handle.write_at(offset, Buf::copy_of(&stamp)).await.unwrap();
        if round % 16 == 0 {
            handle.flush().await.unwrap();
        }
        let buf = handle.read_at(offset, buf).await.unwrap();
        assert_eq!(*buf, stamp);
    }
}

#[test]
fn tasks_on_several_threads_share_a_volume() {
    each_call(|handle| {
        let threads: Vec<_> = (0..4)
            .map(|id| {
                let tasks = handle.tasks();
                thread::spawn(move || block_on(worker(tasks, id)))
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        handle.close().unwrap();
    });
}

#[test]
fn a_dropped_future_leaves_nothing_behind() {
    each_call(|handle| {
        let tasks = handle.tasks();
        for round in 0..50 {
            let mut future = Box::pin(tasks.write_at(round * 4096, vec![9; 4096]));
            let waker = Waker::noop();
            drop(future.as_mut().poll(&mut Context::from_waker(waker)));
            drop(future);
        }
        handle.flush().unwrap();
        handle.close().unwrap();
    });
}
