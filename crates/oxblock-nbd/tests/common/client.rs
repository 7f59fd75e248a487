//! A client that says exactly what it is told to.
#![allow(dead_code, reason = "each test file uses its own part")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "tests, and each file uses its own part"
)]

use std::collections::HashMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use oxblock_nbd_proto::wire::command;
use oxblock_nbd_proto::{
    Chunk, ClientOption, Errno, Extent, InfoRequest, MetaQuery, OptionReply, ReplyHeader, Request,
    Style,
};

/// What a request came to.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Reply {
    pub cookie: u64,
    /// The error of all of it.
    pub error: Option<Errno>,
    /// Contents with their offsets; a simple reply has no offset, and 0 here.
    pub data: Vec<(u64, Vec<u8>)>,
    /// Errors of parts.
    pub bad: Vec<(u64, Errno)>,
    pub extents: Vec<Extent>,
}

impl Reply {
    /// The content of a read that went well.
    pub fn content(self) -> Vec<u8> {
        assert_eq!((self.error, self.bad.len()), (None, 0));
        self.data.into_iter().flat_map(|(_, data)| data).collect()
    }
}

/// A client in the transmission phase.
pub struct Client<S = UnixStream> {
    pub stream: S,
    style: Style,
    cookies: u64,
    input: Vec<u8>,
    /// What reads ask for, by cookie, as simple replies do not say.
    asked: HashMap<u64, usize>,
}

/// All that a client says to begin with the export of this name.
pub fn hello(style: Style, name: &str) -> Vec<u8> {
    let mut out = vec![0, 0, 0, 3];
    match style {
        Style::Simple => {}
        Style::Structured => ClientOption::StructuredReply.encode(&mut out),
        Style::Extended => ClientOption::ExtendedHeaders.encode(&mut out),
    }
    if style != Style::Simple {
        let queries = vec!["base:allocation".into()];
        ClientOption::SetMetaContext(MetaQuery { name: name.into(), queries }).encode(&mut out);
    }
    ClientOption::Go(InfoRequest { name: name.into(), ..InfoRequest::default() }).encode(&mut out);
    out
}

impl<S: Read + Write> Client<S> {
    /// Shakes hands.
    pub fn connect(stream: S, style: Style) -> Self {
        Self::connect_to(stream, style, "")
    }

    /// Shakes hands for the export of this name.
    pub fn connect_to(mut stream: S, style: Style, name: &str) -> Self {
        let mut greeting = [0; 18];
        stream.read_exact(&mut greeting).unwrap();
        stream.write_all(&hello(style, name)).unwrap();
        let mut client = Self::greeted(stream, style);
        client.finish_handshake();
        client
    }

    /// Shakes hands on a stream on which the server has said what it says first.
    pub fn go_on(mut stream: S, style: Style, name: &str) -> Self {
        let hello = hello(style, name);
        // Without the flags, which were sent.
        stream.write_all(&hello[4..]).unwrap();
        let mut client = Self::greeted(stream, style);
        client.finish_handshake();
        client
    }

    /// A client that has said all that it has to say.
    pub fn greeted(stream: S, style: Style) -> Self {
        Self { stream, style, cookies: 0, input: Vec::new(), asked: HashMap::new() }
    }

    /// Receives the answers to the handshake.
    pub fn finish_handshake(&mut self) {
        loop {
            let (size, option, reply) =
                self.wait(|input| OptionReply::decode(input).unwrap()).unwrap();
            self.input.drain(..size);
            assert!(!matches!(reply, OptionReply::Error { .. }), "{reply:?}");
            if option == 7 && reply == OptionReply::Ack {
                return;
            }
        }
    }

    /// Receives until there is enough for `decode`; `None` when the server has hung up.
    fn wait<T>(&mut self, decode: impl Fn(&[u8]) -> Option<T>) -> Option<T> {
        let mut part = vec![0; 1 << 20];
        loop {
            let found = decode(&self.input);
            if found.is_some() {
                return found;
            }
            let count = match self.stream.read(&mut part) {
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => 0,
                result => result.unwrap(),
            };
            if count == 0 {
                return None;
            }
            self.input.extend_from_slice(&part[..count]);
        }
    }

