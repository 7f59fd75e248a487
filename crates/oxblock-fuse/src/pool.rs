//! Buffers to receive into and to read into, used again.
//!
//! The kernel wants room for the largest message each time it is asked for one, whatever comes. So a buffer is always as
//! large as that, is cut where the payload ends, and the front part goes to the volume while the rest is kept for it. Of a
//! buffer that was never full most pages are never touched, and take no memory. The last one that came back is taken first,
//! while it is still in the processor's cache.

use oxblock::Buf;

use crate::proto::TRANSFER_MAX;

/// Bytes of a buffer.
const SIZE: usize = TRANSFER_MAX as usize;

/// Idle buffers that are kept.
const KEPT: usize = 64;

/// The buffers.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    idle: Vec<Buf>,
}

impl Pool {
    /// A buffer of full size. What is in it is of no meaning.
    pub(crate) fn take(&mut self) -> Buf {
        self.idle.pop().unwrap_or_else(|| Buf::new(SIZE))
    }

    /// Takes a buffer back that was cut into `front` and `rest`.
    pub(crate) fn give(&mut self, mut front: Buf, rest: Buf) {
        if front.join(rest).is_ok() && front.len() == SIZE && self.idle.len() < KEPT {
            self.idle.push(front);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_buffer_is_whole_when_it_comes_back() {
        let mut pool = Pool::default();
        let mut front = pool.take();
        let start = front.as_ptr();
        let rest = front.split_off(5000);
        pool.give(front, rest);
        let again = pool.take();
        assert_eq!((again.len(), again.as_ptr()), (SIZE, start));
    }

    #[test]
    fn parts_of_different_buffers_are_dropped() {
        let mut pool = Pool::default();
        let (mut one, mut two) = (pool.take(), pool.take());
        let rest = one.split_off(4096);
        drop(two.split_off(4096));
        pool.give(two, rest);
        assert!(pool.idle.is_empty());
    }
}
