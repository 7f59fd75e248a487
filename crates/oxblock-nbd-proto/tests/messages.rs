//! Requests and replies of the transmission phase, byte by byte; every message decodes to what was encoded, and no part of
//! one does.
#![expect(clippy::indexing_slicing, reason = "tests")]

mod common;

use common::{Random, hex};
use oxblock_nbd_proto::{
    BlockSize, Chunk, ClientOption, Errno, ErrorReply, Extent, Info, InfoRequest, MetaQuery,
    OptionHeader, OptionReply, ReplyHeader, ReplyTo, Request, Style,
};

const STYLES: [Style; 3] = [Style::Simple, Style::Structured, Style::Extended];

fn request() -> Request {
    Request {
        flags: 0x0021,
        command: 1,
        cookie: 0x0102_0304_0506_0708,
        offset: 0x1000,
        length: 0x200,
    }
}

fn written(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out);
    out
}

#[test]
fn requests() {
    let compact = hex("25609513 0021 0001 0102030405060708 0000000000001000 00000200");
    let extended = hex("21e41c71 0021 0001 0102030405060708 0000000000001000 0000000000000200");
    for (style, bytes) in
        [(Style::Simple, &compact), (Style::Structured, &compact), (Style::Extended, &extended)]
    {
        assert_eq!(written(|out| request().encode(style, out)), *bytes);
        assert_eq!(Request::decode(style, bytes), Ok(Some(request())));
        assert_eq!(bytes.len(), style.request_bytes());
    }
    assert!(Request::decode(Style::Simple, &extended).is_err());
    assert!(Request::decode(Style::Extended, &compact).is_err());
    assert!(Request::decode(Style::Simple, &hex("25609514")).is_err());
}

#[test]
fn payload_of_requests() {
    let with = |command, flags| Request { command, flags, ..request() };
    assert_eq!(with(1, 0).payload(Style::Simple), 0x200);
    assert_eq!(with(0, 0).payload(Style::Structured), 0);
    // A flag that does not belong there does not make payload.
    assert_eq!(with(0, 0x20).payload(Style::Structured), 0);
    assert_eq!(with(1, 0x20).payload(Style::Extended), 0x200);
    // Not as it should be, but as it is done.
    assert_eq!(with(1, 0).payload(Style::Extended), 0x200);
    assert_eq!(with(0, 0).payload(Style::Extended), 0);
    assert_eq!(with(0, 0x20).payload(Style::Extended), 0x200);
}

/// What one reply writes.
type Write = fn(&ReplyTo, &mut Vec<u8>);

#[test]
fn replies() {
    let error: Write = |to, out| to.error(Errno::Io, "bad", out);
    let error_at: Write = |to, out| to.error_at(Errno::Io, "bad", 0x1100, false, out);
    let data: Write = |to, out| to.data(0x1000, 0x200, true, out);
    let hole: Write = |to, out| to.hole(0x1000, 0x200, false, out);
    let status: Write = |to, out| {
        let extents = [Extent { len: 0x100, flags: 3 }, Extent { len: 0x100, flags: 0 }];
        to.block_status(1, &extents, true, out);
    };
    let done: Write = ReplyTo::done;
    let ext = |flags: &str, kind: &str, length: &str| {
        format!("6e8a278c {flags} {kind} 0102030405060708 0000000000001000 00000000{length}")
    };
    let chunk = |flags: &str, kind: &str, length: &str| {
        format!("668e33ef {flags} {kind} 0102030405060708 {length}")
    };
    for (write, simple, flags, kind, [length, long], [payload, wide]) in [
        (done, Some("00000000"), "0001", "0000", ["00000000"; 2], [""; 2]),
        (error, Some("00000005"), "0001", "8001", ["00000009"; 2], ["00000005 0003 'bad'"; 2]),
        (
            error_at,
            Some("00000005"),
            "0000",
            "8002",
            ["00000011"; 2],
            ["00000005 0003 'bad' 0000000000001100"; 2],
        ),
        (data, Some("00000000"), "0001", "0001", ["00000208"; 2], ["0000000000001000"; 2]),
        (hole, None, "0000", "0002", ["0000000c"; 2], ["0000000000001000 00000200"; 2]),
        (
            status,
            None,
            "0001",
            "0005",
            ["00000014", "00000028"],
            [
                "00000001 00000100 00000003 00000100 00000000",
                "00000001 00000002 0000000000000100 0000000000000003 0000000000000100 0000000000000000",
            ],
        ),
    ] {
        let to = |style| ReplyTo::new(style, &request());
        if let Some(error) = simple {
            let expected = hex(&format!("67446698 {error} 0102030405060708"));
            assert_eq!(written(|out| write(&to(Style::Simple), out)), expected);
        }
        let expected = hex(&(chunk(flags, kind, length) + payload));
        assert_eq!(written(|out| write(&to(Style::Structured), out)), expected);
        let kind = if kind == "0005" { "0006" } else { kind };
        let expected = hex(&(ext(flags, kind, long) + wide));
        assert_eq!(written(|out| write(&to(Style::Extended), out)), expected);
    }
}

