//! What the event loop itself costs: nanoseconds per 4 KiB I/O against a target that does nothing.
//!
//! `cargo run --release -p oxblock-fio --example loop_cost`

use oxblock_fio::{NullTarget, RunOptions, parse, run};

fn main() {
    let jobs = [
        ("randwrite depth 1", "rw=randwrite\niodepth=1"),
        ("randread  depth 1", "rw=randread\niodepth=1"),
        ("write     depth 1", "rw=write\niodepth=1"),
        ("randwrite depth 16", "rw=randwrite\niodepth=16"),
        ("randread  depth 16", "rw=randread\niodepth=16"),
        ("randrw    depth 16, batch 16", "rw=randrw\niodepth=16\niodepth_batch=16"),
        ("randwrite depth 64, batch 64", "rw=randwrite\niodepth=64\niodepth_batch=64"),
        ("norandommap depth 16", "rw=randwrite\niodepth=16\nnorandommap"),
        ("zipf      depth 16", "rw=randread\niodepth=16\nrandom_distribution=zipf:1.2"),
        ("bssplit   depth 16", "rw=randread\niodepth=16\nbssplit=4k/50:8k/50"),
        ("fsync=16  depth 16", "rw=randwrite\niodepth=16\nfsync=16"),
        ("crc32c    depth 16", "rw=randwrite\niodepth=16\nverify=crc32c"),
    ];
    for (name, options) in jobs {
        let text = format!("[j]\nbs=4k\nsize=1g\nloops=4\n{options}\n");
        let mut best = f64::INFINITY;
        for _ in 0..3 {
            let job = parse(&text, "loop_cost").map_err(|error| error.to_string());
            let report = job.and_then(|file| {
                let mut target = NullTarget::new(1 << 30);
                run(&file, &mut target, &RunOptions::default()).map_err(|error| error.to_string())
            });
            match report {
                Ok(report) => {
                    for job in &report.jobs {
                        let ios = job.stats.ios().max(1) as f64;
                        best = best.min(job.stats.runtime as f64 / ios);
                    }
                }
                Err(error) => println!("{error}"),
            }
        }
        println!("{name:32} {best:8.1} ns per I/O");
    }
}
