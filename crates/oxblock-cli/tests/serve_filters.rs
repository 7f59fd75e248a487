//! `oxblock serve` behind other servers: nbdkit's `nbd` plugin with its filters, and `qemu-nbd`, as clients.
#![expect(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "tests")]

mod common;

use common::served::{SIZE, Served};
use common::{arg, content, other};

/// Copies content in and out, each time through nbdkit with `filters` between; `None` when nbdkit is not installed.
fn through(served: &Served, filters: &[&str]) -> Option<()> {
    let (from, to) = (served.path("in"), served.path("out"));
    let bytes = content(filters.len() as u64, SIZE as usize);
    std::fs::write(&from, &bytes).unwrap();
    let uri = format!("uri={}", served.uri());
    for copy in [
        format!("nbdcopy --flush '{}' \"$uri\"", arg(&from)),
        format!("nbdcopy \"$uri\" '{}'", arg(&to)),
    ] {
        let (options, parameters): (Vec<&str>, Vec<&str>) =
            filters.iter().partition(|filter| filter.starts_with("--"));
        let args =
            [&["-U", "-"][..], &options, &["nbd", &uri], &parameters, &["--run", &copy]].concat();
        let ran = other("nbdkit", &args)?;
        assert_eq!(ran.code, 0, "{copy} {filters:?}: {}", ran.stderr);
    }
    assert!(std::fs::read(&to).unwrap() == bytes, "{filters:?}");
    Some(())
}

#[test]
fn nbdkit_filters_between() {
    let served = Served::new(&[]);
    for filters in [
        &[][..],
        &["--filter=delay", "rdelay=1ms", "wdelay=1ms"],
        &[
            "--filter=blocksize-policy",
            "blocksize-minimum=512",
            "blocksize-maximum=1M",
            "blocksize-error-policy=error",
        ],
        &["--filter=blocksize", "minblock=4K", "maxdata=32K"],
        // Every fiftieth request fails, and is sent again on a new connection.
        &[
            "--filter=retry",
            "--filter=error",
            "error-rate=2%",
            "retries=20",
            "retry-delay=1",
            "retry-exponential=no",
        ],
    ] {
        if through(&served, filters).is_none() {
            return;
        }
    }
    served.end();
}

#[test]
fn qemu_nbd_between() {
    let served = Served::new(&[]);
    let (socket, from, to) = (served.path("q"), served.path("in"), served.path("out"));
    let bytes = content(9, SIZE as usize);
    std::fs::write(&from, &bytes).unwrap();
    let args = ["--fork", "--persistent", "--format=raw", "--shared=4", "-k", arg(&socket)];
    let pid = served.path("pid");
    let uri = served.uri();
    let args = [&args[..], &["--pid-file", arg(&pid), &uri]].concat();
    let Some(ran) = other("qemu-nbd", &args) else { return };
    ran.ended(0);
    let uri = format!("nbd+unix:///?socket={}", socket.display());
    let copied =
        other("nbdcopy", &["--flush", arg(&from), &uri]).zip(other("nbdcopy", &[&uri, arg(&to)]));
    let number = std::fs::read_to_string(pid).unwrap();
    other("kill", &[number.trim()]).unwrap().ended(0);
    let Some((there, back)) = copied else { return };
    there.ended(0);
    back.ended(0);
    assert!(std::fs::read(&to).unwrap() == bytes);
    served.end();
}
