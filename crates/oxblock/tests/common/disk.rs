//! A simulated disk with a volume on it.

use oxblock::CreateOptions;
use oxblock::device::sim::{SimConfig, SimDisk};
use oxblock::volume::{create_on, required_size};

/// A disk of its own for a new volume of `size` bytes.
pub fn disk(size: u64, seed: u64) -> SimDisk {
    let disk = SimDisk::single(SimConfig::new(required_size(size).unwrap(), seed));
    let options = CreateOptions { size: Some(size), ..CreateOptions::default() };
    create_on(&mut disk.queue(), &options, "sim").unwrap();
    disk
}
