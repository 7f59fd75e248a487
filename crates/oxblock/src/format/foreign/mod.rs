//! What a device holds that is not ours: so that `create` can name it instead of overwriting it.
//!
//! The contract:
//!
//! - Only the first and the last 1 MiB are read, at offsets that are multiples of 4096. A device that is zero
//!   there counts as empty, whatever its middle holds.
//! - Anything but zeroes is reported. A wrong guess about *what* it is does no harm; silence would.
//! - Containers come before their contents: what was made last on a device usually lies outermost. A bare partition
//!   table comes last, since boot sectors of file systems look like one.

use super::is_zero;
use super::layout::{AREA_BYTES, BLOCK_BYTES, SUPERBLOCK_MAGIC, SUPERBLOCK_SIZE};
use crate::error::Result;

/// Bytes looked at from the start.
const HEAD: u64 = 1 << 20;
/// Bytes looked at before the end: our second area, which is more than MD needs for its superblocks.
const TAIL: u64 = AREA_BYTES;

/// A fixed run of bytes at one of some fixed places.
struct Signature {
    name: &'static str,
    at: &'static [u64],
    magic: &'static [u8],
}

const fn sig(name: &'static str, at: &'static [u64], magic: &'static [u8]) -> Signature {
    Signature { name, at, magic }
}

/// Where the second LUKS2 header can be; it depends on the size of the first.
const LUKS2_SECOND: &[u64] = &[0x4000, 0x8000, 0x1_0000, 0x2_0000, 0x4_0000, 0x8_0000];

