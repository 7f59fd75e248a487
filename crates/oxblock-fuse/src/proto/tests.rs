//! Known answers, truncations, and there and back again.
#![expect(clippy::cast_possible_truncation, reason = "tests, with small numbers")]

use oxblock::device::sim::Rng;
use rustix::io::Errno;

use super::wire::{InitIn, InitInMore};
use super::*;

/// A message in the two parts in which it is received.
fn parts(message: &[u8]) -> (&[u8], &[u8]) {
    message.split_at(message.len().min(WRITE_HEAD))
}

fn decoded(message: &[u8]) -> Result<Request, Malformed> {
    let (first, rest) = parts(message);
    decode(first, rest)
}

/// Sets the length in the header.
fn with_len(mut message: Vec<u8>, len: usize) -> Vec<u8> {
    #[expect(clippy::host_endian_bytes, reason = "as the kernel has it")]
    let bytes = (len as u32).to_ne_bytes();
    let to = message.len().min(4);
    message[..to].copy_from_slice(&bytes[..to]);
    message
}

fn seed() -> u64 {
    let given = std::env::var("OXBLOCK_SEED").ok().map(|text| text.parse().unwrap());
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let seed = given.unwrap_or(u64::from(now.subsec_nanos()));
    println!("seed {seed} (OXBLOCK_SEED)");
    seed
}

fn random_op(rng: &mut Rng) -> Op {
    let word = |rng: &mut Rng| rng.below(1 << 32) as u32;
    let (offset, size, flag) = (rng.next_u64(), word(rng), rng.below(2) == 0);
    let maybe = |rng: &mut Rng, value| (rng.below(2) == 0).then_some(value);
    match rng.below(24) {
        0 => {
            let flags = size | 1 << 30;
            let first = InitIn { major: 7, minor: word(rng), max_readahead: size, flags };
            Op::Init(first, flag.then_some(InitInMore { flags2: word(rng), unused: [0; 11] }))
        }
        1 => Op::Destroy,
        2 => Op::Lookup((0..rng.range(1..256)).map(|_| rng.range(1..256) as u8).collect()),
        3 => Op::Forget,
        4 => Op::Getattr,
        5 => Op::Setattr(SetAttr {
            mode: maybe(rng, size),
            uid: maybe(rng, size),
            gid: maybe(rng, size),
            size: flag.then_some(offset),
            by_handle: !flag,
        }),
        6 => Op::Open { write: flag },
        7 => Op::Opendir,
        8 => Op::Read { offset, size, direct: flag },
        9 => Op::Readdir { offset, size },
        10 => Op::Write { offset, size: size % 300, durable: flag },
        11 => Op::Fsync,
        12 | 13 => Op::Fsyncdir,
        14 => Op::Flush,
        15 => Op::Release,
        16 => Op::Releasedir,
        17 => Op::Statfs,
        18 => Op::Fallocate { offset, length: rng.next_u64(), mode: size },
        19 => Op::Lseek { offset, whence: size },
        20 => Op::Interrupt,
        21 => Op::Ioctl,
        22 => Op::Change,
        _ => Op::Other(34),
    }
}

/// A request and its message, with a payload where it has one.
fn random(rng: &mut Rng) -> (Request, Vec<u8>) {
    let op = random_op(rng);
    let request = Request { unique: rng.next_u64(), node: rng.next_u64(), op };
    let mut message = kernel::encode(&request);
    if let Op::Write { size, .. } = request.op {
        message.resize(message.len() + size as usize, 0x55);
    }
    (request, message)
}

#[test]
fn what_the_kernel_encodes_is_decoded() {
    let mut rng = Rng::new(seed());
    for _ in 0..20_000 {
        let (request, message) = random(&mut rng);
        assert_eq!(decoded(&message), Ok(request.clone()), "{message:?}");
    }
}

#[test]
fn every_truncation_is_refused_or_means_the_same() {
    let mut rng = Rng::new(seed());
    for _ in 0..2_000 {
        let (request, message) = random(&mut rng);
        for len in 0..message.len() {
            let cut = &message[..len];
            let refused = decoded(cut).unwrap_err();
            if len >= 40 {
                let answered = !matches!(request.op, Op::Forget);
                assert_eq!(refused.unique, answered.then_some(request.unique));
            }
            // The same with a header that agrees: then nothing but what is there can count.
            if let Ok(less) = decoded(&with_len(cut.to_vec(), len)) {
                assert_eq!((less.unique, less.node), (request.unique, request.node));
                assert!(!matches!(less.op, Op::Write { .. } | Op::Read { .. }), "{less:?}");
            }
        }
    }
}

#[test]
fn hostile_bytes_do_no_harm() {
    let mut rng = Rng::new(seed());
    for _ in 0..50_000 {
        let (_, mut message) = random(&mut rng);
        for _ in 0..rng.range(1..9) {
            let at = rng.below(message.len() as u64) as usize;
            message[at] = rng.below(256) as u8;
        }
        if rng.below(2) == 0 {
            let len = message.len();
            message = with_len(message, len);
        }
        // Whatever it is, it is dealt with.
        decoded(&message).ok();
    }
}

