//! `oxblock serve` under supervisors: how they are told, and sockets that they pass on.
#![expect(clippy::unwrap_used, reason = "tests")]

mod common;

use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{arg, command, other, oxblock};

/// A folder with a volume, and a place for a socket.
struct Place {
    folder: tempfile::TempDir,
    device: PathBuf,
    socket: PathBuf,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let device = folder.path().join("d.ox");
        oxblock(["create", arg(&device), "--size", "16M"]).ended(0);
        let socket = folder.path().join("s");
        Self { folder, device, socket }
    }

    fn listen(&self) -> String {
        format!("unix:{}", self.socket.display())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// Waits for what another process does soon.
fn wait_until(mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Ends a server as supervisors do.
fn end(mut child: Child) {
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn they_are_told_by_a_pipe_and_a_pid_file() {
    let place = Place::new();
    let pid_file = place.path("pid");
    // Its standard output is a pipe, which serves for this as well.
    let mut child = command(["serve", arg(&place.device), "--listen", &place.listen()])
        .args(["--pid-file", arg(&pid_file), "--ready-fd", "1", "--listen", "tcp:0"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(lines.next().unwrap(), format!("nbd+unix:///?socket={}", place.socket.display()));
    let tcp = lines.next().unwrap();
    let port: u16 =
        tcp.strip_prefix("nbd://127.0.0.1:").unwrap().trim_end_matches('/').parse().unwrap();
    assert_ne!(port, 0);
    assert_eq!(lines.next().unwrap(), "");
    // Once it says so, it is so.
    assert_eq!(std::fs::read_to_string(&pid_file).unwrap(), format!("{}\n", child.id()));
    UnixStream::connect(&place.socket).unwrap();
    end(child);
    assert!(!pid_file.exists() && !place.socket.exists());
}

#[test]
fn the_pid_file_is_not_written_over_anything_precious() {
    let place = Place::new();
    let serve = |pid_file: &Path| {
        let args = ["serve", arg(&place.device), "--listen", &place.listen(), "--pid-file"];
        oxblock([&args[..], &[arg(pid_file)]].concat()).ended(1)
    };
    let ran = serve(&place.device);
    assert!(ran.stderr.contains("is no place for the process number"), "{}", ran.stderr);
    oxblock(["check", arg(&place.device)]).ended(0);
    let notes = place.path("notes");
    std::fs::write(&notes, "precious\n").unwrap();
    serve(&notes);
    assert_eq!(std::fs::read_to_string(&notes).unwrap(), "precious\n");
}

#[test]
fn systemd_is_notified() {
    let place = Place::new();
    let path = place.path("notify");
    let hears = UnixDatagram::bind(&path).unwrap();
    hears.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let heard = || {
        let mut text = [0; 64];
        let len = hears.recv(&mut text).unwrap();
        String::from_utf8_lossy(text.get(..len).unwrap()).into_owned()
    };
    let child = command(["serve", arg(&place.device), "--listen", &place.listen()])
        .env("NOTIFY_SOCKET", &path)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    assert_eq!(heard(), "READY=1");
    UnixStream::connect(&place.socket).unwrap();
    end(child);
    assert_eq!(heard(), "STOPPING=1");
}

#[test]
fn clients_that_start_their_own_server_pass_a_socket_on() {
    let place = Place::new();
    let server = ["[", env!("CARGO_BIN_EXE_oxblock"), "serve", arg(&place.device), "]"];
    let Some(ran) = other("nbdinfo", &[&["--size"], &server[..]].concat()) else { return };
    assert_eq!(ran.ended(0).text(), "16777216\n");
    let data = place.path("data");
    let mut bytes = vec![0; 16 << 20];
    bytes.iter_mut().zip(0u32..).for_each(|(byte, at)| *byte = (at % 251) as u8);
    std::fs::write(&data, &bytes).unwrap();
    let copy = place.path("copy");
    other("nbdcopy", &[&[arg(&data)], &server[..]].concat()).unwrap().ended(0);
    other("nbdcopy", &[&server[..], &[arg(&copy)]].concat()).unwrap().ended(0);
    assert!(std::fs::read(&copy).unwrap() == bytes);
    oxblock(["check", arg(&place.device)]).ended(0);
}

/// Starts the server by systemd's own program when the first client comes.
fn activated(place: &Place, listen: &str) -> Option<Child> {
    let mut command = Command::new("systemd-socket-activate");
    command.args(["-l", listen, env!("CARGO_BIN_EXE_oxblock"), "serve", arg(&place.device)]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    if child.is_err() {
        println!("skipped: systemd-socket-activate is not installed");
    }
    child.ok()
}

#[test]
fn a_socket_of_systemd_is_served_and_stays() {
    let place = Place::new();
    let Some(child) = activated(&place, arg(&place.socket)) else { return };
    wait_until(|| place.socket.exists());
    let uri = format!("nbd+unix:///?socket={}", place.socket.display());
    let Some(ran) = other("nbdinfo", &["--size", &uri]) else { return end(child) };
    assert_eq!(ran.ended(0).text(), "16777216\n");
    end(child);
    // It is not the server's to remove.
    assert!(place.socket.exists());
}

#[test]
fn what_is_passed_on_must_be_a_safe_socket() {
    let place = Place::new();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    if let Some(child) = activated(&place, &format!("0.0.0.0:{port}")) {
        wait_until(|| TcpStream::connect(("127.0.0.1", port)).is_ok());
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("--allow-plaintext"), "{said}");
    }
    // Descriptor 3 is none, or is no socket.
    let script = r#"LISTEN_PID=$$ LISTEN_FDS=1 exec "$0" serve "$1" 3< /dev/null"#;
    let exe = env!("CARGO_BIN_EXE_oxblock");
    let output = Command::new("sh").args(["-c", script, exe, arg(&place.device)]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("passed on") && said.contains("fd 3 is not a socket"), "{said}");
    // Sockets for another process are none of its own.
    let child = command(["serve", arg(&place.device), "--listen", &place.listen()])
        .envs([("LISTEN_PID", "1"), ("LISTEN_FDS", "1")])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    wait_until(|| UnixStream::connect(&place.socket).is_ok());
    end(child);
}

#[test]
fn the_units_are_as_systemd_wants_them() {
    let folder = tempfile::tempdir().unwrap();
    let units = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib/systemd");
    for name in ["oxblock-serve@.service", "oxblock-serve@.socket"] {
        let text = std::fs::read_to_string(units.join(name)).unwrap();
        // Where it is here.
        let text = text.replace("/usr/bin/oxblock", env!("CARGO_BIN_EXE_oxblock"));
        std::fs::write(folder.path().join(name.replace('@', "@data")), text).unwrap();
    }
    let unit = folder.path().join("oxblock-serve@data.service");
    let Some(ran) = other("systemd-analyze", &["verify", "--man=no", arg(&unit)]) else { return };
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
}
