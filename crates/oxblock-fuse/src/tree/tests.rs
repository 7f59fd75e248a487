//! Every request, judged.

use crate::proto::wire::InitIn;

use super::*;

const SIZE: u64 = 1 << 20;

fn tree(root: Root, read_only: bool) -> Tree {
    let mut tree = Tree::new(root, SIZE, read_only, (7, 8), (100, 5));
    let offer = InitIn { major: 7, minor: 40, max_readahead: 0, flags: 0 };
    let begun = ask(&mut tree, ROOT, Op::Init(offer, None));
    assert!(matches!(begun, Answer::Reply(_)));
    tree
}

fn file() -> Tree {
    tree(Root::File, false)
}

fn ask(tree: &mut Tree, node: u64, op: Op) -> Answer {
    tree.answer(&Request { unique: 1, node, op }, 8192)
}

#[track_caller]
fn refused(tree: &mut Tree, node: u64, op: Op, errno: Errno) {
    assert_eq!(ask(tree, node, op), Answer::Reply(Reply::error(1, errno)));
}

#[track_caller]
fn work(tree: &mut Tree, op: Op, expected: Work) {
    assert_eq!(ask(tree, ROOT, op), Answer::Work(expected));
}

#[track_caller]
fn replies(tree: &mut Tree, node: u64, op: Op, expected: Reply) {
    assert_eq!(ask(tree, node, op), Answer::Reply(expected));
}

fn read(offset: u64, size: u32) -> Op {
    Op::Read { offset, size, direct: true }
}

fn write(offset: u64, size: u32) -> Op {
    Op::Write { offset, size, durable: false }
}

fn allocate(mode: u32, offset: u64, length: u64) -> Op {
    Op::Fallocate { offset, length, mode }
}

#[test]
fn reads_end_where_the_file_ends() {
    let tree = &mut file();
    let range = |offset, len| Work::Read { offset, len, partial: true };
    work(tree, read(0, 4096), range(0, 4096));
    work(tree, read(SIZE - 4096, 8192), range(SIZE - 4096, 4096));
    work(tree, read(SIZE - 1, u32::try_from(SIZE).unwrap()), range(SIZE - 1, 1));
    for offset in [SIZE, SIZE + 1, u64::MAX] {
        replies(tree, ROOT, read(offset, 4096), Reply::read(1, 0));
    }
    replies(tree, ROOT, read(0, 0), Reply::read(1, 0));
    refused(tree, ROOT, read(0, TRANSFER_MAX + 1), Errno::INVAL);
    let cached = Op::Read { offset: 0, size: 4096, direct: false };
    work(tree, cached, Work::Read { offset: 0, len: 4096, partial: false });
}

#[test]
fn writes_are_cut_at_the_end_and_refused_behind_it() {
    let tree = &mut file();
    let range = |offset, len| Work::Write { offset, len, durable: false };
    work(tree, write(512, 100), range(512, 100));
    work(tree, write(SIZE - 100, 4096), range(SIZE - 100, 100));
    refused(tree, ROOT, write(SIZE, 1), Errno::NOSPC);
    refused(tree, ROOT, write(u64::MAX, TRANSFER_MAX), Errno::NOSPC);
    replies(tree, ROOT, write(SIZE, 0), Reply::written(1, 0));
    let durable = Op::Write { offset: 0, size: 1, durable: true };
    work(tree, durable, Work::Write { offset: 0, len: 1, durable: true });
    work(tree, Op::Fsync, Work::Flush);
}

#[test]
fn holes_and_zeroes() {
    let tree = &mut file();
    // FALLOC_FL_PUNCH_HOLE is 2, FALLOC_FL_KEEP_SIZE 1, FALLOC_FL_ZERO_RANGE 16.
    work(tree, allocate(3, 4096, 8192), Work::Discard { offset: 4096, len: 8192 });
    work(tree, allocate(3, 4096, 8191), Work::Zero { offset: 4096, len: 8191 });
    work(tree, allocate(3, 100, 4096), Work::Zero { offset: 100, len: 4096 });
    work(tree, allocate(3, 4096, u64::MAX / 2), Work::Discard { offset: 4096, len: SIZE - 4096 });
    work(tree, allocate(17, SIZE - 10, 100), Work::Zero { offset: SIZE - 10, len: 10 });
    work(tree, allocate(16, 0, SIZE), Work::Zero { offset: 0, len: SIZE });
    replies(tree, ROOT, allocate(3, SIZE, 4096), Reply::done(1));
    refused(tree, ROOT, allocate(16, 0, SIZE + 1), Errno::FBIG);
    refused(tree, ROOT, allocate(3, 1, u64::MAX), Errno::FBIG);
    refused(tree, ROOT, allocate(3, 0, 0), Errno::INVAL);
    // Plain allocation, without and with KEEP_SIZE, COLLAPSE_RANGE, INSERT_RANGE, UNSHARE_RANGE, and a hole that grows.
    for mode in [0, 1, 8, 32, 64, 2, 1 << 31] {
        refused(tree, ROOT, allocate(mode, 0, 4096), Errno::OPNOTSUPP);
    }
}

#[test]
fn seeks() {
    let tree = &mut file();
    let seek = |offset, whence| Op::Lseek { offset, whence };
    work(tree, seek(5, 3), Work::Seek { offset: 5, hole: false });
    work(tree, seek(SIZE - 1, 4), Work::Seek { offset: SIZE - 1, hole: true });
    refused(tree, ROOT, seek(SIZE, 3), Errno::NXIO);
    refused(tree, ROOT, seek(u64::MAX, 4), Errno::NXIO);
    refused(tree, ROOT, seek(0, 0), Errno::INVAL);
}

