//! What servers tell about themselves, by every way there is; and whether the documents and the dashboard know the same.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

#[path = "../../oxblock-nbd/tests/common/client.rs"]
mod client;
mod common;

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use client::Client;
use common::mount::{Place, mountable};
use common::served::{SIZE, Served};
use common::{arg, oxblock};
use oxblock_nbd_proto::Style;
use serde_json::Value;

/// A server that can be asked, and where.
fn served(more: &[&str]) -> (Served, PathBuf, PathBuf, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let (control, metrics) = (folder.path().join("control"), folder.path().join("metrics"));
    let at = format!("unix:{}", metrics.display());
    let asked = ["--control", arg(&control), "--metrics", &at];
    let served = Served::new(&[&asked[..], more].concat());
    (served, control, metrics, folder)
}

fn scrape(socket: &Path) -> String {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut told = String::new();
    stream.read_to_string(&mut told).unwrap();
    assert!(told.starts_with("HTTP/1.1 200 OK"), "{told}");
    told
}

/// The value of a sample.
fn value(told: &str, sample: &str) -> u64 {
    let line = told.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {sample} in {told}")).parse().unwrap()
}

fn ask(control: &Path, what: &str) -> Value {
    oxblock(["ctl", arg(control), what, "--json"]).ended(0).json()
}

/// The names of metrics in a text.
fn names(text: &str) -> BTreeSet<&str> {
    let is_name = |sign: char| sign.is_ascii_alphanumeric() || sign == '_';
    let words = text.split(|sign| !is_name(sign));
    words.filter(|word| word.starts_with("oxblock_") && !word.ends_with('_')).collect()
}

