//! NBD servers side by side, with fio as the client: the table of `docs/nbd.md`.
//!
//! `cargo bench -p oxblock-cli --bench nbd -- [--dir DIR]... [--rounds N] [--seconds S] [--only WORDS]`
//!
//! `oxblock serve` on a volume, and `nbdkit file` (page cache, no checksums) and `qemu-nbd --cache=none --aio=io_uring` (no
//! checksums) on a file of the same size in the same folder, each over a socket of its own, in turn. Medians of the rounds are
//! printed, with the CPU time of the server for each request. Needs fio with its nbd engine; a server that is not installed
//! is left out.

#[path = "common/options.rs"]
mod options;

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use options::Options;
use serde_json::Value;

/// Bytes of the export.
const SIZE: u64 = 512 << 20;

/// One line of the table: name, what fio calls it, size of a request, depth.
type Cell = (&'static str, &'static str, &'static str, u32);

/// Sequential ones first: on what was written at random, a large read is many small ones for a log.
const CELLS: &[Cell] = &[
    ("1 MiB sequential write", "write", "1m", 4),
    ("1 MiB sequential read", "read", "1m", 4),
    ("4 KiB random read", "randread", "4k", 1),
    ("4 KiB random read", "randread", "4k", 16),
    ("4 KiB random read", "randread", "4k", 64),
    ("4 KiB random write", "randwrite", "4k", 1),
    ("4 KiB random write", "randwrite", "4k", 16),
    ("4 KiB random write", "randwrite", "4k", 64),
];

const SERVERS: [&str; 3] = ["oxblock", "nbdkit", "qemu-nbd"];

/// What one run came to.
#[derive(Clone, Copy)]
struct Outcome {
    iops: f64,
    /// Nanoseconds that 99.9 % of the requests stay below.
    tail: f64,
    /// CPU microseconds of the server for each request, user and system.
    cpu: f64,
}

/// A server that is ended when it is dropped.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).ok();
        self.0.wait().ok();
    }
}

fn main() -> Result<()> {
    let options = Options::parse()?;
    for dir in &options.dirs {
        let folder = dir.join("oxblock-nbd-bench");
        std::fs::create_dir_all(&folder)?;
        // qemu-nbd takes the path of a socket only from the root.
        let folder = folder.canonicalize()?;
        let result = compare(&folder, &options);
        std::fs::remove_dir_all(&folder).ok();
        result?;
    }
    Ok(())
}

fn compare(folder: &Path, options: &Options) -> Result<()> {
    println!(
        "\n{}: medians of {} rounds of {} s",
        folder.display(),
        options.rounds,
        options.seconds
    );
    let raw = folder.join("raw");
    let chunk: Vec<u8> =
        (0..1u32 << 18).flat_map(|word| word.wrapping_mul(0x9e37_79b9).to_le_bytes()).collect();
    let image: Vec<u8> = chunk.iter().copied().cycle().take(usize::try_from(SIZE)?).collect();
    std::fs::write(&raw, image)?;
    let servers: Vec<&str> = SERVERS.into_iter().filter(|server| is_there(server)).collect();
    let wanted = |cell: &&Cell| {
        let name = format!("{} {}", cell.0, cell.3);
        options.only.as_ref().is_none_or(|only| name.contains(only.as_str()))
    };
    for cell in CELLS.iter().filter(wanted) {
        let mut outcomes = vec![Vec::new(); servers.len()];
        for _ in 0..options.rounds {
            for (server, outcomes) in servers.iter().zip(&mut outcomes) {
                outcomes.push(measure(folder, server, cell, options.seconds)?);
            }
        }
        for (server, outcomes) in servers.iter().zip(&mut outcomes) {
            let median = |pick: fn(&Outcome) -> f64| {
                let mut all: Vec<f64> = outcomes.iter().map(pick).collect();
                all.sort_by(f64::total_cmp);
                all.get(all.len() / 2).copied().unwrap_or_default()
            };
            println!(
                "{:<24} {:>3} {:<9} {:>9.0} IOPS {:>9.1} us p99.9 {:>8.2} us CPU",
                cell.0,
                cell.3,
                server,
                median(|outcome| outcome.iops),
                median(|outcome| outcome.tail) / 1e3,
                median(|outcome| outcome.cpu)
            );
        }
    }
    Ok(())
}

