//! Where what is told comes from.

use oxblock::stats::Traffic;
use oxblock::volume::Info;

/// A volume that is served, as it is now.
#[derive(Debug)]
pub struct Seen {
    /// The name of the export, or where it is mounted.
    pub name: String,
    /// The volume.
    pub info: Info,
    /// Its requests.
    pub traffic: Traffic,
    /// Clients that are connected to it, where it has such.
    pub clients: Option<u64>,
}

/// Whoever serves volumes.
pub trait Source: Send + Sync {
    /// All volumes as they are now, in order.
    ///
    /// # Errors
    /// A sentence: a volume's thread does not answer.
    fn look(&self) -> Result<Vec<Seen>, String>;
}
