//! The simulator: devices in memory, a pure function of a seed.
//!
//! A [`SimDisk`] is the handle that a test keeps; [`SimDisk::queue`] makes the [`IoQueue`] that an
//! engine drives, and cannot tell from a real one. Nothing here looks at a real clock, starts a
//! thread, or depends on an address or a hash order.
//!
//! # The model
//!
//! - **Time** is simulated nanoseconds. `wait` moves it to the next completion (or by its timeout);
//!   `submit` and `reap` pass a fixed 200 ns, so that an engine that only polls gets on.
//! - **Order**: each operation takes a seeded time, so operations end in any order, overlapping
//!   writes too (unless `reorder` is off). A read that overlaps writes in flight sees either
//!   version, sector by sector.
//! - **Done** means reaped. A write that has ended but was not reaped is in flight: no flush covers
//!   it.
//! - **Cache**: a completed write is volatile until a flush that was pushed after its completion
//!   is done. A durable write makes itself durable and nothing else. A flush makes durable exactly
//!   what it must; the rest is left to chance at the power cut, which includes "it was stored too".
//! - **Power cut**: for each 512-byte sector, the durable version or any later one, writes in flight
//!   included: lost, torn and reordered, in every combination. See [`SimDisk::power_cut`].
//! - **A failed flush** abandons what it covered: those writes stay volatile for good, whatever
//!   later flushes say. Only writing the data again helps.
//! - **Discards** are volatile like writes: what was discarded may be back after a power cut.
//! - **Faults** follow a [`FaultPlan`]: errors, torn, lost and misdirected writes, flipped bits,
//!   stalls, by rule or by rate. Damage can also be done directly: [`SimDisk::flip_bit`],
//!   [`SimDisk::corrupt`], [`SimDisk::write_raw`], [`SimDisk::set_gone`], [`SimDisk::set_full`].
//!
//! [`IoQueue`]: crate::device::IoQueue
//!
//! # Example
//!
//! ```
//! use oxblock::device::sim::{SimConfig, SimDisk};
//! use oxblock::device::{Action, Buf, IoQueue, Op};
//!
//! let disk = SimDisk::single(SimConfig::new(1 << 44, 7)); // 16 TiB cost nothing
//! let mut queue = disk.queue();
//! let bufs = [Buf::from(vec![1; 4096])].into_iter().collect();
//! let action = Action::Write { bufs, durable: false };
//! queue.push(Op { tag: 1, device: 0, offset: 8192, action });
//! queue.submit();
//! queue.wait(None);
//! let mut done = Vec::new();
//! assert_eq!(queue.reap(&mut done), 1);
//! assert_eq!(disk.read_raw(0, 8192, 4096), [1; 4096]);
//!
//! disk.power_cut_keep_none(); // never flushed
//! assert_eq!(disk.read_raw(0, 8192, 4096), [0; 4096]);
//! ```

mod cache;
mod config;
mod device;
mod digest;
mod disk;
mod fault;
mod hits;
mod machine;
mod overlap;
mod power;
mod queue;
mod rng;
mod store;
#[cfg(test)]
mod tests;

pub use cache::Cut;
pub use config::{DiscardMode, SimConfig};
pub use device::Stats;
pub use disk::{SimDisk, Snapshot};
pub use fault::{EIO, ENOSPC, Fault, FaultPlan, FaultRates, FaultRule, OpKind};
pub use hits::Hits;
pub use queue::SimQueue;
pub use rng::{MILLION, Rng};
