//! Messages of the kernel to a mount: decoded, and judged. Input: a byte of switches (bit 0: the length in the header is made
//! good; bit 1: read-only; bit 2: the root is a folder; bit 3: no first message came before), then the message.

use oxblock::device::sim::Rng;
use oxblock_fuse::proto::kernel::encode;
use oxblock_fuse::proto::wire::{InitIn, InitInMore};
use oxblock_fuse::proto::{
    Malformed, Op, ROOT, Request, SetAttr, TRANSFER_MAX, WRITE_HEAD, decode,
};
use oxblock_fuse::tree::{Answer, Root, Tree, Work};

use super::{Target, switched};
use crate::shape::Shape;
use crate::{mutate, spec};

/// The target.
pub struct Fuse;

const FITTED: u8 = 1;
const READ_ONLY: u8 = 2;
const FOLDER: u8 = 4;
const EARLY: u8 = 8;

/// The most bytes of a message.
const MOST: usize = 16 << 10;
/// Bytes of the file.
const SIZE: u64 = 1 << 30;
/// What the volume says that is in use.
const USED: u64 = 8192;

/// The integers of a message: those of the header, and after it words of 4 and of 8 bytes.
fn fields() -> Vec<spec::Field> {
    let header = [(0, 4), (4, 4), (8, 8), (16, 8), (24, 4), (28, 4), (32, 4), (36, 2), (38, 2)];
    let words = (40..136).step_by(4).map(|offset| (offset, 4));
    let doubles = (40..136).step_by(8).map(|offset| (offset, 8));
    let all = header.into_iter().chain(words).chain(doubles);
    all.map(|(offset, size)| spec::Field { offset, size }).collect()
}

fn offer() -> InitIn {
    InitIn { major: 7, minor: 40, max_readahead: 0, flags: u32::MAX }
}

fn operations() -> Vec<Op> {
    let change = SetAttr { mode: Some(0o640), size: Some(0), ..SetAttr::default() };
    let more = InitInMore { flags2: u32::MAX, unused: [0; 11] };
    let mut all = vec![
        Op::Init(offer(), Some(more)),
        Op::Lookup(b"volume".to_vec()),
        Op::Lookup(vec![b'x'; 200]),
        Op::Setattr(change),
        Op::Open { write: true },
        Op::Read { offset: SIZE - 4096, size: 8192, direct: true },
        Op::Readdir { offset: 1, size: 4096 },
        Op::Write { offset: 4096, size: 100, durable: true },
        Op::Write { offset: SIZE - 1, size: 4096, durable: false },
        Op::Lseek { offset: 5, whence: 3 },
        Op::Lseek { offset: 5, whence: 4 },
        Op::Destroy,
        Op::Forget,
        Op::Getattr,
        Op::Opendir,
        Op::Fsync,
        Op::Fsyncdir,
        Op::Flush,
        Op::Release,
        Op::Releasedir,
        Op::Statfs,
        Op::Interrupt,
        Op::Ioctl,
        Op::Change,
        Op::Other(22),
    ];
    all.extend([0, 1, 3, 16, 17].map(|mode| Op::Fallocate { offset: 4096, length: 8192, mode }));
    all
}

impl Target for Fuse {
    fn name(&self) -> &'static str {
        "fuse"
    }

    fn seeds(&self) -> Vec<Vec<u8>> {
        let mut seeds = Vec::new();
        for op in operations() {
            for (switches, node) in [(FITTED, ROOT), (FITTED | FOLDER, ROOT), (FITTED | FOLDER, 2)]
            {
                let payload = if let Op::Write { size, .. } = op { size as usize } else { 0 };
                let mut seed = vec![switches];
                seed.extend(encode(&Request { unique: 7, node, op: op.clone() }));
                seed.resize(seed.len() + payload, 0x5a);
                seeds.push(seed);
            }
        }
        seeds
    }

    fn mutate(&self, rng: &mut Rng, input: &mut Vec<u8>) {
        let (mut switches, rest) = switched(input);
        let mut message = rest.to_vec();
        match rng.below(12) {
            0 => switches ^= 1 << rng.below(4),
            // Another operation with the same body.
            1 => {
                let opcode = rng.below(56);
                mutate::set(&mut message, 4, 4, opcode);
            }
            _ => mutate::structure(rng, &mut message, &fields(), MOST),
        }
        *input = std::iter::once(switches).chain(message).collect();
    }

    fn run(&self, input: &[u8]) -> Result<Shape, String> {
        let (switches, message) = switched(input);
        let mut message = message.to_vec();
        message.truncate(MOST);
        if switches & FITTED != 0 {
            let len = message.len() as u64;
            mutate::set(&mut message, 0, 4, len);
        }
        let mut shape = Shape::default();
        shape.size(switches.into());
        let (first, payload) = message.split_at(message.len().min(WRITE_HEAD));
        let request = match decode(first, payload) {
            Ok(request) => request,
            Err(Malformed { unique, why }) => {
                shape.text(why);
                shape.size(unique.is_some().into());
                return Ok(shape);
            }
        };
        shape.text(&format!("{:?}", request.op));
        let root = if switches & FOLDER == 0 { Root::File } else { Root::Folder("volume".into()) };
        let mut tree = Tree::new(root, SIZE, switches & READ_ONLY != 0, (0, 0), (0, 0));
        if switches & EARLY == 0 {
            let first = Request { unique: 1, node: ROOT, op: Op::Init(offer(), None) };
            tree.answer(&first, USED);
        }
        match tree.answer(&request, USED) {
            Answer::Nothing => {}
            Answer::Reply(reply) | Answer::Refuse(reply, _) => {
                if reply.unique() != request.unique {
                    return Err("a reply to another request".into());
                }
                shape.size(reply.bytes().len() as u64);
                shape.size(reply.is_error().into());
            }
            Answer::Work(work) => {
                bounded(work, payload.len(), switches & READ_ONLY != 0)?;
                shape.text(&format!("{work:?}"));
            }
        }
        Ok(shape)
    }

    fn memory(&self) -> usize {
        4 << 20
    }

    fn smoke_runs(&self) -> u64 {
        400_000
    }
}

/// What the volume is told to do is within it.
fn bounded(work: Work, payload: usize, read_only: bool) -> Result<(), String> {
    let (offset, len, writes) = match work {
        Work::Read { offset, len, .. } => (offset, u64::from(len), false),
        Work::Write { offset, len, .. } => (offset, u64::from(len), true),
        Work::Discard { offset, len } | Work::Zero { offset, len } => (offset, len, true),
        Work::Seek { offset, .. } => (offset, 1, false),
        Work::Flush => return Ok(()),
    };
    if len == 0 || offset.checked_add(len).is_none_or(|end| end > SIZE) {
        return Err(format!("{work:?} is not within the volume"));
    }
    if writes && read_only {
        return Err(format!("{work:?} on a read-only volume"));
    }
    match work {
        Work::Read { len, .. } if len > TRANSFER_MAX => Err("a read of too much".into()),
        Work::Write { len, .. } if len as usize > payload => {
            Err("a write of more than there is".into())
        }
        Work::Discard { offset, len } if !(offset | len).is_multiple_of(4096) => {
            Err("a discard of part of a block".into())
        }
        _ => Ok(()),
    }
}