#[test]
fn figures_are_those_of_what_clients_did() {
    let (served, control, metrics, _folder) = served(&["--export", "disk"]);
    let stream = UnixStream::connect(served.socket()).unwrap();
    let mut client = Client::connect_to(stream, Style::Structured, "disk");
    client.write(0, &[7; 10_000]);
    client.write(1 << 20, &[8; 4096]);
    client.read(0, 10_000);
    let status = ask(&control, "status");
    let volume = &status["volumes"][0];
    assert_eq!((&status["version"], &volume["name"]), (&1.into(), &"disk".into()));
    assert_eq!((&volume["size"], &volume["state"]), (&SIZE.into(), &"working".into()));
    assert_eq!((&volume["clients"], &volume["used"]), (&1.into(), &16_384.into()));
    assert_eq!(status["pid"], served.child.id());
    let stats = ask(&control, "stats");
    let requests = &stats["volumes"][0]["requests"];
    assert_eq!(
        (&requests["write"]["count"], &requests["write"]["bytes"]),
        (&2.into(), &14_096.into())
    );
    assert_eq!(
        (&requests["read"]["count"], &requests["read"]["bytes"]),
        (&1.into(), &10_000.into())
    );
    let told = scrape(&metrics);
    for (sample, expected) in [
        (r#"oxblock_requests_total{export="disk",kind="write"}"#, 2),
        (r#"oxblock_request_bytes_total{export="disk",kind="read"}"#, 10_000),
        (r#"oxblock_clients{export="disk"}"#, 1),
        (r#"oxblock_volume_used_bytes{export="disk"}"#, 16_384),
        (r#"oxblock_volume_state{export="disk",state="failed"}"#, 0),
    ] {
        assert_eq!(value(&told, sample), expected, "{sample}");
    }
    // For people, too.
    let text = oxblock(["ctl", arg(&control), "status"]).ended(0).text();
    assert!(text.contains("working") && text.contains("64 MiB"), "{text}");
    let text = oxblock(["ctl", arg(&control), "stats"]).ended(0).text();
    assert!(text.contains("2 of 13.7 KiB"), "{text}");
    drop(client);
    served.end();
    assert!(!control.exists() && !metrics.exists());
}

#[test]
fn several_volumes_are_told_apart() {
    let other = tempfile::tempdir().unwrap();
    let device = other.path().join("o.ox");
    oxblock(["create", arg(&device), "--size", "16M"]).ended(0);
    let more = format!("more={}", device.display());
    let (served, control, metrics, _folder) = served(&["--export", "one", "--volume", &more]);
    let stream = UnixStream::connect(served.socket()).unwrap();
    Client::connect_to(stream, Style::Simple, "more").write(0, &[1; 5000]);
    let status = ask(&control, "status");
    let of = |name: &str| {
        status["volumes"].as_array().unwrap().iter().map(|v| v[name].clone()).collect::<Vec<_>>()
    };
    assert_eq!(of("name"), ["one", "more"]);
    assert_eq!(of("used"), [0, 8192]);
    let told = scrape(&metrics);
    assert_eq!(value(&told, r#"oxblock_requests_total{export="one",kind="write"}"#), 0);
    assert_eq!(value(&told, r#"oxblock_requests_total{export="more",kind="write"}"#), 1);
    served.end();
}

#[test]
fn damage_shows() {
    let folder = tempfile::tempdir().unwrap();
    let (device, socket) = (folder.path().join("d.ox"), folder.path().join("c"));
    oxblock(["create", arg(&device), "--size", "16M"]).ended(0);
    common::oxblock_with(&["import", "-", arg(&device)], &[9; 4096]).ended(0);
    let map = oxblock(["dump", "map", "0", arg(&device), "--json"]).ended(0).json();
    let offset = map["data"]["device_offset"].as_u64().unwrap();
    let file = std::fs::File::options().write(true).open(&device).unwrap();
    file.write_all_at(b"flipped", offset).unwrap();
    let mut child = common::served::start(folder.path(), &["--control", arg(&socket)]);
    let stream = UnixStream::connect(folder.path().join("s")).unwrap();
    let mut client = Client::connect(stream, Style::Simple);
    let read = client.error(oxblock_nbd_proto::wire::command::READ, 0, 0, 4096, &[]);
    assert!(read.is_some());
    let ran = oxblock(["ctl", arg(&socket), "status", "--json"]).ended(3);
    assert_eq!(ran.json()["volumes"][0]["checksum_errors"], 1);
    assert!(ran.stderr.contains("damage was seen"), "{}", ran.stderr);
    let stats = ask(&socket, "stats");
    assert_eq!(stats["volumes"][0]["requests"]["read"]["errors"], 1);
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_mount_is_asked_in_the_same_way() {
    mountable!();
    let place = Place::new("32M");
    let socket = place.folder.path().join("c");
    let mounted = place.mount(&["--control", arg(&socket)]);
    let file = mounted.open();
    file.write_all_at(&[3; 100_000], 0).unwrap();
    file.sync_all().unwrap();
    let status = ask(&socket, "status");
    let volume = &status["volumes"][0];
    assert_eq!(volume["name"], mounted.file.display().to_string());
    assert_eq!((&volume["state"], &volume["clients"]), (&"working".into(), &Value::Null));
    let stats = ask(&socket, "stats");
    assert_eq!(stats["volumes"][0]["requests"]["write"]["bytes"], 100_000);
    drop(file);
    mounted.unmount();
    assert!(!socket.exists());
}

#[test]
fn where_nobody_answers_it_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let nobody = folder.path().join("nobody");
    let ran = oxblock(["ctl", arg(&nobody), "status"]).ended(1);
    assert!(ran.stderr.contains("no server answers at"), "{}", ran.stderr);
    // A socket that answers in another language.
    let served = Served::new(&[]);
    let ran = oxblock(["ctl", arg(&served.socket()), "status"]).ended(1);
    assert!(
        ran.stderr.contains("makes no sense") || ran.stderr.contains("does not answer"),
        "{}",
        ran.stderr
    );
    served.end();
}

#[test]
fn the_dashboard_and_the_document_name_what_there_is() {
    let (served, _control, metrics, _folder) = served(&[]);
    let told = scrape(&metrics);
    // Of each line of a sample the name, and that of a histogram, which no sample has.
    let name = |line: &str| match line.strip_prefix("# TYPE ") {
        Some(described) => described.strip_suffix(" histogram").map(str::to_owned),
        None => line.split(['{', ' ']).next().map(str::to_owned),
    };
    let samples = told.lines().filter_map(name).collect::<Vec<_>>().join(" ");
    let there = names(&samples);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let dashboard = std::fs::read_to_string(root.join("contrib/grafana/oxblock.json")).unwrap();
    let _: Value = serde_json::from_str(&dashboard).unwrap();
    let shown = names(&dashboard);
    assert!(shown.len() > 20);
    assert_eq!(shown.difference(&there).collect::<Vec<_>>(), Vec::<&&str>::new());
    let document = std::fs::read_to_string(root.join("docs/monitoring.md")).unwrap();
    let described = names(&document);
    assert_eq!(described.difference(&there).collect::<Vec<_>>(), Vec::<&&str>::new());
    let missing: Vec<_> = there
        .difference(&described)
        .filter(|name| !name.starts_with("oxblock_engine_") && !name.contains("_seconds_"))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
    served.end();
}
