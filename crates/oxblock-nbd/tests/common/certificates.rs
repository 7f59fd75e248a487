//! Certificates for tests, and clients that speak TLS.
#![allow(dead_code, reason = "each test file uses its own part")]
#![allow(clippy::unwrap_used, reason = "tests")]

use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams,
    SerialNumber, date_time_ymd,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// An authority.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

fn params(names: &[&str], common: &str) -> CertificateParams {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names).unwrap();
    params.distinguished_name.push(DnType::CommonName, common);
    params
}

impl Authority {
    pub fn new() -> Self {
        let mut params = params(&[], "authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// Writes its certificate to `dir`.
    pub fn write(&self, dir: &Path) {
        std::fs::write(dir.join("ca-cert.pem"), self.0.pem()).unwrap();
    }

    /// Writes a certificate and its key to `dir`, for `who` (`server` or `client`).
    pub fn vouch(&self, dir: &Path, who: &str, serial: u64) {
        let key = KeyPair::generate().unwrap();
        let mut params = params(&["localhost", "127.0.0.1"], who);
        params.serial_number = Some(SerialNumber::from(serial));
        params.extended_key_usages = vec![match who {
            "server" => ExtendedKeyUsagePurpose::ServerAuth,
            _ => ExtendedKeyUsagePurpose::ClientAuth,
        }];
        let certificate = params.signed_by(&key, &self.0).unwrap();
        std::fs::write(dir.join(format!("{who}-cert.pem")), certificate.pem()).unwrap();
        std::fs::write(dir.join(format!("{who}-key.pem")), key.serialize_pem()).unwrap();
    }

    /// Writes to `dir` that the certificate of this serial number is good no more.
    pub fn revoke(&self, dir: &Path, serial: u64) {
        let params = CertificateRevocationListParams {
            this_update: date_time_ymd(2020, 1, 1),
            next_update: date_time_ymd(2120, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: vec![RevokedCertParams {
                serial_number: SerialNumber::from(serial),
                revocation_time: date_time_ymd(2020, 1, 1),
                reason_code: None,
                invalidity_date: None,
            }],
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let list = params.signed_by(&self.0).unwrap().pem().unwrap();
        std::fs::write(dir.join("ca-crl.pem"), list).unwrap();
    }
}

/// A folder of a server that is vouched for.
pub fn folder() -> (tempfile::TempDir, Authority) {
    let (dir, authority) = (tempfile::tempdir().unwrap(), Authority::new());
    authority.write(dir.path());
    authority.vouch(dir.path(), "server", 2);
    (dir, authority)
}

/// TLS over `stream`, for a client that believes the authority in `trust`, and shows the certificate in `shows`.
pub fn client<S: Read + Write>(
    stream: S,
    trust: &Path,
    shows: Option<&Path>,
) -> StreamOwned<ClientConnection, S> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(trust.join("ca-cert.pem")).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let config = match shows {
        None => builder.with_no_client_auth(),
        Some(dir) => {
            let certificate = CertificateDer::from_pem_file(dir.join("client-cert.pem")).unwrap();
            let key = PrivateKeyDer::from_pem_file(dir.join("client-key.pem")).unwrap();
            builder.with_client_auth_cert(vec![certificate], key).unwrap()
        }
    };
    let name = "localhost".try_into().unwrap();
    StreamOwned::new(ClientConnection::new(Arc::new(config), name).unwrap(), stream)
}
