//! The import loop: a source becomes the first bytes of a volume.
//!
//! What the volume holds afterwards: the source's bytes from offset 0; zeroes to the end of the block in which the
//! source ends; beyond that, what was there before. Blocks that are zero are not written but discarded, so that they
//! take no room and whatever the volume held there is gone. At the end everything is flushed.

use anyhow::{Context, Result, bail};
use oxblock::submit::request::RequestKind;
use serde::Serialize;

use super::pipeline::{Pipeline, Pool};
use super::source::{Piece, Source};
use super::zero::runs;
use super::{BLOCK, bytes};
use crate::engine::BlockTarget;
use crate::progress::Progress;
use crate::size::both;

/// What an import did.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct Imported {
    /// Bytes of the source.
    pub bytes: u64,
    /// Bytes written to the volume, in whole blocks.
    pub written: u64,
    /// Bytes of the source that are zero and take no room.
    pub zero: u64,
    /// Zero bytes that follow the source's end in its last block.
    pub padding: u64,
}

/// Refuses a source of known size that does not fit.
fn check_fits(source: Option<u64>, volume: u64) -> Result<()> {
    match source {
        Some(len) if len > volume => bail!(
            "the source has {}, the volume only {}; nothing was written",
            both(len),
            both(volume)
        ),
        _ => Ok(()),
    }
}

/// Copies `source` to `volume`.
pub fn import<T: BlockTarget>(
    source: &mut Source,
    volume: &mut T,
    progress: &mut Progress,
) -> Result<Imported> {
    check_fits(source.len(), volume.size())?;
    let mut import = Import {
        size: volume.size(),
        pipeline: Pipeline::new(volume),
        pool: Pool::default(),
        zero_from: 0,
        report: Imported::default(),
    };
    loop {
        let mut buf = import.pool.get();
        match source.next(&mut buf)? {
            Piece::End => break,
            Piece::Hole(len) => {
                import.pool.put(buf);
                import.hole(len);
            }
            Piece::Data(len) => import.data(buf, len)?,
        }
        progress.set(import.report.bytes);
    }
    import.finish()
}

struct Import<'a, T: BlockTarget> {
    size: u64,
    pipeline: Pipeline<'a, T>,
    pool: Pool,
    /// Everything from here to the current position is zero and still to be discarded.
    zero_from: u64,
    report: Imported,
}

