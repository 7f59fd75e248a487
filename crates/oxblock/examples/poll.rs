//! The poll interface: 64 writes in flight from one thread, no lock, no other thread.
//! `cargo run -p oxblock --release --example poll -- disk.ox`

use std::path::PathBuf;
use std::time::Instant;

use oxblock::volume::create;
use oxblock::{Buf, CreateOptions, OpenOptions, Request, RequestKind, Result, Volume};

const WRITES: u64 = 100_000;
const DEPTH: usize = 64;

fn main() -> Result<()> {
    let path = std::env::args().nth(1).map_or_else(|| PathBuf::from("disk.ox"), PathBuf::from);
    if !path.exists() {
        let options = CreateOptions { size: Some(64 << 20), ..CreateOptions::default() };
        create(std::slice::from_ref(&path), &options, &mut |_, _| {})?;
    }
    let mut volume = Volume::open(&[path], &OpenOptions::default())?;
    let blocks = volume.size() / 4096;

    // Buffers go in with a request and come back with its completion: these are all there ever are.
    let mut idle: Vec<Buf> = (0..DEPTH).map(|_| Buf::new(4096)).collect();
    let mut done = Vec::new();
    let (mut sent, mut finished) = (0, 0);
    let begin = Instant::now();
    while finished < WRITES {
        while sent < WRITES
            && let Some(buf) = idle.pop()
        {
            let offset = sent.wrapping_mul(0x9e37_79b9_7f4a_7c15) % blocks * 4096;
            volume
                .queue(Request { tag: sent, kind: RequestKind::Write { offset, buf, fua: false } });
            sent += 1;
        }
        volume.submit();
        if volume.poll(&mut done) == 0 {
            volume.wait(None);
        }
        for completion in done.drain(..) {
            completion.result?;
            idle.extend(completion.buf);
            finished += 1;
        }
    }
    println!("{WRITES} random 4 KiB writes in {:?}", begin.elapsed());
    volume.close()
}
