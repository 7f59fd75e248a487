//! What requests are let through, and how the others are refused.

mod common;

use common::Random;
use oxblock_nbd_proto::{Command, Errno, MAX_PAYLOAD, Request, Style, Terms, validate_request};

const SIZE: u64 = 1 << 40;
const TERMS: Terms = Terms {
    size: SIZE,
    read_only: false,
    style: Style::Structured,
    allocation: true,
    max_payload: MAX_PAYLOAD,
    shutdown: false,
};
const READ_ONLY: Terms = Terms { read_only: true, ..TERMS };
const SIMPLE: Terms = Terms { style: Style::Simple, allocation: false, ..TERMS };
const EXTENDED: Terms = Terms { style: Style::Extended, ..TERMS };
const SHUTDOWN: Terms = Terms { shutdown: true, ..TERMS };

const READ: u16 = 0;
const WRITE: u16 = 1;
const DISC: u16 = 2;
const FLUSH: u16 = 3;
const TRIM: u16 = 4;
const CACHE: u16 = 5;
const ZEROES: u16 = 6;
const STATUS: u16 = 7;

const FUA: u16 = 1;
const NO_HOLE: u16 = 2;
const DF: u16 = 4;
const ONE: u16 = 8;
const FAST: u16 = 16;
const PAYLOAD: u16 = 32;

fn judge(
    terms: &Terms,
    command: u16,
    flags: u16,
    offset: u64,
    length: u64,
) -> Result<Command, Errno> {
    let request = Request { flags, command, cookie: 7, offset, length };
    validate_request(&request, terms).map_err(|refusal| {
        assert!(refusal.sentence.len() > 10, "every refusal has a sentence");
        refusal.errno
    })
}

#[test]
fn commands_come_through_with_their_flags() {
    let (offset, len) = (4097, 513);
    for (terms, command, flags, expected) in [
        (SIMPLE, READ, 0, Command::Read { offset, len, whole: false }),
        (TERMS, READ, DF, Command::Read { offset, len, whole: true }),
        (READ_ONLY, READ, FUA, Command::Read { offset, len, whole: false }),
        (TERMS, WRITE, 0, Command::Write { offset, len, fua: false }),
        (TERMS, WRITE, FUA, Command::Write { offset, len, fua: true }),
        (EXTENDED, WRITE, FUA | PAYLOAD, Command::Write { offset, len, fua: true }),
        (TERMS, TRIM, FUA, Command::Trim { offset, len: 513, fua: true }),
        (TERMS, CACHE, 0, Command::Cache { offset, len: 513 }),
        (READ_ONLY, CACHE, FUA, Command::Cache { offset, len: 513 }),
        (
            TERMS,
            ZEROES,
            NO_HOLE | FAST,
            Command::WriteZeroes { offset, len: 513, fua: false, no_hole: true, fast: true },
        ),
        (
            SIMPLE,
            ZEROES,
            FUA,
            Command::WriteZeroes { offset, len: 513, fua: true, no_hole: false, fast: false },
        ),
        (READ_ONLY, STATUS, 0, Command::BlockStatus { offset, len: 513, one: false }),
        (TERMS, STATUS, ONE | FUA, Command::BlockStatus { offset, len: 513, one: true }),
    ] {
        assert_eq!(judge(&terms, command, flags, offset, 513), Ok(expected));
    }
    assert_eq!(judge(&READ_ONLY, FLUSH, FUA, 0, 0), Ok(Command::Flush));
}

#[test]
fn a_client_may_always_leave() {
    for terms in [TERMS, SHUTDOWN, SIMPLE, EXTENDED] {
        assert_eq!(judge(&terms, DISC, 0xffff, u64::MAX, u64::MAX), Ok(Command::Disconnect));
    }
}

#[test]
fn beyond_the_end() {
    for (offset, length) in
        [(SIZE, 1), (SIZE - 1, 2), (u64::MAX, 1), (u64::MAX, u64::MAX), (1, SIZE)]
    {
        for command in [READ, TRIM, CACHE, STATUS] {
            assert_eq!(judge(&EXTENDED, command, 0, offset, length), Err(Errno::Invalid));
        }
        assert_eq!(judge(&EXTENDED, ZEROES, 0, offset, length), Err(Errno::NoSpace));
        assert_eq!(judge(&EXTENDED, WRITE, PAYLOAD, offset, length), Err(Errno::NoSpace));
    }
    assert!(judge(&TERMS, READ, 0, SIZE - 1, 1).is_ok());
    assert!(judge(&TERMS, READ, 0, SIZE, 0).is_ok());
}

