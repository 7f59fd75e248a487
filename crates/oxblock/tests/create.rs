//! What `create` refuses, and that a refusal leaves everything as it was.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use oxblock::device::{DeviceOptions, open_devices};
use oxblock::volume::{Created, Handle, create};
use oxblock::{CreateOptions, Error, ErrorKind, OpenOptions};

const DEVICE: u64 = 64 << 20;

/// A folder, and a sparse file in it with `pieces` in it.
fn device(size: u64, pieces: &[(u64, &[u8])]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("device");
    let file = File::create(&path).unwrap();
    file.set_len(size).unwrap();
    for (at, piece) in pieces {
        file.write_all_at(piece, *at).unwrap();
    }
    file.sync_all().unwrap();
    (folder, path)
}

fn make(path: &Path, options: &CreateOptions) -> Result<Created, Error> {
    create(&[path.to_owned()], options, &mut |_, _| {})
}

/// Creating is refused as foreign and changes nothing; returns the message.
fn refused(path: &Path) -> String {
    let before = std::fs::read(path).unwrap();
    let error = make(path, &CreateOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Foreign, "{error}");
    assert!(std::fs::read(path).unwrap() == before, "the file was changed");
    error.to_string()
}

#[test]
fn opening_for_writing_writes_nothing() {
    for (size, pieces) in [
        (DEVICE, [(1024, [7; 1024].as_slice())].as_slice()),
        (DEVICE, &[(40 << 20, &[7; 10])]),
        (DEVICE, &[]),
        (1000, &[(0, &[7; 1000])]),
    ] {
        let (_folder, path) = device(size, pieces);
        let before = std::fs::read(&path).unwrap();
        let blocks = std::os::unix::fs::MetadataExt::blocks(&std::fs::metadata(&path).unwrap());
        let options = DeviceOptions { writable: true, ..DeviceOptions::default() };
        drop(open_devices(std::slice::from_ref(&path), &options).unwrap());
        assert!(std::fs::read(&path).unwrap() == before);
        let after = std::os::unix::fs::MetadataExt::blocks(&std::fs::metadata(&path).unwrap());
        assert_eq!(after, blocks);
    }
}

#[test]
fn data_anywhere_in_a_file_is_found() {
    for at in [0, 1024, 5000, (1 << 20) + 7, 30 << 20, DEVICE - (1 << 20) - 1, DEVICE - 1] {
        let (_folder, path) = device(DEVICE, &[(at, &[7])]);
        let expected = format!("unknown data (first non-zero byte at offset {at})");
        let said = refused(&path);
        assert!(said.contains(&expected), "{said}");
    }
    // Zeroes that take space are no content.
    let (_folder, path) = device(DEVICE, &[(2 << 20, &[0; 1 << 20])]);
    make(&path, &CreateOptions::default()).unwrap();
}

#[test]
fn large_data_is_searched_by_samples() {
    let zeroes = vec![0; 80 << 20];
    let size = 200 << 20;
    let (_folder, path) = device(size, &[(2 << 20, &zeroes), (150 << 20, &[7; 300 << 10])]);
    assert!(refused(&path).contains("offset 157286400"));
    let (_folder, path) = device(size, &[(2 << 20, &zeroes)]);
    make(&path, &CreateOptions::default()).unwrap();
}

#[test]
fn a_volume_is_known_by_any_of_its_superblocks() {
    let blank = vec![0; 1 << 20];
    let new = || {
        let (folder, path) = device(DEVICE, &[]);
        make(&path, &CreateOptions::default()).unwrap();
        (folder, path)
    };
    let (_folder, path) = new();
    assert!(refused(&path).contains("there is an oxblock volume on it"));
    // The first area is gone, the file grew; then the second one is gone instead.
    for (gone, grown) in [(0, 0), (0, DEVICE), (DEVICE - (1 << 20), 0), (DEVICE - (1 << 20), 4096)]
    {
        let (_folder, path) = new();
        let file = File::options().write(true).open(&path).unwrap();
        file.write_all_at(&blank, gone).unwrap();
        file.set_len(DEVICE + grown).unwrap();
        let said = refused(&path);
        assert!(said.contains("there is an oxblock volume on it"), "{gone} {grown}: {said}");
    }
    // Damaged ones too.
    let (_folder, path) = new();
    let file = File::options().write(true).open(&path).unwrap();
    file.write_all_at(&blank, 0).unwrap();
    file.write_all_at(&[9; 8], DEVICE - (1 << 20) + 16384 + 2000).unwrap();
    assert!(refused(&path).contains("there is an oxblock volume on it"));
    let force = CreateOptions { force: true, ..CreateOptions::default() };
    make(&path, &force).unwrap();
    Handle::open(&[path], &OpenOptions::default()).unwrap().close().unwrap();
}

#[test]
fn too_small_a_device_is_refused_before_anything_is_written() {
    let (_folder, path) = device(4 << 20, &[(0, &[7; 4 << 20])]);
    for preallocate in [false, true] {
        let options = CreateOptions { force: true, preallocate, ..CreateOptions::default() };
        let error = make(&path, &options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoSpace);
        assert!(error.to_string().contains("at least 46137344 bytes"), "{error}");
        assert!(std::fs::read(&path).unwrap() == [7; 4 << 20]);
    }
    let options = CreateOptions { size: Some(0), ..CreateOptions::default() };
    assert_eq!(make(&path, &options).unwrap_err().kind(), ErrorKind::InvalidInput);
    let smallest = CreateOptions { force: true, ..CreateOptions::default() };
    let (_folder, path) = device(46_137_344, &[]);
    make(&path, &smallest).unwrap();
    Handle::open(&[path], &OpenOptions::default()).unwrap().close().unwrap();
}

#[test]
fn a_failed_create_leaves_no_file_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("device");
    // The same file twice: the second is refused when the first has been made.
    let twice = [path.clone(), path.clone()];
    let options =
        DeviceOptions { writable: true, create_size: Some(1 << 20), ..DeviceOptions::default() };
    let error = open_devices(&twice, &options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    assert!(!path.exists());
    let opened = open_devices(std::slice::from_ref(&path), &options).unwrap();
    let [made] = opened.made.as_slice() else { unreachable!("one file was made") };
    made.remove();
    assert!(!path.exists());
    // Somebody else's file stays.
    File::create(&path).unwrap().set_len(1 << 20).unwrap();
    made.remove();
    make(&path, &CreateOptions::default()).unwrap_err();
    assert!(open_devices(&twice, &options).is_err());
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 1 << 20);
}