#[test]
fn a_read_only_file_takes_nothing() {
    let tree = &mut tree(Root::File, true);
    work(tree, read(0, 1), Work::Read { offset: 0, len: 1, partial: true });
    for op in [
        write(0, 1),
        allocate(3, 0, 4096),
        Op::Open { write: true },
        Op::Setattr(SetAttr { size: Some(0), ..SetAttr::default() }),
        Op::Change,
    ] {
        refused(tree, ROOT, op, Errno::ROFS);
    }
    replies(tree, ROOT, Op::Open { write: false }, Reply::opened(1));
}

#[test]
fn a_folder_shows_the_file_and_nothing_else() {
    let tree = &mut tree(Root::Folder("disk".into()), false);
    let file = Attr {
        node: 2,
        kind: FileType::Regular,
        mode: 0o600,
        uid: 7,
        gid: 8,
        size: SIZE,
        used: 8192,
        changed: (100, 5),
    };
    replies(tree, ROOT, Op::Lookup(b"disk".to_vec()), Reply::entry(1, &file));
    replies(tree, 2, Op::Getattr, Reply::attr(1, &file));
    for name in ["Disk", "dis", "disks", ".", ".."] {
        refused(tree, ROOT, Op::Lookup(name.into()), Errno::NOENT);
    }
    refused(tree, ROOT, Op::Lookup(vec![b'n'; 255]), Errno::NOENT);
    refused(tree, ROOT, Op::Lookup(vec![b'n'; 256]), Errno::NAMETOOLONG);
    replies(tree, ROOT, Op::Opendir, Reply::opened_folder(1));
    replies(tree, 2, Op::Open { write: true }, Reply::opened(1));
    refused(tree, ROOT, Op::Open { write: false }, Errno::ISDIR);
    refused(tree, ROOT, read(0, 1), Errno::ISDIR);
    refused(tree, 2, Op::Opendir, Errno::NOTDIR);
    refused(tree, 2, Op::Lookup(b"x".to_vec()), Errno::NOTDIR);
    refused(tree, ROOT, Op::Change, Errno::PERM);
    for node in [0, 3, u64::MAX] {
        refused(tree, node, Op::Getattr, Errno::STALE);
        refused(tree, node, read(0, 1), Errno::STALE);
    }
    let entries = |tree: &mut Tree, offset| {
        let Answer::Reply(reply) = ask(tree, ROOT, Op::Readdir { offset, size: 4096 }) else {
            panic!("no reply")
        };
        reply.bytes().len() - 16
    };
    assert_eq!([0, 1, 2, 3, u64::MAX].map(|offset| entries(tree, offset)), [96, 64, 32, 0, 0]);
    assert!(matches!(ask(tree, ROOT, Op::Fsyncdir), Answer::Reply(reply) if !reply.is_error()));
}

#[test]
fn what_can_be_changed_is_and_the_size_is_not() {
    let tree = &mut file();
    let set = |change: SetAttr| Op::Setattr(change);
    let plain = SetAttr::default();
    let by_handle = SetAttr { by_handle: true, ..plain };
    // As `open` with O_TRUNC asks for it, and to what it is.
    for change in [
        SetAttr { size: Some(0), ..plain },
        SetAttr { size: Some(SIZE), ..plain },
        SetAttr { size: Some(SIZE), ..by_handle },
    ] {
        assert!(matches!(ask(tree, ROOT, set(change)), Answer::Reply(reply) if !reply.is_error()));
    }
    for size in [0, 1, SIZE - 1, SIZE + 1] {
        refused(tree, ROOT, set(SetAttr { size: Some(size), ..by_handle }), Errno::PERM);
    }
    refused(tree, ROOT, set(SetAttr { size: Some(1), mode: Some(0o777), ..plain }), Errno::PERM);
    let change = SetAttr { mode: Some(0o106_664), uid: Some(3), gid: Some(4), ..plain };
    let attr = Attr {
        node: ROOT,
        kind: FileType::Regular,
        mode: 0o664,
        uid: 3,
        gid: 4,
        size: SIZE,
        used: 8192,
        changed: (100, 5),
    };
    replies(tree, ROOT, set(change), Reply::attr(1, &attr));
    tree.touch((200, 1));
    replies(tree, ROOT, Op::Getattr, Reply::attr(1, &Attr { changed: (200, 1), ..attr }));
}

#[test]
fn what_is_not_done_here() {
    let tree = &mut file();
    for op in [Op::Flush, Op::Interrupt, Op::Other(22), Op::Other(4096)] {
        refused(tree, ROOT, op, Errno::NOSYS);
    }
    refused(tree, ROOT, Op::Ioctl, Errno::NOTTY);
    assert_eq!(ask(tree, ROOT, Op::Forget), Answer::Nothing);
    for op in [Op::Release, Op::Releasedir, Op::Destroy] {
        replies(tree, 99, op, Reply::done(1));
    }
    replies(tree, ROOT, Op::Statfs, Reply::space(1, SIZE, 8192));
}

#[test]
fn nothing_comes_before_the_versions_are_agreed() {
    let mut tree = Tree::new(Root::File, SIZE, false, (0, 0), (0, 0));
    refused(&mut tree, ROOT, read(0, 1), Errno::IO);
    refused(&mut tree, ROOT, Op::Getattr, Errno::IO);
    let old = InitIn { major: 7, minor: 30, max_readahead: 0, flags: 0 };
    let Answer::Refuse(reply, why) = ask(&mut tree, ROOT, Op::Init(old, None)) else {
        panic!("not refused")
    };
    assert!(reply.is_error() && why.contains("7.30"), "{why}");
}
