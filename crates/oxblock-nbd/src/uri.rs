//! The URI under which clients find an export.

use std::fmt::Write;
use std::net::IpAddr;

use oxblock_net::Address;

/// The port of NBD.
pub const PORT: u16 = 10809;

/// The URI of export `name` at `address`, with TLS or without.
pub fn uri(address: &Address, name: &str, tls: bool) -> String {
    let scheme = if tls { "nbds" } else { "nbd" };
    let name = escape(name.as_bytes(), b"");
    match address {
        Address::Unix(path) => {
            let path = escape(path.as_os_str().as_encoded_bytes(), b"/");
            format!("{scheme}+unix:///{name}?socket={path}")
        }
        Address::Tcp(host, port) => {
            let host = match host.parse() {
                Ok(IpAddr::V6(_)) => format!("[{host}]"),
                _ => host.clone(),
            };
            format!("{scheme}://{host}:{port}/{name}")
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

    #[test]
    fn uris() {
        let of = |text, name, tls| uri(&Address::parse(text, PORT).unwrap(), name, tls);
        assert_eq!(of("unix:/run/a b", "", false), "nbd+unix:///?socket=/run/a%20b");
        assert_eq!(of("unix:/run/a", "my/disk", true), "nbds+unix:///my%2Fdisk?socket=/run/a");
        assert_eq!(of("tcp:[::1]:99", "x", true), "nbds://[::1]:99/x");
        assert_eq!(of("tcp:1234", "", false), "nbd://127.0.0.1:1234/");
    }
}