    /// Sends a request with its payload.
    pub fn send(
        &mut self,
        command: u16,
        flags: u16,
        offset: u64,
        length: u64,
        payload: &[u8],
    ) -> u64 {
        self.cookies += 1;
        let cookie = self.cookies;
        let flags = if command == command::WRITE && self.style == Style::Extended {
            flags | 0x20
        } else {
            flags
        };
        let mut out = Vec::new();
        Request { flags, command, cookie, offset, length }.encode(self.style, &mut out);
        self.stream.write_all(&out).unwrap();
        self.stream.write_all(payload).unwrap();
        if command == command::READ {
            self.asked.insert(cookie, usize::try_from(length).unwrap());
        }
        cookie
    }

    /// Receives the next reply, all chunks of it.
    pub fn reply(&mut self) -> Reply {
        self.reply_or_end().expect("the server has hung up")
    }

    /// The same; `None` when the server has hung up.
    pub fn reply_or_end(&mut self) -> Option<Reply> {
        let style = self.style;
        let mut reply = Reply::default();
        loop {
            let (size, header) = self.wait(|input| ReplyHeader::decode(style, input).unwrap())?;
            self.input.drain(..size);
            match header {
                ReplyHeader::Simple { error, cookie } => {
                    (reply.cookie, reply.error) = (cookie, error);
                    let asked = self.asked.remove(&cookie).filter(|_| error.is_none());
                    if let Some(len) = asked {
                        reply.data.push((0, self.take(len)?));
                    }
                    return Some(reply);
                }
                ReplyHeader::Chunk { last, kind, cookie, length, .. } => {
                    assert!(reply.cookie == 0 || reply.cookie == cookie, "mixed replies");
                    reply.cookie = cookie;
                    let payload = self.take(usize::try_from(length).unwrap())?;
                    match Chunk::decode(kind, &payload).unwrap() {
                        Chunk::None => {}
                        Chunk::Data { offset, data } => reply.data.push((offset, data.to_vec())),
                        Chunk::Hole { offset, len } => {
                            reply.data.push((offset, vec![0; len as usize]));
                        }
                        Chunk::BlockStatus { extents, .. } => reply.extents = extents,
                        Chunk::Error { errno, .. } => reply.error = Some(errno),
                        Chunk::ErrorAt { errno, offset, .. } => reply.bad.push((offset, errno)),
                    }
                    if last {
                        return Some(reply);
                    }
                }
            }
        }
    }

    fn take(&mut self, len: usize) -> Option<Vec<u8>> {
        self.wait(|input| (input.len() >= len).then_some(()))?;
        Some(self.input.drain(..len).collect())
    }

    /// Sends a request and receives its reply.
    pub fn ask(
        &mut self,
        command: u16,
        flags: u16,
        offset: u64,
        length: u64,
        payload: &[u8],
    ) -> Reply {
        let cookie = self.send(command, flags, offset, length, payload);
        let reply = self.reply();
        assert_eq!(reply.cookie, cookie);
        reply
    }

    pub fn write(&mut self, offset: u64, data: &[u8]) {
        let reply = self.ask(command::WRITE, 0, offset, data.len() as u64, data);
        assert_eq!(reply.error, None);
    }

    pub fn read(&mut self, offset: u64, len: u64) -> Vec<u8> {
        self.ask(command::READ, 0, offset, len, &[]).content()
    }

    /// The error of a request, or `None` when it went well.
    pub fn error(
        &mut self,
        command: u16,
        flags: u16,
        offset: u64,
        length: u64,
        payload: &[u8],
    ) -> Option<Errno> {
        self.ask(command, flags, offset, length, payload).error
    }
}
