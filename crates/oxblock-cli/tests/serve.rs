//! `oxblock serve`, by clients that nobody here wrote, and under kill -9.
#![expect(clippy::unwrap_used, reason = "tests")]

#[path = "../../oxblock-nbd/tests/common/client.rs"]
mod client;
mod common;

use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

use client::Client;
use common::served::{SIZE, Served, start};
use common::{arg, content, other, oxblock};
use oxblock_nbd_proto::wire::command::{FLUSH, READ, TRIM, WRITE, WRITE_ZEROES};
use oxblock_nbd_proto::{Request, Style};

fn client(served: &Served) -> Client {
    Client::connect(UnixStream::connect(served.socket()).unwrap(), Style::Structured)
}

#[test]
fn what_makes_no_sense_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let device = folder.path().join("d.ox");
    let device = arg(&device);
    let listen = format!("unix:{}", folder.path().join("s").display());
    let ran = oxblock(["serve", device, "--listen", &listen]).ended(1);
    assert!(ran.stderr.contains("d.ox"), "{}", ran.stderr);
    oxblock(["create", device, "--size", "16M"]).ended(0);
    let ran = oxblock(["serve", device, "--listen", "tcp:0.0.0.0:0"]).ended(2);
    assert!(ran.stderr.contains("--allow-plaintext"), "{}", ran.stderr);
    let nowhere = format!("unix:{}", folder.path().join("no/s").display());
    let ran = oxblock(["serve", device, "--listen", &nowhere]).ended(1);
    assert!(ran.stderr.contains("listen on"), "{}", ran.stderr);
    // A file that is no socket stays what it is.
    let file = folder.path().join("file");
    std::fs::write(&file, "mine").unwrap();
    oxblock(["serve", device, "--listen", &format!("unix:{}", file.display())]).ended(1);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
}

#[test]
fn two_servers_do_not_share_a_socket_or_a_volume() {
    let served = Served::new(&[]);
    let other = served.path("other.ox");
    oxblock(["create", arg(&other), "--size", "16M"]).ended(0);
    let listen = format!("unix:{}", served.socket().display());
    let ran = oxblock(["serve", arg(&other), "--listen", &listen]).ended(1);
    assert!(ran.stderr.contains("another server listens there"), "{}", ran.stderr);
    let elsewhere = format!("unix:{}", served.path("t").display());
    oxblock(["serve", arg(&served.path("d.ox")), "--listen", &elsewhere]).ended(1);
    client(&served).write(0, b"still served");
    served.end();
}

#[test]
fn several_volumes_are_exports_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let more = folder.path().join("more.ox");
    oxblock(["create", arg(&more), "--size", "16M", "--label", "logs"]).ended(0);
    let more = format!("more={}", more.display());
    let served = Served::new(&["--export", "main", "--volume", &more]);
    let device = served.path("d.ox");
    for (what, wrong) in [("two volumes", "main"), ("NAME=DEVICE", "more.ox"), ("lock", "other")] {
        let value = format!("{wrong}={}", device.display());
        let value = if wrong == "more.ox" { wrong } else { &value };
        let listen = format!("unix:{}", served.path("t").display());
        let first = served.path("x.ox");
        oxblock(["create", arg(&first), "--size", "16M", "--force"]).ended(0);
        let ran = oxblock([
            "serve",
            arg(&first),
            "--export",
            "main",
            "--listen",
            &listen,
            "--volume",
            value,
        ]);
        assert!(ran.stderr.contains(what), "{value}: {}", ran.stderr);
    }
    let uri = |name: &str| format!("nbd+unix:///{name}?socket={}", served.socket().display());
    let Some(ran) = other("nbdinfo", &["--list", "--json", &uri("")]) else { return };
    let json: serde_json::Value = serde_json::from_slice(&ran.ended(0).stdout).unwrap();
    let offered: Vec<_> = ["export-name", "description", "export-size"]
        .iter()
        .map(|what| [json["exports"][0][what].clone(), json["exports"][1][what].clone()])
        .collect();
    assert_eq!(
        serde_json::json!(offered),
        serde_json::json!([
            ["main", "more"],
            ["oxblock volume", "oxblock volume logs"],
            [SIZE, 16 << 20],
        ])
    );
    let (image, back) = (served.path("image"), served.path("back"));
    std::fs::write(&image, content(3, 16 << 20)).unwrap();
    for args in [[arg(&image), &uri("more")], [&uri("more"), arg(&back)]] {
        let Some(ran) = other("nbdcopy", &args) else { return };
        ran.ended(0);
    }
    assert!(std::fs::read(&image).unwrap() == std::fs::read(&back).unwrap());
    served.end();
    oxblock(["check", more.trim_start_matches("more=")]).ended(0);
}

