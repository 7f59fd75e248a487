//! Opening devices.
