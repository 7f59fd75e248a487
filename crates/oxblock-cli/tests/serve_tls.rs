//! `oxblock serve` with TLS, by clients that nobody here wrote.

#[path = "../../oxblock-nbd/tests/common/certificates.rs"]
mod certificates;
mod common;

use std::path::Path;

use certificates::{Authority, folder};
use common::served::{SIZE, Served};
use common::{arg, content, other, oxblock};

/// The URI for clients that believe, and show, what is in `dir`.
fn uri(served: &Served, dir: &Path) -> String {
    let (socket, dir) = (served.socket(), dir.display());
    format!("nbds+unix:///?socket={}&tls-certificates={dir}", socket.display())
}

#[test]
fn libnbd_copies_both_ways_and_is_refused_without() {
    let (dir, _) = folder();
    let served = Served::new(&["--tls-certificates", arg(dir.path())]);
    let uri = uri(&served, dir.path());
    let Some(ran) = other("nbdinfo", &["--json", &uri]) else { return };
    let json: serde_json::Value = serde_json::from_slice(&ran.ended(0).stdout).unwrap();
    assert_eq!(json["TLS"], true);
    assert_eq!(json["exports"][0]["export-size"], SIZE);
    let (image, back) = (served.path("image"), served.path("back"));
    let bytes = content(1, usize::try_from(SIZE).unwrap());
    std::fs::write(&image, &bytes).unwrap();
    other("nbdcopy", &["--connections=4", arg(&image), &uri]).unwrap().ended(0);
    other("nbdcopy", &["--connections=4", &uri, arg(&back)]).unwrap().ended(0);
    assert!(std::fs::read(&back).unwrap() == bytes);
    let plain = format!("nbd+unix:///?socket={}", served.socket().display());
    assert_ne!(other("nbdinfo", &[&plain]).unwrap().code, 0);
    served.end();
}

#[test]
fn qemu_shows_a_certificate_and_is_believed() {
    let (dir, authority) = folder();
    authority.vouch(dir.path(), "client", 9);
    let served = Served::new(&["--tls-verify-peer", "--tls-certificates", arg(dir.path())]);
    let image = served.path("image");
    std::fs::write(&image, content(2, usize::try_from(SIZE).unwrap())).unwrap();
    let of = |dir: &Path| format!("tls-creds-x509,id=tls0,dir={},endpoint=client", dir.display());
    let creds = of(dir.path());
    let target = format!(
        "driver=nbd,server.type=unix,server.path={},tls-creds=tls0,tls-hostname=localhost",
        served.socket().display()
    );
    let convert = ["convert", "--object", &creds, "-n", "--target-image-opts", "-f", "raw"];
    let convert = [&convert[..], &[arg(&image), &target]].concat();
    let Some(ran) = other("qemu-img", &convert) else { return };
    ran.ended(0);
    let source = format!("driver=raw,file.driver=file,file.filename={}", image.display());
    let compare = ["compare", "--object", &creds, "--image-opts", &source, &target];
    other("qemu-img", &compare).unwrap().ended(0);
    let (write, read) = ("write -P 7 1001 3000001", "read -P 7 1001 3000001");
    let by_hand = ["--object", &creds, "-c", write, "-c", read, "--image-opts", &target];
    other("qemu-io", &by_hand).unwrap().ended(0);
    // One whom another authority vouches for.
    let stranger = tempfile::tempdir().unwrap();
    authority.write(stranger.path());
    Authority::new().vouch(stranger.path(), "client", 9);
    let creds = of(stranger.path());
    let info = ["info", "--object", &creds, "--image-opts", &target];
    assert_ne!(other("qemu-img", &info).unwrap().code, 0);
    served.end();
}

#[test]
fn those_without_it_are_served_beside_if_that_is_asked_for() {
    let (dir, _) = folder();
    let served = Served::new(&["--tls-certificates", arg(dir.path()), "--allow-plaintext"]);
    let plain = format!("nbd+unix:///?socket={}", served.socket().display());
    for uri in [plain, uri(&served, dir.path())] {
        let Some(ran) = other("nbdinfo", &["--size", &uri]) else { return };
        assert_eq!(ran.ended(0).text().trim(), SIZE.to_string());
    }
    served.end();
}

#[test]
fn what_makes_no_sense_is_refused() {
    let (dir, _) = folder();
    let device = dir.path().join("d.ox");
    let device = arg(&device);
    oxblock(["create", device, "--size", "16M"]).ended(0);
    let ran = oxblock(["serve", device, "--tls-verify-peer"]).ended(2);
    assert!(ran.stderr.contains("--tls-certificates"), "{}", ran.stderr);
    std::fs::remove_file(dir.path().join("server-key.pem")).unwrap();
    let ran = oxblock(["serve", device, "--tls-certificates", arg(dir.path())]).ended(1);
    assert!(ran.stderr.contains("server-key.pem"), "{}", ran.stderr);
}
