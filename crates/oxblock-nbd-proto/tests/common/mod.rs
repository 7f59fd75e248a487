//! Chance, offers, and a handshake run over bytes.
#![allow(dead_code, reason = "each test file uses its own part")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

use oxblock_nbd_proto::{Export, Handshake, Offer, Step, TlsOffer};

/// Pseudo-random numbers (splitmix64).
pub struct Random(pub u64);

impl Random {
    /// From the clock, or from `OXBLOCK_SEED`; printed, so that a failure can be run again.
    pub fn new() -> Self {
        let clock = || {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            u64::from(now.unwrap().subsec_nanos())
        };
        let seed =
            std::env::var("OXBLOCK_SEED").ok().map_or_else(clock, |seed| seed.parse().unwrap());
        println!("OXBLOCK_SEED={seed}");
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    pub fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).unwrap()
    }

    pub fn u16(&mut self) -> u16 {
        u16::try_from(self.below(1 << 16)).unwrap()
    }

    pub fn u32(&mut self) -> u32 {
        u32::try_from(self.below(1 << 32)).unwrap()
    }

    /// A number of any size.
    pub fn number(&mut self) -> u64 {
        self.next() >> self.below(64)
    }

    pub fn string(&mut self, most: usize) -> String {
        let letters = ['a', 'z', '0', ':', '/', ' ', 'ä', '箱', '-', '.'];
        (0..self.index(most)).map(|_| letters[self.index(letters.len())]).collect()
    }
}

/// Two exports: one to write, one to read.
pub fn exports() -> Vec<Export> {
    let writable = Export {
        name: "disk".into(),
        description: "a disk".into(),
        size: 0x1122_3344_5566_7788,
        read_only: false,
        rotational: false,
    };
    let readable = Export {
        name: "cd".into(),
        description: String::new(),
        size: 4096,
        read_only: true,
        rotational: true,
    };
    vec![writable, readable]
}

/// Bytes from hexadecimal, blanks ignored; a text in quotes stands for its own bytes.
pub fn hex(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (place, part) in text.split('\'').enumerate() {
        if place % 2 == 1 {
            bytes.extend_from_slice(part.as_bytes());
            continue;
        }
        let digits: Vec<u8> = part.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
        bytes.extend(
            digits
                .chunks(2)
                .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()),
        );
    }
    bytes
}

/// What a server says to a client that sends `input` and nothing more, after the greeting.
pub fn talk(input: &[u8], exports: &[Export]) -> (Vec<u8>, Step) {
    talk_to(input, Offer { exports, shutdown: false, tls: TlsOffer::None })
}

/// The same with any offer.
pub fn talk_to(input: &[u8], offer: Offer<'_>) -> (Vec<u8>, Step) {
    let mut out = Vec::new();
    let mut handshake = Handshake::greet(&mut out);
    out.clear();
    let mut at = 0;
    loop {
        let (consumed, step) = handshake.advance(&input[at..], offer, &mut out);
        assert!(consumed <= input.len() - at);
        at += consumed;
        if step != Step::Continue || consumed == 0 {
            return (out, step);
        }
    }
}
