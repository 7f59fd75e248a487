//! Tests of opening, and the conformance suite over everything that opening can build.
#![expect(clippy::cast_possible_truncation, reason = "tests, with small numbers")]

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::super::{Action, Buf, Op, conformance, preallocate};
use super::*;

/// Places for test files: the default one, and memory.
fn places() -> Vec<PathBuf> {
    let shm = PathBuf::from("/dev/shm");
    std::iter::once(std::env::temp_dir()).chain(shm.is_dir().then_some(shm)).collect()
}

fn options(call: DeviceCall, sharing: Sharing) -> DeviceOptions {
    DeviceOptions { writable: true, call, sharing, ..DeviceOptions::default() }
}

/// A temporary folder and the path of a file in it that does not exist yet.
fn scratch() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("device");
    (folder, path)
}

fn run_suite(call: DeviceCall, sharing: Sharing) {
    for place in places() {
        let folder = tempfile::tempdir_in(place).unwrap();
        let mut number = 0;
        conformance::suite(&mut |size| {
            number += 1;
            let path = folder.path().join(number.to_string());
            let options = DeviceOptions { create_size: Some(size), ..options(call, sharing) };
            match open_devices(&[path], &options) {
                Ok(opened) => opened.queue,
                Err(error) => panic!("{error}"),
            }
        });
    }
}

/// Whether the ring can be tested here.
fn ring_works() -> bool {
    let (_folder, path) = scratch();
    let ring =
        DeviceOptions { create_size: Some(1 << 20), ..options(DeviceCall::Ring, Sharing::Shared) };
    match open_devices(&[path], &ring) {
        Ok(_) => true,
        Err(error) => {
            println!("skipped: {error}");
            false
        }
    }
}

#[test]
fn the_exclusive_ring_conforms() {
    if ring_works() {
        run_suite(DeviceCall::Ring, Sharing::Exclusive);
    }
}

#[test]
fn the_shared_ring_conforms() {
    if ring_works() {
        run_suite(DeviceCall::Ring, Sharing::Shared);
    }
}

/// A queue on a file in memory that has data everywhere, its worker just woken by a few large reads.
fn shared_with_a_worker(path: PathBuf, size: u64, sharing: Sharing) -> Box<dyn IoQueue + Send> {
    std::fs::write(&path, vec![0; size as usize]).unwrap();
    let mut queue = open_devices(&[path], &options(DeviceCall::Auto, sharing)).unwrap().queue;
    assert!(queue.describe().contains("shared with workers"), "{}", queue.describe());
    if size >= 4 << 20 {
        for tag in 0..4 {
            let action = Action::Read(smallvec::smallvec![Buf::new(1 << 20)]);
            queue.push(Op { tag, device: 0, offset: tag << 20, action });
        }
        let mut done = Vec::new();
        while queue.in_flight() > 0 {
            queue.wait(None);
            queue.reap(&mut done);
        }
        assert!(done.iter().all(|done| done.result.is_ok()));
    }
    queue
}

#[test]
fn sharing_with_a_worker_conforms() {
    let shm = Path::new("/dev/shm");
    if !shm.is_dir() {
        println!("skipped: there is no /dev/shm here");
        return;
    }
    for sharing in [Sharing::Exclusive, Sharing::Shared] {
        let folder = tempfile::tempdir_in(shm).unwrap();
        let mut number = 0;
        conformance::suite(&mut |size| {
            number += 1;
            shared_with_a_worker(folder.path().join(number.to_string()), size, sharing)
        });
    }
}

#[test]
fn a_stream_of_work_is_shared_and_comes_back_whole() {
    let shm = Path::new("/dev/shm");
    if !shm.is_dir() {
        println!("skipped: there is no /dev/shm here");
        return;
    }
    let folder = tempfile::tempdir_in(shm).unwrap();
    let mut queue = shared_with_a_worker(folder.path().join("file"), 16 << 20, Sharing::Exclusive);
    let mut done = Vec::new();
    // Records and small reads in turn, long enough for the worker to be awake for most of it.
    for round in 0..2000_u64 {
        let offset = round % 100 * (68 << 10);
        let mut buf = Buf::new(68 << 10);
        buf.fill(round as u8);
        let action = Action::Write { bufs: smallvec::smallvec![buf], durable: false };
        queue.push(Op { tag: 0, device: 0, offset, action });
        queue.submit();
        while queue.in_flight() > 0 {
            queue.wait(None);
            queue.reap(&mut done);
        }
        for tag in 1..9 {
            let action = Action::Read(smallvec::smallvec![Buf::new(4096)]);
            queue.push(Op { tag, device: 0, offset: offset + (tag << 12), action });
        }
        while queue.in_flight() > 0 {
            queue.wait(None);
            queue.reap(&mut done);
        }
        assert_eq!(done.len(), 9);
        for done in done.drain(..) {
            assert!(done.result.is_ok());
            assert!(done.bufs.iter().all(|buf| buf.iter().all(|byte| *byte == round as u8)));
        }
    }
}

