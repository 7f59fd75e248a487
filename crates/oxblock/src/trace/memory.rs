//! A sink that keeps the last marks in memory.

use std::collections::VecDeque;

use super::{Event, TraceSink};

/// The last marks of a trace, up to a number.
#[derive(Debug, Default)]
pub struct Recent {
    events: VecDeque<Event>,
    most: usize,
    dropped: u64,
}

impl Recent {
    /// Keeps the last `most` marks.
    pub fn last(most: usize) -> Self {
        Self { events: VecDeque::new(), most, dropped: 0 }
    }

    /// Keeps every mark, however many.
    pub fn all() -> Self {
        Self::last(usize::MAX)
    }

    /// The marks that are kept, in order.
    pub fn events(&self) -> impl Iterator<Item = &Event> {
        self.events.iter()
    }

    /// Marks that had to make room for later ones.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}

impl TraceSink for Recent {
    fn event(&mut self, event: &Event) {
        if self.events.len() >= self.most {
            self.events.pop_front();
            self.dropped += 1;
        }
        if self.most > 0 {
            self.events.push_back(*event);
        }
    }
}
