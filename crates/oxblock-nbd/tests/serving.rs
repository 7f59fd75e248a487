//! What clients get: the same content in every style, the errors that the protocol wants, and nothing lost.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "tests"
)]

mod common;

use std::io::Write;

use common::{Client, SIZE, Serving, noise};
use oxblock::device::sim::{EIO, Fault, FaultRule, OpKind, Rng, SimDisk};
use oxblock_nbd_proto::wire::command::{
    BLOCK_STATUS, CACHE, DISC, FLUSH, READ, TRIM, WRITE, WRITE_ZEROES,
};
use oxblock_nbd_proto::wire::command_flag::{DF, FAST_ZERO, FUA, NO_HOLE, REQ_ONE};
use oxblock_nbd_proto::{Errno, Extent, Request, Style};

const STYLES: [Style; 3] = [Style::Simple, Style::Structured, Style::Extended];

fn size(number: u64) -> usize {
    usize::try_from(number).unwrap()
}

#[test]
fn content_is_what_was_written_in_every_style() {
    let serving = Serving::new();
    let mut clients = STYLES.map(|style| serving.client(style));
    let seed = 0x5eed;
    let mut random = Rng::new(seed);
    let area = 3 << 20;
    let mut model = vec![0u8; area];
    for step in 0..600 {
        let client = &mut clients[size(random.below(3))];
        let offset = random.below(area as u64 - 1);
        let most = if random.below(8) == 0 { 1 << 20 } else { 20_000 };
        let len = 1 + random.below(most.min(area as u64 - offset));
        let (from, to) = (size(offset), size(offset + len));
        let flags = if random.below(8) == 0 { FUA } else { 0 };
        match random.below(7) {
            0 | 1 => {
                let data = noise(&mut random, to - from);
                assert_eq!(client.error(WRITE, flags, offset, len, &data), None);
                model[from..to].copy_from_slice(&data);
            }
            2 => {
                assert_eq!(client.error(WRITE_ZEROES, flags | NO_HOLE, offset, len, &[]), None);
                model[from..to].fill(0);
            }
            3 => {
                assert_eq!(client.error(TRIM, flags, offset, len, &[]), None);
                let (from, to) = (from.next_multiple_of(4096), to / 4096 * 4096);
                if from < to {
                    model[from..to].fill(0);
                }
            }
            4 => assert_eq!(client.error(CACHE, 0, offset, len, &[]), None),
            5 => assert_eq!(client.error(FLUSH, 0, 0, 0, &[]), None),
            _ => {
                let found = client.read(offset, len);
                assert!(found == model[from..to], "seed {seed} step {step}: {from}..{to}");
            }
        }
    }
    for client in &mut clients {
        assert!(client.read(0, area as u64) == model);
    }
}

#[test]
fn many_requests_at_once_on_many_connections() {
    let serving = Serving::new();
    let mut clients: Vec<Client> = (0..4).map(|_| serving.client(Style::Structured)).collect();
    let block = |client: usize, number: u64| vec![client as u8 + 1; 4096 - size(number % 3)];
    for (place, client) in clients.iter_mut().enumerate() {
        for number in 0..200 {
            let offset = (place as u64 * 200 + number) * 4096;
            let data = block(place, number);
            client.send(WRITE, 0, offset, data.len() as u64, &data);
        }
    }
    for client in &mut clients {
        let mut cookies: Vec<u64> = (0..200)
            .map(|_| {
                let reply = client.reply();
                assert_eq!(reply.error, None);
                reply.cookie
            })
            .collect();
        cookies.sort_unstable();
        assert_eq!(cookies, (1..=200).collect::<Vec<u64>>());
    }
    let reader = &mut clients[0];
    for place in 0..4 {
        for number in 0..200 {
            let offset = (place as u64 * 200 + number) * 4096;
            let data = block(place, number);
            assert!(reader.read(offset, data.len() as u64) == data);
        }
    }
}

#[test]
fn the_longest_payload_and_one_byte_more() {
    let serving = Serving::new();
    for style in STYLES {
        let mut client = serving.client(style);
        let most = 32 << 20;
        let data = noise(&mut Rng::new(9), most);
        client.write(4097, &data);
        assert!(client.read(4097, most as u64) == data);
        assert_eq!(client.error(READ, 0, 0, most as u64 + 1, &[]), Some(Errno::Invalid));
        if style != Style::Simple {
            assert_eq!(client.error(READ, DF, 0, most as u64 + 1, &[]), Some(Errno::Overflow));
        }
        if style != Style::Extended {
            // Passed over, and the connection goes on.
            let data = vec![1; most + 1];
            let error = client.error(WRITE, 0, 0, data.len() as u64, &data);
            assert_eq!(error, Some(Errno::Invalid));
        }
        assert_eq!(client.read(0, 1), [0]);
    }
}

