//! Asking a server how it is, in good manners and in bad ones.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use oxblock::device::sim::{SimConfig, SimDisk};
use oxblock::volume::{create_on, required_size};
use oxblock::{Buf, CreateOptions, OpenOptions, Request, RequestKind, Volume};
use oxblock_control::report::State;
use oxblock_control::{AskError, Client, Control, ControlOptions, Seen, Source};
use oxblock_net::Address;
use tempfile::TempDir;

const SIZE: u64 = 16 << 20;

fn volume() -> Volume {
    let disk = SimDisk::single(SimConfig::new(required_size(SIZE).unwrap(), 7));
    let options =
        CreateOptions { size: Some(SIZE), label: "mine".into(), ..CreateOptions::default() };
    create_on(&mut disk.queue(), &options, "sim").unwrap();
    let mut volume = Volume::open_on(Box::new(disk.queue()), &OpenOptions::default()).unwrap();
    let write = RequestKind::Write { offset: 0, buf: Buf::new(8192), fua: true };
    volume.queue(Request { tag: 0, kind: write });
    let mut done = Vec::new();
    while done.is_empty() {
        volume.submit();
        volume.poll(&mut done);
        volume.wait(None);
    }
    volume
}

fn seen(name: &str) -> Seen {
    let volume = volume();
    Seen {
        name: name.into(),
        info: volume.info(),
        traffic: volume.traffic().clone(),
        clients: Some(3),
    }
}

/// So many volumes, the names of which want to be escaped.
struct Here(usize);

impl Source for Here {
    fn look(&self) -> Result<Vec<Seen>, String> {
        Ok((0..self.0).map(|number| seen(&format!("a \"quoted\" {number}\n"))).collect())
    }
}

/// One who does not answer.
struct Gone;

impl Source for Gone {
    fn look(&self) -> Result<Vec<Seen>, String> {
        Err("the volume does not answer".into())
    }
}

fn start(source: impl Source + 'static) -> (TempDir, PathBuf, Control) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("control");
    let metrics = vec![Address::parse("tcp:127.0.0.1:0", 1).unwrap()];
    let options = ControlOptions { control: Some(path.clone()), metrics };
    let control = Control::start(&options, Box::new(source)).unwrap();
    (folder, path, control)
}

