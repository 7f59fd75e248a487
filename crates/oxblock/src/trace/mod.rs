//! Traces: what each request went through, and when.
//!
//! With a [`TraceSink`] set ([`Volume::set_trace`](crate::Volume::set_trace)), the engine marks the begin and the end of
//! every request, of each stage that it passes, of every bio, and of what the engine does for itself. A mark is a plain
//! [`Event`]. What holds for every trace, and is tested:
//!
//! - Each begin has its end, also when the trace is taken away or the volume is dropped while requests are under way.
//! - The stages of one part of a request follow one another without overlap, inside the span of the request. A request
//!   that travels in several records or bios has as many parts, and they may overlap.
//! - Time is that of the device seam ([`IoQueue::now`](crate::device::IoQueue::now)) and nothing else varies, so a trace
//!   of the simulator is a pure function of its seed.
//! - Without a sink nothing is recorded and nothing is read from the clock: each hook is one branch.
//!
//! A write passes `queued`, `gathered`, `checksummed`, `submitted`, `device`, `retired`, `completed`; a read passes
//! `queued`, `looked up`, `submitted`, `device`, `verified`, `completed`. A stage is the time *until* what it is named
//! for is done: `retired` lasts from the end of the device write to the end of retirement. [`Stage`] says it for each.

mod chrome;
mod event;
mod first;
mod hooks;
mod memory;
mod queue;
mod sink;
mod stages;
mod tracer;

pub use chrome::ChromeTrace;
pub use event::{BioKind, Event, Kind, Mark, Span, Stage};
pub use first::{FirstDelay, FirstSubmission};
pub use memory::Recent;
pub use sink::TraceSink;
pub use stages::StageTimes;

pub(crate) use hooks::Ticket;
pub(crate) use queue::Traced;
