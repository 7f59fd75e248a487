//! What a volume has done: counters of the engine, and the traffic of requests and devices. Plain integers that the lane's
//! own context adds to.

mod counters;
mod latency;
mod traffic;

pub use counters::Counters;
pub use latency::{Latency, Times};
pub use traffic::{DeviceTraffic, Flow, Traffic};