fn is_there(server: &str) -> bool {
    let there = server == "oxblock" || Command::new(server).arg("--version").output().is_ok();
    if !there {
        println!("{server} is not installed");
    }
    there
}

/// A volume with all of the image on it.
fn fresh_volume(folder: &Path) -> Result<PathBuf> {
    let volume = folder.join("volume");
    let oxblock = env!("CARGO_BIN_EXE_oxblock");
    if !volume.exists() {
        let made = Command::new(oxblock)
            .args(["create", "--size", &(2 * SIZE).to_string(), "--preallocate"])
            .arg(&volume)
            .output()?;
        ensure!(made.status.success(), "create: {}", String::from_utf8_lossy(&made.stderr));
    }
    // Written from front to back again, whatever random writes have left.
    let filled = Command::new(oxblock)
        .arg("import")
        .arg(folder.join("raw"))
        .args([volume.as_os_str(), "-q".as_ref()])
        .output()?;
    ensure!(filled.status.success(), "import: {}", String::from_utf8_lossy(&filled.stderr));
    Ok(volume)
}

fn start(folder: &Path, server: &str) -> Result<Server> {
    let (raw, socket) = (folder.join("raw"), folder.join("socket"));
    std::fs::remove_file(&socket).ok();
    let mut command = match server {
        "oxblock" => {
            let mut command = Command::new(env!("CARGO_BIN_EXE_oxblock"));
            command.arg("serve").arg(fresh_volume(folder)?);
            command.arg("--listen").arg(format!("unix:{}", socket.display()));
            command
        }
        "nbdkit" => {
            let mut command = Command::new("nbdkit");
            command.arg("-f").arg("-U").arg(&socket).arg("file").arg(raw);
            command
        }
        _ => {
            let mut command = Command::new("qemu-nbd");
            command.args(["-t", "-f", "raw", "--cache=none", "--aio=io_uring", "-e", "16", "-k"]);
            command.arg(&socket).arg(raw);
            command
        }
    };
    // Shown only if it does not listen: each complains of the connection that tries whether it does.
    let said = folder.join("said");
    let stderr = std::fs::File::create(&said)?;
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr).spawn()?;
    let running = Server(child);
    let began = Instant::now();
    while UnixStream::connect(&socket).is_err() {
        ensure!(
            began.elapsed() < Duration::from_secs(10),
            "{server} does not listen: {}",
            std::fs::read_to_string(&said)?
        );
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(running)
}

/// CPU time of a process and its threads so far, in microseconds.
fn cpu_time(pid: u32) -> Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // Behind the name, which may hold anything: state is the first field, user and system time the 12th and 13th.
    let (_, fields) = stat.rsplit_once(')').context("no name in stat")?;
    let times = fields.split_whitespace().skip(11).take(2);
    let ticks: u64 = times.filter_map(|field| field.parse::<u64>().ok()).sum();
    // A tick is a hundredth of a second, by the kernel's promise to programs.
    Ok(ticks as f64 * 1e4)
}

fn measure(folder: &Path, server: &str, cell: &Cell, seconds: f64) -> Result<Outcome> {
    let (_, rw, bs, depth) = cell;
    let server = start(folder, server)?;
    let before = cpu_time(server.0.id())?;
    let output = Command::new("fio")
        .args(["--name=x", "--ioengine=nbd", "--time_based", "--output-format=json"])
        .arg(format!("--uri=nbd+unix:///?socket={}", folder.join("socket").display()))
        .arg(format!("--size={SIZE}"))
        .arg(format!("--runtime={}ms", seconds * 1e3))
        .args([format!("--rw={rw}"), format!("--bs={bs}"), format!("--iodepth={depth}")])
        .output()
        .context("run fio")?;
    let cpu = cpu_time(server.0.id())? - before;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "fio: {text}{}", String::from_utf8_lossy(&output.stderr));
    // A line about the connection stands before it.
    let json = text.find('{').and_then(|at| text.get(at..)).context("no JSON from fio")?;
    let report: Value = serde_json::from_str(json)?;
    let side = if rw.contains("read") { "read" } else { "write" };
    let side = report.pointer(&format!("/jobs/0/{side}")).context("no such job")?;
    let number = |path: &str| side.pointer(path).and_then(Value::as_f64).unwrap_or_default();
    Ok(Outcome {
        iops: number("/iops"),
        tail: number("/clat_ns/percentile/99.900000"),
        cpu: cpu / number("/total_ios").max(1.0),
    })
}