/// Everything that a fixed run of bytes gives away, in the order of preference.
#[rustfmt::skip]
const SIGNATURES: &[Signature] = &[
    // Disk images and containers.
    sig("an oxblock volume", &[0], &SUPERBLOCK_MAGIC),
    sig("a LUKS1 encrypted volume", &[0], b"LUKS\xba\xbe\x00\x01"),
    sig("a LUKS2 encrypted volume", &[0], b"LUKS\xba\xbe\x00\x02"),
    sig("a LUKS2 encrypted volume (second header)", LUKS2_SECOND, b"SKUL\xba\xbe\x00\x02"),
    sig("a dm-integrity device", &[0], b"integrt\0"),
    sig("a VDO device", &[0], b"dmvdo001"),
    sig("a MD RAID member (metadata 1.1)", &[0], b"\xfc\x4e\x2b\xa9\x01\0\0\0"),
    sig("a MD RAID member (metadata 1.2)", &[4096], b"\xfc\x4e\x2b\xa9\x01\0\0\0"),
    sig("a bcache device", &[4096 + 24], b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81"),
    sig("a bcachefs file system", &[4096 + 24], b"\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef"),
    sig("a qcow2 disk image", &[0], b"QFI\xfb"),
    sig("a VMDK disk image", &[0], b"KDMV"),
    sig("a VMDK disk image", &[0], b"COWD"),
    sig("a VMDK disk image (descriptor)", &[0], b"# Disk DescriptorFile"),
    sig("a VDI disk image", &[64], b"\x7f\x10\xda\xbe"),
    sig("a VHDX disk image", &[0], b"vhdxfile"),
    sig("a VHD disk image", &[0], b"conectix"),
    // Partition tables that cannot be taken for anything else.
    sig("a GPT partition table", &[512, 4096], b"EFI PART"),
    // File systems.
    sig("a btrfs file system", &[0x10040], b"_BHRfS_M"),
    sig("an XFS file system", &[0], b"XFSB"),
    sig("an f2fs file system", &[1024], b"\x10\x20\xf5\xf2"),
    sig("an erofs file system", &[1024], b"\xe2\xe1\xf5\xe0"),
    sig("a squashfs file system", &[0], b"hsqs"),
    sig("a squashfs file system", &[0], b"sqsh"),
    sig("an NTFS file system", &[3], b"NTFS    "),
    sig("an exFAT file system", &[3], b"EXFAT   "),
    sig("a FAT file system", &[54], b"FAT12   "),
    sig("a FAT file system", &[54], b"FAT16   "),
    sig("a FAT file system", &[54], b"FAT     "),
    sig("a FAT file system", &[82], b"FAT32   "),
    sig("a JFS file system", &[0x8000], b"JFS1"),
    sig("a reiserfs file system", &[0x10034, 0x2034], b"ReIsErFs"),
    sig("a reiserfs file system", &[0x10034, 0x2034], b"ReIsEr2Fs"),
    sig("a reiserfs file system", &[0x10034, 0x2034], b"ReIsEr3Fs"),
    sig("an ISO 9660 file system", &[0x8001, 0x8801], b"CD001"),
    sig("a UDF file system", &[0x8001], b"BEA01"),
    sig("an HFS+ file system", &[1024], b"H+\0\x04"),
    sig("an APFS container", &[32], b"NXSB"),
    // Swap keeps its signature at the end of the first page, whatever a page is.
    sig("swap space", &[4086, 8182, 16374, 32758, 65526], b"SWAPSPACE2"),
    sig("swap space", &[4086, 8182, 16374, 32758, 65526], b"SWAP-SPACE"),
    sig("a hibernated system", &[4086, 8182, 16374, 32758, 65526], b"S1SUSPEND"),
    // Files that someone may have named by mistake.
    sig("a SQLite database", &[0], b"SQLite format 3\0"),
    sig("an xz archive", &[0], b"\xfd7zXZ\0"),
    sig("a 7z archive", &[0], b"7z\xbc\xaf\x27\x1c"),
    sig("a zstd archive", &[0], b"\x28\xb5\x2f\xfd"),
    sig("an lz4 archive", &[0], b"\x04\x22\x4d\x18"),
    sig("a zip archive", &[0], b"PK\x03\x04"),
    sig("a zip archive", &[0], b"PK\x05\x06"),
    sig("a gzip archive", &[0], b"\x1f\x8b\x08"),
    sig("a bzip2 archive", &[0], b"BZh"),
    sig("a tar archive", &[257], b"ustar"),
    sig("an ELF program or library", &[0], b"\x7fELF"),
    sig("a PNG picture", &[0], b"\x89PNG\r\n\x1a\n"),
    sig("a JPEG picture", &[0], b"\xff\xd8\xff"),
    sig("a PDF document", &[0], b"%PDF-"),
];

/// What a device of `size` bytes holds, as it would stand in "this is ...": `Some("an ext4 file system")`, or
/// `Some("unknown data (first non-zero byte at offset N)")`. `None` when it is empty: zero bytes long, or zero in the
/// ranges that are looked at.
///
/// `read(offset, len)` gives `len` bytes of the device. Offsets are multiples of 4096; a length is one too unless the
/// range ends with the device.
///
/// # Errors
/// Those of `read`.
pub fn identify(
    read: &mut dyn FnMut(u64, usize) -> Result<Vec<u8>>,
    size: u64,
) -> Result<Option<String>> {
    let device = Ends::read(read, size)?;
    if device.first_non_zero().is_none() {
        return Ok(None);
    }
    let named = SIGNATURES
        .iter()
        .find(|signature| signature.at.iter().any(|at| device.has(*at, signature.magic)))
        .map(|signature| signature.name);
    let named = named
        .or_else(|| lvm(&device))
        .or_else(|| zfs(&device))
        .or_else(|| ext(&device))
        .or_else(|| oxblock(&device))
        .or_else(|| at_the_end(&device))
        .or_else(|| mbr(&device))
        .map(String::from);
    let unknown = || {
        let offset = device.first_non_zero()?;
        Some(format!("unknown data (first non-zero byte at offset {offset})"))
    };
    Ok(named.or_else(unknown))
}

/// The two ends of a device. They overlap on a small one.
struct Ends {
    size: u64,
    head: Vec<u8>,
    tail_start: u64,
    tail: Vec<u8>,
}

impl Ends {
    fn read(read: &mut dyn FnMut(u64, usize) -> Result<Vec<u8>>, size: u64) -> Result<Self> {
        let mut range = |start: u64, end: u64| match usize::try_from(end - start) {
            Ok(len) if len > 0 => read(start, len),
            _ => Ok(Vec::new()),
        };
        let head = range(0, size.min(HEAD))?;
        let tail_start = size.saturating_sub(TAIL) & !4095;
        let tail = range(tail_start, size)?;
        Ok(Self { size, head, tail_start, tail })
    }

    /// The bytes at `offset`, when they lie inside one of the ends.
    fn get(&self, offset: u64, len: usize) -> Option<&[u8]> {
        let inside = |bytes: &'_ [u8], start: u64| -> Option<std::ops::Range<usize>> {
            let from = usize::try_from(offset.checked_sub(start)?).ok()?;
            let to = from.checked_add(len)?;
            (to <= bytes.len()).then_some(from..to)
        };
        inside(&self.head, 0)
            .and_then(|range| self.head.get(range))
            .or_else(|| inside(&self.tail, self.tail_start).and_then(|range| self.tail.get(range)))
    }

    fn has(&self, offset: u64, magic: &[u8]) -> bool {
        self.get(offset, magic.len()) == Some(magic)
    }

    fn u32(&self, offset: u64) -> Option<u32> {
        self.get(offset, 4)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
    }

    fn first_non_zero(&self) -> Option<u64> {
        let find = |bytes: &[u8], start: u64| {
            let at = bytes.iter().position(|byte| *byte != 0)?;
            Some(start + u64::try_from(at).ok()?)
        };
        find(&self.head, 0).or_else(|| find(&self.tail, self.tail_start))
    }
}

