//! `oxblock serve` behind other servers: nbdkit's `nbd` plugin with its filters, and `qemu-nbd`, as clients.
#![expect(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "tests")]

mod common;

use std::io::ErrorKind;
use std::process::Stdio;
use std::time::Duration;

use common::served::{SIZE, Served, start};
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

/// What fio does while the server is killed: it writes for four seconds, with flushes in between, and verifies all of it.
const FIO: &str = "fio --name=v --ioengine=nbd --uri=\"$uri\" --size=64m --rw=randwrite --bs=4k --iodepth=16 \
    --rate_iops=4000 --fsync=32 --verify=crc32c --verify_state_save=0 --verify_fatal=1";

#[test]
fn fio_verifies_over_kill_9_of_the_server() {
    let mut served = Served::new(&[]);
    if other("fio", &["--enghelp"]).is_none_or(|ran| !ran.text().contains("nbd")) {
        return println!("skipped: fio with its nbd engine is not installed");
    }
    // fio does not connect again by itself.
    let uri = format!("uri={}", served.uri());
    let patience = ["retries=30", "retry-delay=1", "retry-exponential=no"];
    let args = [&["-U", "-", "--filter=retry", "nbd", &uri][..], &patience, &["--run", FIO]];
    let output =
        std::process::Command::new("nbdkit").args(args.concat()).stdout(Stdio::piped()).spawn();
    let mut nbdkit = match output {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return println!("skipped: nbdkit is not installed");
        }
        spawned => spawned.unwrap(),
    };
    for pause in [900, 1100, 700] {
        std::thread::sleep(Duration::from_millis(pause));
        assert!(nbdkit.try_wait().unwrap().is_none(), "it has ended before the server was killed");
        served.child.kill().unwrap();
        served.child.wait().unwrap();
        served.child = start(served.folder.path(), &[]);
    }
    let ran = nbdkit.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success() && !said.contains("verify:"), "{said}");
    assert!(said.contains("READ: bw="), "nothing was verified: {said}");
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
