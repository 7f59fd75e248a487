//! `oxblock serve` behind other servers: nbdkit's `nbd` plugin with its filters, and `qemu-nbd`, as clients.
#![expect(clippy::unwrap_used, reason = "tests")]

mod common;

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Stdio};

use common::{arg, command, content, other, oxblock};

const SIZE: usize = 32 << 20;

/// A volume that is served.
struct Served {
    folder: tempfile::TempDir,
    uri: String,
    child: Child,
}

impl Served {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let device = folder.path().join("d.ox");
        oxblock(["create", arg(&device), "--size", "32M"]).ended(0);
        let listen = format!("unix:{}", folder.path().join("s").display());
        let mut child = command(["serve", arg(&device), "--listen", &listen])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut uri = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut uri).unwrap();
        Self { folder, uri: uri.trim_end().to_owned(), child }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Copies content in and out, each time through nbdkit with `filters` between; `None` when nbdkit is not installed.
    fn through(&self, filters: &[&str]) -> Option<()> {
        let (from, to) = (self.path("in"), self.path("out"));
        let bytes = content(filters.len() as u64, SIZE);
        std::fs::write(&from, &bytes).unwrap();
        let uri = format!("uri={}", self.uri);
        for copy in [
            format!("nbdcopy --flush '{}' \"$uri\"", arg(&from)),
            format!("nbdcopy \"$uri\" '{}'", arg(&to)),
        ] {
            let (options, parameters): (Vec<&str>, Vec<&str>) =
                filters.iter().partition(|filter| filter.starts_with("--"));
            let args = [&["-U", "-"][..], &options, &["nbd", &uri], &parameters, &["--run", &copy]]
                .concat();
            let ran = other("nbdkit", &args)?;
            assert_eq!(ran.code, 0, "{copy} {filters:?}: {}", ran.stderr);
        }
        assert!(std::fs::read(&to).unwrap() == bytes, "{filters:?}");
        Some(())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        assert!(self.child.wait().unwrap().success());
        oxblock(["check", arg(&self.path("d.ox"))]).ended(0);
    }
}

#[test]
fn nbdkit_filters_between() {
    let served = Served::new();
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
        if served.through(filters).is_none() {
            return;
        }
    }
}

#[test]
fn qemu_nbd_between() {
    let served = Served::new();
    let (socket, from, to) = (served.path("q"), served.path("in"), served.path("out"));
    let bytes = content(9, SIZE);
    std::fs::write(&from, &bytes).unwrap();
    let args = ["--fork", "--persistent", "--format=raw", "--shared=4", "-k", arg(&socket)];
    let pid = served.path("pid");
    let args = [&args[..], &["--pid-file", arg(&pid), &served.uri]].concat();
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
}
