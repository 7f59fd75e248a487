//! Clients that mean harm, or do not know what they do. None of them disturbs another, and none of them ends the
//! server. What memory they take is measured where the server is a process of its own: `oxblock-cli/tests/serve.rs`.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod common;

use std::io::{ErrorKind, Read, Write};
use std::time::{Duration, Instant};

use common::client::hello;
use common::{Client, Serving, noise};
use oxblock::device::sim::Rng;
use oxblock_nbd_proto::wire::command::{FLUSH, READ, WRITE};
use oxblock_nbd_proto::{ClientOption, Request, Style};

fn works(client: &mut Client) {
    client.write(4096, b"still here");
    assert_eq!(client.read(4096, 10), b"still here");
}

/// All that a client says in a short session.
fn session(style: Style) -> Vec<u8> {
    let mut out = hello(style, "");
    let flags = if style == Style::Extended { 0x20 } else { 0 };
    let write = Request { flags, command: WRITE, cookie: 1, offset: 1 << 20, length: 50 };
    write.encode(style, &mut out);
    out.extend_from_slice(&[7; 50]);
    let read = Request { flags: 0, command: READ, cookie: 2, offset: 2 << 20, length: 50 };
    read.encode(style, &mut out);
    out
}

/// Whether both requests of a session were answered, in whatever order.
fn answered(said: &[u8]) -> bool {
    let magics = [[0x66, 0x8e, 0x33, 0xef], [0x6e, 0x8a, 0x27, 0x8c]];
    said.windows(4).filter(|bytes| magics.iter().any(|magic| magic == bytes)).count() == 2
}

#[test]
fn a_client_may_be_gone_after_any_byte() {
    let serving = Serving::new();
    let mut other = serving.client(Style::Structured);
    for style in [Style::Simple, Style::Extended] {
        let said = session(style);
        for end in 0..=said.len() {
            let mut stream = serving.raw();
            stream.write_all(&said[..end]).unwrap();
            if end % 3 == 0 {
                // One that still listens.
                stream.shutdown(std::net::Shutdown::Write).unwrap();
                let mut rest = Vec::new();
                stream.read_to_end(&mut rest).unwrap();
                assert!(rest.starts_with(b"NBDMAGIC"));
            }
            drop(stream);
            if end % 16 == 0 {
                works(&mut other);
            }
        }
    }
    works(&mut other);
}

#[test]
fn a_session_may_come_byte_by_byte() {
    let serving = Serving::new();
    let mut stream = serving.raw();
    for byte in session(Style::Structured) {
        stream.write_all(&[byte]).unwrap();
    }
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut said = Vec::new();
    stream.read_to_end(&mut said).unwrap();
    assert!(answered(&said));
}

#[test]
fn noise_ends_the_session_it_comes_in() {
    let serving = Serving::new();
    let mut other = serving.client(Style::Structured);
    let mut random = Rng::new(3);
    let mut option = vec![0, 0, 0, 3];
    option.extend_from_slice(b"IHAVEOPT\0\0\0\x07\xff\xff\xff\xff");
    let wrong_magic = [hello(Style::Structured, ""), vec![0x25, 0x60, 0x95, 0x14]].concat();
    let mut huge = hello(Style::Extended, "");
    let request = Request { flags: 0x20, command: WRITE, cookie: 1, offset: 0, length: u64::MAX };
    request.encode(Style::Extended, &mut huge);
    let mut said = vec![option, wrong_magic, huge, vec![0xff; 4], noise(&mut random, 10_000)];
    said.extend((0..20).map(|_| [hello(Style::Structured, ""), noise(&mut random, 5000)].concat()));
    for bytes in said {
        let mut stream = serving.raw();
        // It may hang up before all is said.
        stream.write_all(&bytes).ok();
        let mut rest = Vec::new();
        match stream.read_to_end(&mut rest) {
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
        }
        works(&mut other);
    }
}

#[test]
fn a_flood_of_options_is_cut_off() {
    let serving = Serving::new();
    let mut stream = serving.raw();
    let mut out = vec![0, 0, 0, 3];
    for _ in 0..100_000 {
        ClientOption::List.encode(&mut out);
    }
    assert!(stream.write_all(&out).is_err(), "it takes all of it");
    works(&mut serving.client(Style::Structured));
}

#[test]
fn half_a_request_keeps_nobody_waiting() {
    let serving = Serving::new();
    let mut slow: Vec<_> = (0..20)
        .map(|number| {
            let said = session(if number % 2 == 0 { Style::Structured } else { Style::Extended });
            let mut stream = serving.raw();
            let end = said.len() - 32 - number * 3;
            stream.write_all(&said[..end]).unwrap();
            (stream, said, end)
        })
        .collect();
    let mut other = serving.client(Style::Structured);
    for _ in 0..100 {
        works(&mut other);
    }
    // They can go on whenever they like.
    for (stream, said, end) in &mut slow {
        stream.write_all(&said[*end..]).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).unwrap();
        assert!(answered(&rest));
    }
}

#[test]
fn clients_that_never_read_stop_themselves() {
    let serving = Serving::new();
    let mut other = serving.client(Style::Structured);
    other.write(0, &vec![1; 8 << 20]);
    let mut greedy = Vec::new();
    for kind in 0..4 {
        let client = serving.client(Style::Structured);
        let mut out = Vec::new();
        let (command, length) = [(READ, 1 << 20), (READ, 4096), (FLUSH, 0), (99, 0)][kind];
        for cookie in 0..100_000 {
            Request { flags: 0, command, cookie, offset: 0, length }
                .encode(Style::Structured, &mut out);
        }
        client.stream.set_nonblocking(true).unwrap();
        let (mut at, mut stuck) = (0, Instant::now());
        // Until it has been taking nothing for a while.
        while at < out.len() && stuck.elapsed() < Duration::from_millis(300) {
            match (&client.stream).write(&out[at..]) {
                Ok(count) => {
                    at += count;
                    stuck = Instant::now();
                }
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::WouldBlock);
                    works(&mut other);
                }
            }
        }
        assert!(at < out.len(), "all of {kind} was taken");
        greedy.push(client);
    }
    works(&mut other);
    drop(greedy);
    works(&mut other);
}

#[test]
fn one_client_too_many_is_turned_away() {
    let serving = Serving::with(|options| options.connections = 2);
    let mut first = serving.client(Style::Structured);
    let second = serving.client(Style::Structured);
    let mut third = serving.raw();
    assert_eq!(third.read(&mut [0; 18]).unwrap(), 0);
    works(&mut first);
    drop(second);
    // Its place is free as soon as the server has seen that it left.
    works(&mut first);
    works(&mut serving.client(Style::Structured));
}
