//! A volume as a plain, blocking, byte-addressed store: `cargo run -p oxblock --example blocking -- disk.ox`

use std::path::PathBuf;

use oxblock::volume::{Handle, create};
use oxblock::{Buf, CreateOptions, OpenOptions, Result};

fn main() -> Result<()> {
    let path = std::env::args().nth(1).map_or_else(|| PathBuf::from("disk.ox"), PathBuf::from);
    if !path.exists() {
        let options = CreateOptions { size: Some(64 << 20), ..CreateOptions::default() };
        create(std::slice::from_ref(&path), &options, &mut |_, _| {})?;
    }
    let volume = Handle::open(&[path], &OpenOptions::default())?;

    // A counter at byte 1000, kept over runs: any offset and length will do.
    let buf = volume.read_at(1000, Buf::new(8))?;
    let count = u64::from_le_bytes(buf.first_chunk().copied().unwrap_or_default()) + 1;
    let buf = volume.write_at(1000, &count.to_le_bytes()[..])?;
    volume.flush()?;
    println!(
        "run {count} on this volume of {} bytes; the buffer of {} came back",
        volume.size(),
        buf.len()
    );
    volume.close()
}