#[test]
fn errors_as_the_protocol_wants_them() {
    let serving = Serving::new();
    for style in STYLES {
        let mut client = serving.client(style);
        for (command, flags, offset, length, errno) in [
            (READ, 0, SIZE, 1, Errno::Invalid),
            (READ, 0, SIZE - 1, 2, Errno::Invalid),
            (TRIM, 0, SIZE - 1, 2, Errno::Invalid),
            (CACHE, 0, SIZE - 1, 2, Errno::Invalid),
            (WRITE_ZEROES, 0, SIZE - 1, 2, Errno::NoSpace),
            (WRITE_ZEROES, FAST_ZERO, 100, 4096, Errno::NotSupported),
            (READ, 0x8000, 0, 1, Errno::Invalid),
            (FLUSH, 0, 1, 0, Errno::Invalid),
            (99, 0, 0, 0, Errno::Invalid),
        ] {
            assert_eq!(client.error(command, flags, offset, length, &[]), Some(errno));
        }
        let payload = [1; 100];
        assert_eq!(client.error(WRITE, 0, SIZE - 99, 100, &payload), Some(Errno::NoSpace));
        assert_eq!(client.error(WRITE, 0x4000, 0, 100, &payload), Some(Errno::Invalid));
        if style == Style::Simple {
            assert_eq!(client.error(BLOCK_STATUS, 0, 0, 1, &[]), Some(Errno::Invalid));
        }
        for command in [READ, WRITE, TRIM, CACHE, WRITE_ZEROES] {
            assert_eq!(client.error(command, 0, 5, 0, &[]), None, "nothing is done with nothing");
        }
        assert_eq!(client.error(WRITE_ZEROES, FAST_ZERO | FUA, 100, 8192, &[]), None);
    }
}

#[test]
fn a_read_only_export() {
    let disk = {
        let serving = Serving::new();
        serving.client(Style::Structured).write(0, b"kept");
        serving.close()
    };
    let serving = Serving::on(disk, true);
    let mut client = serving.client(Style::Structured);
    assert_eq!(client.read(0, 5), b"kept\0");
    for command in [WRITE_ZEROES, TRIM] {
        assert_eq!(client.error(command, 0, 0, 4096, &[]), Some(Errno::Perm));
    }
    assert_eq!(client.error(WRITE, 0, 0, 3, b"new"), Some(Errno::Perm));
    assert_eq!(client.error(FLUSH, 0, 0, 0, &[]), None);
    assert_eq!(client.read(0, 5), b"kept\0");
}

#[test]
fn block_status() {
    let serving = Serving::new();
    for style in [Style::Structured, Style::Extended] {
        let mut client = serving.client(style);
        client.write(8192, &[1; 8192]);
        let mut status =
            |flags, offset, length| client.ask(BLOCK_STATUS, flags, offset, length, &[]).extents;
        let hole = |len| Extent { len, flags: 3 };
        let data = |len| Extent { len, flags: 0 };
        assert_eq!(status(0, 0, 1 << 20), [hole(8192), data(8192), hole((1 << 20) - 16_384)]);
        assert_eq!(status(REQ_ONE, 0, 1 << 20), [hole(8192)]);
        assert_eq!(status(REQ_ONE, 9000, 1 << 20), [data(16_384 - 9000)]);
        assert_eq!(status(0, 9000, 10), [data(10)]);
        assert_eq!(status(0, 100, 8093), [hole(8092), data(1)]);
        assert_eq!(status(0, 16_384, SIZE - 16_384), [hole(SIZE - 16_384)]);
        let mut client = serving.client(style);
        assert_eq!(client.error(TRIM, 0, 8192, 8192, &[]), None);
        assert_eq!(client.ask(BLOCK_STATUS, 0, 0, SIZE, &[]).extents, [hole(SIZE)]);
    }
}

#[test]
fn requests_that_waited_for_room_in_the_replies_go_on() {
    let serving = Serving::new();
    let mut client = serving.client(Style::Structured);
    for block in 0..64 {
        client.write(block * 8192, &[1; 4096]);
    }
    // Their replies are many times what is kept for one client, and it asks for all of them before it reads the first.
    // By one call, as a socket takes few small ones.
    let mut requests = Vec::new();
    for cookie in 0..1000 {
        let (command, length) = (BLOCK_STATUS, 64 * 8192);
        Request { flags: 0, command, cookie, offset: 0, length }
            .encode(Style::Structured, &mut requests);
    }
    client.stream.write_all(&requests).unwrap();
    for _ in 0..1000 {
        assert!(client.reply().extents.len() > 60);
    }
}

#[test]
fn what_the_volume_has_to_say_is_passed_on_once() {
    let serving = Serving::new();
    let mut client = serving.client(Style::Structured);
    client.write(0, &[1; 4096]);
    serving.disk.add_fault(FaultRule::new(OpKind::Write, Fault::Fail(EIO)));
    client.write(4096, &[2; 4096]);
    client.write(8192, &[3; 4096]);
    assert_eq!(*serving.said.lock().unwrap(), ["a write of the log has failed and went elsewhere"]);
}

/// Damages the block that is full of `byte`.
fn damage(disk: &SimDisk, byte: u8) {
    let size = disk.limits(0).unwrap().size;
    let is_it = |at: &u64| disk.read_raw(0, *at, 4096).iter().all(|found| *found == byte);
    let at = disk.allocated_in(0, 0..size).into_iter().find(is_it).unwrap();
    disk.flip_bit(0, at + 77, 3);
}

