//! Queue limits, asked from the system.
