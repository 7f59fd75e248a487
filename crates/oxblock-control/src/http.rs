//! As much of HTTP/1.1 as a scraper needs: one `GET` or `HEAD`, one answer, the end.

use crate::metrics::metrics;
use crate::source::Source;

/// The most bytes of the head of a request.
pub(crate) const HEAD_MOST: usize = 8192;
/// The most header lines of one.
const HEADERS_MOST: usize = 64;

const METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PLAIN: &str = "text/plain; charset=utf-8";

/// The answer to what has come; nothing when the head of the request is not all there yet.
pub(crate) fn answer(input: &[u8], source: &dyn Source) -> Option<Vec<u8>> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MOST];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(input) {
        Ok(httparse::Status::Partial) if input.len() < HEAD_MOST => return None,
        Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
            return Some(response("431 Request Header Fields Too Large", PLAIN, "", true));
        }
        Err(_) => return Some(response("400 Bad Request", PLAIN, "not HTTP\n", true)),
        Ok(httparse::Status::Complete(_)) => {}
    }
    let body = match request.method {
        Some("GET") => true,
        Some("HEAD") => false,
        _ => return Some(response("405 Method Not Allowed", PLAIN, "GET or HEAD\n", true)),
    };
    let path = request.path.unwrap_or_default();
    let path = path.split_once('?').map_or(path, |(path, _)| path);
    Some(match path {
        "/metrics" => match source.look() {
            Ok(seen) => response("200 OK", METRICS, &metrics(seen), body),
            Err(why) => response("503 Service Unavailable", PLAIN, &format!("{why}\n"), body),
        },
        "/" => response("200 OK", PLAIN, "oxblock: the metrics are at /metrics\n", body),
        _ => response("404 Not Found", PLAIN, "the metrics are at /metrics\n", body),
    })
}

fn response(status: &str, kind: &str, text: &str, body: bool) -> Vec<u8> {
    let length = text.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n"
    );
    let body = if body { text } else { "" };
    [head.as_bytes(), body.as_bytes()].concat()
}
