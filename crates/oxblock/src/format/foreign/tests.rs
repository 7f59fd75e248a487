//! One image of each kind that is known by name, and what must not be mistaken for one.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use super::*;
use crate::error::Error;

fn named(bytes: &[u8]) -> Option<String> {
    let mut read = |offset: u64, len: usize| {
        assert_eq!(offset % 4096, 0);
        let from = usize::try_from(offset).unwrap();
        Ok(bytes[from..from + len].to_vec())
    };
    identify(&mut read, bytes.len() as u64).unwrap()
}

fn named_file(path: &Path) -> Option<String> {
    let file = File::open(path).unwrap();
    let mut read = |offset: u64, len: usize| {
        let mut bytes = vec![0; len];
        file.read_exact_at(&mut bytes, offset).map_err(|error| Error::io("read", error))?;
        Ok(bytes)
    };
    identify(&mut read, file.metadata().unwrap().len()).unwrap()
}

/// An otherwise empty device of 4 MiB with `pieces` on it.
fn device(pieces: &[(usize, &[u8])]) -> Vec<u8> {
    let mut bytes = vec![0; 4 << 20];
    for (at, piece) in pieces {
        bytes[*at..at + piece.len()].copy_from_slice(piece);
    }
    bytes
}

#[test]
fn empty_devices_hold_nothing() {
    for size in [0, 1, 511, 4096, 100_000, 1 << 20, 3 << 20] {
        assert_eq!(named(&vec![0; size]), None, "{size} bytes");
    }
}

#[test]
fn every_signature_is_found_at_each_of_its_places() {
    for signature in SIGNATURES {
        for at in signature.at {
            let device = device(&[(usize::try_from(*at).unwrap(), signature.magic)]);
            assert_eq!(named(&device).as_deref(), Some(signature.name), "at {at}");
        }
    }
}

#[test]
fn unknown_bytes_are_reported_with_their_place() {
    for at in [0, 1, 5000, (1 << 20) - 1, (4 << 20) - 1, (4 << 20) - (128 << 10)] {
        let expected = format!("unknown data (first non-zero byte at offset {at})");
        assert_eq!(named(&device(&[(at, b"\x01")])), Some(expected));
    }
    let expected = Some("unknown data (first non-zero byte at offset 2)".into());
    assert_eq!(named(b"\0\0x"), expected);
}

#[test]
fn marks_at_the_end_are_found_for_any_size() {
    for size in [1_usize << 20, (3 << 20) + 512, (2 << 20) + 4096, (5 << 20) + 70_000] {
        let with = |at: usize, magic: &[u8]| {
            let mut bytes = vec![0; size];
            bytes[at..at + magic.len()].copy_from_slice(magic);
            named(&bytes).unwrap()
        };
        let md = b"\xfc\x4e\x2b\xa9";
        let md_0 = size / 65536 * 65536 - 65536;
        assert_eq!(with(md_0, md), "a MD RAID member (metadata 0.90)");
        // In sectors: 16 before the end, rounded down to 8.
        let md_1 = (size / 512 - 16) / 8 * 8 * 512;
        assert_eq!(with(md_1, md), "a MD RAID member (metadata 1.0)");
        assert_eq!(with(size - 512, b"conectix"), "a VHD disk image");
        assert_eq!(with(size - 512, b"EFI PART"), "a GPT partition table (second copy)");
    }
}

#[test]
fn our_superblocks_are_found_in_every_slot_of_both_areas() {
    for size in [4_usize << 20, (4 << 20) + 512, (3 << 20) + 4096] {
        for area in [0, size / 4096 * 4096 - (1 << 20)] {
            for slot in 0..64 {
                let at = area + slot * 16384;
                let mut bytes = vec![0; size];
                bytes[at..at + 8].copy_from_slice(&SUPERBLOCK_MAGIC);
                assert_eq!(named(&bytes).as_deref(), Some("an oxblock volume"), "at {at}");
            }
        }
    }
}

#[test]
fn lvm_labels_are_found_in_each_of_four_sectors() {
    for sector in 0..4 {
        let at = sector * 512;
        let device = device(&[(at, b"LABELONE"), (at + 24, b"LVM2 001")]);
        assert_eq!(named(&device).unwrap(), "an LVM2 physical volume");
    }
}

#[test]
fn zfs_uberblocks_are_found_in_either_byte_order() {
    for magic in [0xba_b10c_u64.to_le_bytes(), 0xba_b10c_u64.to_be_bytes()] {
        let device = device(&[((128 + 40) << 10, &magic)]);
        assert_eq!(named(&device).unwrap(), "a ZFS pool member");
    }
}

#[test]
fn partition_tables_are_told_apart() {
    let mark = (510, b"\x55\xaa".as_slice());
    let linux = (446 + 4, b"\x83".as_slice());
    let protective = (446 + 4, b"\xee".as_slice());
    let name = |pieces: &[(usize, &[u8])]| named(&device(pieces)).unwrap();
    assert_eq!(name(&[mark, linux]), "an MBR partition table");
    assert_eq!(name(&[mark]), "a boot sector");
    assert_eq!(name(&[mark, protective, (512, b"EFI PART")]), "a GPT partition table");
    assert_eq!(name(&[mark, protective, (4096, b"EFI PART")]), "a GPT partition table");
    assert_eq!(name(&[mark, (82, b"FAT32   ")]), "a FAT file system");
    // A status byte that no partition has: not a partition table.
    assert!(name(&[mark, linux, (446, b"\x12")]).starts_with("unknown data"));
}

#[test]
fn a_failed_read_is_passed_on() {
    let mut read = |_: u64, _: usize| Err(Error::io("read", std::io::Error::other("gone")));
    assert!(identify(&mut read, 1 << 20).is_err());
}

/// Runs `tool` on a sparse file of `size` bytes and names the result. `None` when the tool is not installed, which
/// is said: the magic bytes are tested above in any case.
fn made_by(size: u64, tool: &[&str]) -> Option<String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("device");
    File::create(&path).unwrap().set_len(size).unwrap();
    let paths = std::env::var("PATH").unwrap_or_default();
    let run = Command::new(tool[0])
        .args(&tool[1..])
        .arg(&path)
        .env("PATH", format!("{paths}:/usr/sbin:/sbin"))
        .output();
    match run {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            eprintln!("{} is not installed: its work is not tested", tool[0]);
            None
        }
        Err(error) => panic!("{}: {error}", tool[0]),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{} failed: {said}", tool[0]);
            Some(named_file(&path).unwrap())
        }
    }
}

#[test]
fn real_file_systems_are_named() {
    for (size, tool, expected) in [
        (16 << 20, ["mkfs.ext2", "-q", "-F"].as_slice(), "an ext2 file system"),
        (16 << 20, &["mkfs.ext3", "-q", "-F"], "an ext3 file system"),
        (16 << 20, &["mkfs.ext4", "-q", "-F"], "an ext4 file system"),
        (16 << 20, &["mke2fs", "-q", "-F", "-O", "journal_dev"], "an ext3 or ext4 journal"),
        (512 << 20, &["mkfs.xfs", "-q", "-f"], "an XFS file system"),
        (512 << 20, &["mkfs.btrfs", "-q", "-f"], "a btrfs file system"),
        (16 << 20, &["mkfs.vfat"], "a FAT file system"),
        (16 << 20, &["mkswap", "-q"], "swap space"),
    ] {
        if let Some(named) = made_by(size, tool) {
            assert_eq!(named, expected, "made by {tool:?}");
        }
    }
}
