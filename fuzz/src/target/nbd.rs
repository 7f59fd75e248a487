//! The NBD protocol. Input: a byte of switches (bits 0-1: what the rest is; bits 2-3: the style of what has one), then bytes
//! as they come from the other side: all that a client sends, replies to options, or replies to requests.

use oxblock::device::sim::Rng;
use oxblock_nbd_proto::{
    Chunk, ClientOption, Command, Export, Handshake, InfoRequest, MetaQuery, Offer, OptionHeader,
    OptionReply, ReplyHeader, Request, Step, Style, TlsOffer, validate_request, wire,
};

use super::{Target, switched};
use crate::mutate;
use crate::shape::Shape;

/// The target.
pub struct Nbd;

/// The most bytes of an input.
const MOST: usize = 64 << 10;
/// The most bytes that a server answers to one message: two exports of short names.
const MOST_ANSWERED: usize = 4096;
/// The export's size.
const SIZE: u64 = 1 << 40;

const SESSION: u8 = 0;
const OPTION_REPLIES: u8 = 1;
const REPLIES: u8 = 2;

fn style_of(switches: u8) -> Style {
    match switches >> 2 & 3 {
        0 => Style::Simple,
        1 => Style::Structured,
        _ => Style::Extended,
    }
}

fn exports() -> [Export; 2] {
    let export = |name: &str, read_only| Export {
        name: name.into(),
        description: format!("about {name}"),
        size: SIZE,
        read_only,
        rotational: false,
    };
    [export("a", false), export("b", true)]
}

impl Target for Nbd {
    fn name(&self) -> &'static str {
        "nbd"
    }

    fn seeds(&self) -> Vec<Vec<u8>> {
        let mut seeds = Vec::new();
        for options in handshakes() {
            let style = options.iter().fold(Style::Simple, |style, option| match option {
                ClientOption::StructuredReply => Style::Structured,
                ClientOption::ExtendedHeaders => Style::Extended,
                _ => style,
            });
            let mut seed = vec![SESSION, 0, 0, 0, 3];
            options.iter().for_each(|option| option.encode(&mut seed));
            for command in 0..8 {
                let request = Request { flags: 0, command, cookie: 9, offset: 4096, length: 16 };
                let flags = if command == 1 && style == Style::Extended { 0x20 } else { 0 };
                let request = Request { flags, ..request };
                request.encode(style, &mut seed);
                let payload = usize::try_from(request.payload(style)).unwrap_or(0);
                seed.resize(seed.len() + payload, 7);
            }
            seeds.push(seed);
        }
        seeds.push(option_replies());
        seeds.extend([Style::Simple, Style::Structured, Style::Extended].map(replies));
        seeds
    }

    fn mutate(&self, rng: &mut Rng, input: &mut Vec<u8>) {
        match rng.below(8) {
            0 => {
                // Another piece of something that is understood.
                let seeds = self.seeds();
                let other = &seeds[mutate::index(rng, seeds.len())];
                let from = mutate::index(rng, other.len());
                let piece: Vec<u8> =
                    other.iter().skip(from).take(1 + mutate::index(rng, 64)).copied().collect();
                let at = mutate::index(rng, input.len() + 1).min(input.len());
                input.splice(at..at, piece);
            }
            1 | 2 => {
                // A number in network byte order, where lengths and counts are.
                let size = [2, 4, 8][mutate::index(rng, 3)];
                let at = mutate::index(rng, input.len());
                let number = mutate::number(rng).to_be_bytes();
                for (to, from) in input.iter_mut().skip(at).zip(&number[8 - size..]) {
                    *to = *from;
                }
            }
            _ => mutate::plain(rng, input, MOST),
        }
        input.truncate(MOST);
    }

    fn run(&self, input: &[u8]) -> Result<Shape, String> {
        let (switches, bytes) = switched(input);
        let mut shape = Shape::default();
        shape.size(u64::from(switches & 3));
        match switches & 3 {
            OPTION_REPLIES => read_option_replies(bytes, &mut shape)?,
            REPLIES => read_replies(style_of(switches), bytes, &mut shape),
            _ => {
                let whole = serve(bytes, bytes.len(), &mut shape)?;
                // However the bytes come, they mean the same.
                for piece in [1, 7] {
                    let parts = serve(bytes, piece, &mut Shape::default())?;
                    if parts != whole {
                        return Err(format!("in pieces of {piece} bytes it means something else"));
                    }
                }
            }
        }
        Ok(shape)
    }

    fn memory(&self) -> usize {
        8 << 20
    }

    fn smoke_runs(&self) -> u64 {
        100_000
    }
}