/// ext2, ext3 and ext4 share a magic of two bytes; what tells them apart are the feature flags behind it. Revision and
/// block size are looked at too, since two bytes alone turn up by chance.
fn ext(device: &Ends) -> Option<&'static str> {
    const SUPERBLOCK: u64 = 1024;
    const HAS_JOURNAL: u32 = 0x4;
    const JOURNAL_DEVICE: u32 = 0x8;
    /// Incompatible features that ext3 does not have: extents and all that came later.
    const EXT4_INCOMPAT: u32 = !0x1f;
    /// Likewise those that only forbid writing: huge files and later.
    const EXT4_RO_COMPAT: u32 = !0x7;
    let plausible = device.has(SUPERBLOCK + 0x38, b"\x53\xef")
        && device.u32(SUPERBLOCK + 0x18)? <= 6
        && device.u32(SUPERBLOCK + 0x4c)? <= 1;
    if !plausible {
        return None;
    }
    let compat = device.u32(SUPERBLOCK + 0x5c)?;
    let incompat = device.u32(SUPERBLOCK + 0x60)?;
    let ro_compat = device.u32(SUPERBLOCK + 0x64)?;
    Some(if incompat & JOURNAL_DEVICE != 0 {
        "an ext3 or ext4 journal"
    } else if incompat & EXT4_INCOMPAT != 0 || ro_compat & EXT4_RO_COMPAT != 0 {
        "an ext4 file system"
    } else if compat & HAS_JOURNAL != 0 {
        "an ext3 file system"
    } else {
        "an ext2 file system"
    })
}

/// A superblock of ours in any slot of either area. The second area starts 1 MiB before the last whole block's end.
fn oxblock(device: &Ends) -> Option<&'static str> {
    let second = (device.size / BLOCK_BYTES * BLOCK_BYTES).saturating_sub(AREA_BYTES);
    let mut slots = (0..AREA_BYTES).step_by(SUPERBLOCK_SIZE);
    slots
        .any(|slot| {
            device.has(slot, &SUPERBLOCK_MAGIC) || device.has(second + slot, &SUPERBLOCK_MAGIC)
        })
        .then_some("an oxblock volume")
}

/// An LVM2 label is in one of the first four sectors, its type 24 bytes in.
fn lvm(device: &Ends) -> Option<&'static str> {
    let labelled = |at: u64| device.has(at, b"LABELONE") && device.has(at + 24, b"LVM2 001");
    [0, 512, 1024, 1536].into_iter().any(labelled).then_some("an LVM2 physical volume")
}

/// The first ZFS label ends in a ring of uberblocks, 1 KiB or a multiple apart, in the byte order of their writer.
fn zfs(device: &Ends) -> Option<&'static str> {
    const UBERBLOCK: u64 = 0x00ba_b10c;
    let written = |slot: u64| {
        let at = (128 << 10) + (slot << 10);
        device.has(at, &UBERBLOCK.to_le_bytes()) || device.has(at, &UBERBLOCK.to_be_bytes())
    };
    (0..128).any(written).then_some("a ZFS pool member")
}

/// What keeps its mark at the end: MD RAID 0.90 and 1.0, VHD, and the second copy of a GPT whose first was lost.
fn at_the_end(device: &Ends) -> Option<&'static str> {
    const MD: &[u8] = b"\xfc\x4e\x2b\xa9";
    // 0.90: the last 64 KiB that are aligned to 64 KiB. 1.0: at least 8 KiB before the end, aligned to 4 KiB.
    let md_0 = (device.size & !0xffff).checked_sub(0x1_0000);
    let md_1 = (device.size & !511).checked_sub(8192).map(|at| at & !4095);
    let back = |bytes: u64| device.size.checked_sub(bytes);
    let found = |at: Option<u64>, magic: &[u8]| at.is_some_and(|at| device.has(at, magic));
    if found(md_0, MD) {
        Some("a MD RAID member (metadata 0.90)")
    } else if found(md_1, MD) {
        Some("a MD RAID member (metadata 1.0)")
    } else if found(back(512), b"conectix") || found(back(511), b"conectix") {
        Some("a VHD disk image")
    } else if found(back(512), b"EFI PART") || found(back(4096), b"EFI PART") {
        Some("a GPT partition table (second copy)")
    } else {
        None
    }
}

/// A partition table has a mark of two bytes, and four entries whose first byte is "active" or nothing; one of them is
/// in use. A boot loader without entries is named too.
fn mbr(device: &Ends) -> Option<&'static str> {
    if !device.has(510, b"\x55\xaa") {
        return None;
    }
    let entries = device.get(446, 64)?;
    let sound = |entry: &[u8]| matches!(entry.first(), Some(0 | 0x80));
    let used = |entry: &[u8]| entry.get(4).is_some_and(|kind| *kind != 0);
    let mut entries_of_16 = entries.chunks_exact(16);
    if is_zero(entries) {
        Some("a boot sector")
    } else if entries_of_16.clone().all(sound) && entries_of_16.any(used) {
        Some("an MBR partition table")
    } else {
        None
    }
}

#[cfg(test)]
mod tests;
