//! The kernel's side, for tests and fuzzing: requests to bytes.

use zerocopy::{Immutable, IntoBytes};

use super::opcode::Opcode;
use super::request::{Op, Request, SetAttr, valid};
use super::wire::{FallocateIn, InHeader, LseekIn, OpenIn, ReadIn, SetAttrIn, WriteIn};

/// The message of a request; that of a write without its payload, which is to follow.
pub fn encode(request: &Request) -> Vec<u8> {
    let (opcode, body) = body(&request.op);
    let payload = if let Op::Write { size, .. } = request.op { size } else { 0 };
    let len = size_of::<InHeader>() + body.len();
    let header = InHeader {
        len: u32::try_from(len).unwrap_or(u32::MAX).saturating_add(payload),
        opcode,
        unique: request.unique,
        nodeid: request.node,
        ..InHeader::default()
    };
    [header.as_bytes(), &body].concat()
}

fn plain(opcode: Opcode, body: &(impl IntoBytes + Immutable)) -> (u32, Vec<u8>) {
    (opcode.number(), body.as_bytes().to_vec())
}

fn body(op: &Op) -> (u32, Vec<u8>) {
    let empty = |opcode: Opcode, len: usize| (opcode.number(), vec![0; len]);
    match op {
        Op::Init(first, more) => {
            let more = more.map(|more| more.as_bytes().to_vec()).unwrap_or_default();
            (Opcode::Init.number(), [first.as_bytes(), &more].concat())
        }
        Op::Destroy => empty(Opcode::Destroy, 0),
        Op::Lookup(name) => (Opcode::Lookup.number(), [name.as_slice(), &[0]].concat()),
        Op::Forget => empty(Opcode::Forget, 8),
        Op::Getattr => empty(Opcode::Getattr, 16),
        Op::Setattr(change) => plain(Opcode::Setattr, &setattr(change)),
        Op::Open { write } => {
            plain(Opcode::Open, &OpenIn { flags: if *write { 0o2 } else { 0 }, open_flags: 0 })
        }
        Op::Opendir => empty(Opcode::Opendir, 8),
        Op::Read { offset, size, direct } => {
            let read_flags = if *direct { 1 << 1 } else { 0 };
            let body = ReadIn { offset: *offset, size: *size, read_flags, ..ReadIn::default() };
            plain(Opcode::Read, &body)
        }
        Op::Readdir { offset, size } => {
            plain(Opcode::Readdir, &ReadIn { offset: *offset, size: *size, ..ReadIn::default() })
        }
        Op::Write { offset, size, durable } => {
            let flags = if *durable { 0o4_010_000 } else { 0 };
            let body = WriteIn { offset: *offset, size: *size, flags, ..WriteIn::default() };
            plain(Opcode::Write, &body)
        }
        Op::Fsync => empty(Opcode::Fsync, 16),
        Op::Fsyncdir => empty(Opcode::Fsyncdir, 16),
        Op::Flush => empty(Opcode::Flush, 24),
        Op::Release => empty(Opcode::Release, 24),
        Op::Releasedir => empty(Opcode::Releasedir, 24),
        Op::Statfs => empty(Opcode::Statfs, 0),
        Op::Fallocate { offset, length, mode } => {
            let body = FallocateIn {
                offset: *offset,
                length: *length,
                mode: *mode,
                ..FallocateIn::default()
            };
            plain(Opcode::Fallocate, &body)
        }
        Op::Lseek { offset, whence } => {
            let body = LseekIn { offset: *offset, whence: *whence, ..LseekIn::default() };
            plain(Opcode::Lseek, &body)
        }
        Op::Interrupt => empty(Opcode::Interrupt, 8),
        Op::Ioctl => empty(Opcode::Ioctl, 32),
        Op::Change => empty(Opcode::Mkdir, 8),
        Op::Other(number) => (*number, Vec::new()),
    }
}

fn setattr(change: &SetAttr) -> SetAttrIn {
    let bit = |given: bool, bit| if given { bit } else { 0 };
    SetAttrIn {
        valid: bit(change.mode.is_some(), valid::MODE)
            | bit(change.uid.is_some(), valid::UID)
            | bit(change.gid.is_some(), valid::GID)
            | bit(change.size.is_some(), valid::SIZE)
            | bit(change.by_handle, valid::FH),
        size: change.size.unwrap_or(0),
        mode: change.mode.unwrap_or(0),
        uid: change.uid.unwrap_or(0),
        gid: change.gid.unwrap_or(0),
        ..SetAttrIn::default()
    }
}
