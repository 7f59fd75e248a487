//! What became of an input, in a number: inputs of a new shape are kept and mutated further.
//!
//! It stands in for coverage. The code under test says a lot about the way that it took: which check refused, what was
//! found, how a read ended. Numbers are left out of texts, or every input would be new.

/// A shape under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Shape(u64);

impl Default for Shape {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Shape {
    /// FNV-1a, one byte.
    fn byte(&mut self, byte: u8) {
        self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }

    /// Adds a text, without its numbers.
    pub fn text(&mut self, text: &str) {
        for word in plain(text).bytes() {
            self.byte(word);
        }
        self.byte(0);
    }

    /// Adds a number by its order of magnitude.
    pub fn size(&mut self, number: u64) {
        self.byte(u8::try_from(u64::BITS - number.leading_zeros()).unwrap_or(u8::MAX));
    }

    /// The shape.
    pub fn value(self) -> u64 {
        self.0
    }
}

/// A text without its numbers, decimal or hexadecimal.
pub fn plain(text: &str) -> String {
    text.split(' ')
        .map(|word| if word.bytes().any(|byte| byte.is_ascii_digit()) { "#" } else { word })
        .collect::<Vec<_>>()
        .join(" ")
}
