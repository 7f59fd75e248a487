//! What a dump is made of.

use uuid::Uuid;

use crate::format::pointer::Pointer;

/// A value of a dump.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// A number.
    Number(u64),
    /// Yes or no.
    Flag(bool),
    /// Text: names, hexadecimal checksums, sentences.
    Text(String),
    /// Fields of a structure.
    Group(Fields),
    /// Several of the same sort.
    List(Vec<Value>),
    /// Nothing is there.
    None,
}

/// Named values in their order.
pub type Fields = Vec<(String, Value)>;

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Self {
        Self::Number(number.into())
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

pub(super) fn fields<const N: usize>(list: [(&str, Value); N]) -> Fields {
    list.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

pub(super) fn hex(csum: u128) -> Value {
    Value::Text(format!("{csum:x}"))
}

pub(super) fn uuid(bytes: [u8; 16]) -> Value {
    Value::Text(Uuid::from_bytes(bytes).to_string())
}

/// What is shown of a block of which nobody knows what it held.
pub(super) const LOST: &str = "lost: its map node was damaged and no record proves its content";

pub(super) fn pointer(pointer: Pointer) -> Value {
    if pointer.is_null() {
        return Value::None;
    }
    if pointer.is_lost() {
        return LOST.into();
    }
    Value::Group(fields([("addr", pointer.addr.into()), ("csum", hex(pointer.csum))]))
}