fn handshakes() -> Vec<Vec<ClientOption>> {
    let info = || InfoRequest { name: "a".into(), wants: vec![0, 1, 2, 3] };
    let query = || MetaQuery {
        name: "a".into(),
        queries: vec![wire::BASE.into(), wire::ALLOCATION.into()],
    };
    vec![
        vec![ClientOption::ExportName("a".into())],
        vec![ClientOption::List, ClientOption::Info(info()), ClientOption::Abort],
        vec![ClientOption::StartTls, ClientOption::Unknown(77), ClientOption::Go(info())],
        vec![
            ClientOption::StructuredReply,
            ClientOption::ListMetaContext(query()),
            ClientOption::SetMetaContext(query()),
            ClientOption::Go(info()),
        ],
        vec![
            ClientOption::ExtendedHeaders,
            ClientOption::SetMetaContext(query()),
            ClientOption::Go(info()),
        ],
    ]
}

fn option_replies() -> Vec<u8> {
    let exports = exports();
    let offer = Offer { exports: &exports, shutdown: false, tls: TlsOffer::Optional };
    let mut seed = vec![OPTION_REPLIES];
    for options in handshakes().iter().skip(1) {
        let mut input = vec![0, 0, 0, 3];
        options.iter().for_each(|option| option.encode(&mut input));
        let mut handshake = Handshake::greet(&mut Vec::new());
        let mut at = 0;
        loop {
            let (consumed, step) = handshake.advance(&input[at..], offer, &mut seed);
            at += consumed;
            if consumed == 0 || step != Step::Continue {
                break;
            }
        }
    }
    seed
}

fn replies(style: Style) -> Vec<u8> {
    use oxblock_nbd_proto::{Errno, Extent, ReplyTo};
    let request = Request { flags: 0, command: 0, cookie: 9, offset: 4096, length: 16 };
    let to = ReplyTo::new(style, &request);
    let switch = match style {
        Style::Simple => 0,
        Style::Structured => 1,
        Style::Extended => 2,
    };
    let mut seed = vec![REPLIES | switch << 2];
    to.done(&mut seed);
    to.error(Errno::Invalid, "no", &mut seed);
    to.error_at(Errno::Io, "bad", 5000, false, &mut seed);
    if style != Style::Simple {
        to.hole(4096, 8, false, &mut seed);
        to.block_status(1, &[Extent { len: 4096, flags: 3 }], false, &mut seed);
        to.data(4096, 8, true, &mut seed);
        seed.extend_from_slice(b"12345678");
    }
    seed
}

