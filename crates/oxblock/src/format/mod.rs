//! The on-media format.
pub mod layout;
