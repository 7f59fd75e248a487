//! The policy that a volume keeps: it outlives checkpoints, gives way to what is asked for, and a power cut leaves the old
//! one or the new one.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "common/disk.rs"]
mod disk;

use oxblock::device::sim::{Cut, SimDisk, SimQueue};
use oxblock::format::layout::{COMPAT_POLICY, SUPERBLOCK_SIZE};
use oxblock::format::superblock::{Superblock, offsets};
use oxblock::submit::policy::SubmitPolicy;
use oxblock::volume::{Costs, CrcCode, Origin};
use oxblock::{Buf, ErrorKind, OpenOptions, Policy, Request, RequestKind, Result, Volume};

use disk::disk;

const SIZE: u64 = 16 << 20;

fn options() -> OpenOptions {
    let costs = Costs { block_ns: 100, hand_off_ns: 500, wake_ns: 50_000 };
    OpenOptions { costs: Some(costs), ..OpenOptions::default() }
}

fn open_with(disk: &SimDisk, options: &OpenOptions) -> Volume {
    Volume::open_on(Box::new(disk.queue()), options).unwrap()
}

fn open(disk: &SimDisk) -> Volume {
    open_with(disk, &options())
}

fn policy(text: &str) -> Policy {
    text.parse().unwrap()
}

/// Keeps `wanted` and closes.
fn store(disk: &SimDisk, wanted: Policy) -> Result<()> {
    store_on(disk.queue(), wanted)
}

fn store_on(queue: SimQueue, wanted: Policy) -> Result<()> {
    let mut volume = Volume::open_on(Box::new(queue), &options())?;
    volume.store_policy(&wanted)?;
    volume.close()
}

fn write(volume: &mut Volume, offset: u64, byte: u8) {
    let buf = Buf::copy_of(&vec![byte; 1 << 20]);
    volume.queue(Request { tag: 1, kind: RequestKind::Write { offset, buf, fua: false } });
    let mut done = Vec::new();
    while done.is_empty() {
        volume.submit();
        volume.poll(&mut done);
        volume.wait(None);
    }
    assert!(done.iter().all(|done| done.result.is_ok()));
}

fn superblocks(disk: &SimDisk) -> Vec<(u64, Superblock)> {
    let size = disk.limits(0).unwrap().size;
    let places = (0..2).flat_map(|generation| offsets(0, generation, size));
    places
        .filter_map(|at| {
            let found = Superblock::decode(&disk.read_raw(0, at, SUPERBLOCK_SIZE)).ok()??;
            Some((at, found))
        })
        .collect()
}

#[test]
fn it_is_in_force_when_the_volume_is_opened_again_and_says_so() {
    let disk = disk(SIZE, 1);
    let stored = policy("submit=offload,bio_max_bytes=0,crc=table");
    store(&disk, stored).unwrap();
    let volume = open(&disk);
    assert_eq!(volume.stored_policy(), stored);
    let info = volume.info();
    assert_eq!(info.policy.policy, stored);
    assert_eq!(info.policy.origin, [Origin::Stored, Origin::Auto, Origin::Stored, Origin::Stored]);
    assert!(info.reasons.submit.starts_with("checksum: workers (as set"), "{:?}", info.reasons);
    volume.close().unwrap();

    let given = OpenOptions { policy: policy("submit=inline,crc=fast"), ..options() };
    let volume = open_with(&disk, &given);
    let force = volume.info().policy;
    assert_eq!(force.policy, policy("submit=inline,bio_max_bytes=0,crc=fast"));
    assert_eq!(force.origin, [Origin::Given, Origin::Auto, Origin::Stored, Origin::Given]);
    volume.close().unwrap();

    store(&disk, Policy::default()).unwrap();
    let volume = open(&disk);
    assert_eq!(volume.info().policy.origin, [Origin::Auto; 4]);
    volume.close().unwrap();
    assert!(superblocks(&disk).iter().all(|(_, found)| found.features.compat == 0));
}

