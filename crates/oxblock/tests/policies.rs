//! Policies decide who does the work, never what comes of it.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests")]

use std::path::{Path, PathBuf};

use oxblock::complete::policy::CompletePolicy;
use oxblock::csum::CsumKind;
use oxblock::device::DeviceCall;
use oxblock::submit::policy::SubmitPolicy;
use oxblock::volume::{CrcCode, Handle, create};
use oxblock::{Buf, CreateOptions, ErrorKind, OpenOptions, Policy, Request, RequestKind, Volume};

/// So large that all of the work comes before the first checkpoint, whose moment would depend on who is faster.
const SIZE: u64 = 256 << 20;

fn every_policy() -> Vec<Policy> {
    let mut all = Vec::new();
    for submit in SubmitPolicy::ALL {
        for complete in CompletePolicy::ALL {
            all.push(Policy { submit, complete, ..Policy::default() });
        }
    }
    all.push(Policy { bio_max_bytes: Some(0), crc: CrcCode::Table, ..Policy::default() });
    all.push(Policy { bio_max_bytes: Some(1), crc: CrcCode::Table, ..Policy::default() });
    all
}

fn fill(buf: &mut [u8], seed: u64) {
    for (index, word) in buf.chunks_exact_mut(8).enumerate() {
        let value = (seed << 32 | index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        word.copy_from_slice(&value.to_le_bytes());
    }
}

/// Runs `requests` to their end and returns the buffers by tag.
fn run(volume: &mut Volume, requests: Vec<RequestKind>) -> Vec<Option<Buf>> {
    let count = requests.len();
    let mut bufs: Vec<Option<Buf>> = (0..count).map(|_| None).collect();
    for (tag, kind) in (0..).zip(requests) {
        volume.queue(Request { tag, kind });
    }
    let mut left = count;
    let mut done = Vec::new();
    while left > 0 {
        volume.submit();
        if volume.poll(&mut done) == 0 {
            volume.wait(None);
        }
        for completion in done.drain(..) {
            completion.result.unwrap();
            bufs[usize::try_from(completion.tag).unwrap()] = completion.buf;
            left -= 1;
        }
    }
    bufs
}

fn write(offset: u64, len: usize, seed: u64, fua: bool) -> RequestKind {
    let mut buf = Buf::new(len);
    fill(&mut buf, seed);
    RequestKind::Write { offset, buf, fua }
}

/// Writes of every size in batches that each run to their end, so that the log does not depend on who is faster.
fn work(path: &Path, policy: Policy, device_call: DeviceCall) -> oxblock::stats::Counters {
    // Of the device calls the one that nobody works beside by chance: how requests gather must not depend on that.
    let options = OpenOptions { policy, device_call, ..OpenOptions::default() };
    let mut volume = Volume::open(&[path.to_owned()], &options).unwrap();
    for batch in 0..3_u64 {
        let small =
            (0..64).map(|n| write((n * 37 + batch * 11) % 4000 * 4096, 4096, n + batch, false));
        run(&mut volume, small.collect());
        run(&mut volume, vec![write(20 << 20, 1 << 20, batch, false)]);
        run(&mut volume, vec![write((30 << 20) + 4096, 3 << 20, batch + 7, false)]);
        run(&mut volume, vec![write((40 << 20) + batch * 65536, 65536, batch, true)]);
        run(&mut volume, vec![write((50 << 20) + 777, 5000, batch, false)]);
        run(&mut volume, vec![RequestKind::Flush]);
    }
    let reads = [(0, 4096), (20 << 20, 1 << 20), ((30 << 20) + 4096, 3 << 20), (0, 16 << 20)];
    let reads = reads.map(|(offset, len)| RequestKind::Read { offset, buf: Buf::new(len) });
    let bufs = run(&mut volume, reads.into());
    let mut expected = vec![0; 3 << 20];
    fill(&mut expected, 2 + 7);
    assert!(bufs[2].as_ref().unwrap()[..] == expected[..], "{policy}");
    let counters = volume.counters();
    volume.close().unwrap();
    counters
}

fn identical(folder: &Path, csum: CsumKind, device_call: DeviceCall) {
    let pristine = folder.join("pristine");
    let options = CreateOptions { size: Some(SIZE), csum, ..CreateOptions::default() };
    create(std::slice::from_ref(&pristine), &options, &mut |_, _| ()).unwrap();
    let mut reference: Option<(Policy, Vec<u8>)> = None;
    for policy in every_policy() {
        let path: PathBuf = folder.join("volume");
        std::fs::copy(&pristine, &path).unwrap();
        let counters = work(&path, policy, device_call);
        match policy.submit {
            SubmitPolicy::Inline => assert_eq!(counters.offloaded_sums, 0, "{policy}"),
            SubmitPolicy::Offload => assert_eq!(counters.inline_sums, 0, "{policy}"),
            _ => {}
        }
        match policy.complete {
            CompletePolicy::Issuer => assert_eq!(counters.worker_ends, 0, "{policy}"),
            CompletePolicy::Worker => assert_eq!(counters.issuer_ends, 0, "{policy}"),
            CompletePolicy::Auto => {}
        }
        let bytes = std::fs::read(&path).unwrap();
        match &reference {
            None => reference = Some((policy, bytes)),
            Some((first, reference)) => {
                let differs = reference.iter().zip(&bytes).position(|(a, b)| a != b);
                assert!(differs.is_none(), "{policy} differs from {first} at {differs:?}");
            }
        }
    }
}

#[test]
fn volumes_are_byte_identical_under_every_policy() {
    identical(tempfile::tempdir().unwrap().path(), CsumKind::Crc32c, DeviceCall::Auto);
}

#[test]
fn volumes_in_memory_are_byte_identical_under_every_policy() {
    if !Path::new("/dev/shm").is_dir() {
        println!("skipped: there is no /dev/shm here");
        return;
    }
    identical(
        tempfile::tempdir_in("/dev/shm").unwrap().path(),
        CsumKind::Crc32c,
        DeviceCall::Inline,
    );
}

/// Flips one bit of the first stored copy of `needle`.
fn flip(path: &Path, needle: &[u8]) {
    let mut bytes = std::fs::read(path).unwrap();
    let at = bytes.windows(needle.len()).position(|window| window == needle).unwrap();
    bytes[at + 9] ^= 1;
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn clients_verify_what_they_read_and_find_damage() {
    let csums = [CsumKind::Crc32c, CsumKind::Sha256];
    for (complete, csum) in CompletePolicy::ALL.into_iter().flat_map(|c| csums.map(|s| (c, s))) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("volume");
        let options = CreateOptions { size: Some(16 << 20), csum, ..CreateOptions::default() };
        create(std::slice::from_ref(&path), &options, &mut |_, _| ()).unwrap();
        let options = OpenOptions {
            policy: Policy { complete, ..Policy::default() },
            ..OpenOptions::default()
        };
        let mut data = Buf::new(64 << 10);
        fill(&mut data, 3);
        let handle = Handle::open(std::slice::from_ref(&path), &options).unwrap();
        let data = handle.write_at(1 << 20, data).unwrap();
        let back = handle.read_at(1 << 20, Buf::new(64 << 10)).unwrap();
        assert!(back[..] == data[..]);
        let counters = handle.counters().unwrap();
        assert_eq!(
            counters.client_ends > 0,
            complete != CompletePolicy::Worker,
            "{complete} {csum}"
        );
        handle.close().unwrap();

        flip(&path, &data[5 * 4096..6 * 4096]);
        let handle = Handle::open(std::slice::from_ref(&path), &options).unwrap();
        let failed = handle.read_at(1 << 20, Buf::new(64 << 10)).unwrap_err();
        assert_eq!(failed.error.kind(), ErrorKind::Checksum);
        let bad: Vec<u64> = failed.error.blocks().iter().map(|bad| bad.block).collect();
        assert_eq!(bad, [(1 << 20) / 4096 + 5]);
        assert!(failed.buf[..5 * 4096] == data[..5 * 4096]);
        assert!(failed.buf[5 * 4096..6 * 4096].iter().all(|byte| *byte == 0));
        assert!(handle.counters().unwrap().cleared_retry > 0);
        handle.close().unwrap();
    }
}
