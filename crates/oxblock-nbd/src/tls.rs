//! TLS: the certificate of the server, and whom it believes.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use oxblock::{Error, Result};
use oxblock_nbd_proto::TlsOffer;
use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};

/// The certificate of the server and its key, and who is let in. TLS 1.2 and 1.3.
#[derive(Clone)]
pub struct Tls {
    pub(crate) config: Arc<ServerConfig>,
    required: bool,
}

impl Tls {
    /// Reads what it needs from the folder `dir`, under the names that servers of disks have for it: `server-cert.pem` (with
    /// the certificates between it and its authority, if there are any) and `server-key.pem`. If clients have to show a
    /// certificate, they are judged by `ca-cert.pem` and, if that is there, `ca-crl.pem`. With `required` nothing is to be had
    /// without TLS.
    ///
    /// # Errors
    /// A file that is missing or cannot be used, with its path.
    pub fn from_folder(dir: &Path, clients_show: bool, required: bool) -> Result<Self> {
        let provider = Arc::new(ring::default_provider());
        let place = |error| unusable(dir.to_owned(), error);
        let certificates = all::<CertificateDer<'_>>(&dir.join("server-cert.pem"))?;
        let path = dir.join("server-key.pem");
        let key = PrivateKeyDer::from_pem_file(&path).map_err(|error| unreadable(path, error))?;
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(place)?;
        let builder = if clients_show {
            builder.with_client_cert_verifier(verifier(dir, provider)?)
        } else {
            builder.with_no_client_auth()
        };
        let mut config = builder.with_single_cert(certificates, key).map_err(place)?;
        // A disk is connected to once; nothing is kept of a session that is over.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Self { config: Arc::new(config), required })
    }

    /// What clients may do about it.
    pub(crate) fn offer(&self) -> TlsOffer {
        if self.required { TlsOffer::Required } else { TlsOffer::Optional }
    }
}

/// Nothing of the key.
impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("required", &self.required).finish_non_exhaustive()
    }
}

fn verifier(
    dir: &Path,
    provider: Arc<rustls::crypto::CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>> {
    let path = dir.join("ca-cert.pem");
    let mut roots = RootCertStore::empty();
    for root in all::<CertificateDer<'_>>(&path)? {
        roots.add(root).map_err(|error| unusable(path.clone(), error))?;
    }
    let mut builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    let revoked = dir.join("ca-crl.pem");
    if revoked.try_exists().map_err(|error| unusable(revoked.clone(), error))? {
        builder = builder.with_crls(all::<CertificateRevocationListDer<'_>>(&revoked)?);
    }
    builder.build().map_err(|error| unusable(path, error))
}

/// All of one kind that are in a file; one at least.
fn all<T: PemObject>(path: &Path) -> Result<Vec<T>> {
    let read = || T::pem_file_iter(path)?.collect::<std::result::Result<Vec<T>, _>>();
    match read() {
        Ok(found) if found.is_empty() => Err(unreadable(path.to_owned(), pem::Error::NoItemsFound)),
        Ok(found) => Ok(found),
        Err(error) => Err(unreadable(path.to_owned(), error)),
    }
}

fn unreadable(path: PathBuf, error: pem::Error) -> Error {
    match error {
        pem::Error::Io(error) => unusable(path, error),
        other => unusable(path, other),
    }
}

fn unusable(path: PathBuf, error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    let error = error.into();
    let error = match error.downcast::<io::Error>() {
        Ok(error) => *error,
        Err(error) => io::Error::new(io::ErrorKind::InvalidData, error),
    };
    Error::io(format!("use {} for TLS", path.display()), error)
}