#[test]
fn nbdinfo_tells_what_is_offered() {
    let served = Served::new(&["--read-only"]);
    let Some(ran) = other("nbdinfo", &["--json", &served.uri()]) else { return };
    let json: serde_json::Value = serde_json::from_slice(&ran.ended(0).stdout).unwrap();
    let export = &json["exports"][0];
    for (name, value) in [
        ("export-size", SIZE.into()),
        ("is_read_only", true.into()),
        ("can_multi_conn", true.into()),
        ("can_df", true.into()),
        ("can_flush", true.into()),
        ("can_trim", false.into()),
        ("block_size_minimum", 1.into()),
        ("block_size_preferred", 4096.into()),
        ("block_size_maximum", (32 << 20).into()),
        ("contexts", serde_json::json!(["base:allocation"])),
    ] {
        assert_eq!(export[name], value, "{name}");
    }
    assert_eq!(json["structured"], true);
    served.end();
}

#[test]
fn nbdcopy_both_ways() {
    let served = Served::new(&[]);
    let (image, back) = (served.path("image"), served.path("back"));
    let bytes = content(1, usize::try_from(SIZE).unwrap());
    std::fs::write(&image, &bytes).unwrap();
    let many = ["--connections=4", "--requests=32"];
    let there = [many[0], many[1], arg(&image), &served.uri()];
    let Some(ran) = other("nbdcopy", &there) else { return };
    ran.ended(0);
    let again = other("nbdcopy", &[many[0], many[1], &served.uri(), arg(&back)]).unwrap();
    again.ended(0);
    assert!(std::fs::read(&back).unwrap() == bytes);
    // The holes are known as such.
    let map = other("nbdinfo", &["--map", &served.uri()]).unwrap().ended(0).text();
    assert!(map.contains("hole,zero") && map.contains("data"), "{map}");
    served.end();
}

#[test]
fn qemu_copies_compares_and_maps() {
    let served = Served::new(&[]);
    let (image, uri) = (served.path("image"), served.uri());
    std::fs::write(&image, content(2, usize::try_from(SIZE).unwrap())).unwrap();
    let convert = ["convert", "-n", "-f", "raw", "-O", "raw", arg(&image), &uri];
    let Some(ran) = other("qemu-img", &convert) else { return };
    ran.ended(0);
    let compare = ["compare", "-f", "raw", "-F", "raw", arg(&image), &uri];
    other("qemu-img", &compare).unwrap().ended(0);
    let map = other("qemu-img", &["map", "-f", "raw", "--output=json", &uri]).unwrap().ended(0);
    let map: serde_json::Value = serde_json::from_slice(&map.stdout).unwrap();
    let total: u64 =
        map.as_array().unwrap().iter().map(|part| part["length"].as_u64().unwrap()).sum();
    assert_eq!(total, SIZE);
    served.end();
}

#[test]
fn qemu_io_at_any_alignment() {
    let served = Served::new(&[]);
    let mut args = vec!["-f", "raw"];
    for line in [
        "write -P 7 100 5000",
        "read -P 7 100 5000",
        "write -f -P 9 4096 1M",
        "write -z 8192 4k",
        "read -P 0 8192 4k",
        "write -z -u 200k 100k",
        "read -P 0 200k 100k",
        "discard 512k 256k",
        "read -P 0 512k 256k",
        "read -P 9 768k 256k",
        "flush",
    ] {
        args.extend(["-c", line]);
    }
    let uri = served.uri();
    args.push(&uri);
    let Some(ran) = other("qemu-io", &args) else { return };
    let text = ran.ended(0).text();
    assert!(!text.contains("failed"), "{text}");
    served.end();
}

#[test]
fn fio_verifies_what_it_wrote() {
    let served = Served::new(&[]);
    if other("fio", &["--enghelp"]).is_none_or(|ran| !ran.text().contains("nbd")) {
        return println!("skipped: fio with its nbd engine is not installed");
    }
    let uri = format!("--uri={}", served.uri());
    let args = [
        "--name=v",
        "--ioengine=nbd",
        &uri,
        "--size=32m",
        "--rw=randwrite",
        "--bsrange=512-64k",
        "--bs_unaligned=1",
        "--iodepth=16",
        "--fsync=64",
        "--verify=crc32c",
        "--verify_state_save=0",
        "--verify_fatal=1",
    ];
    let ran = other("fio", &args).unwrap();
    assert!(ran.code == 0 && !ran.text().contains("verify:"), "{}{}", ran.text(), ran.stderr);
    served.end();
}

