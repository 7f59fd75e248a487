//! How fast a device answers a small read, and whether that makes it memory-like.
//!
//! The question is asked of the device, not of its name: a read of one block that takes little and is spent on the CPU
//! is cheaper than any hand-off. Two answers would deceive, and are avoided: a hole in a sparse file (no device is
//! asked), and the page cache (buffered I/O, or a file system that serves direct reads from it).
//!
//! Measuring never writes. A file without data stays unmeasured, and is not taken for memory.

use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::Advice;
use rustix::time::{ClockId, clock_gettime};

use super::Buf;
use super::extents::next_data;
use super::target::now_ns;
use crate::format::layout::{BLOCK_BYTES, BLOCK_SIZE};

/// Below this, in nanoseconds, a hop through the ring costs more than the read itself: a hop to a kernel worker takes
/// 25-50 us, the fastest disks some 8-10 us.
const INLINE_BELOW_NS: u64 = 8_000;

/// Reads for one measurement.
const READS: u64 = 9;

/// Stretches of data looked at for one that has a whole block.
const STRETCHES: usize = 64;

/// What was found about a device.
#[derive(Debug, Clone)]
pub(super) struct Pace {
    /// The median time of a 4 KiB read in nanoseconds, when it could be measured.
    read_ns: Option<u64>,
    /// Operations are best run at once, by the issuer.
    pub(super) inline: bool,
    /// The file lives in memory by its file system's type (tmpfs, ramfs).
    memory: bool,
}

impl Pace {
    /// Measures `file`, by reading only.
    pub(super) fn measure(file: BorrowedFd<'_>, size: u64, block: bool, direct: bool) -> Self {
        let memory = !block && in_memory(file);
        if !direct && !memory {
            return Self { read_ns: None, inline: false, memory };
        }
        let sample = if block || memory {
            (size >= BLOCK_BYTES).then_some((0, size))
        } else {
            data(file, size)
        };
        let measured = sample.and_then(|(start, len)| read_times(file, start, len).ok());
        let fast = measured.is_some_and(|(median, on_cpu)| median < INLINE_BELOW_NS && on_cpu);
        Self { read_ns: measured.map(|(median, _)| median), inline: memory || fast, memory }
    }

    /// The finding, for people.
    pub(super) fn sentence(&self) -> String {
        let verdict = match (self.inline, self.memory) {
            (true, true) => ", in memory; a ring hop costs more",
            (true, false) => "; a ring hop costs more",
            (false, _) => "",
        };
        match self.read_ns {
            Some(ns) => {
                let (us, tenths) = (ns / 1000, ns % 1000 / 100);
                format!("a 4 KiB read takes {us}.{tenths} us here{verdict}")
            }
            None if self.memory => "in memory; a ring hop costs more".into(),
            None => "read latency not measured".into(),
        }
    }
}

/// The file system keeps its files in memory.
pub(super) fn in_memory(file: BorrowedFd<'_>) -> bool {
    const TMPFS_MAGIC: u64 = 0x0102_1994;
    const RAMFS_MAGIC: u64 = 0x8584_58f6;
    rustix::fs::fstatfs(file).is_ok_and(|stat| {
        u64::try_from(stat.f_type).is_ok_and(|kind| kind == TMPFS_MAGIC || kind == RAMFS_MAGIC)
    })
}

/// The first stretch of data in a sparse file that has a whole block, whole blocks only, as (start, length).
fn data(file: BorrowedFd<'_>, size: u64) -> Option<(u64, u64)> {
    let mut from = 0;
    for _ in 0..STRETCHES {
        let stretch = next_data(file, from, size).ok()??;
        let start = stretch.start.next_multiple_of(BLOCK_BYTES);
        let len = stretch.end.saturating_sub(start) / BLOCK_BYTES * BLOCK_BYTES;
        if len > 0 {
            return Some((start, len));
        }
        from = stretch.end;
    }
    None
}

/// Reads some blocks and returns the median time in nanoseconds, and whether most of the time went by on the CPU.
fn read_times(file: BorrowedFd<'_>, start: u64, len: u64) -> io::Result<(u64, bool)> {
    // Should direct reads be served from the page cache after all, let it at least be empty.
    rustix::fs::fadvise(file, start, NonZeroU64::new(len), Advice::DontNeed).ok();
    let mut buf = Buf::new(BLOCK_SIZE);
    let blocks = (len / BLOCK_BYTES).max(1);
    let mut times = Vec::new();
    let cpu_before = thread_cpu_ns();
    for read in 0..READS {
        let offset = start + read % blocks * BLOCK_BYTES;
        let before = now_ns();
        let got = rustix::io::pread(file.as_fd(), &mut *buf, offset)?;
        times.push(now_ns().saturating_sub(before));
        if got != buf.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    let on_cpu = thread_cpu_ns().saturating_sub(cpu_before);
    let total: u64 = times.iter().sum();
    times.sort_unstable();
    let median = times.get(times.len() / 2).copied().unwrap_or(u64::MAX);
    Ok((median, on_cpu >= total / 2))
}

fn thread_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(u64::try_from(time.tv_nsec).unwrap_or(0))
}