/// What a server makes of what it gets, `piece` bytes at a time: its answers, and what it was asked.
fn serve(bytes: &[u8], piece: usize, shape: &mut Shape) -> Result<(Vec<u8>, Vec<String>), String> {
    let exports = exports();
    let offer = Offer { exports: &exports, shutdown: false, tls: TlsOffer::Optional };
    let mut handshake = Handshake::greet(&mut Vec::new());
    let (mut out, mut asked) = (Vec::new(), Vec::new());
    let (mut at, mut have) = (0, 0);
    let session = loop {
        let before = out.len();
        let (consumed, step) = handshake.advance(&bytes[at..have], offer, &mut out);
        if out.len() - before > MOST_ANSWERED {
            return Err("an answer is too long".into());
        }
        at += consumed;
        match step {
            Step::Begin(session) => break session,
            Step::End(why) => {
                shape.text(why);
                asked.push(why.to_owned());
                return Ok((out, asked));
            }
            Step::Secure => handshake.secured(),
            Step::Continue if consumed > 0 => shape.size(out.len() as u64),
            Step::Continue if have == bytes.len() => return Ok((out, asked)),
            Step::Continue if have - at > OptionHeader::BYTES + (16 << 10) => {
                return Err("it waits for more than it looks at".into());
            }
            Step::Continue => have = bytes.len().min(have + piece.max(1)),
        }
    };
    let Some(export) = exports.get(session.export) else {
        return Err("an export that is not there".into());
    };
    let terms = session.terms(export);
    asked.push(format!("{session:?}"));
    loop {
        let request = match Request::decode(session.style, &bytes[at..]) {
            Ok(Some(request)) => request,
            Ok(None) => return Ok((out, asked)),
            Err(why) => {
                shape.text(&why.to_string());
                return Ok((out, asked));
            }
        };
        let mut again = Vec::new();
        request.encode(session.style, &mut again);
        if bytes.get(at..at + again.len()) != Some(&again) {
            return Err(format!("encoding changes {request:?}"));
        }
        at += again.len();
        let payload = usize::try_from(request.payload(session.style)).unwrap_or(usize::MAX);
        at = at.saturating_add(payload).min(bytes.len());
        match validate_request(&request, &terms) {
            Ok(Command::Disconnect) => return Ok((out, asked)),
            Ok(command) => {
                inside(&command)?;
                shape.size(u64::from(request.command) + 1);
                asked.push(format!("{command:?}"));
            }
            Err(refusal) => {
                shape.text(refusal.sentence);
                asked.push(refusal.sentence.to_owned());
            }
        }
    }
}

fn inside(command: &Command) -> Result<(), String> {
    let (offset, len) = match *command {
        Command::Read { offset, len, .. } | Command::Write { offset, len, .. } => {
            (offset, u64::from(len))
        }
        Command::Trim { offset, len, .. }
        | Command::Cache { offset, len }
        | Command::WriteZeroes { offset, len, .. }
        | Command::BlockStatus { offset, len, .. } => (offset, len),
        Command::Flush | Command::Disconnect => (0, 0),
    };
    match offset.checked_add(len) {
        Some(end) if end <= SIZE => Ok(()),
        _ => Err(format!("{command:?} is not inside the export")),
    }
}

fn read_option_replies(mut bytes: &[u8], shape: &mut Shape) -> Result<(), String> {
    loop {
        match OptionReply::decode(bytes) {
            Ok(Some((size, option, reply))) => {
                shape.text(&format!("{:?}", std::mem::discriminant(&reply)));
                let mut again = Vec::new();
                reply.encode(option, &mut again);
                match OptionReply::decode(&again) {
                    Ok(Some((_, number, same))) if number == option && same == reply => {}
                    other => return Err(format!("encoding changes {reply:?} to {other:?}")),
                }
                bytes = bytes.get(size..).unwrap_or_default();
            }
            Ok(None) => return Ok(()),
            Err(why) => {
                shape.text(&why.to_string());
                return Ok(());
            }
        }
    }
}

fn read_replies(style: Style, mut bytes: &[u8], shape: &mut Shape) {
    while let Ok(Some((size, header))) = ReplyHeader::decode(style, bytes) {
        bytes = bytes.get(size..).unwrap_or_default();
        let ReplyHeader::Chunk { kind, length, .. } = header else {
            shape.text("simple");
            continue;
        };
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let Some((payload, rest)) = bytes.split_at_checked(length) else { return };
        bytes = rest;
        match Chunk::decode(kind, payload) {
            Ok(chunk) => shape.text(&format!("{:?}", std::mem::discriminant(&chunk))),
            Err(why) => shape.text(&why.to_string()),
        }
    }
}