#[test]
fn a_long_sentence_is_cut_between_characters() {
    let sentence = "ä".repeat(400);
    let to = ReplyTo::new(Style::Structured, &request());
    let out = written(|out| to.error(Errno::Invalid, &sentence, out));
    let Ok(Chunk::Error { errno, sentence: got }) = Chunk::decode(0x8001, &out[20..]) else {
        panic!("no error chunk");
    };
    assert_eq!((errno, got.len()), (Errno::Invalid, 512));
    assert!(sentence.starts_with(&got));
}

#[test]
fn requests_survive() {
    let mut random = Random::new();
    for _ in 0..20_000 {
        let style = STYLES[random.index(3)];
        let limit = if style == Style::Extended { u64::MAX } else { u64::from(u32::MAX) };
        let request = Request {
            flags: random.u16(),
            command: random.u16(),
            cookie: random.next(),
            offset: random.number(),
            length: random.number() & limit,
        };
        let bytes = written(|out| request.encode(style, out));
        assert_eq!(Request::decode(style, &bytes), Ok(Some(request)));
        for end in 0..bytes.len() {
            assert_eq!(Request::decode(style, &bytes[..end]), Ok(None));
        }
    }
}

fn option(random: &mut Random) -> ClientOption {
    let info = |random: &mut Random| InfoRequest {
        name: random.string(40),
        wants: (0..random.below(5)).map(|_| random.u16()).collect(),
    };
    let query = |random: &mut Random| MetaQuery {
        name: random.string(40),
        queries: (0..random.below(5)).map(|_| random.string(20)).collect(),
    };
    match random.below(11) {
        0 => ClientOption::ExportName(random.string(100)),
        1 => ClientOption::Abort,
        2 => ClientOption::List,
        3 => ClientOption::StartTls,
        4 => ClientOption::Info(info(random)),
        5 => ClientOption::Go(info(random)),
        6 => ClientOption::StructuredReply,
        7 => ClientOption::ListMetaContext(query(random)),
        8 => ClientOption::SetMetaContext(query(random)),
        9 => ClientOption::ExtendedHeaders,
        _ => ClientOption::Unknown(random.u32() | 0x100),
    }
}

#[test]
fn options_survive() {
    let mut random = Random::new();
    for _ in 0..5_000 {
        let option = option(&mut random);
        let bytes = written(|out| option.encode(out));
        let header = OptionHeader::decode(&bytes).unwrap().unwrap();
        let data = &bytes[OptionHeader::BYTES..];
        assert_eq!(header.length as usize, data.len());
        assert_eq!(ClientOption::decode(header.option, data), Ok(option.clone()));
        for end in 0..OptionHeader::BYTES {
            assert_eq!(OptionHeader::decode(&bytes[..end]), Ok(None));
        }
        if !matches!(option, ClientOption::ExportName(_)) {
            // Its own lengths say that something is missing.
            for end in 0..data.len() {
                assert!(ClientOption::decode(header.option, &data[..end]).is_err(), "{option:?}");
            }
        }
    }
}

fn option_reply(random: &mut Random) -> OptionReply {
    match random.below(8) {
        0 => OptionReply::Ack,
        1 => OptionReply::Server { name: random.string(40), description: random.string(40) },
        2 => OptionReply::MetaContext { id: random.u32(), name: random.string(40) },
        3 => OptionReply::Error {
            error: ErrorReply::ALL[random.index(10)],
            text: random.string(100),
        },
        4 => OptionReply::Info(Info::Export { size: random.number(), flags: random.u16() }),
        5 => OptionReply::Info(Info::Name(random.string(40))),
        6 => OptionReply::Info(Info::Description(random.string(40))),
        _ => OptionReply::Info(Info::BlockSize(BlockSize {
            minimum: random.u32(),
            preferred: random.u32(),
            maximum: random.u32(),
        })),
    }
}

#[test]
fn option_replies_survive() {
    let mut random = Random::new();
    for _ in 0..5_000 {
        let (reply, number) = (option_reply(&mut random), random.u32());
        let bytes = written(|out| reply.encode(number, out));
        assert_eq!(OptionReply::decode(&bytes), Ok(Some((bytes.len(), number, reply))));
        for end in 0..bytes.len() {
            assert_eq!(OptionReply::decode(&bytes[..end]), Ok(None));
        }
    }
    // Longer than anything that is sent: not waited for.
    let long = hex("0003e889045565a9 00000003 00000002 00002005");
    assert!(OptionReply::decode(&long).is_err());
}

