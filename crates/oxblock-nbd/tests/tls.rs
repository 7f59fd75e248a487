//! TLS: the same volume behind it, whom it lets in, and what those can do who want to disturb it.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod common;

use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use common::certificates::{Authority, client, folder};
use common::{Client, SIZE, Serving, disk, noise, offered};
use oxblock::device::sim::Rng;
use oxblock_nbd::{ServerOptions, Tls};
use oxblock_nbd_proto::wire::command::{FLUSH, READ, WRITE};
use oxblock_nbd_proto::{ClientOption, InfoRequest, OptionReply, Style};

const STYLES: [Style; 3] = [Style::Simple, Style::Structured, Style::Extended];

fn options(dir: &Path, clients_show: bool, required: bool) -> impl FnOnce(&mut ServerOptions) {
    let tls = Tls::from_folder(dir, clients_show, required).unwrap();
    move |options| options.tls = Some(tls)
}

/// Asks for TLS, and gives back what was answered.
fn ask_for_tls(stream: &mut (impl Read + Write)) -> OptionReply {
    stream.read_exact(&mut [0; 18]).unwrap();
    let mut said = vec![0, 0, 0, 3];
    ClientOption::StartTls.encode(&mut said);
    stream.write_all(&said).unwrap();
    let mut input = Vec::new();
    loop {
        if let Some((_, option, reply)) = OptionReply::decode(&input).unwrap() {
            assert_eq!(option, 5);
            return reply;
        }
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        input.extend_from_slice(&byte);
    }
}

type Secret<S = UnixStream> = rustls::StreamOwned<rustls::ClientConnection, S>;

fn secret<S: Read + Write>(
    mut stream: S,
    style: Style,
    dir: &Path,
    name: &str,
) -> Client<Secret<S>> {
    assert_eq!(ask_for_tls(&mut stream), OptionReply::Ack);
    Client::go_on(client(stream, dir, None), style, name)
}

/// A stream that takes and gives a few bytes at a time, and breaks when `left` of those that it takes are over.
struct Drip {
    stream: UnixStream,
    most: usize,
    left: usize,
}

impl Read for Drip {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let len = buf.len().min(self.most);
        self.stream.read(&mut buf[..len])
    }
}