#[test]
fn inline_calls_conform() {
    run_suite(DeviceCall::Inline, Sharing::Exclusive);
}

#[test]
fn the_thread_pool_conforms() {
    run_suite(DeviceCall::Threads, Sharing::Shared);
}

#[test]
fn the_measured_choice_conforms() {
    run_suite(DeviceCall::Auto, Sharing::Shared);
}

/// Both halves of a queue over memory and disk, with the ring and without.
#[test]
fn devices_of_different_pace_share_a_queue() {
    let forbidden: MakeRing = |_, _, _| Err(io::Error::from_raw_os_error(1));
    for make_ring in [UringQueue::new, forbidden] {
        let folders: Vec<_> =
            places().into_iter().map(|place| tempfile::tempdir_in(place).unwrap()).collect();
        let mut targets = Targets::default();
        let mut notices = Vec::new();
        let open = DeviceOptions {
            create_size: Some(1 << 20),
            ..options(DeviceCall::Auto, Sharing::Shared)
        };
        for (index, folder) in folders.iter().enumerate() {
            let path = folder.path().join("d");
            let (mut target, limits, _) =
                open_one(&path, &open, &[], &mut notices, &mut Vec::new()).unwrap();
            target.pace.inline = index == 1;
            targets.list.push(Arc::new(target));
            targets.limits.push(limits);
        }
        notices.clear();
        let mut queue = choose(targets, &open, make_ring, &mut notices).unwrap();
        assert_eq!(notices.len(), queue.describe().matches("pool").count(), "{notices:?}");
        let devices = folders.len() as u64;
        for tag in 0..100 {
            let action =
                Action::Write { bufs: [Buf::new(4096)].into_iter().collect(), durable: false };
            queue.push(Op { tag, device: (tag % devices) as u16, offset: tag * 4096, action });
        }
        queue.submit();
        let mut done = Vec::new();
        while queue.in_flight() > 0 {
            queue.wait(Some(Duration::from_secs(5)));
            queue.reap(&mut done);
        }
        assert_eq!(done.len(), 100);
        assert!(done.iter().all(|done| done.result.is_ok()));
    }
}

/// Completions must not be lost when the thread that submitted is gone.
#[test]
fn operations_outlive_the_thread_that_submitted_them() {
    if !ring_works() {
        return;
    }
    for place in places() {
        let folder = tempfile::tempdir_in(place).unwrap();
        let open = DeviceOptions {
            create_size: Some(4 << 20),
            ..options(DeviceCall::Ring, Sharing::Shared)
        };
        let opened = open_devices(&[folder.path().join("d")], &open).unwrap();
        let queue = std::sync::Mutex::new(opened.queue);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut queue = queue.lock().unwrap();
                for tag in 0..512 {
                    let bufs = [Buf::new(8192)].into_iter().collect();
                    let action = Action::Write { bufs, durable: false };
                    queue.push(Op { tag, device: 0, offset: tag * 8192, action });
                }
                queue.submit();
            });
        });
        let mut queue = queue.into_inner().unwrap();
        let mut done = Vec::new();
        let began = Instant::now();
        while queue.in_flight() > 0 {
            assert!(began.elapsed() < Duration::from_secs(30), "operations got lost");
            queue.wait(Some(Duration::from_secs(1)));
            queue.reap(&mut done);
        }
        for done in done {
            done.result.unwrap();
        }
    }
}

#[test]
fn an_exclusive_queue_moves_between_threads_when_idle() {
    if !ring_works() {
        return;
    }
    let (_folder, path) = scratch();
    let open = DeviceOptions {
        create_size: Some(1 << 20),
        ..options(DeviceCall::Ring, Sharing::Exclusive)
    };
    let mut queue = open_devices(&[path], &open).unwrap().queue;
    for _ in 0..3 {
        queue = std::thread::spawn(move || {
            let bufs = [Buf::new(4096)].into_iter().collect();
            queue.push(Op { tag: 1, device: 0, offset: 0, action: Action::Read(bufs) });
            queue.submit();
            queue.wait(Some(Duration::from_secs(10)));
            let mut done = Vec::new();
            assert_eq!(queue.reap(&mut done), 1);
            done.pop().unwrap().result.unwrap();
            queue
        })
        .join()
        .unwrap();
    }
    // In flight on another thread that is gone: leaked or ended, but never freed under the kernel, and no hang.
    queue = std::thread::spawn(move || {
        let bufs = [Buf::new(1 << 20)].into_iter().collect();
        queue.push(Op { tag: 1, device: 0, offset: 0, action: Action::Read(bufs) });
        queue.submit();
        queue
    })
    .join()
    .unwrap();
    drop(queue);
}