#[test]
fn a_read_only_export_is_not_changed() {
    for command in [WRITE, TRIM, ZEROES] {
        assert_eq!(judge(&READ_ONLY, command, 0, 0, 1), Err(Errno::Perm));
        // That it cannot be written comes before where it ends.
        assert_eq!(judge(&READ_ONLY, command, 0, SIZE, 1), Err(Errno::Perm));
    }
}

#[test]
fn more_than_the_longest_payload() {
    let most = u64::from(MAX_PAYLOAD);
    assert!(judge(&TERMS, READ, DF, 0, most).is_ok());
    assert!(judge(&TERMS, WRITE, 0, 0, most).is_ok());
    assert_eq!(judge(&TERMS, READ, 0, 0, most + 1), Err(Errno::Invalid));
    assert_eq!(judge(&TERMS, READ, DF, 0, most + 1), Err(Errno::Overflow));
    assert_eq!(judge(&TERMS, WRITE, 0, 0, most + 1), Err(Errno::Invalid));
    assert_eq!(judge(&EXTENDED, READ, 0, 0, 1 << 32), Err(Errno::Invalid));
    // What has no payload has no such limit.
    let length = u64::from(u32::MAX);
    for command in [TRIM, ZEROES, CACHE, STATUS] {
        assert!(judge(&TERMS, command, 0, 0, length).is_ok());
        assert!(judge(&EXTENDED, command, 0, 0, SIZE).is_ok());
    }
}

#[test]
fn flags_belong_to_commands() {
    for style in [Style::Simple, Style::Structured, Style::Extended] {
        let terms = Terms { style, ..TERMS };
        for command in 0..9u16 {
            for bit in 1..16 {
                let flag = 1u16 << bit;
                let known =
                    matches!((command, flag), (ZEROES, NO_HOLE | FAST) | (STATUS, ONE) | (DISC, _))
                        || (command, flag) == (READ, DF) && style != Style::Simple
                        || (command, flag) == (WRITE, PAYLOAD) && style == Style::Extended;
                let length = u64::from(command != FLUSH);
                let result = judge(&terms, command, flag, 0, length);
                if known {
                    assert!(result.is_ok(), "{style:?} {command} {flag:#x}");
                } else {
                    assert_eq!(result, Err(Errno::Invalid), "{style:?} {command} {flag:#x}");
                }
            }
        }
    }
}

#[test]
fn other_nonsense() {
    for command in [8, 9, 0x7fff, 0xffff] {
        assert_eq!(judge(&TERMS, command, 0, 0, 0), Err(Errno::Invalid));
        assert_eq!(judge(&TERMS, command, FUA, 0, 0), Err(Errno::Invalid));
    }
    let command = Command::Write { offset: 0, len: 1, fua: false };
    assert_eq!(judge(&EXTENDED, WRITE, 0, 0, 1), Ok(command));
    assert_eq!(judge(&TERMS, FLUSH, 0, 1, 0), Err(Errno::Invalid));
    assert_eq!(judge(&TERMS, FLUSH, 0, 0, 1), Err(Errno::Invalid));
    assert_eq!(judge(&TERMS, STATUS, 0, 0, 0), Err(Errno::Invalid));
    let without = Terms { allocation: false, ..TERMS };
    assert_eq!(judge(&without, STATUS, 0, 0, 1), Err(Errno::Invalid));
}

#[test]
fn a_server_that_shuts_down_begins_nothing() {
    for command in [READ, WRITE, FLUSH, TRIM, CACHE, ZEROES, STATUS, 99] {
        assert_eq!(judge(&SHUTDOWN, command, 0, 0, 0), Err(Errno::Shutdown));
    }
}

#[test]
fn nothing_that_comes_through_leaves_the_export() {
    let mut random = Random::new();
    let mut let_through = 0;
    for _ in 0..200_000 {
        let command = u16::try_from(random.below(10)).unwrap();
        let flags = if random.below(2) == 0 { 0 } else { 1 << random.below(16) };
        let (offset, length) = (random.number() & (2 * SIZE - 1), random.number());
        let terms = [TERMS, READ_ONLY, SIMPLE, EXTENDED][random.index(4)];
        let (at, len) = match judge(&terms, command, flags, offset, length) {
            Ok(Command::Read { offset, len, .. } | Command::Write { offset, len, .. }) => {
                assert!(len <= MAX_PAYLOAD);
                (offset, u64::from(len))
            }
            Ok(
                Command::Trim { offset, len, .. }
                | Command::Cache { offset, len }
                | Command::WriteZeroes { offset, len, .. }
                | Command::BlockStatus { offset, len, .. },
            ) => (offset, len),
            Ok(Command::Flush | Command::Disconnect) | Err(_) => continue,
        };
        let_through += 1;
        assert!(at + len <= SIZE);
        assert_eq!((at, len), (offset, length));
    }
    assert!(let_through > 1000);
}