#[test]
fn known_messages() {
    // A write of 4096 bytes at 8192, as Linux 6.x sends it: header, fuse_write_in, payload.
    let mut message = vec![0_u8; 80];
    message[0..4].copy_from_slice(&4176_u32.to_le_bytes());
    message[4] = 16;
    message[8] = 0x2a;
    message[16] = 1;
    message[48..56].copy_from_slice(&8192_u64.to_le_bytes());
    message[56..60].copy_from_slice(&4096_u32.to_le_bytes());
    message[72..76].copy_from_slice(&0o100_002_u32.to_le_bytes());
    message.resize(4176, 7);
    if cfg!(target_endian = "little") {
        let op = Op::Write { offset: 8192, size: 4096, durable: false };
        assert_eq!(decoded(&message), Ok(Request { unique: 42, node: 1, op }));
        // With O_DSYNC.
        message[73] |= 0x10;
        let op = Op::Write { offset: 8192, size: 4096, durable: true };
        assert_eq!(decoded(&message), Ok(Request { unique: 42, node: 1, op }));
    }
    // One byte of the payload is missing.
    message.pop();
    let message = with_len(message, 4175);
    assert_eq!(decoded(&message).unwrap_err().why, "a write of another size than its payload");
}

#[test]
fn names_end_and_are_not_endless() {
    let named = |name: &[u8]| {
        let mut message = kernel::encode(&Request { unique: 1, node: 1, op: Op::Lookup(vec![]) });
        message.truncate(40);
        message.extend_from_slice(name);
        let len = message.len();
        decoded(&with_len(message, len))
    };
    assert_eq!(named(b"x\0").unwrap().op, Op::Lookup(b"x".to_vec()));
    assert_eq!(named(b"x\0y\0").unwrap().op, Op::Lookup(b"x".to_vec()));
    let longest = [[b'n'; 255].as_slice(), &[0]].concat();
    assert_eq!(named(&longest).unwrap().op, Op::Lookup(vec![b'n'; 255]));
    for (name, why) in [
        (&b""[..], "a name without an end"),
        (b"x", "a name without an end"),
        (b"\0", "an empty name"),
        (&vec![b'n'; 1 << 20], "a name without an end"),
    ] {
        assert_eq!(named(name).unwrap_err().why, why);
    }
}

#[test]
fn replies_have_the_sizes_that_the_kernel_checks() {
    let attr = Attr {
        node: 2,
        kind: FileType::Regular,
        mode: 0o600,
        uid: 1,
        gid: 2,
        size: 3 << 40,
        used: 8192,
        changed: (5, 6),
    };
    // Of protocol 7.31 and later.
    for (reply, size) in [
        (Reply::done(9), 16),
        (Reply::error(9, Errno::IO), 16),
        (Reply::written(9, 4096), 16 + 8),
        (Reply::init(9, &wire::InitOut::default()), 16 + 64),
        (Reply::attr(9, &attr), 16 + 104),
        (Reply::entry(9, &attr), 16 + 128),
        (Reply::opened(9), 16 + 16),
        (Reply::space(9, 1 << 30, 4096), 16 + 80),
        (Reply::place(9, 5), 16 + 8),
    ] {
        assert_eq!(reply.bytes().len(), size, "{reply:?}");
        assert_eq!(reply.unique(), 9);
        assert_eq!(u32_at(&reply, 0), size as u32);
    }
    assert_eq!(WRITE_HEAD, 80);
}

/// A word of a reply.
fn u32_at(reply: &Reply, at: usize) -> u32 {
    use zerocopy::FromBytes;
    u32::read_from_prefix(&reply.bytes()[at..]).unwrap().0
}

#[test]
fn known_replies() {
    let error = Reply::error(7, Errno::NOSPC);
    assert_eq!(u32_at(&error, 4).cast_signed(), -28);
    assert!(error.is_error() && !Reply::done(7).is_error());
    // The kernel takes numbers below 512 only.
    let own = Reply::error(7, Errno::from_raw_os_error(524));
    assert_eq!(u32_at(&own, 4).cast_signed(), -5);
    // The length of a read's reply counts the data that follows.
    let read = Reply::read(7, 4096);
    assert_eq!((read.bytes().len(), u32_at(&read, 0)), (16, 4112));
    // FOPEN_DIRECT_IO, FOPEN_NOFLUSH, FOPEN_PARALLEL_DIRECT_WRITES.
    assert_eq!(u32_at(&Reply::opened(7), 24), 0b110_0001);
}

#[test]
fn entries_fill_the_room_and_stop() {
    let entries = |room| {
        let mut found = Dirents::new(room);
        found.push(1, 1, FileType::Folder, b".");
        found.push(2, 2, FileType::Regular, b"a name of 18 signs");
        found.push(1, 3, FileType::Folder, b"x");
        Reply::entries(3, &found).bytes().len() - 16
    };
    // 24 bytes and the name, each rounded up to 8.
    assert_eq!(
        [entries(31), entries(32), entries(79), entries(80), entries(112)],
        [0, 32, 32, 80, 112]
    );
    // A short one is not put in the place of a long one before it.
    assert_eq!(entries(64), 32);
}
