//! Where a server listens, as users write it.

use std::fmt;
use std::net::ToSocketAddrs;
use std::path::PathBuf;

/// An address: `unix:PATH`, `tcp:HOST:PORT`, `tcp:PORT` or `tcp:HOST`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A socket in the file system.
    Unix(PathBuf),
    /// A host and a port; port 0 takes a free one.
    Tcp(String, u16),
}

fn tcp(rest: &str, usual: u16) -> Option<Address> {
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
    let port = if port.is_empty() { usual } else { port.parse().ok()? };
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
    /// Understands what users write; `port` is meant when none is given.
    ///
    /// # Errors
    /// A sentence that says what is wrong.
    pub fn parse(text: &str, port: u16) -> Result<Self, String> {
        let bad = || format!("'{text}' is not unix:PATH or tcp:HOST:PORT");
        match text.split_once(':') {
            Some(("unix", path)) if !path.is_empty() => Ok(Self::Unix(path.into())),
            Some(("tcp", rest)) if !rest.is_empty() => tcp(rest, port).ok_or_else(bad),
            _ => Err(bad()),
        }
    }

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
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Address {
        Address::parse(text, 10809).unwrap()
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
            assert!(Address::parse(text, 1).is_err(), "{text}");
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
}