fn connect(control: &Control) -> TcpStream {
    let Address::Tcp(host, port) = &control.metrics()[0] else { panic!("not on the network") };
    let stream = TcpStream::connect((host.as_str(), *port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
}

/// Says it, and gives back all of the answer.
fn http(control: &Control, said: &[u8]) -> String {
    let mut stream = connect(control);
    stream.write_all(said).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Says it at the control socket, and gives back what is answered until the end.
fn lines(path: &PathBuf, said: &[u8]) -> String {
    let mut stream = UnixStream::connect(path).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(said).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn the_same_figures_come_by_every_way() {
    let (_folder, path, control) = start(Here(2));
    let mut client = Client::connect(&path).unwrap();
    let status = client.status().unwrap();
    assert_eq!((status.pid, status.volumes.len()), (std::process::id(), 2));
    let volume = &status.volumes[1];
    assert_eq!((volume.label.as_str(), volume.size, volume.used), ("mine", SIZE, 8192));
    assert_eq!((volume.state, volume.clients), (State::Working, Some(3)));
    // The same connection may ask on.
    let stats = client.stats().unwrap();
    let writes = &stats.volumes[1].requests["write"];
    assert_eq!((writes.count, writes.bytes, writes.errors, writes.in_flight), (1, 8192, 0, 0));
    assert_eq!(writes.buckets.iter().map(|(_, count)| count).sum::<u64>(), 1);
    assert_eq!(stats.volumes[1].counters["written_blocks"], 2);
    let told = http(&control, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    for line in [
        r#"oxblock_requests_total{export="a \"quoted\" 1\n",kind="write"} 1"#,
        r#"oxblock_request_bytes_total{export="a \"quoted\" 1\n",kind="write"} 8192"#,
        r#"oxblock_request_duration_seconds_bucket{le="+Inf",export="a \"quoted\" 0\n",kind="write"} 1"#,
        r#"oxblock_volume_state{export="a \"quoted\" 0\n",state="working"} 1"#,
        r#"oxblock_engine_written_blocks_total{export="a \"quoted\" 1\n"} 2"#,
        r#"oxblock_clients{export="a \"quoted\" 1\n"} 3"#,
    ] {
        assert!(told.lines().any(|told| told == line), "{line}\n{told}");
    }
    assert!(told.ends_with("# EOF\n"));
}

#[test]
fn the_socket_is_the_owners_and_goes_with_the_server() {
    let (_folder, path, control) = start(Here(1));
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let mut client = Client::connect(&path).unwrap();
    client.status().unwrap();
    drop(control);
    assert!(!path.exists());
    assert!(matches!(client.status(), Err(AskError::Io(_))));
}

#[test]
fn what_is_not_understood_is_answered_so() {
    let (_folder, path, control) = start(Here(1));
    for said in ["\n", "what\n", "{}\n", "{\"ask\":\"format\"}\n", "{\"ask\":\"status\",\"x\":1}\n"]
    {
        let answer = lines(&path, said.as_bytes());
        assert!(answer.starts_with("{\"error\":\"not understood"), "{said:?}: {answer}");
    }
    // Half a question is none, and several are several.
    assert_eq!(lines(&path, b"{\"ask\":\"sta"), "");
    assert_eq!(lines(&path, b"{\"ask\":\"status\"}\n{\"ask\":\"stats\"}\n").lines().count(), 2);
    for (said, status) in [
        (&b"GET / HTTP/1.0\r\n\r\n"[..], "200"),
        (b"HEAD /metrics HTTP/1.1\r\n\r\n", "200"),
        (b"GET /metrics?name=x HTTP/1.1\r\n\r\n", "200"),
        (b"GET /other HTTP/1.1\r\n\r\n", "404"),
        (b"POST /metrics HTTP/1.1\r\n\r\n", "405"),
        (b"{\"ask\":\"status\"}\r\n\r\n", "400"),
    ] {
        let answer = http(&control, said);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let length = format!("Content-Length: {}", body.len());
        assert!(said.starts_with(b"HEAD") || head.contains(&length), "{answer}");
    }
}

#[test]
fn a_volume_that_does_not_answer_is_told_of() {
    let (_folder, path, control) = start(Gone);
    let Err(AskError::Refused(why)) = Client::connect(&path).unwrap().status() else {
        panic!("an answer")
    };
    assert_eq!(why, "the volume does not answer");
    assert!(http(&control, b"GET /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 503 "));
}

#[test]
fn those_who_say_too_much_or_nothing_disturb_nobody() {
    let (_folder, path, control) = start(Here(1));
    let mut works = Client::connect(&path).unwrap();
    let mut silent: Vec<UnixStream> =
        (0..20).map(|_| UnixStream::connect(&path).unwrap()).collect();
    let slow: Vec<TcpStream> = (0..20).map(|_| connect(&control)).collect();
    works.status().unwrap();
    // A line, or a head, that does not end, is not waited for.
    for mut stream in silent.drain(..10) {
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(&[b'x'; 6000]).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("{\"error\""), "{answer}");
    }
    let long = [b"GET /".as_slice(), &[b'x'; 9000]].concat();
    assert!(http(&control, &long).starts_with("HTTP/1.1 431 "));
    let many = [b"GET / HTTP/1.1\r\n".as_slice(), &b"a: b\r\n".repeat(200), b"\r\n"].concat();
    assert!(http(&control, &many).starts_with("HTTP/1.1 431 "));
    // One who asks on and on and does not listen is heard no further than that.
    let deaf = UnixStream::connect(&path).unwrap();
    deaf.set_nonblocking(true).unwrap();
    let ask = b"{\"ask\":\"stats\"}\n".repeat(1000);
    while (&deaf).write(&ask).is_ok() {}
    works.stats().unwrap();
    drop((slow, silent, deaf));
    works.status().unwrap();
}

#[test]
fn more_clients_than_there_may_be_wait_for_their_turn() {
    let (_folder, path, _control) = start(Here(1));
    let mut clients: Vec<Client> = (0..64).map(|_| Client::connect(&path).unwrap()).collect();
    clients[63].status().unwrap();
    let mut late = Client::connect(&path).unwrap();
    clients.pop();
    late.status().unwrap();
}

#[test]
fn what_keeps_it_from_listening_is_told_with_the_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    std::fs::write(&path, "mine").unwrap();
    let options = ControlOptions { control: Some(path.clone()), metrics: Vec::new() };
    let error = Control::start(&options, Box::new(Gone)).unwrap_err().to_string();
    assert!(error.contains("file"), "{error}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
}
