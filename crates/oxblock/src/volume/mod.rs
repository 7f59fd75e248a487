//! Volumes: making them, opening them, and the three ways to use one.
//!
//! - [`Volume`] is the poll interface: queue requests, submit, poll for completions, all in one thread and without a
//!   lock. It is what servers are built on.
//! - [`Handle`] is shared between threads: blocking calls, each run in its caller's own context.
//! - [`AsyncHandle`] is the same for tasks of any executor.

mod check;
mod core;
mod create;
mod dump;
mod extent;
mod handle;
mod info;
mod inspect;
mod mailbox;
mod open;
mod patience;
mod policy;
mod poll;
mod tasks;

pub use check::{
    CheckProgress, CheckReport, FINDINGS_KEPT, Finding, FindingKind, RepairReport, Repaired, check,
    check_on, repair, repair_on,
};
pub use create::{CreateOptions, Created, create, create_on, required_size};
pub use dump::{Fields, Part, Value, dump, dump_on};
pub use extent::{Extent, ExtentKind};
pub use handle::Handle;
pub use info::{DeviceInfo, Info, MapInfo, SegmentInfo};
pub use mailbox::{Call, Mailbox, Remote};
pub use open::OpenOptions;
pub use patience::Patience;
pub use policy::{
    BioRead, Choice, Costs, CrcCode, CsumSpeed, Facts, InForce, Machine, Measured, Origin, Policy,
    Reasons, choose,
};
pub use poll::Volume;
pub use tasks::AsyncHandle;
