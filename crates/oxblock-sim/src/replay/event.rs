//! What happened between a caller, a volume and its device, one event after the other, and how that is written down.
//!
//! An event is five words of eight bytes, little-endian, so that it can go through a pipe or into a file. On a tape the
//! bytes of a write follow its event.

/// Bytes of an event.
pub const EVENT_BYTES: usize = 40;

/// One event. Device operations are numbered from 0 in the order of their own events; requests by the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// What the run is; the first on a tape.
    Start {
        /// Where its chance comes from.
        seed: u64,
        /// Bytes of the volume.
        size: u64,
        /// Bytes of the device.
        device: u64,
        /// A durable write is a write and a flush underneath.
        emulated: bool,
    },
    /// The engine pushed a write.
    Write {
        /// First byte on the device.
        offset: u64,
        /// Bytes.
        len: u64,
        /// Durable when it is done.
        durable: bool,
    },
    /// The engine pushed a flush.
    Flush,
    /// The engine pushed a discard.
    Discard {
        /// First byte on the device.
        offset: u64,
        /// Bytes.
        len: u64,
    },
    /// The engine was told that an operation is done.
    Done {
        /// Its number.
        op: u64,
        /// It did not fail.
        well: bool,
    },
    /// The volume is open, and what it found is durable.
    Opened,
    /// The caller is about to hand over a write, a trim or a zeroing.
    Begin {
        /// Its number, which its content is made from: 1, 2, 3 ...
        id: u64,
        /// It makes zeroes.
        zeroes: bool,
        /// First byte of the volume that it changes.
        from: u64,
        /// The byte behind the last.
        to: u64,
        /// Promised to be there whole or not at all.
        atomic: bool,
        /// Durable when acknowledged.
        fua: bool,
    },
    /// A write, trim or zeroing was acknowledged.
    Acked {
        /// Its number.
        id: u64,
    },
    /// The caller is about to hand over a flush.
    FlushBegin {
        /// Its number among the flushes.
        number: u64,
    },
    /// A flush was acknowledged.
    FlushAcked {
        /// Its number.
        number: u64,
    },
    /// Nothing is under way, and everything acknowledged is durable.
    Settled,
    /// The volume was closed in good order, with everything that was under way.
    Closed,
}

impl Event {
    fn words(self) -> [u64; 5] {
        match self {
            Self::Start { seed, size, device, emulated } => {
                [1, seed, size, device, u64::from(emulated)]
            }
            Self::Write { offset, len, durable } => [2, offset, len, u64::from(durable), 0],
            Self::Flush => [3, 0, 0, 0, 0],
            Self::Discard { offset, len } => [4, offset, len, 0, 0],
            Self::Done { op, well } => [5, op, u64::from(well), 0, 0],
            Self::Opened => [6, 0, 0, 0, 0],
            Self::Begin { id, zeroes, from, to, atomic, fua } => {
                let flags = u64::from(zeroes) | u64::from(atomic) << 1 | u64::from(fua) << 2;
                [7, id, from, to, flags]
            }
            Self::Acked { id } => [8, id, 0, 0, 0],
            Self::FlushBegin { number } => [9, number, 0, 0, 0],
            Self::FlushAcked { number } => [10, number, 0, 0, 0],
            Self::Settled => [11, 0, 0, 0, 0],
            Self::Closed => [12, 0, 0, 0, 0],
        }
    }

    /// The event in bytes.
    pub fn encode(self) -> [u8; EVENT_BYTES] {
        let mut bytes = [0; EVENT_BYTES];
        for (to, word) in bytes.chunks_exact_mut(8).zip(self.words()) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// The event that `bytes` are, if they are one.
    pub fn decode(bytes: &[u8; EVENT_BYTES]) -> Option<Self> {
        let mut words = [0; 5];
        for (word, from) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_le_bytes(from.try_into().ok()?);
        }
        let [kind, a, b, c, d] = words;
        let event = match kind {
            1 => Self::Start { seed: a, size: b, device: c, emulated: d != 0 },
            2 => Self::Write { offset: a, len: b, durable: c != 0 },
            3 => Self::Flush,
            4 => Self::Discard { offset: a, len: b },
            5 => Self::Done { op: a, well: b != 0 },
            6 => Self::Opened,
            7 => Self::Begin {
                id: a,
                zeroes: d & 1 != 0,
                from: b,
                to: c,
                atomic: d & 2 != 0,
                fua: d & 4 != 0,
            },
            8 => Self::Acked { id: a },
            9 => Self::FlushBegin { number: a },
            10 => Self::FlushAcked { number: a },
            11 => Self::Settled,
            12 => Self::Closed,
            _ => return None,
        };
        Some(event)
    }

    /// Bytes that follow the event on a tape.
    pub fn payload(self) -> u64 {
        match self {
            Self::Write { len, .. } => len,
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_survives_being_written_down() {
        for event in [
            Event::Start { seed: 1, size: 2, device: 3, emulated: true },
            Event::Write { offset: 4096, len: 8192, durable: true },
            Event::Write { offset: 4096, len: 8192, durable: false },
            Event::Flush,
            Event::Discard { offset: 1, len: u64::MAX },
            Event::Done { op: 7, well: false },
            Event::Opened,
            Event::Begin { id: 1, zeroes: true, from: 2, to: 3, atomic: false, fua: true },
            Event::Begin { id: 1, zeroes: false, from: 2, to: 3, atomic: true, fua: false },
            Event::Acked { id: 9 },
            Event::FlushBegin { number: 10 },
            Event::FlushAcked { number: 11 },
            Event::Settled,
            Event::Closed,
        ] {
            assert_eq!(Event::decode(&event.encode()), Some(event));
        }
        assert_eq!(Event::decode(&[0; EVENT_BYTES]), None);
    }
}
