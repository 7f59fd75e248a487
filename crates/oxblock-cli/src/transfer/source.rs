//! What is imported: a file, a block device, or a stream such as standard input.
//!
//! A source is read front to back, in pieces of at most [`CHUNK`] bytes that start at multiples of 4096. Holes of a
//! sparse file are found with `SEEK_DATA` and skipped without being read. Standard input that was redirected from a
//! file is treated as that file, from its current position.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::Path;

use anyhow::{Context, Result, bail};
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

use super::{BLOCK, CHUNK, bytes};

/// Something to import.
pub struct Source {
    file: File,
    /// Bytes, where known.
    len: Option<u64>,
    /// Where in the file the source starts.
    base: u64,
    /// Bytes given out so far.
    position: u64,
    /// Data ends here, relative to the source's start; beyond it the next hole or piece of data must be looked for.
    data_until: u64,
    /// Holes can be asked for.
    sparse: bool,
}

/// The next stretch of a source.
#[derive(Debug, PartialEq, Eq)]
pub enum Piece {
    /// So many bytes are in the buffer.
    Data(usize),
    /// So many bytes are zero, by the file system's word.
    Hole(u64),
    /// That was all.
    End,
}

impl Source {
    /// Opens `path`; `-` is standard input.
    pub fn open(path: &Path) -> Result<Self> {
        if path == Path::new("-") {
            let stdin = io::stdin().as_fd().try_clone_to_owned().context("standard input")?;
            return Self::new(File::from(stdin));
        }
        let file = File::open(path).with_context(|| format!("open {}", path.display()))?;
        Self::new(file).with_context(|| path.display().to_string())
    }

    /// A source from where `file` stands to its end.
    pub fn new(file: File) -> Result<Self> {
        let kind = file.metadata()?.file_type();
        if kind.is_dir() {
            bail!("this is a directory; import takes an image, a block device or '-'");
        }
        let sized = kind.is_file() || kind.is_block_device();
        let (base, len) = if sized {
            let base = seek(&file, SeekFrom::Current(0))?;
            let end = seek(&file, SeekFrom::End(0))?;
            seek(&file, SeekFrom::Start(base))?;
            (base, Some(end.saturating_sub(base)))
        } else {
            (0, None)
        };
        Ok(Self { file, len, base, position: 0, data_until: 0, sparse: kind.is_file() })
    }

    /// Bytes, where that is known before all is read.
    pub fn len(&self) -> Option<u64> {
        self.len
    }

    /// Reads the next piece into `buf`, which is [`CHUNK`] bytes long.
    pub fn next(&mut self, buf: &mut [u8]) -> Result<Piece> {
        let Some(len) = self.len else { return self.next_of_stream(buf) };
        let left = len.saturating_sub(self.position);
        if left == 0 {
            return Ok(Piece::End);
        }
        if self.sparse && self.position >= self.data_until {
            let hole = self.look_ahead(len)?;
            if hole > 0 {
                self.position += hole;
                return Ok(Piece::Hole(hole));
            }
        }
        let until = if self.sparse { self.data_until.min(len) } else { len };
        let take = bytes(CHUNK).min(until.saturating_sub(self.position));
        let buf = buf.get_mut(..usize::try_from(take)?).context("the buffer is too small")?;
        let at = self.base + self.position;
        self.file.read_exact_at(buf, at).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                anyhow::anyhow!("the source shrank while it was read (byte {at} is gone)")
            }
            _ => anyhow::Error::from(error).context(format!("read at byte {at}")),
        })?;
        self.position += take;
        Ok(Piece::Data(buf.len()))
    }

    /// Finds where data starts and ends from `position` on; returns the length of the hole before it, in whole blocks
    /// unless it reaches the end.
    fn look_ahead(&mut self, len: u64) -> Result<u64> {
        let here = self.base + self.position;
        let start = match seek(&self.file, SeekFrom::Data(here)) {
            Ok(start) => start,
            // No data from here on.
            Err(Errno::NXIO) => return Ok(len - self.position),
            Err(_) => {
                self.sparse = false;
                return Ok(0);
            }
        };
        let end = seek(&self.file, SeekFrom::Hole(start)).unwrap_or(self.base + len);
        // Outwards to blocks of the volume: a few zero bytes are read as data rather than the reverse.
        let block = bytes(BLOCK);
        let start = (start - self.base) / block * block;
        self.data_until = (end - self.base).next_multiple_of(block);
        Ok(start.saturating_sub(self.position))
    }

    fn next_of_stream(&mut self, buf: &mut [u8]) -> Result<Piece> {
        let mut filled = 0;
        while let Some(rest) = buf.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match self.file.read(rest) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    let at = self.position + bytes(filled);
                    return Err(error).with_context(|| format!("read at byte {at}"));
                }
            }
        }
        self.position += bytes(filled);
        Ok(if filled == 0 { Piece::End } else { Piece::Data(filled) })
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, Write};

    use super::*;

    fn pieces(mut source: Source) -> Vec<Piece> {
        let mut buf = vec![0; CHUNK];
        let mut pieces = Vec::new();
        loop {
            match source.next(&mut buf).unwrap() {
                Piece::End => return pieces,
                piece => pieces.push(piece),
            }
        }
    }

    #[test]
    fn holes_are_skipped_unread() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&[1; 4096], 8 << 20).unwrap();
        file.set_len((16 << 20) + 100).unwrap();
        let found = pieces(Source::new(file).unwrap());
        let expected =
            [Piece::Hole(8 << 20), Piece::Data(4096), Piece::Hole((8 << 20) - 4096 + 100)];
        // A file system without holes gives the same bytes as data.
        if found.iter().any(|piece| matches!(piece, Piece::Hole(_))) {
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn a_redirected_file_starts_where_it_stands() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&vec![7; 3 << 20]).unwrap();
        file.seek(io::SeekFrom::Start(1000)).unwrap();
        let source = Source::new(file).unwrap();
        assert_eq!(source.len(), Some((3 << 20) - 1000));
        let found = pieces(source);
        assert_eq!(found, [Piece::Data(CHUNK), Piece::Data(CHUNK), Piece::Data(CHUNK - 1000)]);
    }

    #[test]
    fn a_stream_is_read_in_full_chunks() {
        let (reader, mut writer) = io::pipe().unwrap();
        let feeder = std::thread::spawn(move || {
            for _ in 0..300 {
                writer.write_all(&[9; 7777]).unwrap();
            }
        });
        let source = Source::new(File::from(std::os::fd::OwnedFd::from(reader))).unwrap();
        assert_eq!(source.len(), None);
        let rest = 300 * 7777 - 2 * CHUNK;
        assert_eq!(pieces(source), [Piece::Data(CHUNK), Piece::Data(CHUNK), Piece::Data(rest)]);
        feeder.join().unwrap();
    }

    #[test]
    fn directories_and_missing_files_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let error = Source::open(folder.path()).err().unwrap();
        assert!(format!("{error:#}").contains("this is a directory"), "{error:#}");
        let error = Source::open(&folder.path().join("none")).err().unwrap();
        assert!(format!("{error:#}").contains("none"), "{error:#}");
    }
}
