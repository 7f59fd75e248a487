//! Several volumes in one server: each client gets the one that it asked for, from its first request on.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod common;

use std::io::{Read, Write};

use common::client::hello;
use common::{Client, SIZE, Serving, disk, noise, offered};
use oxblock::device::sim::Rng;
use oxblock_nbd::ServerOptions;
use oxblock_nbd_proto::wire::command::{FLUSH, WRITE};
use oxblock_nbd_proto::{ClientOption, Errno, InfoRequest, OptionReply, Request, Style};

const STYLES: [Style; 3] = [Style::Simple, Style::Structured, Style::Extended];
const NAMES: [&str; 3] = ["first", "second", "no writing"];

/// Three of them, the last of which may only be read, and is smaller.
fn three(change: impl FnOnce(&mut ServerOptions)) -> Serving {
    let disks = [disk(SIZE), disk(SIZE), disk(SIZE / 2)];
    let volumes = NAMES
        .iter()
        .zip(&disks)
        .enumerate()
        .map(|(place, (name, disk))| offered(name, disk, place == 2))
        .collect();
    Serving::of(volumes, disks[0].clone(), change)
}

#[test]
fn each_client_has_the_volume_that_it_asked_for() {
    let serving = three(|_| ());
    let mut random = Rng::new(5);
    let contents = [noise(&mut random, 300_000), noise(&mut random, 300_000)];
    for style in STYLES {
        let mut clients = NAMES.map(|name| serving.client_of(name, style));
        for (client, content) in clients.iter_mut().zip(&contents) {
            client.write(77, content);
        }
        assert_eq!(clients[2].error(WRITE, 0, 0, 4096, &[0; 4096]), Some(Errno::Perm));
        assert!(clients[2].read(0, 300_077).iter().all(|byte| *byte == 0));
        for (client, content) in clients.iter_mut().zip(&contents) {
            assert!(client.read(77, 300_000) == *content);
            assert_eq!(client.error(FLUSH, 0, 0, 0, &[]), None);
        }
        // Without a name it is the first.
        assert!(serving.client(style).read(77, 300_000) == contents[0]);
    }
    serving.close();
}

#[test]
fn they_are_listed_and_an_unknown_one_is_refused() {
    let serving = three(|_| ());
    let mut stream = serving.raw();
    stream.read_exact(&mut [0; 18]).unwrap();
    let mut said = vec![0, 0, 0, 3];
    ClientOption::List.encode(&mut said);
    let nobody = InfoRequest { name: "third".into(), ..InfoRequest::default() };
    ClientOption::Go(nobody).encode(&mut said);
    ClientOption::Abort.encode(&mut said);
    stream.write_all(&said).unwrap();
    let mut input = Vec::new();
    stream.read_to_end(&mut input).unwrap();
    let (mut names, mut refused) = (Vec::new(), 0);
    let mut rest = &input[..];
    while let Some((size, _, reply)) = OptionReply::decode(rest).unwrap() {
        match reply {
            OptionReply::Server { name, .. } => names.push(name),
            OptionReply::Error { .. } => refused += 1,
            _ => {}
        }
        rest = &rest[size..];
    }
    assert_eq!((names, refused), (NAMES.map(String::from).to_vec(), 1));
}

#[test]
fn what_comes_right_behind_the_handshake_is_not_lost() {
    let serving = three(|_| ());
    let mut random = Rng::new(6);
    for round in 0..20u64 {
        let data = noise(&mut random, 200_000);
        let mut stream = serving.raw();
        stream.read_exact(&mut [0; 18]).unwrap();
        // In one piece, or cut anywhere: in the handshake, in the header, in the payload.
        let mut said = hello(Style::Structured, "second");
        let write = Request {
            flags: 0,
            command: WRITE,
            cookie: 9,
            offset: round * 200_000,
            length: data.len() as u64,
        };
        write.encode(Style::Structured, &mut said);
        let handshake = said.len();
        said.extend_from_slice(&data);
        let (front, back) = said.split_at(handshake * usize::try_from(round).unwrap() / 10);
        stream.write_all(front).unwrap();
        stream.write_all(back).unwrap();
        let mut client = Client::greeted(stream, Style::Structured);
        client.finish_handshake();
        let reply = client.reply();
        assert_eq!((reply.cookie, reply.error), (9, None));
        assert!(client.read(round * 200_000, 200_000) == data);
    }
}

#[test]
fn a_stop_ends_all_of_them_and_loses_nothing() {
    let mut serving = three(|_| ());
    let mut clients: Vec<Client> =
        (0..6).map(|n| serving.client_of(NAMES[n % 2], STYLES[n % 3])).collect();
    for (number, client) in (0u64..).zip(&mut clients) {
        for step in 0..20 {
            client.send(WRITE, 0, (number * 20 + step) << 16, 1 << 16, &[7; 1 << 16]);
        }
    }
    let idle = serving.client_of(NAMES[2], Style::Simple);
    let shaking = serving.raw();
    serving.stop();
    let mut done = vec![0; clients.len()];
    for (client, done) in clients.iter_mut().zip(&mut done) {
        while let Some(reply) = client.reply_or_end() {
            match reply.error {
                None => *done += 1,
                error => assert_eq!(error, Some(Errno::Shutdown)),
            }
        }
    }
    let volumes = serving.join();
    drop((idle, shaking));
    let written: Vec<u64> = volumes.iter().map(|volume| volume.used() >> 16).collect();
    let by_name = |place: usize| done.iter().skip(place).step_by(2).sum::<u64>();
    assert_eq!(written, [by_name(0), by_name(1), 0]);
    volumes.into_iter().for_each(|volume| volume.close().unwrap());
}

#[test]
fn clients_are_counted_wherever_they_are() {
    let serving = three(|options| options.connections = 3);
    let mut clients: Vec<Client> =
        NAMES.iter().map(|name| serving.client_of(name, Style::Simple)).collect();
    for client in &mut clients {
        client.read(0, 1);
    }
    assert_eq!(serving.raw().read(&mut [0; 18]).unwrap(), 0);
    drop(clients);
    // Their places are free as soon as the server has seen that they left.
    let waited = std::time::Instant::now();
    while serving.raw().read(&mut [0; 18]).unwrap() == 0 {
        assert!(waited.elapsed().as_secs() < 20, "no place became free");
    }
}