/// What `nbdsh` runs: points of the protocol, by a client that checks what it gets.
const SCRIPT: &str = r#"
import errno
def fails(call, number):
    try:
        call()
    except nbd.Error as error:
        assert error.errnum == number, (error, number)
    else:
        assert False, number
h.set_strict_mode(0)
size = h.get_size()
assert h.get_protocol() == "newstyle-fixed" and h.get_structured_replies_negotiated()
assert h.can_df() and h.can_multi_conn() and h.can_fast_zero() and h.can_cache()
assert h.can_meta_context("base:allocation")
h.pwrite(b"a" * 5000, 3000, nbd.CMD_FLAG_FUA)
chunks = []
def got(data, offset, kind, error):
    chunks.append((bytes(data), offset, kind))
assert h.pread_structured(9000, 0, got, nbd.CMD_FLAG_DF) == b"\0" * 3000 + b"a" * 5000 + b"\0" * 1000
assert len(chunks) == 1
h.zero(4096, 4096, nbd.CMD_FLAG_NO_HOLE | nbd.CMD_FLAG_FAST_ZERO)
assert h.pread(1192, 3000) == b"a" * 1096 + b"\0" * 96
h.trim(size, 0, nbd.CMD_FLAG_FUA)
assert h.pread(10000, 0) == b"\0" * 10000
h.pwrite(b"b" * 4096, 8192)
extents = []
h.block_status(size, 0, lambda name, offset, entries, error: extents.extend(entries))
assert extents == [8192, 3, 4096, 0, size - 12288, 3], extents
h.cache(4096, 8192)
h.flush()
fails(lambda: h.pread(1, size), errno.EINVAL)
fails(lambda: h.pwrite(b"c", size), errno.ENOSPC)
fails(lambda: h.zero(2, size - 1), errno.ENOSPC)
fails(lambda: h.trim(2, size - 1), errno.EINVAL)
fails(lambda: h.zero(100, 1, nbd.CMD_FLAG_FAST_ZERO), errno.ENOTSUP)
fails(lambda: h.pread(33 << 20, 0), errno.EINVAL)
fails(lambda: h.flush(1 << 10), errno.EINVAL)
print("all as it should be")
"#;

#[test]
fn nbdsh_point_by_point() {
    let served = Served::new(&[]);
    let uri = served.uri();
    let connect = format!("h.add_meta_context('base:allocation'); h.connect_uri('{uri}')");
    let Some(ran) = other("nbdsh", &["-c", &connect, "-c", SCRIPT]) else { return };
    if ran.stderr.contains("No module named") {
        return println!("skipped: nbdsh has no library for this Python");
    }
    assert!(ran.text().contains("all as it should be"), "{}", ran.stderr);
    served.end();
}

#[test]
fn the_same_requests_get_the_same_answers_from_nbdkit() {
    let served = Served::new(&[]);
    let socket = served.path("nbdkit");
    let size = SIZE.to_string();
    let args = ["-f", "-U", arg(&socket), "memory", &size];
    let Ok(mut child) = Command::new("nbdkit").args(args).stderr(Stdio::null()).spawn() else {
        return println!("skipped: nbdkit is not installed");
    };
    let connect = || UnixStream::connect(&socket).ok();
    let stream = (0..500).find_map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        connect()
    });
    let mut theirs = Client::connect(stream.unwrap(), Style::Structured);
    let mut ours = client(&served);
    let seed = 21;
    let mut random = common::Random(seed);
    for step in 0..3000 {
        // Around the beginning and around the end, where requests overlap and go beyond it.
        let near = if random.below(2) == 0 { 0 } else { SIZE - 200_000 };
        let (offset, len) = (near + random.below(200_000), 1 + random.below(60_000));
        // A trim is a hint: of blocks that are covered in part each may do as it likes.
        let whole = (offset / 4096 * 4096, len.next_multiple_of(4096));
        let data = random.bytes(usize::try_from(len).unwrap());
        let fua = u16::from(random.below(4) == 0);
        let (command, flags, (offset, len), payload): (u16, u16, _, &[u8]) = match random.below(9) {
            0 | 1 => (READ, 0, (offset, len), &[]),
            2 => (READ, 4, (offset, len), &[]),
            3 | 4 => (WRITE, fua, (offset, len), &data),
            5 => (WRITE_ZEROES, fua | 2, (offset, len), &[]),
            6 => (TRIM, fua, whole, &[]),
            7 => (FLUSH, 0, (0, 0), &[]),
            // Flags that no command has, and commands that do not exist.
            _ if random.below(2) == 0 => (READ, 0x400, (offset, len), &[]),
            _ => (77, 0, (offset, len), &[]),
        };
        let mut answers = [&mut theirs, &mut ours].map(|client| {
            let reply = client.ask(command, flags, offset, len, payload);
            let data: Vec<u8> = reply.data.into_iter().flat_map(|(_, data)| data).collect();
            (reply.error, data)
        });
        let [theirs, ours] = &mut answers;
        assert!(
            theirs == ours,
            "seed {seed} step {step}: {command} {flags} {offset} {len}: {:?} and {:?}",
            theirs.0,
            ours.0
        );
    }
    child.kill().unwrap();
    child.wait().unwrap();
    served.end();
}

