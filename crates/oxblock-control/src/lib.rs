//! What is asked of a server while it serves: its state and its figures, by a socket of its own, and as metrics.
//!
//! ```text
//! oxblock ctl, top ── a line of JSON each way ──┐
//!                                               ├─► one thread ── Source::look ──► the threads that drive the volumes
//! Prometheus ── GET /metrics ───────────────────┘
//! ```
//!
//! The thread does nothing for requests to the volumes, and waits for nobody but the volumes' own threads. Whoever asks gets
//! what was there at that moment.
//!
//! - **Bounded**: so many clients at a time, a question of so many bytes, an answer at a time; who asks by HTTP has a time limit.
//! - **The same figures everywhere**: what is told, by whatever way, is made of [`report`].
#![forbid(unsafe_code)]

mod client;
mod http;
mod lines;
mod metrics;
pub mod report;
mod server;
mod source;

pub use client::{AskError, Client};
pub use metrics::metrics;
pub use server::{Control, ControlOptions};
pub use source::{Seen, Source};
