//! Buffers that are owned from submission to completion.
//!
//! A [`Buf`] is an exclusive window on a 4096-aligned allocation. Windows can be split and joined again without a copy,
//! so that one request travels as several device operations and comes back whole. The invariant that makes the access
//! sound: **no two live `Buf`s of one allocation overlap**. Only `new`, `split_off` and `join` make windows, and each
//! keeps it.
#![expect(
    unsafe_code,
    reason = "exclusive windows on shared memory need raw slices; argued at each block"
)]

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

use crate::format::layout::BLOCK_SIZE;

/// One 4096-aligned allocation, shared by its windows.
struct Allocation {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the allocation is plain bytes. Access goes only through `Buf`, whose windows never overlap, so two threads
// never touch the same byte.
unsafe impl Send for Allocation {}
// SAFETY: as above.
unsafe impl Sync for Allocation {}

impl Drop for Allocation {
    fn drop(&mut self) {
        // SAFETY: `start` came from `alloc_zeroed` with this layout, and the last window is gone.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}

/// An owned, 4096-aligned byte buffer.
pub struct Buf {
    memory: Arc<Allocation>,
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: a `Buf` has exclusive access to its window (module invariant), like a `Box<[u8]>`.
unsafe impl Send for Buf {}
// SAFETY: shared access to a `Buf` only reads.
unsafe impl Sync for Buf {}

impl Buf {
    /// A zeroed buffer of `len` bytes, aligned to 4096.
    ///
    /// # Panics
    /// When `len` exceeds `isize::MAX`; running out of memory aborts, as everywhere in Rust.
    pub fn new(len: usize) -> Self {
        // At least one block, so that the layout is never empty.
        let size = len.max(1).next_multiple_of(BLOCK_SIZE);
        let Ok(layout) = Layout::from_size_align(size, BLOCK_SIZE) else {
            handle_alloc_error(Layout::new::<u8>())
        };
        // SAFETY: the layout is not empty.
        let memory = unsafe { alloc_zeroed(layout) };
        let Some(start) = NonNull::new(memory) else { handle_alloc_error(layout) };
        Self { memory: Arc::new(Allocation { start, layout }), start, len }
    }

    /// A buffer with a copy of `data`.
    pub fn copy_of(data: &[u8]) -> Self {
        let mut buf = Self::new(data.len());
        buf.copy_from_slice(data);
        buf
    }

    /// Cuts the buffer at `at`: `self` keeps `[0, at)`, the result is `[at, len)`.
    ///
    /// # Panics
    /// When `at > len`.
    #[must_use]
    pub fn split_off(&mut self, at: usize) -> Self {
        assert!(at <= self.len, "cut at {at} beyond the end {}", self.len);
        // SAFETY: `at <= len`, so the result stays inside, or one past the end of, the window.
        let start = unsafe { self.start.add(at) };
        let tail = Self { memory: Arc::clone(&self.memory), start, len: self.len - at };
        self.len = at;
        tail
    }

    /// Joins `next` to the end of `self` if they are neighbours in one allocation; gives `next` back otherwise.
    ///
    /// # Errors
    /// `next` itself, when it does not follow `self` in memory.
    pub fn join(&mut self, next: Self) -> Result<(), Self> {
        // SAFETY: the end of the window is inside, or one past the end of, its allocation.
        let end = unsafe { self.start.add(self.len) };
        if !Arc::ptr_eq(&self.memory, &next.memory) || end != next.start {
            return Err(next);
        }
        self.len += next.len;
        Ok(())
    }

    /// Shortens the buffer to `len` bytes; the rest is unreachable until the buffer is dropped.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }
}

impl Deref for Buf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the window is inside the live allocation, initialised at birth, and exclusively ours.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for Buf {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `&mut self` makes the access unique.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl fmt::Debug for Buf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buf({} bytes at {:p})", self.len, self.start)
    }
}

impl From<&[u8]> for Buf {
    fn from(data: &[u8]) -> Self {
        Self::copy_of(data)
    }
}

impl From<Vec<u8>> for Buf {
    fn from(data: Vec<u8>) -> Self {
        Self::copy_of(&data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_buffers_are_aligned_and_zero() {
        for len in [0, 1, 4095, 4096, 4097, 1 << 20] {
            let buf = Buf::new(len);
            assert_eq!(buf.len(), len);
            assert_eq!(buf.as_ptr() as usize % BLOCK_SIZE, 0);
            assert!(buf.iter().all(|byte| *byte == 0));
        }
    }

    #[test]
    fn split_parts_keep_their_bytes_and_join_again() {
        let mut buf = Buf::copy_of(&(0..=255).cycle().take(12288).collect::<Vec<u8>>());
        let whole = buf.to_vec();
        let mut middle = buf.split_off(4096);
        let tail = middle.split_off(4096);
        middle[0] = 99;
        assert_eq!(buf.len() + middle.len() + tail.len(), 12288);
        let tail = buf.join(tail).unwrap_err();
        buf.join(middle).unwrap();
        buf.join(tail).unwrap();
        assert_eq!(buf[4096], 99);
        assert_eq!(buf[..4096], whole[..4096]);
        assert_eq!(buf[4097..], whole[4097..]);
    }

    #[test]
    fn buffers_of_different_allocations_do_not_join() {
        let mut first = Buf::new(4096);
        assert!(first.join(Buf::new(4096)).is_err());
        assert_eq!(first.len(), 4096);
    }

    #[test]
    fn parts_outlive_each_other() {
        let mut first = Buf::new(8192);
        let second = first.split_off(4096);
        drop(first);
        assert_eq!(second.len(), 4096);
        assert!(second.iter().all(|byte| *byte == 0));
    }
}
