//! `oxblock top` on a server that has something to do: as lines, and on a terminal.
#![cfg(feature = "top")]
#![expect(clippy::unwrap_used, reason = "tests")]

#[path = "../../oxblock-nbd/tests/common/client.rs"]
mod client;
mod common;

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use client::Client;
use common::served::Served;
use common::{arg, oxblock};
use oxblock_nbd_proto::Style;
use serde_json::Value;

/// A server with a client that reads and writes until it is told to stop.
struct Busy {
    served: Served,
    stop: Arc<AtomicBool>,
    client: JoinHandle<()>,
    control: String,
    _folder: tempfile::TempDir,
}

impl Busy {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let control = arg(&folder.path().join("c")).to_owned();
        let served = Served::new(&["--export", "disk", "--control", &control]);
        let stream = UnixStream::connect(served.socket()).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let client = std::thread::spawn(move || {
            let mut client = Client::connect_to(stream, Style::Simple, "disk");
            while !told.load(Ordering::Relaxed) {
                client.write(0, &[7; 8192]);
                client.read(0, 8192);
            }
        });
        Self { served, stop, client, control, _folder: folder }
    }

    fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.client.join().unwrap();
        self.served.end();
    }
}

#[test]
fn lines_have_the_figures() {
    let busy = Busy::new();
    let asked = ["top", &busy.control, "--interval", "0.3", "--count", "2"];
    let ran = oxblock([&asked[..], &["--json"]].concat()).ended(0);
    let lines: Vec<Value> =
        ran.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2);
    for line in &lines {
        let of = |kind: &str, name: &str| line["requests"][kind][name].as_u64().unwrap();
        assert!(of("read", "iops") > 0 && of("write", "iops") > 0, "{line}");
        assert!(of("read", "bytes") >= of("read", "iops") * 8000, "{line}");
        assert!(of("write", "p50") > 0 && of("write", "p999") >= of("write", "p50"), "{line}");
        assert_eq!((&line["version"], &line["name"]), (&1.into(), &"disk".into()));
        assert!(line["interval"].as_u64().unwrap() >= 200_000_000, "{line}");
    }
    // No terminal is the same as --plain.
    let text = oxblock(asked).ended(0).text();
    assert_eq!(text.lines().count(), 3, "{text}");
    assert!(text.contains("read/s") && text.lines().nth(2).unwrap().ends_with("disk"), "{text}");
    busy.end();
}

#[test]
fn on_a_terminal_it_draws_and_gives_the_terminal_back() {
    let busy = Busy::new();
    let top = format!(
        "stty cols 100 rows 30; {} top {} --interval 0.2",
        env!("CARGO_BIN_EXE_oxblock"),
        busy.control
    );
    let started = Command::new("script")
        .args(["-qec", &top, "/dev/null"])
        .env("TERM", "xterm")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let mut child = match started {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            println!("skipped: script is not installed");
            return busy.end();
        }
        started => started.unwrap(),
    };
    let mut stdin = child.stdin.take().unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    stdin.write_all(b" +-").unwrap();
    std::thread::sleep(Duration::from_millis(300));
    stdin.write_all(b"q").unwrap();
    let mut shown = String::new();
    child.stdout.take().unwrap().read_to_string(&mut shown).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{shown}");
    let (enter, leave) = (shown.find("\u{1b}[?1049h"), shown.rfind("\u{1b}[?1049l"));
    assert!(enter.is_some() && leave > enter, "{shown:?}");
    for part in ["working", "segments", "p99.9 us", "paused"] {
        assert!(shown.contains(part), "{part}: {shown:?}");
    }
    busy.end();
}

#[test]
fn a_server_that_goes_away_is_looked_for_again() {
    let busy = Busy::new();
    let mut child =
        common::command(["top", &busy.control, "--json", "--interval", "0.1", "--count", "100000"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
    std::thread::sleep(Duration::from_millis(500));
    busy.end();
    std::thread::sleep(Duration::from_millis(500));
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{said}");
    assert!(said.contains("does not answer; it is looked for again"), "{said}");
}

#[test]
fn it_ends_when_nobody_reads_any_more() {
    let busy = Busy::new();
    let mut child = common::command(["top", &busy.control, "--plain", "--interval", "0.1"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0; 1];
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut first).unwrap();
    drop(stdout);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    busy.end();
}

#[test]
fn what_makes_no_sense_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "no socket").unwrap();
    for asked in [&["top", arg(&file)][..], &["ctl", arg(&file), "status"]] {
        let ran = oxblock(asked).ended(1);
        assert!(ran.stderr.contains("is not a socket"), "{}", ran.stderr);
    }
    let ran = oxblock(["top", "/nowhere/at/all"]).ended(1);
    assert!(ran.stderr.contains("no server answers at /nowhere/at/all"), "{}", ran.stderr);
    for interval in ["0", "0.05", "4000", "x", "-1", "NaN"] {
        oxblock(["top", "/nowhere", &format!("--interval={interval}")]).ended(2);
    }
}
