//! Whoever drives deals with all that has ended.

use std::sync::Arc;
use std::time::Duration;

use super::Core;
use crate::device::{Buf, DeviceCall};
use crate::submit::request::RequestKind;
use crate::volume::{CreateOptions, OpenOptions, Volume, create};

/// Nobody comes back for what is left before the devices have news, and they have none when all of it has ended.
#[test]
fn one_drive_finishes_every_call_that_has_ended() {
    const READS: u64 = 16;
    let folder = tempfile::tempdir().unwrap();
    let path = [folder.path().join("volume")];
    let options = CreateOptions { size: Some(16 << 20), ..CreateOptions::default() };
    create(&path, &options, &mut |_, _| {}).unwrap();
    // A device that works by itself, so that ends come in handfuls.
    let options =
        OpenOptions { shared: true, device_call: DeviceCall::Threads, ..OpenOptions::default() };
    let core = Core::new(Volume::open(&path, &options).unwrap());
    for block in 0..READS {
        let buf = Buf::copy_of(&[7; 4096]);
        // Every other block, so that no two are read together.
        let kind = RequestKind::Write { offset: block * 8192, buf, fua: false };
        core.call(kind).result.unwrap();
    }
    let calls: Vec<Arc<_>> = (0..READS)
        .map(|block| {
            core.post(RequestKind::Read { offset: block * 8192, buf: Buf::new(4096) }, false)
        })
        .collect();
    core.drive();
    // Long enough for all of them to end; then one look must do.
    std::thread::sleep(Duration::from_millis(300));
    core.drive();
    assert!(calls.iter().all(|call| call.is_ready()), "ended calls were left behind");
    core.close().unwrap();
}