fn refusal(path: &Path, options: &DeviceOptions) -> (ErrorKind, String) {
    let error = open_devices(&[path.to_owned()], options).unwrap_err();
    let text = error.to_string();
    assert!(text.contains(&*path.to_string_lossy()), "{text:?} does not name the path");
    (error.kind(), text)
}

#[test]
fn a_writer_is_alone_and_readers_share() {
    let (_folder, path) = scratch();
    let write =
        DeviceOptions { create_size: Some(1 << 20), ..options(DeviceCall::Auto, Sharing::Shared) };
    let read = DeviceOptions::default();
    let writer = open_devices(std::slice::from_ref(&path), &write).unwrap();
    for second in [&write, &read] {
        let (kind, text) = refusal(&path, second);
        assert_eq!(kind, ErrorKind::Busy);
        assert!(text.contains(&format!("in use by pid {}", std::process::id())), "{text}");
    }
    let unlocked = DeviceOptions { exclusive: false, ..read.clone() };
    open_devices(std::slice::from_ref(&path), &unlocked).unwrap();
    drop(writer);
    let first = open_devices(std::slice::from_ref(&path), &read).unwrap();
    let second = open_devices(std::slice::from_ref(&path), &read).unwrap();
    assert_eq!(refusal(&path, &write).0, ErrorKind::Busy);
    drop((first, second));
    // At once: nothing lingers after the queue is gone.
    for _ in 0..20 {
        open_devices(std::slice::from_ref(&path), &options(DeviceCall::Ring, Sharing::Shared))
            .unwrap();
    }
}

/// Not a test of its own: the other process of the one below.
#[test]
fn helper_holds_a_device() {
    let Ok(path) = std::env::var("OXBLOCK_TEST_HOLD") else { return };
    let held = open_devices(&[path.into()], &options(DeviceCall::Auto, Sharing::Shared)).unwrap();
    let mut out = std::io::stdout();
    out.write_all(b"held\n").unwrap();
    out.flush().unwrap();
    std::thread::sleep(Duration::from_secs(60));
    drop(held);
}

#[test]
fn a_device_in_use_names_the_other_process_and_is_free_after_its_death() {
    use std::io::{BufRead, BufReader};
    let (_folder, path) = scratch();
    std::fs::write(&path, vec![0; 1 << 16]).unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "device::open::tests::helper_holds_a_device", "--nocapture"])
        .env("OXBLOCK_TEST_HOLD", &path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line.contains("held")), "the child failed");
    let (kind, text) = refusal(&path, &options(DeviceCall::Auto, Sharing::Shared));
    let (read_kind, _) = refusal(&path, &DeviceOptions::default());
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!((kind, read_kind), (ErrorKind::Busy, ErrorKind::Busy));
    assert!(text.contains(&format!("in use by pid {}", child.id())), "{text}");
    open_devices(&[path], &options(DeviceCall::Auto, Sharing::Shared)).unwrap();
}

#[test]
fn what_is_no_device_is_refused_by_name() {
    let (folder, path) = scratch();
    let write = options(DeviceCall::Auto, Sharing::Shared);
    assert_eq!(refusal(&path, &write).0, ErrorKind::NotFound);
    // Reading never creates.
    let read = DeviceOptions { create_size: Some(4096), ..DeviceOptions::default() };
    assert_eq!(refusal(&path, &read).0, ErrorKind::NotFound);
    assert!(!path.exists());
    let (kind, text) = refusal(folder.path(), &write);
    assert_eq!(kind, ErrorKind::InvalidInput);
    assert!(text.contains("directory"), "{text}");
    let (kind, text) = refusal(Path::new("/dev/null"), &write);
    assert_eq!(kind, ErrorKind::InvalidInput);
    assert!(text.contains("character device"), "{text}");
    let pipe = folder.path().join("pipe");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    let (kind, text) = refusal(&pipe, &write);
    assert_eq!(kind, ErrorKind::InvalidInput);
    assert!(text.contains("named pipe"), "{text}");
    // A file where a folder should be.
    std::fs::write(&path, b"x").unwrap();
    refusal(&path.join("below"), &write);
}