#[test]
fn a_bad_block_within_a_large_read() {
    let serving = Serving::new();
    let mut client = serving.client(Style::Simple);
    let data: Vec<u8> = (0..16u8).flat_map(|block| vec![block + 100; 4096]).collect();
    client.write(0, &data);
    for byte in [103, 104, 107] {
        damage(&serving.disk, byte);
    }
    // A simple reply fails, and the connection goes on.
    assert_eq!(client.error(READ, 0, 0, 65_536, &[]), Some(Errno::Io));
    assert_eq!(client.read(0, 12_288), data[..12_288]);
    for style in [Style::Structured, Style::Extended] {
        let mut client = serving.client(style);
        let reply = client.ask(READ, 0, 100, 65_436, &[]);
        let bad = 3 * 4096;
        assert_eq!(reply.error, None);
        assert_eq!(reply.bad, [(bad, Errno::Io), (7 * 4096, Errno::Io)]);
        let part = |from: usize, to: usize| (from as u64, data[from..to].to_vec());
        let good = [part(100, 3 * 4096), part(5 * 4096, 7 * 4096), part(8 * 4096, 65_536)];
        assert!(reply.data == good);
        // In one piece, that is up to the first bad block.
        let reply = client.ask(READ, DF, 100, 65_436, &[]);
        assert_eq!(reply.bad, [(bad, Errno::Io)]);
        assert!(reply.data == good[..1]);
        let reply = client.ask(READ, DF, bad + 5, 4096, &[]);
        assert_eq!((reply.bad, reply.data.len()), (vec![(bad + 5, Errno::Io)], 0));
        // To have it at hand is an error too.
        assert_eq!(client.error(CACHE, 0, 0, 65_536, &[]), Some(Errno::Io));
    }
    // A new write makes it good again.
    client.write(3 * 4096, &[1; 8192]);
    client.write(7 * 4096, &[1; 4096]);
    assert_eq!(client.read(3 * 4096, 8192), [1; 8192]);
}

#[test]
fn a_flush_covers_what_was_acknowledged_on_other_connections() {
    let mut serving = Serving::new();
    let mut writer = serving.client(Style::Structured);
    let mut flusher = serving.client(Style::Simple);
    for round in 0..20u8 {
        writer.write(u64::from(round) * 4096, &[round + 1; 4096]);
        assert_eq!(flusher.error(FLUSH, 0, 0, 0, &[]), None);
    }
    assert_eq!(writer.error(WRITE, FUA, 1 << 20, 4, b"fua!"), None);
    assert_eq!(writer.error(TRIM, FUA, 0, 4096, &[]), None);
    let disk = serving.disk.clone();
    disk.power_cut_keep_none();
    // The volume of before sees nothing but errors; it goes as it is.
    drop(serving.join());
    let serving = Serving::on(disk, false);
    let mut client = serving.client(Style::Structured);
    assert_eq!(client.read(0, 4096), [0; 4096]);
    for round in 1..20u8 {
        assert_eq!(client.read(u64::from(round) * 4096, 4096), [round + 1; 4096]);
    }
    assert_eq!(client.read(1 << 20, 4), b"fua!");
}

#[test]
fn a_client_that_leaves_gets_all_its_answers() {
    let serving = Serving::new();
    let mut client = serving.client(Style::Structured);
    for number in 0..100 {
        client.send(WRITE, 0, number * 4096, 4096, &[5; 4096]);
    }
    client.send(READ, 0, 0, 4096, &[]);
    client.send(DISC, 0, 0, 0, &[]);
    let replies: Vec<_> = (0..101).map(|_| client.reply()).collect();
    assert!(replies.iter().all(|reply| reply.error.is_none()));
    let mut rest = Vec::new();
    std::io::Read::read_to_end(&mut client.stream, &mut rest).unwrap();
    assert!(rest.is_empty());
}

#[test]
fn a_server_that_stops_finishes_what_was_begun() {
    let mut serving = Serving::new();
    let mut client = serving.client(Style::Structured);
    let idle = serving.client(Style::Structured);
    for number in 0..64 {
        client.send(WRITE, 0, number << 18, 1 << 18, &vec![number as u8 + 1; 1 << 18]);
    }
    let mut acknowledged = vec![client.reply().cookie];
    serving.stop();
    // Each is answered, done or refused, until the server hangs up.
    while let Some(reply) = client.reply_or_end() {
        match reply.error {
            None => acknowledged.push(reply.cookie),
            error => assert_eq!(error, Some(Errno::Shutdown)),
        }
    }
    let path = serving.path.clone();
    let disk = serving.close();
    drop(idle);
    assert!(!path.exists(), "the socket is removed");
    let serving = Serving::on(disk, false);
    let mut client = serving.client(Style::Simple);
    for cookie in acknowledged {
        let number = cookie - 1;
        assert!(client.read(number << 18, 1 << 18) == vec![cookie as u8; 1 << 18]);
    }
}
