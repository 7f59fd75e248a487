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
    /// Relocations that a write had overtaken.
    pub overtaken: u64,
}

impl Progress {
    /// Passes over what the lost node of `miss` holds: an entry, or its part of a range.
    pub fn skip(&mut self, kind: Kind, miss: Miss, map: &Map) {
        if matches!(kind, Kind::Trim | Kind::Zero) {
            // Beyond the end of the range the next call finds nothing left to do.
            self.at = map.end_of(miss.key);
        } else {
            self.entries += 1;
        }
    }
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
                let moved = map.swap(entry.id, entry.aux, new, space)?;
                progress.overtaken += u64::from(!moved);
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