#[test]
fn reply_chunks_survive() {
    let mut random = Random::new();
    for _ in 0..5_000 {
        let style = if random.below(2) == 0 { Style::Structured } else { Style::Extended };
        let request = Request { cookie: random.next(), offset: random.number(), ..request() };
        let (to, offset, last) =
            (ReplyTo::new(style, &request), random.number(), random.below(2) == 0);
        let (errno, sentence) = (Errno::ALL[random.index(8)], random.string(60));
        let extents: Vec<Extent> = (0..=random.below(5))
            .map(|_| Extent { len: 1 + (random.number() & 0x7fff_ffff), flags: random.u32() })
            .collect();
        let data = vec![7; 1 + random.index(100)];
        let mut out = Vec::new();
        let chunk = match random.below(6) {
            0 => {
                to.data(offset, u32::try_from(data.len()).unwrap(), last, &mut out);
                out.extend_from_slice(&data);
                Chunk::Data { offset, data: &data }
            }
            1 => {
                to.hole(offset, 77, last, &mut out);
                Chunk::Hole { offset, len: 77 }
            }
            2 => {
                to.block_status(9, &extents, last, &mut out);
                Chunk::BlockStatus { context: 9, extents }
            }
            3 => {
                to.error_at(errno, &sentence, offset, last, &mut out);
                Chunk::ErrorAt { errno, sentence, offset }
            }
            4 => {
                to.error(errno, &sentence, &mut out);
                Chunk::Error { errno, sentence }
            }
            _ => {
                to.done(&mut out);
                Chunk::None
            }
        };
        let (size, header) = ReplyHeader::decode(style, &out).unwrap().unwrap();
        let ReplyHeader::Chunk { last: ends, kind, cookie, offset: asked, length } = header else {
            panic!("a chunk became {header:?}");
        };
        assert_eq!((cookie, usize::try_from(length)), (request.cookie, Ok(out.len() - size)));
        assert_eq!(asked, (style == Style::Extended).then_some(request.offset));
        assert_eq!(ends, last || matches!(chunk, Chunk::None | Chunk::Error { .. }));
        assert_eq!(Chunk::decode(kind, &out[size..]), Ok(chunk.clone()));
        for end in 0..size {
            assert_eq!(ReplyHeader::decode(style, &out[..end]), Ok(None));
        }
        if !matches!(chunk, Chunk::Data { .. } | Chunk::BlockStatus { .. }) {
            for end in 0..out.len() - size {
                assert!(Chunk::decode(kind, &out[size..size + end]).is_err(), "{chunk:?}");
            }
        }
    }
}

#[test]
fn chunks_that_contradict_themselves() {
    for (kind, payload) in [
        (0, "00"),
        (1, "0000000000001000"),
        (2, "0000000000001000 00000000"),
        (2, "0000000000001000 00000001 00"),
        (5, "00000001"),
        (5, "00000001 00000000 00000000"),
        (5, "00000001 00000001 00000000 00"),
        (6, "00000001 00000002 0000000000000001 0000000000000000"),
        (6, "00000001 00000000"),
        (6, "00000001 00000001 0000000000000001 0000000100000000"),
        (0x8001, "00000000 0000"),
        (0x8001, "00000005 0001"),
        (0x8002, "00000005 0000 00000000000000"),
        (7, ""),
    ] {
        assert!(Chunk::decode(kind, &hex(payload)).is_err(), "{kind} {payload}");
    }
    // Without a count, what is there counts.
    let uncounted = hex("00000001 00000000 0000000000000001 0000000000000000");
    let counted = Chunk::decode(6, &uncounted);
    let extents = vec![Extent { len: 1, flags: 0 }];
    assert_eq!(counted, Ok(Chunk::BlockStatus { context: 1, extents }));
}

#[test]
fn errors_by_number() {
    for (errno, number) in Errno::ALL.into_iter().zip([1, 5, 12, 22, 28, 75, 95, 108]) {
        assert_eq!((errno.number(), Errno::of_number(number)), (number, errno));
    }
    assert_eq!(Errno::of_number(4711), Errno::Invalid);
    for (system, errno) in [
        (1, Errno::Perm),
        (30, Errno::Perm),
        (5, Errno::Io),
        (117, Errno::Io),
        (28, Errno::NoSpace),
        (122, Errno::NoSpace),
        (27, Errno::NoSpace),
        (22, Errno::Invalid),
        (75, Errno::Io),
        (95, Errno::Io),
        (108, Errno::Shutdown),
        (-1, Errno::Io),
    ] {
        assert_eq!(Errno::of_system(system), errno, "{system}");
    }
    for (place, error) in ErrorReply::ALL.into_iter().enumerate() {
        assert_eq!(error.number() as usize, (1 << 31) + place + 1);
    }
}