impl<T: BlockTarget> Import<'_, T> {
    /// `len` bytes of zeroes follow. They are discarded together with what zeroes come next.
    fn hole(&mut self, len: u64) {
        self.report.bytes += len;
        self.report.zero += len;
    }

    /// The first `len` bytes of `buf` follow.
    fn data(&mut self, mut buf: oxblock::device::Buf, len: usize) -> Result<()> {
        let start = self.report.bytes;
        if bytes(len) > self.size.saturating_sub(start) {
            bail!(
                "the source does not fit: the volume has {}, and is full with what came so far",
                both(self.size)
            );
        }
        // The rest of the last block is zero; recycled buffers hold anything.
        let padded = len.next_multiple_of(BLOCK);
        buf.truncate(padded);
        if let Some(rest) = buf.get_mut(len..) {
            rest.fill(0);
        }
        for run in runs(&buf) {
            let at = start + bytes(run.range.start);
            let part = run.range.len();
            // Windows on one allocation: nothing is copied.
            let rest = buf.split_off(part);
            let window = std::mem::replace(&mut buf, rest);
            if run.zero {
                self.report.zero += bytes(run.range.end.min(len) - run.range.start);
                continue;
            }
            self.discard_until(at)?;
            self.zero_from = at + bytes(part);
            self.push(part, RequestKind::Write { offset: at, buf: window, fua: false })?;
            self.report.written += bytes(part);
        }
        self.report.bytes += bytes(len);
        Ok(())
    }

    /// Discards what is known to be zero before `end`.
    fn discard_until(&mut self, end: u64) -> Result<()> {
        let len = end.saturating_sub(self.zero_from);
        if len > 0 {
            self.push(0, RequestKind::Discard { offset: self.zero_from, len })?;
        }
        Ok(())
    }

    fn push(&mut self, len: usize, kind: RequestKind) -> Result<()> {
        let ready = self.pipeline.ready();
        self.retire(ready)?;
        while !self.pipeline.has_room(len) {
            let done = self.pipeline.next();
            self.retire(done)?;
        }
        self.pipeline.push(0, kind);
        Ok(())
    }

    fn retire(&mut self, done: Vec<oxblock::submit::request::Completion>) -> Result<()> {
        for completion in done {
            completion.result.context("write to the volume")?;
            if let Some(buf) = completion.buf {
                self.pool.put(buf);
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Imported> {
        // The volume's size is a multiple of a block, so the source's last block fits as a whole.
        let end = self.report.bytes.next_multiple_of(bytes(BLOCK));
        self.report.padding = end - self.report.bytes;
        self.discard_until(end)?;
        self.drain()?;
        self.pipeline.push(0, RequestKind::Flush);
        self.drain().context("flush")?;
        Ok(self.report)
    }

    fn drain(&mut self) -> Result<()> {
        loop {
            let done = self.pipeline.next();
            if done.is_empty() {
                return Ok(());
            }
            self.retire(done)?;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    use super::*;
    use crate::transfer::memory::Memory;

    fn run(file: File, volume: &mut Memory) -> Result<Imported> {
        let mut progress = Progress::new("import", None, true);
        import(&mut Source::new(file)?, volume, &mut progress)
    }

    fn file_of(pieces: &[(u64, Vec<u8>)], len: u64) -> File {
        let file = tempfile::tempfile().unwrap();
        for (at, piece) in pieces {
            file.write_all_at(piece, *at).unwrap();
        }
        file.set_len(len).unwrap();
        file
    }

    fn pattern(len: usize) -> Vec<u8> {
        (0..len).map(|at| u8::try_from(at / 7 % 255 + 1).unwrap()).collect()
    }

    #[test]
    fn the_volume_reads_as_the_source_whatever_it_held() {
        let pieces =
            [(4096, pattern(10_000)), (3 << 20, pattern(2 << 20)), (9_000_000, pattern(1))];
        let len = 10_000_001;
        let file = file_of(&pieces, len);
        let mut expected = vec![0; 12 << 20];
        for (at, piece) in &pieces {
            let at = usize::try_from(*at).unwrap();
            expected[at..at + piece.len()].copy_from_slice(piece);
        }
        let mut volume = Memory::new(12 << 20);
        volume.data.fill(0xEE);
        let end = usize::try_from(len).unwrap().next_multiple_of(BLOCK);
        expected[end..].fill(0xEE);
        let report = run(file, &mut volume).unwrap();
        assert!(volume.data == expected, "the volume differs from the source");
        assert_eq!(report.bytes, len);
        assert_eq!(report.padding, bytes(end) - len);
        assert_eq!(report.written, 12288 + (2 << 20) + 4096);
        assert!(volume.flushed);
        assert!(volume.most_in_flight > 1);
    }

    #[test]
    fn a_source_that_is_too_large_is_refused_before_anything_is_written() {
        let mut volume = Memory::new(1 << 20);
        let error = run(file_of(&[], (1 << 20) + 1), &mut volume).unwrap_err().to_string();
        assert!(error.contains("1048577 bytes") && error.contains("1048576 bytes"), "{error}");
        assert_eq!(volume.requests, 0);
    }

    #[test]
    fn a_stream_that_is_too_large_fails_when_the_volume_is_full() {
        use std::io::Write;
        let (reader, mut writer) = std::io::pipe().unwrap();
        let feeder = std::thread::spawn(move || writer.write_all(&vec![1; 3 << 20]));
        let mut volume = Memory::new(1 << 20);
        let reader = File::from(std::os::fd::OwnedFd::from(reader));
        let error = run(reader, &mut volume).unwrap_err().to_string();
        assert!(error.contains("does not fit"), "{error}");
        feeder.join().unwrap().ok();
    }

    #[test]
    fn a_failed_write_ends_the_import() {
        let mut volume = Memory::new(8 << 20);
        volume.fail_writes_after = Some(3);
        let error = run(file_of(&[(0, pattern(8 << 20))], 8 << 20), &mut volume).unwrap_err();
        assert!(format!("{error:#}").starts_with("write to the volume: "), "{error:#}");
    }

    #[test]
    fn an_empty_source_is_only_flushed() {
        let mut volume = Memory::new(1 << 20);
        assert_eq!(run(file_of(&[], 0), &mut volume).unwrap(), Imported::default());
        assert!(volume.flushed);
        assert_eq!(volume.requests, 1);
    }
}
