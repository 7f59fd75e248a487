//! Hostile bytes for everything that reads them: decoders, whole volumes, job files, the NBD protocol.
//!
//! A small fuzzer that knows the format: it changes fields by the tables of `docs/format.md` and makes checksums good
//! afterwards, so that inputs come past them. It has no coverage; inputs are kept when the code says something new about
//! them (`shape.rs`). A panic, a broken rule of a target, an input that takes too long or too much memory is a finding: it
//! is saved in `fuzz/failures/`, and the command that runs it again is printed.
//!
//! `docs/testing.md` says how it is run.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a fault of the harness stops it"
)]

mod memory;
mod mutate;
pub mod runner;
mod shape;
mod spec;
pub mod target;
mod volume;
pub mod watch;
