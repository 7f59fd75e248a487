//! Names that users write, for things that there are several of.

use crate::error::{Error, ErrorKind, Result};

/// The one of `all` that is called `text`.
///
/// # Errors
/// [`ErrorKind::InvalidInput`]: none is, and `what` (such as "checksum type") are called otherwise.
pub(crate) fn named<T: Copy>(
    what: &str,
    all: &[T],
    name: impl Fn(T) -> &'static str,
    text: &str,
) -> Result<T> {
    all.iter().copied().find(|one| name(*one) == text).ok_or_else(|| {
        let known: Vec<&str> = all.iter().map(|one| name(*one)).collect();
        let message = format!("no {what} is called '{text}' (there are {})", known.join(", "));
        Error::new(ErrorKind::InvalidInput, message)
    })
}
