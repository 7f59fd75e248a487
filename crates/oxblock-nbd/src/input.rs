//! What has come from a client and is not understood yet. Memory is taken for it when something comes, and given back when
//! nothing is left.

/// The most bytes at hand: more than the longest option of the handshake.
pub(crate) const INPUT: usize = 64 << 10;

/// The most vectors that wait for their next use.
const SPARES: usize = 16;

/// Memory that no connection has at the moment.
#[derive(Debug, Default)]
pub(crate) struct Spares(Vec<Vec<u8>>);

/// The bytes.
#[derive(Debug, Default)]
pub(crate) struct Input {
    memory: Vec<u8>,
    start: usize,
    end: usize,
}

impl Input {
    /// What is there.
    pub fn data(&self) -> &[u8] {
        self.memory.get(self.start..self.end).unwrap_or_default()
    }

    /// True when nothing is there.
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Forgets the first `count` bytes.
    pub fn consume(&mut self, count: usize) {
        self.start = (self.start + count).min(self.end);
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.start = self.end;
    }

    /// Room for at most `most` more bytes, behind those that are there.
    pub fn room(&mut self, most: usize, spares: &mut Spares) -> &mut [u8] {
        if self.memory.is_empty() {
            self.memory = spares.0.pop().unwrap_or_else(|| vec![0; INPUT]);
        }
        if self.start > 0 {
            self.memory.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        let end = (self.end + most).min(self.memory.len());
        self.memory.get_mut(self.end..end).unwrap_or_default()
    }

    /// Of the room, `count` bytes were filled.
    pub fn filled(&mut self, count: usize) {
        self.end = (self.end + count).min(self.memory.len());
    }

    /// Gives the memory back if nothing is there.
    pub fn rest(&mut self, spares: &mut Spares) {
        if self.is_empty() && !self.memory.is_empty() {
            let memory = std::mem::take(&mut self.memory);
            (self.start, self.end) = (0, 0);
            if spares.0.len() < SPARES {
                spares.0.push(memory);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_go_through_in_order() {
        let (mut input, mut spares) = (Input::default(), Spares::default());
        let (mut next, mut expected) = (0u8, 0u8);
        for round in 0..2000 {
            let room = input.room(1 + round % 9, &mut spares);
            let count = room.len();
            for byte in room {
                *byte = next;
                next = next.wrapping_add(1);
            }
            input.filled(count);
            let taken = input.data().len().min(round % 7 + 1);
            for byte in &input.data()[..taken] {
                assert_eq!(*byte, expected);
                expected = expected.wrapping_add(1);
            }
            input.consume(taken);
        }
        input.clear();
        input.rest(&mut spares);
        assert!(input.memory.is_empty());
        assert_eq!(spares.0.len(), 1);
    }

    #[test]
    fn there_is_never_more_than_the_limit() {
        let (mut input, mut spares) = (Input::default(), Spares::default());
        let room = input.room(usize::MAX / 2, &mut spares).len();
        assert_eq!(room, INPUT);
        input.filled(room);
        assert!(input.room(1, &mut spares).is_empty());
    }
}
