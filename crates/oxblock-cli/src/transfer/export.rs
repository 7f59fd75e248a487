//! The export loop: the first bytes of a volume become a file, a block device or a stream.
//!
//! Reads are in flight together and complete in any order; they are written in order, so that a stream works too and no
//! more than the reads in flight is ever held. A block that cannot be verified is zero in the destination and named in
//! the report; everything else is copied.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use oxblock::device::Buf;
use oxblock::error::BadBlock;
use oxblock::submit::request::{Completion, RequestKind};
use serde::Serialize;

use super::dest::Dest;
use super::pipeline::{Pipeline, Pool};
use super::{BLOCK, CHUNK, DEPTH, bytes};
use crate::engine::BlockTarget;
use crate::output::Usage;
use crate::progress::Progress;
use crate::size::both;

/// What an export did.
#[derive(Debug, Default, Serialize)]
pub struct Exported {
    /// Bytes of the image.
    pub bytes: u64,
    /// Blocks that could not be verified, and are zero in the image.
    pub bad_blocks: Vec<Bad>,
}

/// A block that could not be verified.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Bad {
    /// The logical block, in units of 4096 bytes.
    pub block: u64,
    /// The device that was read, by its index in the volume.
    pub device: u16,
    /// Where on that device, in bytes.
    pub offset: u64,
    /// The checksum that was expected, hexadecimal.
    pub expected: String,
    /// The checksum of what was read; none when the device failed the read.
    pub got: Option<String>,
}

impl From<&BadBlock> for Bad {
    fn from(bad: &BadBlock) -> Self {
        Self {
            block: bad.block,
            device: bad.device,
            offset: bad.offset,
            expected: format!("{:x}", bad.expected),
            got: bad.got.map(|got| format!("{got:x}")),
        }
    }
}

/// The length of the image: all of the volume, or what is asked for.
pub fn image_length(asked: Option<u64>, volume: u64) -> Result<u64> {
    match asked {
        Some(len) if len > volume => {
            let text = format!("--length is {}, the volume has {}", both(len), both(volume));
            Err(Usage(text).into())
        }
        Some(len) => Ok(len),
        None => Ok(volume),
    }
}

/// Copies the first `len` bytes of `volume` to `dest`.
pub fn export<T: BlockTarget>(
    volume: &mut T,
    len: u64,
    dest: &mut Dest,
    progress: &mut Progress,
) -> Result<Exported> {
    let mut export = Export {
        pipeline: Pipeline::new(volume),
        pool: Pool::default(),
        waiting: BTreeMap::new(),
        len,
        report: Exported::default(),
    };
    let mut next = 0;
    while export.report.bytes < len {
        // What waits to be written counts, so that a slow first read does not let all others pile up.
        while next < len && next < export.report.bytes + bytes(CHUNK * DEPTH) {
            let mut buf = export.pool.get();
            let left = usize::try_from(len - next).unwrap_or(usize::MAX);
            // Whole blocks are read, so that whole blocks are verified; the volume ends at a block.
            buf.truncate(left.min(CHUNK).next_multiple_of(BLOCK));
            export.pipeline.push(next, RequestKind::Read { offset: next, buf });
            next += bytes(CHUNK);
        }
        for completion in export.pipeline.next() {
            export.read(completion, progress)?;
        }
        export.write(dest)?;
        progress.set(export.report.bytes);
    }
    Ok(export.report)
}

struct Export<'a, T: BlockTarget> {
    pipeline: Pipeline<'a, T>,
    pool: Pool,
    /// Read, and to be written when it is their turn, by offset.
    waiting: BTreeMap<u64, Buf>,
    len: u64,
    report: Exported,
}

impl<T: BlockTarget> Export<'_, T> {
    fn read(&mut self, completion: Completion, progress: &Progress) -> Result<()> {
        if let Err(error) = completion.result {
            if error.blocks().is_empty() {
                return Err(error).with_context(|| format!("read at byte {}", completion.tag));
            }
            for bad in error.blocks() {
                progress.say(&format!("unreadable, zero in the image: {bad}"));
                self.report.bad_blocks.push(Bad::from(bad));
            }
        }
        let buf = completion.buf.context("a read came back without its buffer")?;
        self.waiting.insert(completion.tag, buf);
        Ok(())
    }

    fn write(&mut self, dest: &mut Dest) -> Result<()> {
        while let Some(buf) = self.waiting.remove(&self.report.bytes) {
            let left = usize::try_from(self.len - self.report.bytes).unwrap_or(usize::MAX);
            let take = buf.len().min(left);
            if let Some(data) = buf.get(..take) {
                dest.append(data).context("write to the destination")?;
            }
            self.report.bytes += bytes(take);
            self.pool.put(buf);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transfer::memory::Memory;

    fn run(volume: &mut Memory, len: Option<u64>) -> (Exported, Vec<u8>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let len = image_length(len, volume.size()).unwrap();
        let mut dest = Dest::open(&path, len, false, &[]).unwrap();
        let mut progress = Progress::new("export", Some(len), true);
        let report = export(volume, len, &mut dest, &mut progress).unwrap();
        dest.finish().unwrap();
        (report, std::fs::read(path).unwrap())
    }

    fn volume(size: usize) -> Memory {
        let mut volume = Memory::new(size);
        for (at, byte) in volume.data.iter_mut().enumerate() {
            // One MiB in four is zero.
            *byte = if (at >> 20) % 4 == 2 { 0 } else { u8::try_from(at / 5 % 251).unwrap() };
        }
        volume
    }

    #[test]
    fn the_image_equals_the_volume_or_its_start() {
        for len in [None, Some(0), Some(1), Some(4096), Some((9 << 20) + 4097), Some(20 << 20)] {
            let mut volume = volume(20 << 20);
            let (report, image) = run(&mut volume, len);
            let expected = usize::try_from(len.unwrap_or(20 << 20)).unwrap();
            assert_eq!(report.bytes, bytes(expected));
            assert_eq!(report.bad_blocks, []);
            assert!(image == volume.data[..expected], "{len:?}: the image differs");
            assert!(volume.most_in_flight <= DEPTH);
        }
    }

    #[test]
    fn bad_blocks_are_zero_and_listed_and_all_others_are_there() {
        let mut volume = volume(5 << 20);
        volume.bad.extend([0, 300, 301, 1279]);
        let (report, image) = run(&mut volume, None);
        let mut listed: Vec<u64> = report.bad_blocks.iter().map(|bad| bad.block).collect();
        listed.sort_unstable();
        assert_eq!(listed, [0, 300, 301, 1279]);
        assert_eq!(report.bad_blocks[0].expected, "ab");
        assert_eq!(report.bad_blocks[0].got.as_deref(), Some("cd"));
        for (block, (image, data)) in image.chunks(BLOCK).zip(volume.data.chunks(BLOCK)).enumerate()
        {
            if volume.bad.contains(&(block as u64)) {
                assert!(image.iter().all(|byte| *byte == 0), "block {block}");
            } else {
                assert!(image == data, "block {block}");
            }
        }
    }

    #[test]
    fn a_length_beyond_the_volume_is_a_usage_error() {
        let error = image_length(Some(8193), 8192).unwrap_err();
        assert!(error.is::<Usage>());
        assert!(error.to_string().contains("8193 bytes"), "{error}");
    }
}
