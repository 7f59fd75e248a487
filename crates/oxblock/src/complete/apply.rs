//! Applying a record to the map: the one piece of code that both retirement and recovery run.

use crate::format::pointer::Pointer;
use crate::format::record::{Entry, Kind};
use crate::map::{Map, Miss, Space};

/// How far a record has been applied.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Progress {
    /// Entries done.
    pub entries: usize,
    /// Progress within a range entry, in blocks from the start of the volume.
    pub at: u64,
}

/// Applies the entries from `progress` on. `payload` is the address of the record's first payload block.
///
/// # Errors
/// [`Miss`] when a node must be fetched; call again with the same `progress` then.
pub(crate) fn apply(
    kind: Kind,
    entries: &[Entry],
    payload: u64,
    progress: &mut Progress,
    map: &mut Map,
    space: &mut dyn Space,
) -> Result<(), Miss> {
    while let Some(entry) = entries.get(progress.entries) {
        let new = Pointer { addr: payload + progress.entries as u64, csum: entry.csum };
        match kind {
            Kind::Data => {
                map.set(entry.id, new, space)?;
            }
            Kind::Relocate => {
                map.swap(entry.id, entry.aux, new, space)?;
            }
            Kind::Trim | Kind::Zero => {
                progress.at = progress.at.max(entry.id);
                map.trim(&mut progress.at, entry.id + entry.aux, space)?;
                progress.at = 0;
            }
            // Nodes count when a checkpoint points to them.
            Kind::Map | Kind::Pad => {}
        }
        progress.entries += 1;
    }
    Ok(())
}