impl Write for Drip {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let len = buf.len().min(self.most).min(self.left);
        if len == 0 && !buf.is_empty() {
            return Err(ErrorKind::BrokenPipe.into());
        }
        let sent = self.stream.write(&buf[..len])?;
        self.left -= sent;
        Ok(sent)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn what_is_written_is_read_again_in_every_style() {
    let (dir, _) = folder();
    let serving = Serving::with(options(dir.path(), false, true));
    let mut random = Rng::new(3);
    for style in STYLES {
        let mut client = secret(serving.raw(), style, dir.path(), "");
        for len in [1, 4096, 5000, 100_000, 3 << 20, (20 << 20) + 5] {
            let (content, offset) = (noise(&mut random, len), random.below(1 << 20));
            client.write(offset, &content);
            assert!(client.read(offset, len as u64) == content);
        }
        // Many under way, more than there is room for in between.
        let content = noise(&mut random, 64 * 70_000);
        for (place, part) in content.chunks(70_000).enumerate() {
            client.send(WRITE, 0, place as u64 * 70_000, 70_000, part);
        }
        (0..64).for_each(|_| assert_eq!(client.reply().error, None));
        assert_eq!(client.error(FLUSH, 0, 0, 0, &[]), None);
        let mut asked: Vec<u64> =
            (0..64).map(|place| client.send(READ, 0, place * 70_000, 70_000, &[])).collect();
        for _ in 0..64 {
            let reply = client.reply();
            let place = asked.iter().position(|cookie| *cookie == reply.cookie).unwrap();
            asked[place] = 0;
            let place = place * 70_000;
            assert!(reply.content() == content[place..place + 70_000]);
        }
    }
    serving.close();
}

#[test]
fn pieces_of_any_size_mean_the_same() {
    let (dir, _) = folder();
    let serving = Serving::with(options(dir.path(), false, true));
    for most in [1, 2, 7, 100] {
        let stream = Drip { stream: serving.raw(), most, left: usize::MAX };
        let mut client = secret(stream, Style::Extended, dir.path(), "");
        let content = noise(&mut Rng::new(most as u64), 40_000);
        client.write(11, &content);
        assert!(client.read(11, 40_000) == content);
    }
    serving.close();
}

#[test]
fn without_it_nothing_is_to_be_had_unless_that_is_allowed() {
    let (dir, _) = folder();
    let serving = Serving::with(options(dir.path(), false, true));
    let mut stream = serving.raw();
    stream.read_exact(&mut [0; 18]).unwrap();
    let mut said = vec![0, 0, 0, 3];
    ClientOption::List.encode(&mut said);
    ClientOption::Go(InfoRequest::default()).encode(&mut said);
    ClientOption::Abort.encode(&mut said);
    stream.write_all(&said).unwrap();
    let mut input = Vec::new();
    stream.read_to_end(&mut input).unwrap();
    let (mut rest, mut refused) = (&input[..], 0);
    while let Some((size, _, reply)) = OptionReply::decode(rest).unwrap() {
        refused += u32::from(matches!(reply, OptionReply::Error { .. }));
        rest = &rest[size..];
    }
    assert_eq!(refused, 2);
    drop(serving);

    let serving = Serving::with(options(dir.path(), false, false));
    let mut plain = serving.client(Style::Simple);
    let mut secret = secret(serving.raw(), Style::Simple, dir.path(), "");
    plain.write(5, b"said aloud");
    assert_eq!(secret.read(5, 10), b"said aloud");
    drop(serving);

    // A server without it says so.
    let serving = Serving::new();
    assert!(matches!(ask_for_tls(&mut serving.raw()), OptionReply::Error { .. }));
}

#[test]
fn what_is_put_behind_the_question_is_not_taken_for_an_encrypted_one() {
    let (dir, _) = folder();
    let serving = Serving::with(options(dir.path(), false, false));
    let mut stream = serving.raw();
    stream.read_exact(&mut [0; 18]).unwrap();
    let mut said = vec![0, 0, 0, 3];
    ClientOption::StartTls.encode(&mut said);
    ClientOption::Go(InfoRequest::default()).encode(&mut said);
    stream.write_all(&said).unwrap();
    let mut rest = Vec::new();
    match stream.read_to_end(&mut rest) {
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
        Ok(_) => assert_eq!(rest.len(), 20, "only the acknowledgement"),
    }
    serving.client(Style::Simple).write(0, b"others do not care");
}

#[test]
fn those_who_have_to_show_a_certificate_are_judged_by_it() {
    let (dir, authority) = folder();
    authority.revoke(dir.path(), 77);
    let serving = Serving::with(options(dir.path(), true, true));
    let shows = tempfile::tempdir().unwrap();
    let attempt = |shows: Option<&Path>| {
        let mut stream = serving.raw();
        assert_eq!(ask_for_tls(&mut stream), OptionReply::Ack);
        let mut stream = client(stream, dir.path(), shows);
        let mut said = Vec::new();
        ClientOption::List.encode(&mut said);
        // A certificate is judged after the client has said something already.
        let sent = stream.write_all(&said).and_then(|()| stream.flush());
        sent.and_then(|()| stream.read_exact(&mut [0; 20]))
    };
    attempt(None).unwrap_err();
    authority.vouch(shows.path(), "client", 5);
    attempt(Some(shows.path())).unwrap();
    authority.vouch(shows.path(), "client", 77);
    attempt(Some(shows.path())).unwrap_err();
    Authority::new().vouch(shows.path(), "client", 5);
    attempt(Some(shows.path())).unwrap_err();
    authority.vouch(shows.path(), "client", 6);
    attempt(Some(shows.path())).unwrap();
    // A server's certificate is none for a client.
    let names = [("server-cert.pem", "client-cert.pem"), ("server-key.pem", "client-key.pem")];
    for (from, to) in names {
        std::fs::copy(dir.path().join(from), shows.path().join(to)).unwrap();
    }
    attempt(Some(shows.path())).unwrap_err();
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let (dir, authority) = folder();
    let load = |show| Tls::from_folder(dir.path(), show, true).map(drop);
    for (name, show) in
        [("ca-cert.pem", true), ("server-key.pem", false), ("server-cert.pem", false)]
    {
        let path = dir.path().join(name);
        for content in
            ["", "nonsense", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"]
        {
            std::fs::write(&path, content).unwrap();
            let error = load(show).unwrap_err().to_string();
            let folder = name == "server-cert.pem" && content.len() > 20;
            assert!(error.contains(name) || folder, "{name}: {error}");
        }
        std::fs::remove_file(&path).unwrap();
        assert!(load(show).unwrap_err().to_string().contains(name));
        authority.write(dir.path());
        authority.vouch(dir.path(), "server", 2);
        load(show).unwrap();
    }
    std::fs::write(dir.path().join("ca-crl.pem"), "nonsense").unwrap();
    assert!(load(true).unwrap_err().to_string().contains("ca-crl.pem"));
    // The key of another certificate.
    let key = std::fs::read(dir.path().join("server-key.pem")).unwrap();
    authority.vouch(dir.path(), "server", 3);
    std::fs::write(dir.path().join("server-key.pem"), key).unwrap();
    load(false).unwrap_err();
}

#[test]
fn those_who_break_off_or_talk_nonsense_disturb_nobody() {
    let (dir, _) = folder();
    let serving = Serving::with(options(dir.path(), false, true));
    let mut other = secret(serving.raw(), Style::Structured, dir.path(), "");
    for left in (24..1500).step_by(13) {
        let mut stream = Drip { stream: serving.raw(), most: 4096, left };
        if ask_for_tls(&mut stream) == OptionReply::Ack {
            let mut stream = client(stream, dir.path(), None);
            let mut said = Vec::new();
            ClientOption::List.encode(&mut said);
            // It may have come through whole.
            (0..3).try_for_each(|_| stream.write_all(&said).and_then(|()| stream.flush())).ok();
        }
    }
    for seed in 0..50 {
        let mut stream = serving.raw();
        assert_eq!(ask_for_tls(&mut stream), OptionReply::Ack);
        let mut random = Rng::new(seed);
        let len = 1 + usize::try_from(random.below(20_000)).unwrap();
        let mut junk = noise(&mut random, len);
        if seed % 2 == 0 {
            // It looks like the beginning of a handshake.
            junk.splice(0..0, [0x16, 3, 1, 0x40, 0]);
        }
        stream.write_all(&junk).ok();
        stream.shutdown(std::net::Shutdown::Write).ok();
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).ok();
    }
    other.write(0, b"still here");
    assert_eq!(other.read(0, 10), b"still here");
    drop(other);
    serving.close();
}

#[test]
fn one_who_does_not_read_is_held_up_alone() {
    let (dir, _) = folder();
    let serving = Serving::with(options(dir.path(), false, true));
    let mut lazy = secret(serving.raw(), Style::Simple, dir.path(), "");
    let mut other = secret(serving.raw(), Style::Simple, dir.path(), "");
    let content = noise(&mut Rng::new(8), 8 << 20);
    other.write(0, &content);
    for _ in 0..40 {
        lazy.send(READ, 0, 0, 8 << 20, &[]);
        assert!(other.read(0, 4096) == content[..4096]);
    }
    // It gets what it asked for once it looks.
    for _ in 0..40 {
        assert!(lazy.reply().content() == content);
    }
}

#[test]
fn a_client_takes_its_secrets_along_to_the_volume_that_it_chooses() {
    let (dir, _) = folder();
    let disks = [disk(SIZE), disk(SIZE)];
    let volumes = vec![offered("one", &disks[0], false), offered("two", &disks[1], false)];
    let serving = Serving::of(volumes, disks[0].clone(), options(dir.path(), false, true));
    for style in STYLES {
        let mut one = secret(serving.raw(), style, dir.path(), "one");
        let mut two = secret(serving.raw(), style, dir.path(), "two");
        one.write(0, b"first");
        two.write(0, b"other");
        assert_eq!((one.read(0, 5), two.read(0, 5)), (b"first".to_vec(), b"other".to_vec()));
    }
    serving.close();
}
