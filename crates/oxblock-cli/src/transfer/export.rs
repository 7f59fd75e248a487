//! The export loop: the first bytes of a volume become a file, a block device or a stream.
//!
//! Only what the volume holds is read; the rest is zero by the map's word, so that a large and mostly empty volume costs
//! what is in it. Reads are in flight together and complete in any order; they are written in order, so that a stream
//! works too and no more than the reads in flight is ever held. A block that cannot be verified, or found, is zero in the
//! destination and named in the report; everything else is copied.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use oxblock::device::Buf;
use oxblock::error::{BadBlock, Error, ErrorKind};
use oxblock::submit::request::{Completion, RequestKind};
use oxblock::volume::{Extent, ExtentKind, FINDINGS_KEPT};
use serde::Serialize;

use super::dest::Dest;
use super::pipeline::{Pipeline, Pool};
use super::{BLOCK, CHUNK, DEPTH, bytes};
use crate::engine::BlockTarget;
use crate::output::Usage;
use crate::progress::Progress;
use crate::size::both;

/// The most bad blocks, and the most lost stretches, that are said and kept; all are counted. A device that fails as a
/// whole has more of them than fit in memory.
pub const LISTED: usize = FINDINGS_KEPT;

/// What an export did.
#[derive(Debug, Default, Serialize)]
pub struct Exported {
    /// Bytes of the image.
    pub bytes: u64,
    /// Bytes of it that the volume holds and that were read.
    pub read: u64,
    /// Blocks of the image that are not what was written, and are zero in it.
    pub missing_blocks: u64,
    /// Those that could not be verified, at most [`LISTED`].
    pub bad_blocks: Vec<Bad>,
    /// Stretches of those that could not be found, at most [`LISTED`].
    pub lost: Vec<Lost>,
}

impl Exported {
    /// More is missing than is listed.
    pub fn is_cut(&self) -> bool {
        let lost: u64 = self.lost.iter().map(|lost| lost.blocks).sum();
        self.missing_blocks > self.bad_blocks.len() as u64 + lost
    }
}

/// Blocks that nobody can find, since the map node for them is damaged.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Lost {
    /// The first logical block, in units of 4096 bytes.
    pub block: u64,
    /// How many.
    pub blocks: u64,
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
        ready: BTreeMap::new(),
        ahead: None,
        next: 0,
        len,
        report: Exported::default(),
    };
    while export.report.bytes < len {
        export.fill(progress)?;
        for completion in export.pipeline.next() {
            export.read(completion, progress)?;
        }
        export.write(dest)?;
        progress.set(export.report.bytes);
    }
    Ok(export.report)
}

/// A stretch that is to be written when it is its turn.
enum Ready {
    /// What was read.
    Data(Buf),
    /// So many zero bytes.
    Zero(u64),
}

struct Export<'a, T: BlockTarget> {
    pipeline: Pipeline<'a, T>,
    pool: Pool,
    /// By offset.
    ready: BTreeMap<u64, Ready>,
    /// What was found by looking ahead and is not dealt with.
    ahead: Option<Extent>,
    /// Everything before is read, on its way, or known to be zero.
    next: u64,
    len: u64,
    report: Exported,
}