#[test]
fn clients_take_no_more_memory_than_their_share() {
    let served = Served::new(&[]);
    let mut other = client(&served);
    other.write(0, &vec![1; 8 << 20]);
    let before = served.memory();
    let idle: Vec<Client> = (0..300).map(|_| client(&served)).collect();
    let each = served.memory().saturating_sub(before) / 300;
    println!("{each} bytes for an idle connection");
    assert!(each < 16 << 10);
    // Some that ask for much and read nothing.
    let greedy: Vec<Client> = (0..3).map(|_| client(&served)).collect();
    for client in &greedy {
        let mut out = Vec::new();
        for cookie in 0..50_000 {
            let request = Request { flags: 0, command: READ, cookie, offset: 0, length: 1 << 20 };
            request.encode(Style::Structured, &mut out);
        }
        client.stream.set_nonblocking(true).unwrap();
        let (mut at, mut idle) = (0, 0);
        while at < out.len() && idle < 20 {
            match std::io::Write::write(&mut &client.stream, &out[at..]) {
                Ok(count) => (at, idle) = (at + count, 0),
                Err(_) => {
                    std::thread::sleep(std::time::Duration::from_millis(10));
                    assert_eq!(other.read(0, 10), [1; 10]);
                    idle += 1;
                }
            }
        }
        assert!(at < out.len(), "all of it was taken");
    }
    let each = served.memory().saturating_sub(before) / 3;
    println!("{each} bytes for a connection that never reads");
    assert!(each < 80 << 20);
    drop((idle, greedy));
    assert_eq!(other.read(0, 10), [1; 10]);
    served.end();
}

#[test]
fn nothing_flushed_is_lost_by_kill_9() {
    let mut served = Served::new(&[]);
    let blocks = 2000;
    let mut expected = vec![0u64; blocks];
    let mut random = common::Random(5);
    let stamp = |number: u64| [number.to_le_bytes(); 512].concat();
    let mut number = 0;
    for _ in 0..6 {
        let mut client = client(&served);
        for block in 0..blocks as u64 {
            let found = client.read(block * 4096, 4096);
            let found = u64::from_le_bytes(found[..8].try_into().unwrap());
            let place = usize::try_from(block).unwrap();
            assert!(
                found >= expected[place],
                "block {block}: {found} is older than what was flushed"
            );
            expected[place] = found;
        }
        for _ in 0..random.below(8) + 1 {
            let mut written = Vec::new();
            for _ in 0..100 {
                number += 1;
                let block = random.below(blocks as u64);
                client.write(block * 4096, &stamp(number));
                written.push((usize::try_from(block).unwrap(), number));
            }
            assert_eq!(client.error(FLUSH, 0, 0, 0, &[]), None);
            written.into_iter().for_each(|(block, number)| expected[block] = number);
        }
        // Some that nobody waits for, in the middle of which it ends.
        for _ in 0..50 {
            number += 1;
            let block = random.below(blocks as u64);
            client.send(WRITE, 0, block * 4096, 4096, &stamp(number));
        }
        served.child.kill().unwrap();
        served.child.wait().unwrap();
        // The socket that it has left behind is in nobody's way.
        served.child = start(served.folder.path(), &[]);
    }
    served.end();
}
