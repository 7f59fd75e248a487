//! One suite for every implementation of the seam.