impl<T: BlockTarget> Export<'_, T> {
    /// Keeps reads in flight. What waits to be written counts, so that a slow first read does not let all others pile up.
    fn fill(&mut self, progress: &Progress) -> Result<()> {
        while self.next < self.len
            && self.pipeline.in_flight() + self.ready.len() < 2 * DEPTH
            && self.pipeline.in_flight() < DEPTH
        {
            let Some(extent) = self.look(self.next)? else {
                self.zero_until(self.len);
                return Ok(());
            };
            self.zero_until(extent.start);
            match extent.kind {
                ExtentKind::Data => self.read_from(extent)?,
                ExtentKind::Lost => self.lose(extent, progress),
            }
        }
        Ok(())
    }

    /// The next stretch that is not zero, within the image.
    fn look(&mut self, from: u64) -> Result<Option<Extent>> {
        let extent = match self.ahead.take() {
            Some(extent) => Some(extent),
            None => self.pipeline.target().next_data(from).context("look for data")?,
        };
        Ok(extent.filter(|extent| extent.start < self.len))
    }

    fn zero_until(&mut self, end: u64) {
        let end = end.min(self.len);
        if end > self.next {
            self.ready.insert(self.next, Ready::Zero(end - self.next));
            self.next = end;
        }
    }

    /// Reads from `extent` on, together with what follows closely: what is between reads as zeroes for nothing.
    fn read_from(&mut self, extent: Extent) -> Result<()> {
        let start = extent.start;
        let limit = start + bytes(CHUNK);
        let mut end = extent.end;
        while end < limit.min(self.len) {
            match self.look(end)? {
                Some(more) if more.kind == ExtentKind::Data && more.start < limit => end = more.end,
                other => {
                    self.ahead = other;
                    break;
                }
            }
        }
        // Whole blocks are read, so that whole blocks are verified; the volume ends at a block.
        let end = end.min(limit).min(self.len.next_multiple_of(bytes(BLOCK)));
        let mut buf = self.pool.get();
        buf.truncate(usize::try_from(end - start)?);
        self.report.read += end - start;
        self.pipeline.push(start, RequestKind::Read { offset: start, buf });
        self.next = end;
        // The rest of a stretch that was cut is found again.
        self.ahead = self.ahead.filter(|ahead| ahead.start >= end);
        Ok(())
    }

    fn lose(&mut self, extent: Extent, progress: &Progress) {
        let block = extent.start / bytes(BLOCK);
        let end = extent.end.min(self.len.next_multiple_of(bytes(BLOCK)));
        self.lost(block, end / bytes(BLOCK) - block, progress);
        self.zero_until(end);
    }

    fn lost(&mut self, block: u64, blocks: u64, progress: &Progress) {
        self.report.missing_blocks += blocks;
        if self.report.lost.len() < LISTED {
            progress.say(&format!(
                "unreadable, zero in the image: blocks {block} to {}: the map node that holds them is or was damaged",
                block + blocks - 1
            ));
            self.report.lost.push(Lost { block, blocks });
        }
    }

    /// Takes note of the blocks that `error` names.
    fn bad(&mut self, error: &Error, progress: &Progress) {
        for bad in error.blocks() {
            self.report.missing_blocks += 1;
            if self.report.bad_blocks.len() < LISTED {
                progress.say(&format!("unreadable, zero in the image: {bad}"));
                self.report.bad_blocks.push(Bad::from(bad));
            }
        }
    }

    fn read(&mut self, completion: Completion, progress: &Progress) -> Result<()> {
        let offset = completion.tag;
        let mut buf = completion.buf.context("a read came back without its buffer")?;
        if let Err(error) = completion.result {
            self.note(&error, offset, &mut buf, progress)?;
        }
        self.ready.insert(offset, Ready::Data(buf));
        Ok(())
    }

    /// Takes note of what a read of `buf` could not give.
    fn note(
        &mut self,
        error: &Error,
        offset: u64,
        buf: &mut Buf,
        progress: &Progress,
    ) -> Result<()> {
        self.bad(error, progress);
        if !error.blocks().is_empty() {
            return Ok(());
        }
        if error.kind() != ErrorKind::Corrupt {
            return Err(error.clone()).with_context(|| format!("read at byte {offset}"));
        }
        // Some of these blocks cannot be found. One by one it shows which.
        let first = offset / bytes(BLOCK);
        let mut run: Option<(u64, u64)> = None;
        for (block, target) in (first..).zip(buf.chunks_exact_mut(BLOCK)) {
            let at = block * bytes(BLOCK);
            let (data, result) = self.pipeline.read_alone(at, BLOCK);
            target.copy_from_slice(&data);
            match result {
                Err(error) if error.blocks().is_empty() => {
                    let (start, count) = run.unwrap_or((block, 0));
                    run = Some((start, count + 1));
                    continue;
                }
                Err(error) => self.bad(&error, progress),
                Ok(()) => {}
            }
            if let Some((start, count)) = run.take() {
                self.lost(start, count, progress);
            }
        }
        if let Some((start, count)) = run {
            self.lost(start, count, progress);
        }
        Ok(())
    }

    fn write(&mut self, dest: &mut Dest) -> Result<()> {
        while let Some(ready) = self.ready.remove(&self.report.bytes) {
            match ready {
                Ready::Zero(len) => {
                    dest.skip(len).context("write to the destination")?;
                    self.report.bytes += len;
                }
                Ready::Data(buf) => {
                    let left = usize::try_from(self.len - self.report.bytes).unwrap_or(usize::MAX);
                    let take = buf.len().min(left);
                    if let Some(data) = buf.get(..take) {
                        dest.append(data).context("write to the destination")?;
                    }
                    self.report.bytes += bytes(take);
                    self.pool.put(buf);
                }
            }
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
        volume.lost = Some(2 << 20..3 << 20);
        let (report, image) = run(&mut volume, None);
        assert_eq!(report.lost, [Lost { block: 512, blocks: 256 }]);
        assert_eq!(report.missing_blocks, 260);
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
    fn a_device_full_of_bad_blocks_is_counted_and_listed_in_part() {
        let mut volume = volume(48 << 20);
        volume.bad.extend(0..48 << 8);
        let (report, image) = run(&mut volume, None);
        // Every fourth MiB is zero and not read.
        assert_eq!(report.missing_blocks, 36 << 8);
        assert!(!report.is_cut());
        assert!(image.iter().all(|byte| *byte == 0));
        let mut volume = self::volume(64 << 20);
        volume.bad.extend(0..64 << 8);
        let (report, _) = run(&mut volume, None);
        assert_eq!((report.missing_blocks, report.bad_blocks.len()), (48 << 8, LISTED));
        assert!(report.is_cut());
    }

    #[test]
    fn a_length_beyond_the_volume_is_a_usage_error() {
        let error = image_length(Some(8193), 8192).unwrap_err();
        assert!(error.is::<Usage>());
        assert!(error.to_string().contains("8193 bytes"), "{error}");
    }
}
