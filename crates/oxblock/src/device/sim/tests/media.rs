//! Content: sparse, shared, damaged on request.

use super::*;

#[test]
fn huge_device_costs_nothing() {
    let disk = SimDisk::single(SimConfig::new(16 << 40, 1));
    let mut queue = disk.queue();
    let last = (16 << 40) - K4;
    ok(&mut queue, write(1, last, 1, 4096));
    assert_eq!(ok(&mut queue, read(2, last, 4096)).bufs[0][..], [1; 4096]);
    assert_eq!(disk.allocated_pages(0), 1);
    assert_eq!(disk.allocated_in(0, 0..16 << 40), [last]);
}

#[test]
fn several_buffers_are_gathered_and_scattered_in_order() {
    let disk = disk(1);
    let mut queue = disk.queue();
    let bufs = [1_u8, 2, 3].map(|byte| Buf::from(vec![byte; 4096]));
    let action = Action::Write { bufs: bufs.into_iter().collect(), durable: false };
    ok(&mut queue, Op { tag: 1, device: 0, offset: K4, action });
    let bufs = [Buf::new(8192), Buf::new(4096), Buf::new(4096)];
    let action = Action::Read(bufs.into_iter().collect());
    let done = ok(&mut queue, Op { tag: 2, device: 0, offset: K4, action });
    assert_eq!(done.bufs.iter().map(|buf| buf[0]).collect::<Vec<_>>(), [1, 3, 0]);
    assert_eq!(done.bufs[0][4096], 2);
}

#[test]
fn raw_bytes_need_no_alignment_and_are_durable() {
    let disk = disk(1);
    let mut queue = disk.queue();
    ok(&mut queue, write(1, 0, 1, 8192));
    disk.write_raw(0, 4090, &[9; 12]);
    assert_eq!(disk.read_raw(0, 4089, 14), [1, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 1]);
    disk.power_cut_keep_none();
    assert_eq!(disk.read_raw(0, 4090, 12), [9; 12]);
    assert_eq!(disk.read_raw(0, 0, 1), [0]);
    disk.write_raw(0, (1 << 30) - 2, &[1; 8]);
    assert_eq!(disk.read_raw(0, (1 << 30) - 2, 4), [1, 1, 0, 0]);
}

#[test]
fn damage_changes_exactly_what_it_names() {
    let disk = disk(1);
    disk.flip_bit(0, 100, 3);
    assert_eq!(disk.read_raw(0, 99, 3), [0, 8, 0]);
    disk.flip_bit(0, 100, 3);
    assert_eq!(disk.read_raw(0, 100, 1), [0]);
    disk.corrupt(0, 4000..4200);
    assert!(disk.read_raw(0, 4000, 200).iter().all(|byte| *byte != 0));
    assert_eq!((disk.read_raw(0, 3999, 1), disk.read_raw(0, 4200, 1)), (vec![0], vec![0]));
    disk.erase(0);
    assert_eq!((disk.allocated_pages(0), disk.read_raw(0, 4100, 1)), (0, vec![0]));
}

#[test]
fn snapshot_brings_content_and_cache_back() {
    let disk = disk(1);
    let mut queue = disk.queue();
    ok(&mut queue, durable(1, 0, 1, 4096));
    ok(&mut queue, write(2, 0, 2, 4096));
    let pristine = disk.snapshot();
    for n in 0..20 {
        disk.corrupt(0, n * 100..n * 100 + 100);
        let mut queue = disk.queue();
        ok(&mut queue, write(3, K4, 3, 4096));
        disk.restore(&pristine);
        assert_eq!(errno(&run(&mut queue, read(4, 0, 4096))), Some(32), "the old queue is dead");
        assert_eq!(disk.read_raw(0, 0, 4096), [2; 4096]);
        assert_eq!(disk.allocated_pages(0), 1);
    }
    disk.power_cut_keep_none();
    assert_eq!(disk.read_raw(0, 0, 4096), [1; 4096]);
}

#[test]
fn snapshots_are_cheap() {
    let disk = disk(1);
    let mut queue = disk.queue();
    for n in 0..64 {
        ok(&mut queue, write(n, n << 20, 1, 1 << 20));
    }
    ok(&mut queue, flush(64));
    let pristine = disk.snapshot();
    for n in 0..2000 {
        disk.flip_bit(0, n * 30_011, 0);
        disk.restore(&pristine);
    }
    assert_eq!(disk.read_raw(0, 0, 64 << 20), vec![1; 64 << 20]);
}
