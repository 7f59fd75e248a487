//! Requests run to their end.

use oxblock::{Completion, Request, RequestKind, Volume};

/// Runs until `count` requests are done.
pub fn finish(volume: &mut Volume, count: usize) -> Vec<Completion> {
    let mut done = Vec::new();
    for _ in 0..1_000_000 {
        volume.submit();
        volume.poll(&mut done);
        if done.len() >= count {
            return done;
        }
        volume.wait(None);
    }
    panic!("{} of {count} requests completed", done.len());
}

/// Runs one request.
pub fn run(volume: &mut Volume, kind: RequestKind) -> Completion {
    volume.queue(Request { tag: 7, kind });
    let done = finish(volume, 1).pop().unwrap();
    assert_eq!(done.tag, 7);
    done
}