#[test]
fn a_device_named_twice_is_refused() {
    let (folder, path) = scratch();
    std::fs::write(&path, vec![0; 8192]).unwrap();
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    for options in [DeviceOptions::default(), options(DeviceCall::Auto, Sharing::Shared)] {
        let error = open_devices(&[path.clone(), link.clone()], &options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    }
}

#[test]
fn access_rights_are_respected() {
    if rustix::process::geteuid().is_root() {
        println!("skipped: the superuser may open everything");
        return;
    }
    let (_folder, path) = scratch();
    std::fs::write(&path, vec![0; 8192]).unwrap();
    let mut mode = std::fs::metadata(&path).unwrap().permissions();
    mode.set_readonly(true);
    std::fs::set_permissions(&path, mode).unwrap();
    open_devices(std::slice::from_ref(&path), &DeviceOptions::default()).unwrap();
    let (kind, _) = refusal(&path, &options(DeviceCall::Auto, Sharing::Shared));
    assert_eq!(kind, ErrorKind::PermissionDenied);
}

#[test]
fn a_read_only_queue_reads_and_fails_writes() {
    let (_folder, path) = scratch();
    std::fs::write(&path, vec![7; 8192]).unwrap();
    for call in [DeviceCall::Ring, DeviceCall::Inline, DeviceCall::Threads] {
        if call == DeviceCall::Ring && !ring_works() {
            continue;
        }
        let open = DeviceOptions { call, ..DeviceOptions::default() };
        let mut queue = open_devices(std::slice::from_ref(&path), &open).unwrap().queue;
        let bufs = || [Buf::new(4096)].into_iter().collect();
        queue.push(Op { tag: 1, device: 0, offset: 4096, action: Action::Read(bufs()) });
        let action = Action::Write { bufs: bufs(), durable: false };
        queue.push(Op { tag: 2, device: 0, offset: 0, action });
        queue.submit();
        let mut done = Vec::new();
        while queue.in_flight() > 0 {
            queue.wait(None);
            queue.reap(&mut done);
        }
        done.sort_by_key(|done| done.tag);
        assert!(done[0].result.is_ok() && done[0].bufs[0].iter().all(|byte| *byte == 7));
        assert!(done[1].result.is_err());
    }
    assert!(std::fs::read(&path).unwrap().iter().all(|byte| *byte == 7));
}

#[test]
fn files_are_created_sparse_and_grown_only_when_empty() {
    let (_folder, path) = scratch();
    let size = 64 << 20;
    let open =
        DeviceOptions { create_size: Some(size), ..options(DeviceCall::Auto, Sharing::Shared) };
    let opened = open_devices(std::slice::from_ref(&path), &open).unwrap();
    assert_eq!(opened.queue.limits()[0].size, size);
    assert!(std::fs::metadata(&path).unwrap().blocks() * 512 < size / 2, "not sparse");
    drop(opened);
    let larger = DeviceOptions { create_size: Some(2 * size), ..open.clone() };
    let opened = open_devices(std::slice::from_ref(&path), &larger).unwrap();
    assert_eq!(opened.queue.limits()[0].size, size, "a file with content was resized");
    drop(opened);
    std::fs::write(&path, b"").unwrap();
    let opened = open_devices(std::slice::from_ref(&path), &open).unwrap();
    assert_eq!(opened.queue.limits()[0].size, size);
    drop(opened);
    // No room for it: nothing is left behind.
    let (_folder, path) = scratch();
    let huge = DeviceOptions { create_size: Some(i64::MAX as u64), ..open };
    assert_eq!(refusal(&path, &huge).0, ErrorKind::NoSpace);
    assert!(!path.exists());
}

#[test]
fn preallocation_fills_with_zeroes() {
    let (_folder, path) = scratch();
    let size = (3 << 20) + 8192;
    std::fs::write(&path, vec![1; size]).unwrap();
    let mut told = Vec::new();
    let mut held =
        open_devices(std::slice::from_ref(&path), &options(DeviceCall::Auto, Sharing::Exclusive))
            .unwrap();
    let shared = options(DeviceCall::Auto, Sharing::Shared);
    preallocate(&path, held.queue.as_mut(), &mut |bytes, total| {
        told.push(bytes);
        assert_eq!(total, size as u64);
        // Nobody else gets hold of it half-way.
        assert_eq!(refusal(&path, &shared).0, ErrorKind::Busy);
    })
    .unwrap();
    assert!(told.is_sorted() && told.last() == Some(&(size as u64)), "{told:?}");
    let content = std::fs::read(&path).unwrap();
    assert!(content.len() == size && content.iter().all(|byte| *byte == 0));
    assert!(std::fs::metadata(&path).unwrap().blocks() * 512 >= size as u64);
}
