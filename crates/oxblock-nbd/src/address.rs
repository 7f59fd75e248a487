//! Where a server listens, as users write it, and the NBD URI under which clients find it.

use std::fmt::{self, Write};
use std::net::{IpAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::str::FromStr;

/// The port that is meant when none is given.
const PORT: u16 = 10809;

/// An address: `unix:PATH`, `tcp:HOST:PORT`, `tcp:PORT` or `tcp:HOST`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A socket in the file system.
    Unix(PathBuf),
    /// A host and a port; port 0 takes a free one.
    Tcp(String, u16),
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("'{text}' is not unix:PATH or tcp:HOST:PORT");
        match text.split_once(':') {
            Some(("unix", path)) if !path.is_empty() => Ok(Self::Unix(path.into())),
            Some(("tcp", rest)) if !rest.is_empty() => tcp(rest).ok_or_else(bad),
            _ => Err(bad()),
        }
    }
}

fn tcp(rest: &str) -> Option<Address> {
    if rest.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(Address::Tcp("127.0.0.1".into(), rest.parse().ok()?));
    }
    let (host, port) = if let Some(inside) = rest.strip_prefix('[') {
        // Brackets, as an IPv6 address has colons of its own.
        let (host, behind) = inside.split_once(']')?;
        (host, behind.strip_prefix(':').or_else(|| behind.is_empty().then_some(""))?)
    } else {
        rest.split_once(':').unwrap_or((rest, ""))
    };
    let port = if port.is_empty() { PORT } else { port.parse().ok()? };
    (!host.is_empty()).then(|| Address::Tcp(host.into(), port))
}

/// As users write it.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(host, port) if host.contains(':') => write!(f, "tcp:[{host}]:{port}"),
            Self::Tcp(host, port) => write!(f, "tcp:{host}:{port}"),
        }
    }
}

impl Address {
    /// True when others than this machine can connect, as far as the name tells.
    pub fn is_remote(&self) -> bool {
        match self {
            Self::Unix(_) => false,
            Self::Tcp(host, port) => match (host.as_str(), *port).to_socket_addrs() {
                Ok(mut all) => !all.all(|one| one.ip().is_loopback()),
                Err(_) => true,
            },
        }
    }

    /// The URI of export `name` here, with TLS or without.
    pub fn uri(&self, name: &str, tls: bool) -> String {
        let scheme = if tls { "nbds" } else { "nbd" };
        let name = escape(name.as_bytes(), b"");
        match self {
            Self::Unix(path) => {
                let path = escape(path.as_os_str().as_encoded_bytes(), b"/");
                format!("{scheme}+unix:///{name}?socket={path}")
            }
            Self::Tcp(host, port) => {
                let host = match host.parse() {
                    Ok(IpAddr::V6(_)) => format!("[{host}]"),
                    _ => host.clone(),
                };
                format!("{scheme}://{host}:{port}/{name}")
            }
        }
    }
}

/// `bytes` for a URI: letters, digits, what is harmless anywhere, and `more` as they are; the rest in hexadecimal.
fn escape(bytes: &[u8], more: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(byte) || more.contains(byte) {
            text.push(char::from(*byte));
        } else {
            // Writing to a string never fails.
            write!(text, "%{byte:02X}").ok();
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Address {
        text.parse().unwrap()
    }

    #[test]
    fn addresses() {
        let tcp = |host: &str, port| Address::Tcp(host.into(), port);
        assert_eq!(of("unix:/run/a b"), Address::Unix("/run/a b".into()));
        assert_eq!(of("unix:rel:ative"), Address::Unix("rel:ative".into()));
        assert_eq!(of("tcp:localhost:1234"), tcp("localhost", 1234));
        assert_eq!(of("tcp:1234"), tcp("127.0.0.1", 1234));
        assert_eq!(of("tcp:example.org"), tcp("example.org", 10809));
        assert_eq!(of("tcp:[::1]:99"), tcp("::1", 99));
        assert_eq!(of("tcp:[::1]"), tcp("::1", 10809));
        for text in ["unix:/run/a b", "tcp:localhost:1234", "tcp:[::1]:99"] {
            assert_eq!(of(text).to_string(), text);
        }
        for text in [
            "",
            "unix:",
            "tcp:",
            "udp:1",
            "/run/x",
            "tcp:[::1",
            "tcp:a:b",
            "tcp::1",
            "tcp:[::1]x",
            "tcp:70000",
        ] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }

    #[test]
    fn who_can_connect() {
        assert!(!of("unix:/a").is_remote());
        assert!(!of("tcp:127.0.0.1:1").is_remote());
        assert!(!of("tcp:[::1]:1").is_remote());
        assert!(of("tcp:0.0.0.0:1").is_remote());
        assert!(of("tcp:192.0.2.1:1").is_remote());
    }

    #[test]
    fn uris() {
        assert_eq!(of("unix:/run/a b").uri("", false), "nbd+unix:///?socket=/run/a%20b");
        assert_eq!(of("unix:/run/a").uri("my/disk", false), "nbd+unix:///my%2Fdisk?socket=/run/a");
        assert_eq!(of("tcp:[::1]:99").uri("x", true), "nbds://[::1]:99/x");
        assert_eq!(of("tcp:1234").uri("", false), "nbd://127.0.0.1:1234/");
    }
}