#[test]
fn it_outlives_checkpoints_and_what_is_under_way() {
    let disk = disk(SIZE, 2);
    let stored = policy("submit=rules,complete=worker");
    let mut volume = open(&disk);
    write(&mut volume, 0, 1);
    // A write in flight goes on, and its completion is not lost.
    let buf = Buf::copy_of(&vec![9; 8192]);
    volume.queue(Request { tag: 5, kind: RequestKind::Write { offset: 0, buf, fua: false } });
    volume.store_policy(&stored).unwrap();
    let mut done = Vec::new();
    volume.poll(&mut done);
    assert_eq!(done.iter().map(|done| done.tag).collect::<Vec<_>>(), [5]);
    for round in 0..60 {
        write(&mut volume, (round % 15) << 20, 2);
    }
    assert!(volume.counters().checkpoints > 2);
    volume.close().unwrap();
    for life in 0..3 {
        let mut volume = open(&disk);
        assert_eq!(volume.stored_policy(), stored);
        write(&mut volume, life << 20, 3);
        volume.close().unwrap();
    }
    assert!(superblocks(&disk).iter().all(|(_, found)| found.features.compat == COMPAT_POLICY));
}

#[test]
fn a_power_cut_leaves_the_old_one_or_the_new_one() {
    let (old, new) = (policy("submit=offload"), policy("submit=inline,complete=issuer,crc=table"));
    let prepared = disk(SIZE, 3);
    let mut volume = open(&prepared);
    write(&mut volume, 3 << 20, 7);
    volume.close().unwrap();
    store(&prepared, old).unwrap();
    let before = prepared.snapshot();
    let operations = prepared.stats().operations();
    store(&prepared, new).unwrap();
    let operations = prepared.stats().operations() - operations;
    let (mut kept_old, mut kept_new) = (0, 0);
    for cut in 0..=operations {
        for (seed, how) in
            [Cut::KeepNone, Cut::KeepAll, Cut::Arbitrary, Cut::Arbitrary].into_iter().enumerate()
        {
            prepared.restore(&before);
            prepared.reseed(cut * 10 + seed as u64);
            // Opened first: a new queue brings the power back.
            let queue = prepared.queue();
            prepared.cut_after_ops(cut);
            let stored = store_on(queue, new);
            prepared.power_cut_with(how);
            let mut volume = open(&prepared);
            let found = volume.stored_policy();
            assert!(found == old || found == new, "after {cut} operations: {found}");
            assert!(stored.is_err() || found == new, "after {cut} operations it was forgotten");
            kept_old += usize::from(found == old);
            kept_new += usize::from(found == new);
            // And the volume works.
            write(&mut volume, 0, 8);
            volume.close().unwrap();
            assert_eq!(open(&prepared).stored_policy(), found);
        }
    }
    assert!(kept_old > 0 && kept_new > 0, "{kept_old} {kept_new}");
}

#[test]
fn values_that_are_not_valid_are_named_and_ignored() {
    let disk = disk(SIZE, 4);
    store(&disk, policy("submit=offload,complete=worker")).unwrap();
    for (at, mut found) in superblocks(&disk) {
        found.policy.complete = 77;
        found.policy.crc = 3;
        disk.write_raw(0, at, &found.encode());
    }
    let volume = open(&disk);
    assert_eq!(volume.stored_policy(), policy("submit=offload"));
    let notices = volume.notices().join("\n");
    assert!(notices.contains("77 for the policy complete") && notices.contains("crc"), "{notices}");
    assert_eq!(volume.info().policy.policy.submit, SubmitPolicy::Offload);
    assert_eq!(volume.info().policy.policy.crc, CrcCode::Auto);
    volume.close().unwrap();
}

#[test]
fn a_volume_that_is_open_read_only_keeps_what_it_has() {
    let disk = disk(SIZE, 5);
    let mut volume = open_with(&disk, &OpenOptions { read_only: true, ..options() });
    let error = volume.store_policy(&policy("submit=inline")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ReadOnly);
    assert_eq!(volume.stored_policy(), Policy::default());
}
