//! From a request to the first device operation that it causes.

use oxblock::csum::CsumKind;
use oxblock::volume::Policy;

use crate::commands::bench::lab::Lab;

/// Nanoseconds from a read of `bytes` bytes to its first device operation, under `policy`.
///
/// `None`: the library has no trace to take it from.
pub fn first_submission_delay(_: &mut Lab, _: CsumKind, _: &Policy, _bytes: u64) -> Option<f64> {
    None
}
