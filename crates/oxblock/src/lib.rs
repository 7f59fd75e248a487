//! oxblock keeps blocks safe at the speed of direct I/O.
pub mod csum;
pub mod device;
pub mod error;
pub mod format;
/// Requests.
pub mod submit;
