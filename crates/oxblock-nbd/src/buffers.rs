//! Buffers for payload, used again and again: a new one costs zeroing, and a large one a page fault for every page.
//!
//! They come in sizes that are powers of two. A request gets the front of one and keeps the tail at hand; when it is over,
//! both are joined to what they were.

use oxblock::Buf;

/// The smallest size, as a power of two.
const SMALLEST: u32 = 12;
/// Sizes: up to 32 MiB, the longest payload.
const SIZES: usize = 14;
/// The most bytes that lie idle.
const IDLE_MOST: usize = 32 << 20;

/// A buffer on loan.
#[derive(Debug)]
pub(crate) struct Lease {
    /// What the request asked for.
    pub buf: Buf,
    /// What is behind it.
    pub tail: Buf,
}

impl Lease {
    /// Bytes of memory that it takes.
    pub fn held(&self) -> u64 {
        (self.buf.len() + self.tail.len()) as u64
    }
}

/// The idle buffers.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    sizes: [Vec<Buf>; SIZES],
    idle: usize,
}

fn place(len: usize) -> usize {
    let bits = len.max(1).next_power_of_two().trailing_zeros();
    bits.saturating_sub(SMALLEST) as usize
}

impl Buffers {
    /// A buffer of `len` bytes, aligned to 4096, with anything in it.
    pub fn take(&mut self, len: usize) -> Lease {
        let mut buf = match self.sizes.get_mut(place(len)).and_then(Vec::pop) {
            Some(buf) => {
                self.idle -= buf.len();
                buf
            }
            None => Buf::new(len.next_power_of_two().max(1 << SMALLEST)),
        };
        let tail = buf.split_off(len);
        Lease { buf, tail }
    }

    /// Takes one back.
    pub fn give(&mut self, lease: Lease) {
        let Lease { mut buf, tail } = lease;
        let len = buf.len() + tail.len();
        if self.idle + len > IDLE_MOST || buf.join(tail).is_err() {
            return;
        }
        if let Some(size) = self.sizes.get_mut(place(len)) {
            self.idle += len;
            size.push(buf);
        }
    }

    /// Lets go of all of them.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// True when nothing lies idle.
    pub fn is_empty(&self) -> bool {
        self.idle == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_comes_back_whole() {
        let mut buffers = Buffers::default();
        for len in [0, 1, 512, 4096, 4097, 100_000, 32 << 20] {
            let mut lease = buffers.take(len);
            assert_eq!(lease.buf.len(), len);
            assert!(lease.held().is_power_of_two() && lease.held() >= len as u64);
            lease.buf.fill(1);
            let start = lease.buf.as_ptr();
            buffers.give(lease);
            let again = buffers.take(len);
            assert_eq!((again.buf.as_ptr(), again.buf.len()), (start, len));
            assert!((again.buf.len() + again.tail.len()).is_power_of_two());
            buffers.give(again);
            buffers.clear();
        }
    }

    #[test]
    fn what_lies_idle_has_a_limit() {
        let mut buffers = Buffers::default();
        let leases: Vec<Lease> = (0..40).map(|_| buffers.take(1 << 20)).collect();
        leases.into_iter().for_each(|lease| buffers.give(lease));
        assert_eq!(buffers.idle, IDLE_MOST);
    }
}
